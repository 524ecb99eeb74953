package story

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// registerWithout creates the host of the first machine without a BMC. It also creates the Secret
// for later.
func (m *managed) registerWithout(t *testing.T) {
	t.Helper()
	for _, obj := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: "web-bmc"},
			StringData: map[string]string{"username": redfishtest.User, "password": redfishtest.Password},
		},
		&metal3v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: m.host.Name},
			Spec:       metal3v1alpha1.BareMetalHostSpec{Online: true, BootMACAddress: m.bootMAC(0)},
		},
	} {
		if err := m.kube.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// addBMC gives the host the BMC of a machine.
func (m *managed) addBMC(t *testing.T, machine int) {
	t.Helper()
	address, err := url.Parse(m.Machine(machine).BMCURL())
	if err != nil {
		t.Fatal(err)
	}
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) {
		h.Spec.BMC = metal3v1alpha1.BMCDetails{
			Address: "redfish://" + address.Host, CredentialsName: "web-bmc", DisableCertificateVerification: true,
		}
	})
}

// identity waits for a reason of the condition IdentityVerified.
func (m *managed) identity(t *testing.T, reason string) *metal3v1alpha1.BareMetalHost {
	t.Helper()
	return m.shows(t, "judged as "+reason, func(h *metal3v1alpha1.BareMetalHost) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, metal3v1alpha1.IdentityVerifiedCondition)
		return c != nil && c.Reason == reason
	})
}

// effects returns what was done to a machine, without the commands of its agent.
func (r *rack) effects(machine string) (kinds []string) {
	for _, e := range r.Recorder().Effects(machine, 0) {
		if e.Kind != effect.AgentCommand {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// TestCredentialsAddedLaterTakeOverTheRightMachineAsItIs discovers a machine and gives its host
// first the BMC of another machine and then its own: once while the host is free, and once while it
// is in use.
func TestCredentialsAddedLaterTakeOverTheRightMachineAsItIs(t *testing.T) {
	t.Parallel()
	for _, state := range []metal3v1alpha1.ProvisioningState{metal3v1alpha1.StateAvailable, metal3v1alpha1.StateProvisioned} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			r, _ := startMachineWithABMC(t, redfish.Vendors[0], agent.Accelerated(20), func(r *rack, o *sim.Options) {
				o.Machines = 2
				r.settings = append(r.settings, discovering...)
			})
			m := startHost(t, r)
			m.registerWithout(t)
			if err := m.Machine(0).PowerOn(); err != nil {
				t.Fatal(err)
			}
			before := m.inState(t, metal3v1alpha1.StateAvailable)
			if state == metal3v1alpha1.StateProvisioned {
				_, before = m.deploysImage(t)
				m.runsSystem(t)
			}
			done, boots := m.effects("0"), m.Machine(0).Status().Boots

			m.addBMC(t, 1)
			h := m.identity(t, metal3v1alpha1.IdentityMismatchReason)
			if serial := m.Machine(1).Hardware().Inspection.Inventory.SystemVendor.SerialNumber; !strings.Contains(h.Status.ErrorMessage, serial) {
				t.Errorf("error %q does not tell the serial number %s that the BMC has", h.Status.ErrorMessage, serial)
			}
			m.change(t, func(h *metal3v1alpha1.BareMetalHost) {
				h.Annotations = map[string]string{metal3v1alpha1.RebootAnnotation: `{"mode":"hard"}`}
			})
			m.shows(t, "refused again", func(h *metal3v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount > 1 })
			m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Annotations = nil })
			if got := m.effects("1"); len(got) != 0 || m.Machine(1).BMC().Power() != bmc.Off {
				t.Errorf("done to the wrong machine: %q", got)
			}

			m.addBMC(t, 0)
			m.identity(t, metal3v1alpha1.IdentityVerifiedReason)
			h = m.shows(t, "in its state without an error", func(h *metal3v1alpha1.BareMetalHost) bool {
				return h.Status.Provisioning.State == state && h.Status.ErrorType == "" && h.Status.PoweredOn
			})
			nodes, err := allNodes(t.Context(), r.engine, ironic.NodeQuery{})
			if err != nil || h.Status.Provisioning.ID != before.Status.Provisioning.ID || len(nodes) != 1 {
				t.Errorf("host has node %s of %d, %v; want %s and no other", h.Status.Provisioning.ID, len(nodes), err, before.Status.Provisioning.ID)
			}
			if got := m.effects("0"); !slices.Equal(got, done) || m.Machine(0).Status().Boots != boots {
				t.Errorf("done to the machine: %q, boots %d; want %q as before, boots %d", got, m.Machine(0).Status().Boots, done, boots)
			}
			if n := r.show(t, h.Status.Provisioning.ID); n.Driver != "redfish" || n.Finished == nil || len(r.ports(t, n.UUID)) == 0 {
				t.Errorf("node = %+v with ports %v; want the driver redfish and what was found", n, r.ports(t, n.UUID))
			}
			if state == metal3v1alpha1.StateProvisioned {
				m.holdsOff(t)
			}
		})
	}
}

// TestBMCThatIsAddedBootsTheMachineForARemovalThatWaitedForAPerson adds a BMC to a host. Its
// deployment is being removed, and nobody has booted its machine into the ramdisk yet.
func TestBMCThatIsAddedBootsTheMachineForARemovalThatWaitedForAPerson(t *testing.T) {
	t.Parallel()
	r, _ := startMachineWithABMC(t, redfish.Vendors[0], agent.Accelerated(20), func(r *rack, _ *sim.Options) {
		r.settings = append(r.settings, discovering...)
	})
	m := startHost(t, r)
	m.registerWithout(t)
	if err := m.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	m.inState(t, metal3v1alpha1.StateAvailable)
	m.deploysImage(t)
	m.runsSystem(t)
	wiped := len(m.done(effect.Wipe))
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	m.waitsForAPerson(t)
	m.addBMC(t, 0)
	m.shows(t, "available under its BMC", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3v1alpha1.StateAvailable && h.Status.PoweredOn && h.Status.ErrorType == ""
	})
	if got := m.done(effect.Wipe)[wiped:]; len(got) != 1 || len(m.Machine(0).Disks().Contents()) != 0 {
		t.Errorf("after the removal: wipes %q, disks %v, want one that leaves them empty", got, m.Machine(0).Disks().Contents())
	}
}
