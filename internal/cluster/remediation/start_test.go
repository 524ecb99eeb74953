package remediation

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/fencing"
)

// newStart returns a life in which the Machine never had a Node and has no host yet. The real
// fencing.ProvenOff decides whether the host is proven to be off.
func newStart(t *testing.T, change func(*life, *v1beta2.Metal3Remediation)) *life {
	t.Helper()
	l := newLife(t, change)
	l.dead, l.r.ProvenOff = true, fencing.ProvenOff
	l.state(v1alpha1.StateAvailable)
	if err := l.workload.Delete(t.Context(), l.node()); err != nil {
		t.Fatal(err)
	}
	m := l.machine()
	m.Status.NodeRef.Name = ""
	if err := l.management.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	l.writeMachine(func(m *v1beta2.Metal3Machine) { delete(m.Annotations, v1beta2.HostAnnotation) })
	return l
}

func (l *life) writeMachine(change func(*v1beta2.Metal3Machine)) {
	l.Helper()
	m, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge-0"}, &v1beta2.Metal3Machine{})
	l.write(m, func() { change(m) })
}

// state has the host in a state, and known to the engine.
func (l *life) state(state v1alpha1.ProvisioningState) {
	l.Helper()
	h := l.host()
	h.Status.Provisioning.State, h.Status.Provisioning.ID = state, "6f3e9b0e-2c50-4a8d-9fd2-4f0d8c5b9c11"
	if err := l.management.Status().Update(l.Context(), h); err != nil {
		l.Fatal(err)
	}
}

func (l *life) choose() {
	l.Helper()
	l.state(v1alpha1.StateProvisioning)
	l.writeMachine(func(m *v1beta2.Metal3Machine) { m.Annotations = map[string]string{v1beta2.HostAnnotation: ns + "/web"} })
}

func (l *life) deploy() {
	l.Helper()
	l.state(v1alpha1.StateProvisioned)
	l.writeMachine(func(m *v1beta2.Metal3Machine) { m.Spec.ProviderID = v1beta2.ProviderIDPrefix + ns + "/web/edge-0" })
	m := l.machine()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(l.now),
	})
	if err := l.management.Status().Update(l.Context(), m); err != nil {
		l.Fatal(err)
	}
}

func TestAMachineThatWaitsForItsHostIsRemediatedIfItHasNoNodeInTimeAfterItsDeployment(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newStart(t, way)
			stays := func() {
				t.Helper()
				for range 5 {
					l.pass()
				}
				if s := l.remediation().Status; s.Phase != "" || len(l.host().Annotations) > 0 {
					t.Errorf("phase %q, annotations %v", s.Phase, l.host().Annotations)
				}
			}
			l.shows(metav1.ConditionTrue, v1beta2.WaitingForHostReason)
			stays()
			l.choose()
			stays()
			l.deploy()
			began := l.now
			l.shows(metav1.ConditionTrue, v1beta2.WaitingForHealthReason)
			l.untilPhase(running)
			if took := l.now.Sub(began); took < 10*time.Minute || took > 12*time.Minute {
				t.Errorf("the attempt began after %s, want the timeout of ten minutes", took)
			}
			l.until("the second attempt", func() bool { return l.remediation().Status.RetryCount == 1 })
			l.counted("ingot_remediation_blocked_total", 0)
		})
	}
}

func (l *life) errs(kind v1alpha1.ErrorType) {
	l.Helper()
	h := l.host()
	h.Status.ErrorType = kind
	if err := l.management.Status().Update(l.Context(), h); err != nil {
		l.Fatal(err)
	}
}

func TestAMachineWhoseDeploymentFailsIsRemediatedAtOnce(t *testing.T) {
	t.Parallel()
	l := newStart(t, nil)
	l.choose()
	l.shows(metav1.ConditionTrue, v1beta2.WaitingForHostReason)
	l.errs(v1alpha1.ErrorProvisioning)
	began := l.now
	l.untilPhase(running)
	if took := l.now.Sub(began); took > 2*time.Minute {
		t.Errorf("the attempt began after %s", took)
	}
	l.untilPhase(waiting)
}

// TestAMachineIsNotInterruptedBecauseItsBMCRefusesCredentials has a host whose deployment goes on:
// only what needs the BMC waits.
func TestAMachineIsNotInterruptedBecauseItsBMCRefusesCredentials(t *testing.T) {
	t.Parallel()
	l := newStart(t, nil)
	l.choose()
	l.shows(metav1.ConditionTrue, v1beta2.WaitingForHostReason)
	for _, kind := range []v1alpha1.ErrorType{v1alpha1.ErrorRegistration, "", v1alpha1.ErrorRegistration} {
		l.errs(kind)
		for range 5 {
			l.pass()
		}
		if s := l.remediation().Status; s.Phase != "" || len(l.host().Annotations) > 0 {
			t.Errorf("with error %q: phase %q, annotations %v", kind, s.Phase, l.host().Annotations)
		}
	}
}

