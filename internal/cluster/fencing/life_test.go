package fencing

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/nodebackup"
)

// cycle are the writes of a cycle without disturbances, without those of the condition.
var cycle = []string{
	"patch BareMetalHost", // the hold
	"patch Machine",       // health checks suspended
	"patch Machine",       // the backup
	"delete Node",
	"patch Machine",       // the request removed
	"patch BareMetalHost", // the hold removed
	"patch Machine",       // since when it may be on
	"patch Node",          // restored
	"patch Machine",       // all that is left
}

func TestAMachineIsPoweredOffItsNodeDeletedAndItComesBack(t *testing.T) {
	w := newWorld(t, 1)
	old := w.theNode(0).UID
	w.request(0)
	w.live(0)
	w.checkRecovered(0, old)
	made := slices.DeleteFunc(slices.Clone(w.writes), func(what string) bool { return strings.Contains(what, "status") })
	if !slices.Equal(made, cycle) {
		t.Errorf("writes %q, want %q", made, cycle)
	}
}

func TestACycleContinuesAfterEachWriteThatFailsOrWhoseAnswerIsLost(t *testing.T) {
	undisturbed := newWorld(t, 1)
	undisturbed.request(0)
	undisturbed.live(0)
	for n := 1; n <= len(undisturbed.writes); n++ {
		for _, lost := range []bool{false, true} {
			w := newWorld(t, 1)
			old := w.theNode(0).UID
			if w.refuse = n; lost {
				w.refuse, w.lose = 0, n
			}
			w.request(0)
			for range 20 {
				w.start() // each step with a new process
				w.passes(0)
				w.operate(0)
			}
			w.passes(0)
			if w.checkRecovered(0, old); t.Failed() {
				t.Fatalf("write %d of %d, lost %t: %q", n, len(undisturbed.writes), lost, w.writes)
			}
			if deletions := count(w.writes, "delete Node"); deletions > 2 {
				t.Errorf("write %d: the Node was deleted %d times", n, deletions)
			}
		}
	}
}

func count(writes []string, what string) (n int) {
	for _, made := range writes {
		if made == what {
			n++
		}
	}
	return n
}

// TestNoHistoryDeletesTheNodeOfARunningMachine goes through random histories, also between
// what a pass reads and what it writes. The check is in the workload API server of the test.
func TestNoHistoryDeletesTheNodeOfARunningMachine(t *testing.T) {
	deleted := 0
	for seed := range uint64(50) {
		w := newWorld(t, 1)
		w.start(func(c *Config) { c.ExtraActions = seed%2 == 0 })
		random := rand.New(rand.NewPCG(seed, 1))
		w.finding = func() {
			for range random.IntN(3) {
				happen(w, random)
			}
		}
		for range 120 {
			if happen(w, random); random.IntN(2) == 0 {
				if _, err := w.pass(0); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		deleted += count(w.writes, "delete Node")
		w.finding = nil
		endDisturbancesAndRequest(w)
		if isConcerned(w.theMachine(0)) || isHeld(w.host(0)) || !w.running[name("host", 0)] || w.theNode(0) == nil {
			t.Errorf("Machine %v, host %v, running %t", w.theMachine(0).Annotations, w.host(0).Annotations, w.running[name("host", 0)])
		}
		if t.Failed() {
			t.Fatalf("seed %d: %q", seed, w.writes)
		}
	}
	if deleted < 40 {
		t.Errorf("only %d Nodes were deleted in all histories", deleted)
	}
}

// endDisturbances ends all disturbances.
func endDisturbances(w *world) {
	w.Helper()
	w.silent, w.recordless = false, false
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) {
		for _, key := range []string{v1alpha1.PausedAnnotation, v1alpha1.DetachedAnnotation, testKey} {
			delete(h.Annotations, key)
		}
		if isHeld(h) && holdOf(h) == nil {
			delete(h.Annotations, holdKey)
		}
		h.Status.ErrorType, h.Spec.Online, h.Spec.DisablePowerOff = "", true, false
	})
}

// endDisturbancesAndRequest ends all disturbances and withdraws the request.
func endDisturbancesAndRequest(w *world) {
	w.Helper()
	endDisturbances(w)
	w.withdraw(0)
	w.live(0)
}

