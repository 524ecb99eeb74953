package fencing

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/nodebackup"
)

// changeMachine changes a Machine and its status.
func (w *world) changeMachine(i int, change func(m *clusterv1.Machine)) {
	w.Helper()
	m := w.theMachine(i)
	change(m)
	status := m.Status
	if err := w.mgmt.Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
	m.Status = status
	if err := w.mgmt.Status().Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

// newControlPlane has Machines of the control plane, all of which are shown as ready.
func newControlPlane(tb testing.TB, machines int) *world {
	tb.Helper()
	w := newWorld(tb, machines)
	for i := range machines {
		w.changeMachine(i, func(m *clusterv1.Machine) {
			m.Labels[clusterv1.MachineControlPlaneLabel] = ""
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: *at(w.now),
			}}
		})
	}
	return w
}

func TestAHostOfTheControlPlaneThatIsHeldOffIsNotReadyWhateverItsMachineSays(t *testing.T) {
	for _, tt := range []struct {
		name     string
		machines int
		stuck    bool
		want     string // for the second Machine
	}{
		{"of three", 3, false, v1beta2.WaitingForControlPlaneReason},
		{"of three and not confirmed", 3, true, v1beta2.WaitingForControlPlaneReason},
		{"of five", 5, false, v1beta2.PoweringOffReason},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newControlPlane(t, tt.machines)
			w.start(func(c *Config) { c.Budget = 2 })
			w.recordless = tt.stuck
			w.request(0)
			w.request(1)
			w.passes(0)
			if tt.stuck {
				w.now = w.now.Add(ConfirmTimeout)
				w.passes(0)
			}
			if w.passes(1); w.reason(1) != tt.want {
				t.Errorf("condition %q, want %q", w.reason(1), tt.want)
			}
			w.recordless = false
			w.live(0)
			w.live(1)
			w.checkRecovered(1, "")
		})
	}
}

func TestAMachineOfTheControlPlaneThatOthersKeepOffIsNotReadyWhateverItSays(t *testing.T) {
	hold := func(key string) (change, back func(w *world)) {
		return func(w *world) {
				w.changeHost(0, func(h *v1alpha1.BareMetalHost) {
					h.Annotations = nodebackup.Merged(h.Annotations, map[string]string{key: `{"mode":"hard"}`})
				})
			}, func(w *world) {
				w.changeHost(0, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, key) })
			}
	}
	online := func(on bool) func(w *world) {
		return func(w *world) { w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = on }) }
	}
	powered := func(on bool) func(w *world) {
		return func(w *world) { w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Status.PoweredOn = on }) }
	}
	healthy := func(status metav1.ConditionStatus) func(w *world) {
		return func(w *world) {
			w.changeMachine(0, func(m *clusterv1.Machine) {
				meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: status, Reason: "Test"})
			})
		}
	}
	byRemediation, goes := hold(v1beta2.MetalRemediationAnnotationPrefix + "uid")
	byPerson, leaves := hold(testKey)
	byReboot, ends := hold(v1alpha1.RebootAnnotation)
	for name, tt := range map[string]struct{ change, back func(w *world) }{
		"held by a Metal3Remediation":    {byRemediation, goes},
		"held by a person":               {byPerson, leaves},
		"about to be restarted":          {byReboot, ends},
		"switched off by its spec":       {online(false), online(true)},
		"off":                            {powered(false), powered(true)},
		"unhealthy, says a health check": {healthy(metav1.ConditionFalse), healthy(metav1.ConditionTrue)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newControlPlane(t, 3)
			tt.change(w)
			w.request(1)
			if w.passes(1); w.reason(1) != v1beta2.WaitingForControlPlaneReason || isHeld(w.host(1)) {
				t.Errorf("condition %q, host %v", w.reason(1), w.host(1).Annotations)
			}
			tt.back(w)
			old := w.theNode(1).UID
			w.live(1)
			w.checkRecovered(1, old)
		})
	}
}

