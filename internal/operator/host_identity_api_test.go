package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// discoveredHost creates a host for a discovered machine without a BMC.
func (b *bench) discoveredHost(name string, change func(*provisioner.Node)) (h *v1alpha1.BareMetalHost, id string) {
	b.Helper()
	id = b.engine.Discover(demo.Machine{Inventory: demo.SampleInventory(name), Change: change})
	h = b.plainHost(name, func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = macOf(name) })
	return h, id
}

// addBMC adds the address and credentials of a machine's BMC to a host.
func (b *bench) addBMC(h *v1alpha1.BareMetalHost, scheme, machine string) {
	b.Helper()
	b.secret(h.Name+"-bmc", "calvin")
	b.update(h, func() {
		h.Spec.BMC = v1alpha1.BMCDetails{Address: scheme + "://192.0.2.9/redfish/v1/Systems/" + machine, CredentialsName: h.Name + "-bmc"}
	})
}

// effectsOn returns the verbs that had an effect on a node.
func (b *bench) effectsOn(id string) (verbs []demo.Verb) {
	for _, e := range b.engine.Effects("") {
		if e.Node == id {
			verbs = append(verbs, e.Verb)
		}
	}
	return verbs
}

func TestCredentialsAddedToADiscoveredHostMakeItAManagedOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, tt := range []struct {
		name  string
		state v1alpha1.ProvisioningState
	}{
		{"free", v1alpha1.StateAvailable}, {"used", v1alpha1.StateProvisioned}, {"theirs", v1alpha1.StateExternallyProvisioned},
	} {
		h, id := b.discoveredHost(tt.name, nil)
		b.inState(tt.name, v1alpha1.StateAvailable)
		switch tt.state {
		case v1alpha1.StateProvisioned:
			b.update(h, func() { h.Spec.Image = image("https://images/os.qcow2") })
		case v1alpha1.StateExternallyProvisioned:
			b.update(h, func() { h.Spec.ExternallyProvisioned = true })
		}
		before := b.inState(tt.name, tt.state)
		done := len(b.effectsOn(id))

		b.addBMC(h, "redfish", tt.name)
		b.hasCondition(tt.name, v1alpha1.IdentityVerifiedCondition, metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason)
		b.hasCondition(tt.name, v1alpha1.PowerManagementSupportedCondition, metav1.ConditionTrue, v1alpha1.PowerSupportedReason)
		after := b.inState(tt.name, tt.state)
		if after.Status.Provisioning.ID != id || b.node(id).Driver != "redfish" || b.node(id).Maintenance {
			t.Errorf("%s has node %s, which is %+v; want %s with the driver redfish", tt.name, after.Status.Provisioning.ID, b.node(id), id)
		}
		if diff := cmp.Diff(before.Status.HardwareDetails, after.Status.HardwareDetails); diff != "" {
			t.Errorf("hardware details of %s differ (-before +after):\n%s", tt.name, diff)
		}
		for _, verb := range b.effectsOn(id)[done:] {
			if verb != demo.VerbUpdate && (verb != demo.VerbAdopt && verb != demo.VerbManage || tt.state != v1alpha1.StateExternallyProvisioned) {
				t.Errorf("%q was asked of the machine of %s", verb, tt.name)
			}
		}
		b.eventually(tt.name+" loses the label of hosts without power management", func() string {
			if h := b.host(tt.name); h.Labels[v1alpha1.PowerManagementLabel] != "" {
				return fmt.Sprint(h.Labels)
			}
			return ""
		})
	}
	if nodes, err := b.engine.Nodes(t.Context(), provisioner.ListOptions{}); err != nil || len(nodes) != 3 {
		t.Errorf("%d nodes, %v; want the three that were discovered", len(nodes), err)
	}
}

func TestWrongMachinesCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, state := range []v1alpha1.ProvisioningState{v1alpha1.StateAvailable, v1alpha1.StateProvisioned} {
		name := string(state)
		h, id := b.discoveredHost(name, nil)
		if state == v1alpha1.StateProvisioned {
			b.update(h, func() { h.Spec.Image = image("https://images/os.qcow2") })
		}
		b.inState(name, state)
		before, done := b.node(id), len(b.effectsOn(id))

		b.addBMC(h, "redfish", "somebody-else")
		b.update(h, func() { h.Annotations = map[string]string{v1alpha1.RebootAnnotation: ""} })
		got := b.hasCondition(name, v1alpha1.IdentityVerifiedCondition, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason)
		mine, theirs := demo.SampleInventory(name).Hardware, demo.SampleInventory("somebody-else").Hardware
		for _, part := range []string{mine.SystemVendor.SerialNumber, theirs.SystemVendor.SerialNumber, mine.Interfaces[0].MACAddress, theirs.Interfaces[0].MACAddress} {
			if !strings.Contains(got.Message, part) {
				t.Errorf("message %q does not tell %s", got.Message, part)
			}
		}
		b.hasCondition(name, v1alpha1.PowerManagementSupportedCondition, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason)
		b.hasCondition(name, v1alpha1.AvailableForProvisioningCondition, metav1.ConditionFalse, v1alpha1.NotManageableReason)
		b.hasEvent(name, "RegistrationError")
		after := b.node(id)
		if diff := cmp.Diff(before.Driver, after.Driver); diff != "" || !slices.Equal(b.effectsOn(id)[done:], nil) {
			t.Errorf("node is %+v after %v, want it untouched", after, b.effectsOn(id)[done:])
		}

		b.remove(h)
		b.gone(name)
		if got := b.effectsOn(id)[done:]; !slices.Equal(got, []demo.Verb{demo.VerbDelete}) {
			t.Errorf("the deletion asked for %v, want only the deletion of the node", got)
		}
	}
}

func TestCorrectedAddressIsTakenAfterThatOfAnotherMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h, id := b.discoveredHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	b.addBMC(h, "redfish", "somebody-else")
	b.hasCondition("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason)
	b.update(h, func() { h.Spec.BMC.Address = "redfish://192.0.2.9/redfish/v1/Systems/web" })
	b.hasCondition("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason)
	b.eventually("an end of the error", func() string { return b.host("web").Status.ErrorMessage })
	if got := b.node(id); got.Driver != "redfish" {
		t.Errorf("node is %+v, want the driver redfish", got)
	}
}

func TestBMCThatTellsNothingIsTakenUnverified(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h, id := b.discoveredHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	b.addBMC(h, "ipmi", "web")
	b.hasCondition("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionUnknown, v1alpha1.IdentityUnverifiedReason)
	b.hasCondition("web", v1alpha1.PowerManagementSupportedCondition, metav1.ConditionTrue, v1alpha1.PowerSupportedReason)
	if got := b.node(id); got.Driver != "ipmi" {
		t.Errorf("node is %+v, want the driver ipmi", got)
	}
}

func TestHostWithTheBMCOfADiscoveredHostIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	inv := demo.SampleInventory("rack-1")
	inv.Hardware.BMCAddress = "192.0.2.77"
	b.engine.Discover(demo.Machine{Inventory: inv})
	b.discover("racks", nil)
	b.inState("rack-1", v1alpha1.StateAvailable)
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress, h.Spec.BMC.Address = "", "redfish-virtualmedia://192.0.2.77/redfish/v1/Systems/rack-1"
	})
	c := b.hasCondition("web", v1alpha1.ManageableCondition, metav1.ConditionFalse, v1alpha1.RegistrationFailedReason)
	if want := "spec.bmc.address: the machine of host " + b.namespace + "/rack-1 was discovered with this BMC; add spec.bmc to that host"; !strings.HasPrefix(c.Message, want) {
		t.Errorf("message = %q, want one that begins with %q", c.Message, want)
	}
	if n := b.count("web", "create"); n != 0 {
		t.Errorf("%d nodes were created for the second host", n)
	}
}

func TestMachineThatWasDiscoveredBeforeItsHostWasRegisteredGetsNoSecondNode(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.engine.Discover(demo.Machine{Inventory: demo.SampleInventory("web"), Change: func(n *provisioner.Node) { n.State = node.Available }})
	second := demo.SampleInventory("web").Hardware.Interfaces[1].MACAddress
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = strings.ToUpper(second) })
	h := b.poweredOn("web")
	if h.Status.Provisioning.ID != id || h.Status.Provisioning.State != v1alpha1.StateAvailable || h.Status.HardwareDetails == nil {
		t.Errorf("host has node %s in state %s with hardware %v; want %s with what was discovered",
			h.Status.Provisioning.ID, h.Status.Provisioning.State, h.Status.HardwareDetails, id)
	}
	for _, verb := range []string{"create", "inspect"} {
		if b.count("web", verb) != 0 {
			t.Errorf("asked of the machine: %s", fmt.Sprint(b.asked("web")))
		}
	}
	b.hasCondition("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason)
}
