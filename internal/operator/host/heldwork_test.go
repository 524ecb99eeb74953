package host

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// failingWork are hosts whose work fails again and again, by their names for the demo engine.
var failingWork = map[string]struct {
	change func(*v1alpha1.BareMetalHost)
	// begins starts the work on a host at rest, nil for one that begins by itself.
	begins func(*v1alpha1.BareMetalHost)
	fails  v1alpha1.ErrorType
	// state is where the host waits while it is held off. again is what the engine is asked for
	// when the hold has ended.
	state v1alpha1.ProvisioningState
	again string
}{
	"demo-inspection-error":  {nil, nil, v1alpha1.ErrorInspection, v1alpha1.StateInspecting, "manage"},
	"demo-preparation-error": {nil, nil, v1alpha1.ErrorPreparation, v1alpha1.StatePreparing, "manage"},
	"demo-preparation-fault": {nil, nil, v1alpha1.ErrorPreparation, v1alpha1.StatePreparing, "maintenance"},
	"demo-provisioning-error": {
		withImage, nil, v1alpha1.ErrorProvisioning, v1alpha1.StateProvisioning, "undeploy",
	},
	"demo-deprovisioning-error": {
		withImage, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }, v1alpha1.ErrorProvisioning, v1alpha1.StateDeprovisioning, "undeploy",
	},
}

func TestHostWhoseWorkKeepsFailingIsHeldOffAndItsRetriesWait(t *testing.T) {
	const other = v1alpha1.RebootAnnotationPrefix + "other"
	for name, tt := range failingWork {
		for when, before := range map[string]bool{"held when it has failed": false, "held before it fails": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				l := newLife(t, func(c *Config) { c.Capacity = 1 })
				l.add(name, tt.change)
				if tt.begins != nil {
					l.rests(name, v1alpha1.StateProvisioned)
					l.edit(name, tt.begins)
				}
				hold := func(h *v1alpha1.BareMetalHost) {
					h.Annotations = map[string]string{testHold: `{"mode":"hard"}`, other: ""}
				}
				if before {
					l.until(name, "at work", inState(tt.state))
					l.edit(name, hold)
				} else {
					l.fails(name, tt.fails)
					l.until(name, "where it waits", inState(tt.state))
					l.edit(name, hold)
				}
				h := l.until(name, "held off", func(h *v1alpha1.BareMetalHost) bool {
					holds := h.Status.PowerOffHolds
					return len(holds) == 2 && holds[0].ConfirmedAt != nil && holds[1].ConfirmedAt != nil
				})
				if h.Status.ErrorType != tt.fails || h.Status.ErrorMessage == "" {
					t.Errorf("error %q %s, want the one of the work", h.Status.ErrorType, h.Status.ErrorMessage)
				}
				effects := len(l.effects(name))
				if got := l.effects(name)[effects-1]; got != "power off" {
					t.Errorf("asked of the machine at last: %s", got)
				}
				stays := func() {
					t.Helper()
					for range 5 {
						l.now = l.now.Add(time.Hour)
						l.pass(name)
					}
					l.restart()
					if h := l.rests(name, tt.state); h.Status.PoweredOn || isBusy(h) {
						t.Errorf("powered on %t, takes a slot %t", h.Status.PoweredOn, isBusy(h))
					}
					l.does(name, effects)
				}
				stays()
				l.edit(name, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, testHold) })
				l.rests(name, tt.state)
				stays()
				l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
				l.until(name, "at work again", func(*v1alpha1.BareMetalHost) bool { return len(l.effects(name)) > effects })
				if got := l.effects(name)[effects]; got != tt.again {
					t.Errorf("asked of the machine when it is free: %s, want %s", got, tt.again)
				}
				if holds := l.host(name).Status.PowerOffHolds; len(holds) != 0 {
					t.Errorf("holds %v while the engine powers the machine", holds)
				}
			})
		}
	}
}

// TestWorkThatGoesWellAfterAFailureIsNotDoneAgainForAHold sets the hold in two situations: during
// the second try, and after its success while the Secret is missing.
func TestWorkThatGoesWellAfterAFailureIsNotDoneAgainForAHold(t *testing.T) {
	for name, holds := range map[string]func(l *life, ends func()){
		"at the second try": func(l *life, ends func()) {
			l.annotate("web", testHold, "1")
			l.now = l.now.Add(l.pass("web"))
			ends()
		},
		"afterwards, without the Secret": func(l *life, ends func()) {
			l.now = l.now.Add(l.pass("web"))
			ends()
			sound := l.host("web").Spec
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				h.Spec.BMC.CredentialsName, h.Annotations = "none", map[string]string{testHold: "1"}
			})
			l.fails("web", v1alpha1.ErrorRegistration)
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec = sound })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbClean: time.Hour}})
			l.restart()
			l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.RAID = volumes(hardwareVolume, nil) })
			ends := func(state node.State, reason string) {
				l.node("web", func(n *provisioner.Node) { n.State, n.StateChangedAt, n.LastError = state, l.now, reason })
			}
			l.until("web", "configured", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "clean") == 1 })
			l.now = l.now.Add(l.pass("web"))
			ends(node.CleanFailed, "a disk is missing")
			l.fails("web", v1alpha1.ErrorPreparation)
			l.until("web", "configured again", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "clean") == 2 })
			holds(l, func() { ends(node.Manageable, "") })
			l.heldOff("web")
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Provisioning.RAID == nil {
				t.Error("the status does not show the volumes")
			}
			if got := l.count("web", "clean"); got != 2 {
				t.Errorf("%d times configured, want 2", got)
			}
		})
	}
}