func TestTheControlPlaneKeepsItsMajorityWhenItsMachinesAreFencedAtTheSameTime(t *testing.T) {
	w := newControlPlane(t, 3)
	w.start(func(c *Config) { c.Budget = 3 })
	w.request(0)
	w.request(1)
	p, err := w.r.read(t.Context(), client.ObjectKeyFromObject(w.theMachine(0)))
	if err != nil {
		t.Fatal(err)
	}
	w.passes(1) // after the other pass has read what it decides by
	if err := w.r.addHold(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if isHeld(w.host(0)) || !isHeld(w.host(1)) {
		t.Errorf("held are %t and %t, want the second host", isHeld(w.host(0)), isHeld(w.host(1)))
	}
}

func TestHealthChecksLookAtAMachineAgainWhoseHoldSomebodyReplaced(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.passes(0)
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Annotations[holdKey] = `{"mode":"hard"}` })
	w.passes(0)
	if w.reason(0) != v1beta2.ForeignHoldReason || isMarked(w.theMachine(0)) || w.theNode(0) == nil {
		t.Errorf("condition %q, Machine %v", w.reason(0), w.theMachine(0).Annotations)
	}
	old := w.theNode(0).UID
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, holdKey) })
	w.live(0)
	w.checkRecovered(0, old)
}

func TestANodeWithFinalizersIsDeletedOnceAndAwaited(t *testing.T) {
	w := newWorld(t, 1)
	node := w.theNode(0)
	node.Finalizers = []string{"example.org/cleanup"}
	if err := w.nodes.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.request(0)
	w.live(0)
	if w.reason(0) != v1beta2.WaitingForNodeDeletionReason || !isHeld(w.host(0)) || !isRequested(w.theMachine(0)) {
		t.Errorf("condition %q, host %v, Machine %v", w.reason(0), w.host(0).Annotations, w.theMachine(0).Annotations)
	}
	if got := w.metric("ingot_fencing_nodes_deleted_total"); got != 1 || count(w.writes, "delete Node") != 1 {
		t.Errorf("%v Nodes deleted with %d writes, want one", got, count(w.writes, "delete Node"))
	}
	node = w.theNode(0)
	node.Finalizers = nil
	if err := w.nodes.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.live(0)
	w.checkRecovered(0, node.UID)
}

func TestAClockThatIsSetBackDelaysNothingForLong(t *testing.T) {
	t.Run("a hold gives its place back", func(t *testing.T) {
		w := newWorld(t, 2)
		w.recordless = true
		w.request(0)
		w.passes(0)
		w.now = w.now.Add(-365 * 24 * time.Hour)
		if w.passes(0); w.reason(0) != v1beta2.PowerOffNotConfirmedReason {
			t.Errorf("condition %q, want %q", w.reason(0), v1beta2.PowerOffNotConfirmedReason)
		}
		w.request(1)
		if w.passes(1); !isHeld(w.host(1)) {
			t.Errorf("the other host is not held: condition %q", w.reason(1))
		}
	})
	t.Run("a Node is awaited as long as ever", func(t *testing.T) {
		w := newWorld(t, 1)
		w.request(0)
		for w.passes(0); w.theNode(0) != nil; w.passes(0) {
			w.operate(0)
		} // and from now on the machine stays off
		w.now = w.now.Add(-365 * 24 * time.Hour)
		if w.passes(0); w.reason(0) != v1beta2.WaitingForNodeReason {
			t.Errorf("condition %q, want %q", w.reason(0), v1beta2.WaitingForNodeReason)
		}
		w.now = w.now.Add(DefaultNodeTimeout)
		if w.passes(0); isMarked(w.theMachine(0)) || w.reason(0) != v1beta2.NodeNotBackReason {
			t.Errorf("condition %q, Machine %v", w.reason(0), w.theMachine(0).Annotations)
		}
	})
	t.Run("a host that is off has its grace", func(t *testing.T) {
		w := newWorld(t, 1)
		w.start(func(c *Config) { c.ExtraActions = true })
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Spec.Online, h.Status.PoweredOn = false, false })
		w.request(0)
		w.passes(0)
		w.now = w.now.Add(-365 * 24 * time.Hour)
		if w.passes(0); isHeld(w.host(0)) {
			t.Error("the host is held without its grace")
		}
		w.now = w.now.Add(offGrace)
		if w.passes(0); !isHeld(w.host(0)) {
			t.Errorf("the host is not held after its grace: condition %q", w.reason(0))
		}
	})
}