// happen is one thing that happens in the world.
func happen(w *world, random *rand.Rand) {
	w.Helper()
	set := func(key string) {
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) {
			h.Annotations = nodebackup.Merged(h.Annotations, map[string]string{key: ""})
		})
	}
	switch random.IntN(50) {
	case 0, 1, 2, 3, 25, 26, 27:
		w.request(0)
	case 4:
		w.withdraw(0)
	case 5:
		set(v1alpha1.PausedAnnotation)
	case 6:
		set(v1alpha1.DetachedAnnotation)
	case 7:
		set(testKey) // another holder
	case 8:
		set(holdKey) // somebody replaces the hold
	case 9: // somebody removes the hold
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, holdKey) })
	case 10, 11:
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) {
			h.Status.ErrorType = []v1alpha1.ErrorType{v1alpha1.ErrorPowerManagement, v1alpha1.ErrorRegistration}[random.IntN(2)]
		})
	case 12:
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	case 13:
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff = true })
	case 14:
		w.silent = true
	case 15:
		w.recordless = true
	case 16:
		w.now = w.now.Add(time.Duration(random.IntN(900)) * time.Second)
	case 17:
		w.start(func(c *Config) { c.ExtraActions = random.IntN(2) == 0 })
	case 18: // somebody deletes the Node, and its kubelet registers it again
		if node := w.theNode(0); node != nil {
			if err := w.nodes.Delete(w.Context(), node); err != nil {
				w.Fatal(err)
			}
			if w.running[name("host", 0)] {
				w.running[name("host", 0)] = false
				w.boot(0)
			}
		}
	case 19, 20, 21, 22, 23, 24:
		endDisturbances(w)
	default:
		w.operate(0)
	}
}

// untilNodeIsSaved makes passes until the next write deletes the Node.
func (w *world) untilNodeIsSaved(i int) {
	w.Helper()
	for backupOf(w.theMachine(i)) == nil {
		before := len(w.writes)
		if _, err := w.pass(i); err != nil {
			w.Fatal(err)
		}
		if len(w.writes) == before {
			w.operate(i)
		}
	}
}

func TestAHostThatIsReleasedWhileItsNodeIsSearchedKeepsTheNode(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.untilNodeIsSaved(0)
	w.finding = func() {
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, holdKey) })
		w.operate(0)
		w.operate(0)
	}
	if _, err := w.pass(0); err != nil {
		t.Fatal(err)
	}
	if !w.running[name("host", 0)] || w.theNode(0) == nil {
		t.Errorf("the machine runs: %t, Node %v", w.running[name("host", 0)], w.theNode(0))
	}
}

func TestHealthChecksAreSuspendedFromTheHoldUntilTheNodeIsBack(t *testing.T) {
	for _, own := range []string{"", "because I say so"} {
		w := newWorld(t, 1)
		if own != "" {
			w.annotate(w.theMachine(0), clusterv1.MachineSkipRemediationAnnotation, &own)
		}
		want := own
		if own == "" {
			want = v1beta2.SkipRemediationMarker
		}
		w.request(0)
		seen := 0
		for range 15 {
			w.passes(0)
			if node := w.theNode(0); node == nil {
				seen++
				if got := w.theMachine(0).Annotations[clusterv1.MachineSkipRemediationAnnotation]; got != want {
					t.Errorf("skip-remediation is %q without the Node, want %q", got, want)
				}
			}
			w.operate(0)
		}
		w.passes(0)
		if seen == 0 {
			t.Error("the Node was never gone")
		}
		if got := w.theMachine(0).Annotations[clusterv1.MachineSkipRemediationAnnotation]; got != own {
			t.Errorf("skip-remediation is %q after the recovery, want %q", got, own)
		}
	}
}

func TestHealthChecksLookAtAMachineAgainThatDoesNotComeBack(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	for w.passes(0); w.theNode(0) != nil; w.passes(0) {
		w.operate(0)
	} // and from now on the machine stays off: it hangs when it boots
	w.passes(0)
	if w.reason(0) != v1beta2.WaitingForNodeReason || !isMarked(w.theMachine(0)) {
		t.Fatalf("condition %q, marked %t", w.reason(0), isMarked(w.theMachine(0)))
	}
	w.now = w.now.Add(DefaultNodeTimeout)
	w.passes(0)
	if w.reason(0) != v1beta2.NodeNotBackReason || isMarked(w.theMachine(0)) || backupOf(w.theMachine(0)) == nil {
		t.Errorf("condition %q, annotations %v", w.reason(0), w.theMachine(0).Annotations)
	}
	w.boot(0)
	w.live(0)
	w.checkRecovered(0, "")
}