// TestRegistrationThatFailsBesideFailedWorkCountsOnceInAPause wakes the host again and again while
// it waits for its Secret.
func TestRegistrationThatFailsBesideFailedWorkCountsOnceInAPause(t *testing.T) {
	const name = "demo-provisioning-error"
	l := newLife(t, nil)
	l.add(name, withImage)
	l.fails(name, v1alpha1.ErrorProvisioning)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "none" })
	l.pass(name)
	if h := l.host(name); h.Status.ErrorType != v1alpha1.ErrorRegistration || !hasFailed(h.Status.Operation, v1alpha1.OperationProvision) {
		t.Fatalf("error %q with the record %+v, want a registration error beside the deployment", h.Status.ErrorType, h.Status.Operation)
	}
	counts := func(want int) {
		t.Helper()
		told := 0
		for _, reason := range l.events.reasons {
			if reason == eventRegistrationError {
				told++
			}
		}
		if got := l.host(name).Status.ErrorCount; got != want || told != want {
			t.Errorf("%d errors and %d events, want %d", got, told, want)
		}
	}
	var wait time.Duration
	for i := range 5 {
		l.edit(name, func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{"example.org/try": strconv.Itoa(i)}
			h.Generation-- // which annotations do not change
		})
		wait = l.pass(name)
		l.now = l.now.Add(time.Second)
	}
	counts(1)
	l.now = l.now.Add(wait)
	l.pass(name)
	counts(2)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "none-either" })
	l.pass(name)
	counts(3)
}

func TestHostWhoseImageFailedIsNotDeployedAgainWhileItIsHeld(t *testing.T) {
	const name = "demo-provisioning-error"
	l := newLife(t, nil)
	l.add(name, withImage)
	l.until(name, "cleaned after a failure", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateAvailable && h.Status.ProvisioningFailCount == 1
	})
	before := len(l.effects(name))
	l.annotate(name, testHold, "1")
	l.heldOff(name)
	l.rests(name, v1alpha1.StateAvailable)
	l.does(name, before, "soft power off")
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	l.until(name, "deployed again", func(*v1alpha1.BareMetalHost) bool { return l.count(name, "deploy") == 2 })
}

func TestPowerOffThatFailsKeepsTheWorkOfAHeldHostFromGoingOn(t *testing.T) {
	const name = "demo-preparation-error"
	l := newLife(t, nil)
	l.add(name, nil)
	l.fails(name, v1alpha1.ErrorPreparation)
	l.annotate(name, testHold, `{"mode":"hard"}`)
	l.until(name, "being powered off", func(h *v1alpha1.BareMetalHost) bool { return len(h.Status.PowerOffHolds) == 1 })
	fail := func() { l.node(name, func(n *provisioner.Node) { n.Power, n.LastError = node.PowerOn, "no answer" }) }
	fail()
	l.fails(name, v1alpha1.ErrorPowerManagement)
	before := len(l.effects(name))
	for range 5 {
		l.now = l.now.Add(time.Hour)
		l.pass(name)
		fail()
	}
	if got := l.effects(name)[before:]; slices.ContainsFunc(got, func(effect string) bool { return effect != "power off" }) {
		t.Errorf("asked of the machine: %q, want only to power it off", got)
	}
	l.node(name, func(n *provisioner.Node) { n.Power, n.LastError = node.PowerOff, "" })
	l.heldOff(name)
	if h := l.rests(name, v1alpha1.StatePreparing); h.Status.ErrorType != v1alpha1.ErrorPreparation || h.Status.PoweredOn {
		t.Errorf("error %q, powered on %t, want it off with the error of the work", h.Status.ErrorType, h.Status.PoweredOn)
	}
}

