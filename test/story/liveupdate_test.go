package story

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestHostInUseGetsSettingsAndFirmwareAtItsReboot updates a deployed machine and counts what was
// done to it. The operator reads the settings and the firmware and compares them with the spec.
func TestHostInUseGetsSettingsAndFirmwareAtItsReboot(t *testing.T) {
	t.Parallel()
	r, m := startHostInUse(t)

	machine := r.Machine(0)
	wiped, shutdowns := len(r.done(effect.Wipe)), len(r.done(string(bmc.SoftPowerOff)))
	attribute, value := changeableAttribute(t, machine.BMC())
	m.asksFor(t, attribute, value)
	if err := m.kube.Create(t.Context(), m.policy(metal3v1alpha1.UpdateOnReboot)); err != nil {
		t.Fatal(err)
	}
	m.differs(t, true)
	m.pends(t, metal3v1alpha1.UpdateWaitingForRebootReason)
	if got := machine.BMC().BIOS()[attribute]; got == value || r.flashes() != 0 {
		t.Fatalf("before the restart %s is %v, after %d flashes", attribute, got, r.flashes())
	}

	m.restarts(t)
	m.isServiced(t, attribute, value)
	if got := r.done(effect.Wipe)[wiped:]; len(got) != 0 || machine.Status().State != sim.OS {
		t.Errorf("wipes %q, machine %s; want no wipe and a machine that runs its system", got, machine.Status().State)
	}
	if got := r.done(string(bmc.SoftPowerOff))[shutdowns:]; len(got) != 1 {
		t.Errorf("the system was asked to shut down %d times, want once", len(got))
	}

	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	m.inState(t, metal3v1alpha1.StateAvailable)
	m.isDeleted(t)
	if nodes, err := allNodes(t.Context(), r.engine, ironic.NodeQuery{}); err != nil || len(nodes) != 0 {
		t.Errorf("nodes = %v, %v; want none", nodes, err)
	}
	if r.flashes() != 1 {
		t.Errorf("%d flashes at the end, want one", r.flashes())
	}
}

// startHostInUse returns a rack and its host, whose machine runs an image. The operator reads and
// compares firmware.
func startHostInUse(t *testing.T) (*rack, *managed) {
	t.Helper()
	r, _ := startBootService(t, redfish.Vendors[0])
	m := startHost(t, r, operator.GroupFirmware)
	m.register(t, "redfish")
	m.inState(t, metal3v1alpha1.StateAvailable)
	image, h := m.deploysImage(t)
	m.runsImage(t, image, string(h.UID))
	m.shows(t, "powered on", func(h *metal3v1alpha1.BareMetalHost) bool { return h.Status.PoweredOn })
	return r, m
}

// asksFor asks for a BIOS setting, and for version 99.1 of the firmware of the BMC. It edits the
// objects that the operator has made.
func (m *managed) asksFor(t *testing.T, attribute, value string) {
	t.Helper()
	firmware := redfishtest.Serve(t, "ingot-firmware component=bmc version=99.1")
	var settings metal3v1alpha1.HostFirmwareSettings
	m.edits(t, &settings, func() { settings.Spec.Settings = map[string]intstr.IntOrString{attribute: intstr.FromString(value)} })
	var components metal3v1alpha1.HostFirmwareComponents
	m.edits(t, &components, func() { components.Spec.Updates = []metal3v1alpha1.FirmwareUpdate{{Component: "bmc", URL: firmware}} })
}

// policy returns a policy for all updates of the host.
func (m *managed) policy(updates metal3v1alpha1.UpdatePolicy) *metal3v1alpha1.HostUpdatePolicy {
	return &metal3v1alpha1.HostUpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: m.host.Name},
		Spec:       metal3v1alpha1.HostUpdatePolicySpec{FirmwareSettings: updates, FirmwareUpdates: updates},
	}
}

// pends waits until the condition UpdatePending has a reason, and returns its message.
func (m *managed) pends(t *testing.T, reason string) string {
	t.Helper()
	h := m.shows(t, "with the update "+reason, func(h *metal3v1alpha1.BareMetalHost) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, metal3v1alpha1.UpdatePendingCondition)
		return c != nil && c.Reason == reason
	})
	return meta.FindStatusCondition(h.Status.Conditions, metal3v1alpha1.UpdatePendingCondition).Message
}

// restarts asks for a restart by annotation.
func (m *managed) restarts(t *testing.T) {
	t.Helper()
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{metal3v1alpha1.RebootAnnotation: ""}
	})
}

// isServiced waits until the machine was serviced and runs its system again. It must have the BIOS
// setting, and version 99.1 of the firmware of its BMC, which was flashed once.
func (m *managed) isServiced(t *testing.T, attribute, value string) {
	t.Helper()
	machine := m.Machine(0).BMC()
	m.shows(t, "servicing", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3v1alpha1.OperationalStatusServicing
	})
	eventually(t, func(context.Context) error {
		if got := machine.BIOS()[attribute]; got != value {
			return fmt.Errorf("%s is %v, want %s", attribute, got, value)
		}
		return nil
	})
	m.differs(t, false)
	m.isOnAgain(t)
	isBMC := func(c bmc.Component) bool { return c.ID == "bmc" && c.Version == "99.1" }
	if components := machine.Components(); m.flashes() != 1 || !slices.ContainsFunc(components, isBMC) {
		t.Errorf("%d flashes left %v, want one that leaves version 99.1 of the BMC", m.flashes(), components)
	}
}

// isOnAgain waits until a restart that the annotation asked for is over.
func (m *managed) isOnAgain(t *testing.T) {
	t.Helper()
	m.shows(t, "OK and on", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3v1alpha1.OperationalStatusOK && h.Status.PoweredOn && len(h.Annotations) == 0
	})
	m.runsSystem(t)
}

// edits changes an object with the name of the host as a person does. It waits until the object
// exists.
func (m *managed) edits(t *testing.T, obj client.Object, change func()) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := m.kube.Get(ctx, m.host, obj); err != nil {
			return err
		}
		change()
		return m.kube.Update(ctx, obj)
	})
}

// differs waits until the operator has compared the machine with what is asked for, and found that
// they differ or that they do not.
func (m *managed) differs(t *testing.T, changed bool) {
	t.Helper()
	var settings metal3v1alpha1.HostFirmwareSettings
	var components metal3v1alpha1.HostFirmwareComponents
	eventually(t, func(ctx context.Context) error {
		for obj, conditions := range map[client.Object]*[]metav1.Condition{&settings: &settings.Status.Conditions, &components: &components.Status.Conditions} {
			if err := m.kube.Get(ctx, m.host, obj); err != nil {
				return err
			}
			c := meta.FindStatusCondition(*conditions, metal3v1alpha1.ChangeDetectedCondition)
			if c == nil || c.ObservedGeneration != obj.GetGeneration() || (c.Status == metav1.ConditionTrue) != changed {
				return fmt.Errorf("%T has the conditions %v at generation %d, want a change: %t", obj, *conditions, obj.GetGeneration(), changed)
			}
		}
		return nil
	})
}