func TestAHostThatIsNotConfirmedIsShownAsStuckAndGivesItsPlaceBack(t *testing.T) {
	w := newWorld(t, 2)
	w.request(0)
	w.request(1)
	w.recordless = true
	for range 3 {
		w.passes(0)
		w.operate(0)
		w.passes(1)
	}
	if w.reason(0) != v1beta2.PoweringOffReason || w.reason(1) != v1beta2.WaitingForBudgetReason {
		t.Fatalf("conditions %q and %q", w.reason(0), w.reason(1))
	}
	w.events()
	w.now = w.now.Add(ConfirmTimeout)
	w.recordless = false
	w.passes(0)
	w.passes(0)
	if w.reason(0) != v1beta2.PowerOffNotConfirmedReason || !isHeld(w.host(0)) || isMarked(w.theMachine(0)) || w.theNode(0) == nil {
		t.Errorf("condition %q, host %v, Machine %v", w.reason(0), w.host(0).Annotations, w.theMachine(0).Annotations)
	}
	if told := w.events(); len(told) != 1 || !strings.Contains(told[0], eventPowerOffNotConfirmed) {
		t.Errorf("events %q, want one", told)
	}
	old := w.theNode(1).UID
	w.live(1)
	w.checkRecovered(1, old)
	old = w.theNode(0).UID
	w.live(0)
	w.checkRecovered(0, old)
}

func TestNoMoreHostsAreFencedAtOnceThanTheBudgetAllows(t *testing.T) {
	const machines = 5
	for budget := 1; budget <= 3; budget++ {
		w := newWorld(t, machines)
		w.start(func(c *Config) { c.Budget = budget })
		for i := range machines {
			w.request(i)
		}
		most := 0
		for range 60 {
			for i := range machines {
				w.passes(i)
				w.operate(i)
			}
			most = max(most, len(w.held()))
		}
		if most != budget {
			t.Errorf("%d hosts were held at once, want %d", most, budget)
		}
		for i := range machines {
			w.checkRecovered(i, "")
		}
	}
}

func TestOrphanedHoldsAreRemoved(t *testing.T) {
	for _, tt := range []struct {
		name   string
		orphan func(w *world)
		kept   bool
	}{
		{"the Machine is gone", func(w *world) {
			if err := w.mgmt.Delete(w.Context(), w.theMachine(0)); err != nil {
				w.Fatal(err)
			}
		}, false},
		{"the Machine is gone and the host is paused", func(w *world) {
			w.annotate(w.host(0), v1alpha1.PausedAnnotation, new(string))
			if err := w.mgmt.Delete(w.Context(), w.theMachine(0)); err != nil {
				w.Fatal(err)
			}
		}, true},
		{"the Machine is another one", func(w *world) {
			w.withdraw(0)
			w.changeHost(0, func(h *v1alpha1.BareMetalHost) {
				h.Annotations[holdKey] = strings.Replace(h.Annotations[holdKey], "machine-uid-0", "machine-uid-before", 1)
			})
		}, false},
		{"the host has another consumer", func(w *world) {
			w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "m3m-other" })
		}, false},
		{"the Machine is being deleted", func(w *world) {
			machine := w.theMachine(0)
			machine.Finalizers = []string{"test/kept"}
			if err := w.mgmt.Update(w.Context(), machine); err != nil {
				w.Fatal(err)
			}
			if err := w.mgmt.Delete(w.Context(), machine); err != nil {
				w.Fatal(err)
			}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.request(0)
			w.passes(0)
			if holdOf(w.host(0)) == nil {
				t.Fatal("there is no hold")
			}
			tt.orphan(w)
			w.start()
			w.passes(0)
			if isHeld(w.host(0)) != tt.kept {
				t.Errorf("annotations of the host %v, want kept %t", w.host(0).Annotations, tt.kept)
			}
			if w.theNode(0) == nil {
				t.Error("the Node is deleted")
			}
		})
	}
}

func TestAMachineThatMovedToAnotherManagementClusterIsFencedAnew(t *testing.T) {
	w := newWorld(t, 1)
	old := w.theNode(0).UID
	w.request(0)
	w.passes(0)
	before := w.host(0).Annotations[holdKey]
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) {
		h.Annotations[holdKey] = strings.Replace(before, "machine-uid-0", "machine-uid-before", 1)
	})
	w.passes(0)
	if held := holdOf(w.host(0)); held == nil || !held.isOf(w.theMachine(0)) || strings.Contains(before, held.Nonce) {
		t.Fatalf("hold %s after %s, want a new one", w.host(0).Annotations[holdKey], before)
	}
	w.live(0)
	w.checkRecovered(0, old)
}

func TestANodeThatWasRegisteredAnewNeedsANewProof(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.passes(0)
	before := w.host(0).Annotations[holdKey]
	if err := w.nodes.Delete(t.Context(), w.theNode(0)); err != nil {
		t.Fatal(err)
	}
	if err := w.nodes.Create(t.Context(), w.node(0)); err != nil {
		t.Fatal(err)
	}
	w.operate(0)
	w.operate(0)
	w.passes(0)
	if held := holdOf(w.host(0)); held == nil || held.nodeUID() != w.theNode(0).UID || w.host(0).Annotations[holdKey] == before {
		t.Errorf("hold %s, want a new one for the Node %s", w.host(0).Annotations[holdKey], w.theNode(0).UID)
	}
	old := w.theNode(0).UID
	w.live(0)
	w.checkRecovered(0, old)
}