func TestDeploymentThatFailedIsRemovedAfterAHoldWhosePowerOffFailed(t *testing.T) {
	const name = "demo-provisioning-error"
	for when, later := range map[string]func(*life){
		"the machine is off when the hold ends": func(l *life) { l.heldOff(name) },
		"the machine is on when the hold ends":  func(*life) {},
	} {
		t.Run(when, func(t *testing.T) {
			l := newLife(t, nil)
			l.add(name, withImage)
			l.fails(name, v1alpha1.ErrorProvisioning)
			l.annotate(name, testHold, "1")
			l.until(name, "being powered off", func(h *v1alpha1.BareMetalHost) bool { return len(h.Status.PowerOffHolds) == 1 })
			l.node(name, func(n *provisioner.Node) { n.Power, n.LastError = node.PowerOn, "no answer" })
			l.fails(name, v1alpha1.ErrorPowerManagement)
			later(l)
			before := len(l.effects(name))
			l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			h := l.until(name, "at work again", func(*v1alpha1.BareMetalHost) bool { return len(l.effects(name)) > before })
			l.does(name, before, "undeploy")
			if h.Status.ProvisioningFailCount != 1 {
				t.Errorf("%d failures are counted (%s), want 1", h.Status.ProvisioningFailCount, h.Status.ErrorMessage)
			}
		})
	}
}

// TestDeploymentThatFailedIsNotCountedAgainAfterTheSecretWasAway takes the Secret away after a
// failed deployment and brings it back, in several situations.
func TestDeploymentThatFailedIsNotCountedAgainAfterTheSecretWasAway(t *testing.T) {
	const name = "demo-provisioning-error"
	hold := func(l *life) { l.annotate(name, testHold, "1") }
	free := func(l *life) { l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil }) }
	for when, tt := range map[string]struct{ before, during func(*life) }{
		"nobody holds the host": {func(*life) {}, func(*life) {}},
		"the host is held off": {
			func(l *life) { hold(l); l.heldOff(name) },
			func(*life) {},
		},
		"the host is held off meanwhile": {func(*life) {}, func(l *life) { hold(l); l.heldOff(name); free(l) }},
		"the hold whose power off failed has ended": {
			func(l *life) {
				hold(l)
				l.until(name, "being powered off", func(h *v1alpha1.BareMetalHost) bool { return len(h.Status.PowerOffHolds) == 1 })
				l.node(name, func(n *provisioner.Node) { n.Power, n.LastError = node.PowerOn, "no answer" })
				l.fails(name, v1alpha1.ErrorPowerManagement)
				free(l)
			},
			func(*life) {},
		},
	} {
		t.Run(when, func(t *testing.T) {
			l := newLife(t, nil)
			l.add(name, withImage)
			l.fails(name, v1alpha1.ErrorProvisioning)
			tt.before(l)
			before := len(l.effects(name))
			l.uses(name, "late")
			l.fails(name, v1alpha1.ErrorRegistration)
			tt.during(l)
			l.withSecret("late", "calvin")
			if h := l.fails(name, v1alpha1.ErrorProvisioning); h.Status.ErrorMessage == "" {
				t.Error("the host does not say what failed")
			}
			free(l)
			h := l.until(name, "at work again", func(*v1alpha1.BareMetalHost) bool { return slices.Contains(l.effects(name)[before:], "undeploy") })
			if h.Status.ProvisioningFailCount != 1 {
				t.Errorf("%d failures are counted (%s), want 1", h.Status.ProvisioningFailCount, h.Status.ErrorMessage)
			}
		})
	}
}

func TestHeldHostWhoseWorkFailsIsDeletedAllTheSame(t *testing.T) {
	for name, tt := range failingWork {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add(name, tt.change)
			if tt.begins != nil {
				l.rests(name, v1alpha1.StateProvisioned)
				l.edit(name, tt.begins)
			}
			l.fails(name, tt.fails)
			l.annotate(name, testHold, "1")
			l.heldOff(name)
			l.remove(l.host(name))
			l.gone(name)
		})
	}
}

// TestFailedWorkIsNotTriedAgainFromACacheOlderThanItsHold gives an operator a cache that shows the
// host as it was before the hold.
func TestFailedWorkIsNotTriedAgainFromACacheOlderThanItsHold(t *testing.T) {
	const name = "demo-preparation-error"
	l := newLife(t, nil)
	l.add(name, nil)
	old := l.fails(name, v1alpha1.ErrorPreparation)
	l.annotate(name, testHold, "1")
	l.heldOff(name)
	before := len(l.effects(name))
	l.change = func(c *Config) { c.Client = behind(l.api, old) }
	l.restart()
	l.now = l.now.Add(24 * time.Hour)
	for range 3 {
		l.pass(name)
	}
	l.does(name, before)
	if holds := l.host(name).Status.PowerOffHolds; len(holds) != 1 || holds[0].ConfirmedAt == nil {
		t.Errorf("holds %v, want the one that is confirmed", holds)
	}
}
