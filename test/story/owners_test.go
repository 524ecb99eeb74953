package story

import (
	"testing"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// TestTwoOwnersKeepAMachineOffUntilBothAreDone lets two clients hold a host off, one after the
// other, and counts how often the machine was switched.
func TestTwoOwnersKeepAMachineOffUntilBothAreDone(t *testing.T) {
	t.Parallel()
	r, _ := startBootService(t, redfish.Vendors[0])
	m := startHost(t, r)
	m.register(t, "redfish-virtualmedia")
	m.shows(t, "available and on", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3v1alpha1.StateAvailable && h.Status.PoweredOn
	})
	m.heldOffByTwo(t)
	m.shows(t, "available and on again, with nothing that holds it", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3v1alpha1.StateAvailable && h.Status.PoweredOn && len(h.Status.PowerOffHolds) == 0
	})
}

// heldOffByTwo lets two owners keep the machine off. It must stay off until both are done.
func (m *managed) heldOffByTwo(t *testing.T) {
	t.Helper()
	const first, second = metal3v1alpha1.RebootAnnotationPrefix + "fence", metal3v1alpha1.RebootAnnotationPrefix + "repair"
	ons, offs := len(m.done(string(bmc.PowerOn))), len(m.done(string(bmc.PowerOff)))
	heldBy := func(keys ...string) {
		t.Helper()
		m.shows(t, "confirmed off for its owners", func(h *metal3v1alpha1.BareMetalHost) bool {
			holds := h.Status.PowerOffHolds
			for i, key := range keys {
				if len(holds) != len(keys) || holds[i].Key != key || holds[i].ConfirmedAt == nil {
					return false
				}
			}
			return !h.Status.PoweredOn
		})
		if m.Machine(0).BMC().Power() != bmc.Off || len(m.done(string(bmc.PowerOn))) != ons {
			t.Errorf("held by %q, the machine is %v after it was powered on %d times", keys, m.Machine(0).BMC().Power(), len(m.done(string(bmc.PowerOn)))-ons)
		}
	}
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Annotations = map[string]string{first: `{"mode":"hard"}`} })
	heldBy(first)
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Annotations[second] = "" })
	heldBy(first, second)
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { delete(h.Annotations, first) })
	heldBy(second)
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Annotations = nil })
	m.shows(t, "powered on without holds", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.PoweredOn && len(h.Status.PowerOffHolds) == 0
	})
	if on, off := len(m.done(string(bmc.PowerOn)))-ons, len(m.done(string(bmc.PowerOff)))-offs; on != 1 || off != 1 {
		t.Errorf("the machine was switched off %d times and on %d times, want once each", off, on)
	}
}
