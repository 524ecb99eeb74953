package story

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// discovery lets the operator create hosts for unknown machines.
func (m *managed) discovery(t *testing.T) {
	t.Helper()
	if err := m.kube.Create(t.Context(), &discoveryv1alpha1.BareMetalHostDiscovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: "rack"},
		Spec: discoveryv1alpha1.BareMetalHostDiscoverySpec{
			ResourceNameTemplate: discoveryv1alpha1.ResourceNameTemplate{Prefix: "found-", HardwareDetails: discoveryv1alpha1.DetailSerialNumber},
			PollInterval:         metav1.Duration{Duration: 5 * time.Second},
		},
	}); err != nil {
		t.Fatal(err)
	}
}

// discovers does that and powers the machine on. The host that the operator creates becomes that of
// the story.
func (m *managed) discovers(t *testing.T) {
	t.Helper()
	m.discovery(t)
	if err := m.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		var list metal3v1alpha1.BareMetalHostList
		if err := m.kube.List(ctx, &list, client.InNamespace(m.host.Namespace)); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d hosts, want the one of the machine", len(list.Items))
		}
		m.host.Name = list.Items[0].Name
		return nil
	})
}

// waitsForAPerson waits until the host says that a person has to boot its machine.
func (m *managed) waitsForAPerson(t *testing.T) {
	t.Helper()
	m.shows(t, "waiting for somebody to boot its machine", func(h *metal3v1alpha1.BareMetalHost) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, metal3v1alpha1.ProgressingCondition)
		return c != nil && c.Reason == metal3v1alpha1.WaitingForManualBootReason
	})
}

// TestUnknownMachineRunsAnImageAndIsFreeAgain takes a machine without a BMC from its first boot to the image
// in the spec of its host, and back. Nobody creates a host or a node.
func TestUnknownMachineRunsAnImageAndIsFreeAgain(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1, discovering...)
	m := startHost(t, r, operator.GroupDiscovery)
	m.discovers(t)
	found := m.inState(t, metal3v1alpha1.StateAvailable)
	if found.Spec.BMC.Address != "" || found.Spec.BootMACAddress != m.bootMAC(0) {
		t.Errorf("discovered host has the BMC %q and the address %q, want none and %s", found.Spec.BMC.Address, found.Spec.BootMACAddress, m.bootMAC(0))
	}
	machine, wiped := m.Machine(0), len(m.done(effect.Wipe))
	boots := machine.Status().Boots

	image, h := m.deploysImage(t)
	m.runsImage(t, image, string(h.UID))
	if h.Status.Provisioning.ID != found.Status.Provisioning.ID || h.Status.Provisioning.Image.URL != image.url {
		t.Errorf("node %s runs %q, want node %s to run %s", h.Status.Provisioning.ID, h.Status.Provisioning.Image.URL, found.Status.Provisioning.ID, image.url)
	}
	if got := machine.Status().Boots; got != boots || len(m.done(effect.Wipe)) != wiped {
		t.Errorf("the ramdisk was booted %d times and the disks wiped %d times for the deployment", got-boots, len(m.done(effect.Wipe))-wiped)
	}

	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	m.waitsForAPerson(t)
	if err := machine.BootNetwork(); err != nil {
		t.Fatal(err)
	}
	m.inState(t, metal3v1alpha1.StateAvailable)
	if got := m.done(effect.Wipe)[wiped:]; len(got) != 1 || len(machine.Disks().Contents()) != 0 || len(m.done(effect.Write)) != 1 {
		t.Errorf("after the removal: wipes %q, disks %v, images written %q", got, machine.Disks().Contents(), m.done(effect.Write))
	}
	if nodes, err := allNodes(t.Context(), r.engine, ironic.NodeQuery{}); err != nil || len(nodes) != 1 {
		t.Errorf("the engine has %d nodes, %v; want one", len(nodes), err)
	}
}
