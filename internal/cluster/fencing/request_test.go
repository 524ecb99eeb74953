package fencing

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestARefusedRequestIsToldOnceAndKept(t *testing.T) {
	for reason, change := range map[string]func(h *v1alpha1.BareMetalHost){
		"no BMC":          func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} },
		"disablePowerOff": func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff = true },
		"detached":        func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusDetached },
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t, 1)
			w.changeHost(0, change)
			w.request(0)
			w.passes(0)
			w.now = w.now.Add(time.Hour)
			w.passes(0)
			if told := w.events(); len(told) != 1 || !strings.Contains(told[0], eventRemediationImpossible) || !strings.Contains(told[0], reason) {
				t.Errorf("events %q, want one %s about %q", told, eventRemediationImpossible, reason)
			}
			if !isRequested(w.theMachine(0)) || isMarked(w.theMachine(0)) || isHeld(w.host(0)) || w.theNode(0) == nil {
				t.Errorf("Machine %v, host %v", w.theMachine(0).Annotations, w.host(0).Annotations)
			}
		})
	}
}

func TestARefusedRequestIsToldOnceAlsoWhenNothingCanShowIt(t *testing.T) {
	for name, change := range map[string]func(w *world, m *v1beta2.Metal3Machine) error{
		"no Metal3Machine": func(w *world, m *v1beta2.Metal3Machine) error { return w.mgmt.Delete(w.Context(), m) },
		"one in deletion": func(w *world, m *v1beta2.Metal3Machine) error {
			m.Finalizers = []string{"test/kept"}
			m.Annotations = nil
			return errors.Join(w.mgmt.Update(w.Context(), m), w.mgmt.Delete(w.Context(), m))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			if err := change(w, read(w, w.mgmt, &v1beta2.Metal3Machine{}, testNamespace, "m3m-0")); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				w.request(0)
				for range 3 {
					w.passes(0)
				}
				if told := w.events(); len(told) != 1 || !strings.Contains(told[0], eventRemediationImpossible) {
					t.Errorf("events %q, want one %s", told, eventRemediationImpossible)
				}
				w.withdraw(0)
				w.passes(0)
			}
			if err := w.mgmt.Delete(t.Context(), w.theMachine(0)); err != nil {
				t.Fatal(err)
			}
			if w.passes(0); len(w.r.told.reasons) > 0 {
				t.Errorf("a Machine that is gone is remembered: %v", w.r.told.reasons)
			}
		})
	}
}

func TestARequestAfterARecoveryIsFollowedAgain(t *testing.T) {
	w := newWorld(t, 1)
	for range 3 {
		old := w.theNode(0).UID
		w.request(0)
		w.live(0)
		w.checkRecovered(0, old)
	}
}

func TestARequestWhileTheMachineBootsDoesNotPowerItOffAgainWithTheExtraActions(t *testing.T) {
	for _, tt := range []struct {
		extra bool
		value string
		again bool // it is powered off once more
	}{{false, "", true}, {true, "", false}, {true, v1beta2.ForcedRemediation, true}} {
		w := newWorld(t, 1)
		w.start(func(c *Config) { c.ExtraActions = tt.extra })
		w.request(0)
		for w.passes(0); w.theNode(0) != nil || isHeld(w.host(0)); w.passes(0) {
			w.operate(0)
		}
		w.setRunning(name("host", 0), true) // its system does not run yet
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Status.PoweredOn, h.Status.PowerOffHolds = true, nil })
		w.annotate(w.theMachine(0), v1beta2.ExternalRemediationAnnotation, &tt.value)
		w.events()
		for range 5 {
			w.passes(0)
			w.operate(0)
		}
		if !tt.again {
			w.setRunning(name("host", 0), false)
			w.boot(0)
		}
		w.live(0)
		w.checkRecovered(0, "")
		told := strings.Join(w.events(), "\n")
		if again, dropped := strings.Contains(told, eventFencingStarted), strings.Contains(told, eventRequestDropped); again != tt.again || dropped == tt.again {
			t.Errorf("%+v: events\n%s", tt, told)
		}
	}
}

func TestAWithdrawnRequestLeavesTheNode(t *testing.T) {
	w := newWorld(t, 1)
	old := w.theNode(0).UID
	w.request(0)
	w.passes(0)
	w.withdraw(0)
	w.live(0)
	if isConcerned(w.theMachine(0)) || isHeld(w.host(0)) || !w.running[name("host", 0)] || w.theNode(0).UID != old {
		t.Errorf("Machine %v, host %v", w.theMachine(0).Annotations, w.host(0).Annotations)
	}
}

func TestARequestThatIsWithdrawnWhileTheNodeIsSearchedLeavesTheNode(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.untilNodeIsSaved(0)
	w.finding = func() { w.withdraw(0) }
	if _, err := w.pass(0); err != nil {
		t.Fatal(err)
	}
	if w.theNode(0) == nil {
		t.Error("the Node is deleted")
	}
}

func TestAWithdrawnRequestWhoseHostStaysOnIsShownAsStuckAndHealthChecksLookAgain(t *testing.T) {
	w := newWorld(t, 1)
	old := w.theNode(0).UID
	w.request(0)
	w.passes(0)
	w.withdraw(0)
	w.now = w.now.Add(ConfirmTimeout - time.Second)
	w.passes(0)
	if w.reason(0) != v1beta2.PoweringOffReason || !isMarked(w.theMachine(0)) || w.metric("ingot_fencing_stuck") != 0 {
		t.Errorf("before the time is over: condition %q, Machine %v", w.reason(0), w.theMachine(0).Annotations)
	}
	w.events()
	w.now = w.now.Add(time.Second)
	w.passes(0)
	if w.reason(0) != v1beta2.PowerOffNotConfirmedReason || isConcerned(w.theMachine(0)) || !isHeld(w.host(0)) || w.metric("ingot_fencing_stuck") != 1 {
		t.Errorf("condition %q, Machine %v, host %v", w.reason(0), w.theMachine(0).Annotations, w.host(0).Annotations)
	}
	if told := w.events(); len(told) != 1 || !strings.Contains(told[0], eventPowerOffNotConfirmed) {
		t.Errorf("events %q, want one", told)
	}
	w.live(0) // the BMC answers again
	if isConcerned(w.theMachine(0)) || isHeld(w.host(0)) || !w.running[name("host", 0)] || w.theNode(0).UID != old || w.metric("ingot_fencing_stuck") != 0 {
		t.Errorf("after the host was off: condition %q, Machine %v, host %v", w.reason(0), w.theMachine(0).Annotations, w.host(0).Annotations)
	}
}