func TestAHostThatGoesToAnotherConsumerWhileItsNodeIsSearchedKeepsTheNode(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.untilNodeIsSaved(0)
	w.finding = func() {
		w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "m3m-other" })
	}
	if _, err := w.pass(0); err != nil {
		t.Fatal(err)
	}
	if w.theNode(0) == nil {
		t.Error("the Node is deleted")
	}
}

// nameNode has a Machine name a Node, whose provider ID is set, too.
func (w *world) nameNode(i int, node *corev1.Node, providerID string) {
	w.Helper()
	w.changeMachine(i, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = node.Name })
	node.Spec.ProviderID = providerID
	if err := w.nodes.Update(w.Context(), node); err != nil {
		w.Fatal(err)
	}
}

func TestANodeThatMayBeAnotherMachinesIsNotDeleted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fenced int
		change func(w *world)
	}{
		{"two Machines name it and it has no provider ID", 1, func(w *world) { w.nameNode(1, w.theNode(0), "") }},
		{"its provider ID names another host", 0, func(w *world) {
			w.annotate(&v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name("m3m", 0)}}, v1beta2.HostAnnotation, new(testNamespace+"/"+name("host", 1)))
			w.changeHost(1, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = name("m3m", 0) })
		}},
		{"its label has the UID of another host", 0, func(w *world) { w.labelNode(0, w.host(1).UID) }},
		{"its provider ID has the UID of another host", 0, func(w *world) {
			id := v1beta2.ProviderIDPrefix + string(w.host(1).UID)
			w.nameNode(0, w.theNode(0), id)
			w.changeMachine(0, func(m *clusterv1.Machine) { m.Spec.ProviderID = id })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 2)
			tt.change(w)
			w.request(tt.fenced)
			w.live(tt.fenced)
			if w.theNode(0) == nil || w.reason(tt.fenced) != v1beta2.AmbiguousNodeReason {
				t.Errorf("Node %v, condition %q", w.theNode(0), w.reason(tt.fenced))
			}
		})
	}
}

// labelNode has a Node say on which host its machine is.
func (w *world) labelNode(i int, uid types.UID) {
	w.Helper()
	node := w.theNode(i)
	metav1.SetMetaDataLabel(&node.ObjectMeta, v1beta2.NodeHostLabel, string(uid))
	if err := w.nodes.Update(w.Context(), node); err != nil {
		w.Fatal(err)
	}
}

func TestANodeWithTheUIDThatItsHostHadBeforeAMoveIsDeleted(t *testing.T) {
	w := newWorld(t, 1)
	w.labelNode(0, "uid-in-another-cluster")
	old := w.theNode(0).UID
	w.request(0)
	w.live(0)
	w.checkRecovered(0, old)
}

// untilProven makes passes until the host is proven to be off.
func (w *world) untilProven(i int) {
	w.Helper()
	for range 10 {
		if h := w.host(i); ProvenOff(h, holdKey, h.Annotations[holdKey]) == nil {
			return
		}
		w.passes(i)
		w.operate(i)
	}
	w.Fatalf("the host is not proven to be off: %+v", w.host(i).Status)
}