// TestAMachineWhoseHostCannotBeDeployedIsReplacedAfterTheTimeout has a host that cannot be proven
// to be off, or that recovery by annotation waits for.
func TestAMachineWhoseHostCannotBeDeployedIsReplacedAfterTheTimeout(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		for _, kind := range []v1alpha1.ErrorType{v1alpha1.ErrorRegistration, v1alpha1.ErrorPreparation, v1alpha1.ErrorPowerManagement, v1alpha1.ErrorProvisioning} {
			if name != "annotation" && kind == v1alpha1.ErrorProvisioning {
				continue // such a machine is remediated at once
			}
			t.Run(name+", "+string(kind), func(t *testing.T) {
				t.Parallel()
				l := newStart(t, way)
				l.choose()
				l.shows(metav1.ConditionTrue, v1beta2.WaitingForHostReason)
				l.now = l.now.Add(time.Hour) // of deployment
				l.errs(kind)
				began := l.now
				l.shows(metav1.ConditionFalse, v1beta2.HostErrorReason)
				l.counted("ingot_remediation_stuck", 1)
				l.untilPhase(deleting)
				if took := l.now.Sub(began); took < timeout || took > timeout+3*time.Minute {
					t.Errorf("the machine is handed over after %s, want the timeout of ten minutes", took)
				}
				m, h := l.machine(), l.host()
				if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition); c == nil || c.Status != metav1.ConditionFalse {
					t.Errorf("condition %+v, want the owner to replace the machine", c)
				}
				if len(h.Annotations) != 1 || h.Annotations[v1alpha1.UnhealthyAnnotation] == "" || len(m.Annotations) > 0 || l.cycles > 0 {
					t.Errorf("the host has %v and was off %d times, the Machine has %v; want only the mark", h.Annotations, l.cycles, m.Annotations)
				}
				l.counted("ingot_remediation_total", 0)
				for _, reason := range []string{v1beta2.HostErrorReason, eventHandedOver} {
					if n := l.told(reason); n != 1 {
						t.Errorf("%d events %s, want one", n, reason)
					}
				}
			})
		}
	}
}

// gaps are times without a pass.
var gaps = map[string]func(l *life){
	"its Cluster is paused": func(l *life) {
		pause := func(paused bool) {
			c, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge"}, &clusterv1.Cluster{})
			l.write(c, func() { c.Spec.Paused = new(paused) })
		}
		pause(true)
		l.leftAloneFor(time.Hour, "while its Cluster is paused")
		pause(false)
	},
	"the operator is away":     func(l *life) { l.now = l.now.Add(time.Hour) },
	"the clock is set back":    func(l *life) { l.now = l.now.Add(-time.Hour) },
	"the clock is set forward": func(l *life) { l.now = l.now.Add(24 * time.Hour) },
}

func TestAMachineIsNotReplacedForWhatNoPassSawMeanwhile(t *testing.T) {
	t.Parallel()
	for name, gap := range gaps {
		for reason, life := range map[string]func(t *testing.T) *life{
			v1beta2.HostErrorReason: func(t *testing.T) *life {
				t.Helper()
				l := newStart(t, nil)
				l.choose()
				l.errs(v1alpha1.ErrorRegistration)
				return l
			},
			v1beta2.WaitingForControlPlaneReason: func(t *testing.T) *life {
				t.Helper()
				return newJoiner(t, 2, "taint")
			},
		} {
			t.Run(reason+", "+name, func(t *testing.T) {
				t.Parallel()
				l := life(t)
				l.shows(metav1.ConditionFalse, reason)
				gap(l)
				began := l.now
				l.leftAloneFor(timeout-time.Minute, "after "+name)
				l.untilPhase(deleting)
				if took := l.now.Sub(began); took > timeout+3*time.Minute {
					t.Errorf("the machine is handed over after %s, want the timeout of ten minutes", took)
				}
				if n := l.told(reason); n != 1 {
					t.Errorf("%d events, want one", n)
				}
			})
		}
	}
}

// isUp has the control plane of the Cluster initialized.
func (l *life) isUp() {
	l.Helper()
	c, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge"}, &clusterv1.Cluster{})
	l.write(c, func() { c.Status.Initialization.ControlPlaneInitialized = new(true) })
}