func TestARenewedHoldHasItsOwnTimeToBeConfirmed(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.passes(0)
	w.now = w.now.Add(ConfirmTimeout)
	w.passes(0)
	if err := w.nodes.Delete(t.Context(), w.theNode(0)); err != nil {
		t.Fatal(err)
	}
	if err := w.nodes.Create(t.Context(), w.node(0)); err != nil {
		t.Fatal(err)
	}
	w.untilProven(0) // late, and for the Node that is gone
	w.events()
	w.passes(0)
	if w.reason(0) != v1beta2.PoweringOffReason || !isMarked(w.theMachine(0)) || len(w.events()) > 0 {
		t.Errorf("condition %q, Machine %v", w.reason(0), w.theMachine(0).Annotations)
	}
	old := w.theNode(0).UID
	w.live(0)
	w.checkRecovered(0, old)
}

func TestAHostThatCannotBeFencedAnyMoreKeepsItsNodeAndItsHold(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.passes(0)
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.DetachedAnnotation] = "" })
	w.live(0)
	if w.reason(0) != v1beta2.RemediationImpossibleReason || !isHeld(w.host(0)) || w.theNode(0) == nil || isMarked(w.theMachine(0)) {
		t.Errorf("condition %q, host %v, Machine %v", w.reason(0), w.host(0).Annotations, w.theMachine(0).Annotations)
	}
	old := w.theNode(0).UID
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.DetachedAnnotation) })
	w.live(0)
	w.checkRecovered(0, old)
}

func TestAHostStaysOffUntilAllItsHoldersAreGone(t *testing.T) {
	w := newWorld(t, 1)
	other := v1beta2.MetalRemediationAnnotationPrefix + "uid"
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{other: `{"mode":"hard"}`} })
	w.request(0)
	old := w.theNode(0).UID
	w.live(0)
	if isRequested(w.theMachine(0)) || isHeld(w.host(0)) || w.theNode(0) != nil || w.running[name("host", 0)] {
		t.Errorf("Machine %v, host %v, running %t", w.theMachine(0).Annotations, w.host(0).Annotations, w.running[name("host", 0)])
	}
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, other) })
	w.live(0)
	w.checkRecovered(0, old)
}

func TestAHostThatItsSpecPowersOffIsLeftAloneAndTold(t *testing.T) {
	w := newWorld(t, 1)
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	w.operate(0)
	w.operate(0)
	w.request(0)
	w.live(0)
	if w.reason(0) != v1beta2.HostOffReason || isHeld(w.host(0)) || w.theNode(0) == nil {
		t.Errorf("condition %q, host %v", w.reason(0), w.host(0).Annotations)
	}
	w.start(func(c *Config) { c.ExtraActions = true })
	w.now = w.now.Add(time.Hour)
	w.live(0)
	w.now = w.now.Add(time.Hour)
	w.live(0)
	if isRequested(w.theMachine(0)) || isHeld(w.host(0)) || w.theNode(0) != nil {
		t.Errorf("with the extra actions: Machine %v, host %v, Node %v", w.theMachine(0).Annotations, w.host(0).Annotations, w.theNode(0))
	}
}

func TestExtraActionsDoNotWriteAgainAndAgainForAHostThatCannotBeFenced(t *testing.T) {
	w := newWorld(t, 1)
	w.start(func(c *Config) { c.ExtraActions = true })
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Online, h.Spec.DisablePowerOff, h.Status.PoweredOn = false, true, false
	})
	w.request(0)
	w.passes(0)
	w.now = w.now.Add(time.Hour)
	w.passes(0)
	if w.reason(0) != v1beta2.RemediationImpossibleReason || isHeld(w.host(0)) || w.theNode(0) == nil {
		t.Errorf("condition %q, host %v", w.reason(0), w.host(0).Annotations)
	}
}

func TestAStuckRecoveryIsInTheMetrics(t *testing.T) {
	w := newWorld(t, 1)
	w.recordless = true
	w.request(0)
	w.live(0)
	w.now = w.now.Add(ConfirmTimeout)
	w.passes(0)
	if n := w.metric("ingot_fencing_stuck"); n != 1 {
		t.Errorf("%v stuck, want 1", n)
	}
	w.recordless = false
	w.live(0)
	if n := w.metric("ingot_fencing_stuck"); n != 0 {
		t.Errorf("%v stuck after the recovery, want none", n)
	}
	if got := w.metric("ingot_fencing_nodes_deleted_total"); got != 1 {
		t.Errorf("%v Nodes deleted, want 1", got)
	}
}