func TestANodeThatCannotBeDeletedInTimeAfterTheProofIsShownAndGivesThePlaceBack(t *testing.T) {
	for name, tt := range map[string]struct {
		reason    string // before the time is over
		hide, end func(w *world)
	}{
		"another Machine names it, too": {
			v1beta2.AmbiguousNodeReason,
			func(w *world) { w.nameNode(1, w.theNode(0), "") },
			func(w *world) {
				w.changeMachine(1, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = name("node", 1) })
			},
		},
		"the workload cluster does not answer": {
			v1beta2.WorkloadClusterUnreachableReason,
			func(w *world) { w.silent = true },
			func(w *world) { w.silent = false },
		},
		"it has finalizers": {
			v1beta2.WaitingForNodeDeletionReason,
			func(w *world) { w.finalize(0, "example.org/cleanup") },
			func(w *world) { w.finalize(0) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			old := w.theNode(0).UID
			w.request(0)
			w.untilProven(0)
			tt.hide(w)
			w.passes(0)
			w.now = w.now.Add(ConfirmTimeout - time.Minute)
			w.request(1)
			w.passes(0)
			w.passes(1)
			if w.reason(0) != tt.reason || w.reason(1) == v1beta2.PoweringOffReason || w.metric("ingot_fencing_stuck") != 0 {
				t.Errorf("conditions %q and %q, %v stuck before the time is over", w.reason(0), w.reason(1), w.metric("ingot_fencing_stuck"))
			}
			w.events()
			w.now = w.now.Add(time.Minute)
			w.passes(0)
			w.now = w.now.Add(time.Minute)
			w.passes(0)
			if w.reason(0) != v1beta2.NodeDeletionBlockedReason || isMarked(w.theMachine(0)) || !isHeld(w.host(0)) {
				t.Errorf("condition %q, Machine %v, host %v", w.reason(0), w.theMachine(0).Annotations, w.host(0).Annotations)
			}
			if told := w.events(); len(told) != 1 || !strings.Contains(told[0], eventNodeDeletionBlocked) {
				t.Errorf("events %q, want one", told)
			}
			if n := w.metric("ingot_fencing_stuck"); n != 1 {
				t.Errorf("%v stuck, want 1", n)
			}
			p, err := w.r.read(t.Context(), client.ObjectKeyFromObject(w.theMachine(1)))
			if err != nil || len(p.occupied) > 0 {
				t.Errorf("error %v, places taken by %q, want none", err, p.occupied)
			}
			tt.end(w)
			w.live(0)
			w.checkRecovered(0, old)
			if n := w.metric("ingot_fencing_stuck"); n != 0 {
				t.Errorf("%v stuck after the recovery, want none", n)
			}
		})
	}
}

// finalize gives a Node finalizers.
func (w *world) finalize(i int, finalizers ...string) {
	w.Helper()
	node := w.theNode(i)
	node.Finalizers = finalizers
	if err := w.nodes.Update(w.Context(), node); err != nil {
		w.Fatal(err)
	}
}

func TestANodeWithoutProviderIDIsThatOfTheOneMachineThatNamesIt(t *testing.T) {
	w := newWorld(t, 2)
	w.nameNode(0, w.theNode(0), "")
	old := w.theNode(0).UID
	w.request(0)
	w.live(0)
	w.checkRecovered(0, old)
}

func TestAPausedRecoveryGoesOnAfterThePauseWithoutAChangeOfItsObjects(t *testing.T) {
	w := newWorld(t, 1)
	w.request(0)
	w.passes(0)
	w.changeCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	before := len(w.writes)
	result, err := w.pass(0)
	if err != nil || len(w.writes) != before || result.RequeueAfter == 0 {
		t.Errorf("writes %q, error %v, next pass after %s", w.writes[before:], err, result.RequeueAfter)
	}
}

func TestAStuckRecoveryThatIsPausedStaysInTheMetrics(t *testing.T) {
	w := newWorld(t, 1)
	w.recordless = true
	w.request(0)
	w.live(0)
	w.now = w.now.Add(ConfirmTimeout)
	w.passes(0)
	w.changeCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	w.start() // a new process has to find it again
	w.passes(0)
	if n := w.metric("ingot_fencing_stuck"); n != 1 {
		t.Errorf("%v stuck while paused, want 1", n)
	}
	w.changeCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	w.withdraw(0)
	w.passes(0)
	if n := w.metric("ingot_fencing_stuck"); n != 0 {
		t.Errorf("%v stuck without a request, want none", n)
	}
}