// TestAMachineThatRunsIsNotReplacedBecauseItsHostIsNotKnownToBeDeployed has a host whose Secret is
// gone while it is deployed. The engine finishes the deployment, and the host does not show it.
func TestAMachineThatRunsIsNotReplacedBecauseItsHostIsNotKnownToBeDeployed(t *testing.T) {
	t.Parallel()
	const id = v1beta2.ProviderIDPrefix + ns + "/web/edge-0"
	for name, tt := range map[string]struct {
		node      corev1.Node
		unlisted  error
		replaced  bool
		neverInit bool
	}{
		"its Node has its provider ID":                {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: id}}},
		"its Node has the UID of its host":            {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: v1beta2.ProviderIDPrefix + "h"}}},
		"its Node has the label of its host":          {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1beta2.NodeHostLabel: "h"}}}},
		"its Node has the name of its host":           {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web"}}},
		"its Node has its name":                       {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}},
		"its Node is not known":                       {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, unlisted: errAway},
		"a Node is another machine's":                 {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.NodeSpec{ProviderID: id + "-before"}}, replaced: true},
		"the workload cluster never answered, so far": {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, unlisted: errAway, neverInit: true, replaced: true},
	} {
		for way, change := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				l := newStart(t, change)
				l.r.FindNode = func(ctx context.Context, c client.Client, _ *clusterv1.Machine, ids ...string) (*corev1.Node, error) {
					var all corev1.NodeList
					err := c.List(ctx, &all)
					i := slices.IndexFunc(all.Items, func(n corev1.Node) bool { return slices.Contains(ids, n.Spec.ProviderID) })
					if err != nil || i < 0 {
						return nil, err
					}
					return &all.Items[i], nil
				}
				node := tt.node.DeepCopy()
				if !tt.neverInit {
					l.isUp()
				}
				l.choose()
				l.errs(v1alpha1.ErrorRegistration)
				if err := l.workload.Create(t.Context(), node); err != nil {
					t.Fatal(err)
				}
				l.unreachable = tt.unlisted
				l.shows(metav1.ConditionFalse, v1beta2.HostErrorReason)
				if tt.replaced {
					l.untilPhase(deleting)
					return
				}
				l.leftAloneFor(time.Hour, "while it may run")
				l.shows(metav1.ConditionFalse, v1beta2.HostErrorReason)
				if n := l.told(v1beta2.HostErrorReason); n != 1 {
					t.Errorf("%d events, want one", n)
				}
				l.unreachable = nil
				if err := client.IgnoreNotFound(l.workload.Delete(t.Context(), node)); err != nil {
					t.Fatal(err)
				}
				l.untilPhase(deleting)
			})
		}
	}
}

func TestAMachineThatSomebodyKeepsFromBeingRemediatedIsNotReplacedBecauseItsHostCannotBeDeployed(t *testing.T) {
	t.Parallel()
	l := newStart(t, nil)
	l.choose()
	l.errs(v1alpha1.ErrorRegistration)
	l.skip("maintenance")
	l.leftAloneFor(time.Hour, "while it is skipped")
	if n := l.told(v1beta2.HostErrorReason); n != 1 {
		t.Errorf("%d events, want one", n)
	}
	l.shows(metav1.ConditionFalse, v1beta2.HostErrorReason)
	l.endSkip()
	l.untilPhase(deleting)
}

// TestARemediationThatWasMovedWhileItHeldItsHostOffGoesOnAtOnce has a remediation with a new UID
// and no status, as after a move with clusterctl. The Machine looks as if it had just been
// deployed.
func TestARemediationThatWasMovedWhileItHeldItsHostOffGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	l := newStart(t, nil)
	l.choose()
	l.deploy()
	h := l.host()
	l.write(h, func() {
		annotate(h, v1beta2.MetalRemediationAnnotationPrefix+"former", holdValue(l.remediation(), nil, l.now.Add(-time.Minute)))
	})
	began := l.now
	l.untilPhase(running)
	if took := l.now.Sub(began); took > 2*time.Minute {
		t.Errorf("it went on after %s", took)
	}
}

// TestARemediationThatHasFailedForLackOfAHostBeginsWithTheHost begins in the state that releases
// left which did not wait for the first host.
func TestARemediationThatHasFailedForLackOfAHostBeginsWithTheHost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason obstacle
		life   func(*life)
		begins bool
	}{
		"it has a host":                     {noHost, func(l *life) { l.choose(); l.deploy() }, true},
		"it gets one later":                 {noHost, func(l *life) { l.pass(); l.pass(); l.choose(); l.deploy() }, true},
		"it has failed for another reason":  {offline, func(l *life) { l.choose(); l.deploy() }, false},
		"the host is that of somebody else": {noHost, func(l *life) { l.deploy() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newStart(t, func(_ *life, m *v1beta2.Metal3Remediation) {
				m.Finalizers = []string{v1beta2.RemediationFinalizer}
				m.Status.Phase = failed
				m.Status.Conditions = []metav1.Condition{*stuck(string(tt.reason), "The machine cannot be remediated")}
			})
			tt.life(l)
			if tt.begins {
				l.untilPhase(running)
				return
			}
			for range 30 {
				l.pass()
			}
			if phase := l.remediation().Status.Phase; phase != failed {
				t.Errorf("phase %q", phase)
			}
		})
	}
}