func (w *world) changeCluster(change func(c *clusterv1.Cluster)) {
	w.Helper()
	c := read(w, w.mgmt, &clusterv1.Cluster{}, testNamespace, testCluster)
	change(c)
	if err := w.mgmt.Update(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

func TestANodeThatIsBeingDeletedIsNotBack(t *testing.T) {
	f := factsOf(situation{node: true, on: true})
	f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{ReleasedAt: at(testNow)})
	f.machine.Annotations[v1beta2.RestorePendingAnnotation] = encode(backup{Node: nodeRef{"node-0", "node-uid-0"}})
	f.node.DeletionTimestamp = at(testNow)
	if d := decide(f, testLimits); d.do != doNothing || d.reason != v1beta2.WaitingForNodeReason {
		t.Errorf("%s with reason %q, want to wait for the Node", d.do, d.reason)
	}
}

func TestHealthChecksAreNotSuspendedWithoutLimitForANodeThatIsNotKnown(t *testing.T) {
	for name, hide := range map[string]func(f *facts){
		"no answer": func(f *facts) { f.unreachable = "no answer" },
		"ambiguous": func(f *facts) { f.ambiguous = "two Nodes" },
	} {
		for _, tt := range []struct {
			name      string
			requested bool // again
			stage     stage
			want      action
		}{
			{"the release is not noted", false, stage{Hold: "N"}, noteRelease},
			{"there is time", false, stage{ReleasedAt: at(testNow.Add(time.Second - DefaultNodeTimeout))}, doNothing},
			{"the time is over", false, stage{ReleasedAt: at(testNow.Add(-DefaultNodeTimeout))}, endSkip},
			{"there is time and another request", true, stage{ReleasedAt: at(testNow.Add(time.Second - DefaultNodeTimeout))}, doNothing},
			{"the time is over and there is another request", true, stage{ReleasedAt: at(testNow.Add(-DefaultNodeTimeout))}, endSkip},
			{"somebody removed the hold", true, stage{Hold: "N"}, endSkip},
		} {
			for _, extra := range []bool{false, true} {
				f, l := factsOf(situation{requested: tt.requested, on: true}), testLimits
				hide(&f)
				l.extra = extra
				f.machine.Annotations[clusterv1.MachineSkipRemediationAnnotation] = v1beta2.SkipRemediationMarker
				f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(tt.stage)
				if d := decide(f, l); d.do != tt.want {
					t.Errorf("%s, %s, extra actions %t: %s, want %s", name, tt.name, extra, d.do, tt.want)
				}
			}
		}
	}
}

func TestARecoveryEndsAfterItsWorkloadClusterDidNotAnswerForLong(t *testing.T) {
	w := newWorld(t, 1)
	old := w.theNode(0).UID
	w.request(0)
	for w.passes(0); w.theNode(0) != nil; w.passes(0) {
		w.operate(0)
	}
	w.silent = true
	w.events()
	w.now = w.now.Add(DefaultNodeTimeout)
	w.passes(0)
	if w.reason(0) != v1beta2.WorkloadClusterUnreachableReason || isSuspended(w.theMachine(0)) {
		t.Errorf("condition %q, Machine %v", w.reason(0), w.theMachine(0).Annotations)
	}
	if told := w.events(); len(told) != 1 || !strings.Contains(told[0], eventNodeNotBack) {
		t.Errorf("events %q, want one", told)
	}
	w.silent = false
	w.live(0)
	w.checkRecovered(0, old)
}

func TestASecretInTheErrorOfAWorkloadClusterIsMaskedInWhatIsShown(t *testing.T) {
	w := newWorld(t, 1)
	w.silent = true
	w.request(0)
	w.passes(0)
	m := read(w, w.mgmt, &v1beta2.Metal3Machine{}, testNamespace, name("m3m", 0))
	c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.RemediatingCondition)
	if c == nil || !strings.Contains(c.Message, "http://******@192.0.2.5:3128:  [31mno answer") {
		t.Errorf("the condition is %+v, want the error without password and control characters", c)
	}
}

func TestHealthChecksDoNotWaitForANodeThatCannotBeRestored(t *testing.T) {
	saved := encode(backup{Node: nodeRef{"node-0", "node-uid-before"}, Labels: map[string]string{"rack": "1"}})
	for _, tt := range []struct {
		name  string
		stage *stage
		want  action
	}{
		{"the release is not noted", &stage{Hold: "N"}, noteRelease},
		{"there is time", &stage{ReleasedAt: at(testNow.Add(time.Second - DefaultNodeTimeout))}, restoreNode},
		{"the time is over", &stage{ReleasedAt: at(testNow.Add(-DefaultNodeTimeout))}, endSkip},
		{"they look at the Machine again", nil, restoreNode},
	} {
		f := factsOf(situation{node: true, on: true})
		f.machine.Annotations[v1beta2.RestorePendingAnnotation] = saved
		if tt.stage != nil {
			f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(tt.stage)
		}
		if d := decide(f, testLimits); d.do != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, d.do, tt.want)
		}
	}
}
