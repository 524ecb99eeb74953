package remediation

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestAHostThatIsNotProvenToBeOffInTimeIsInAConditionAMetricAndOneEvent(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(l *life, _ *v1beta2.Metal3Remediation) { l.stuckPower = true })
	l.shows(metav1.ConditionTrue, v1beta2.PoweringOffReason)
	l.counted("ingot_remediation_stuck", 0)
	began := l.now
	l.shows(metav1.ConditionFalse, v1beta2.PowerOffNotConfirmedReason)
	if took := l.now.Sub(began); took > 12*time.Minute {
		t.Errorf("it was shown after %s, want the timeout of ten minutes", took)
	}
	for range 20 {
		l.pass()
	}
	l.restart()
	l.pass()
	l.counted("ingot_remediation_stuck", 1)
	if n := l.told(v1beta2.PowerOffNotConfirmedReason); n != 1 {
		t.Errorf("%d events, want one", n)
	}
	l.stuckPower = false
	l.untilPhase(waiting)
	l.pass()
	l.shows(metav1.ConditionTrue, v1beta2.WaitingForHealthReason)
	l.counted("ingot_remediation_stuck", 0)
}

func TestARemediationThatIsGoneIsNotInTheMetrics(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(l *life, _ *v1beta2.Metal3Remediation) { l.stuckPower = true })
	l.shows(metav1.ConditionFalse, v1beta2.PowerOffNotConfirmedReason)
	l.counted("ingot_remediation_stuck", 1)
	l.takeBack()
	l.pass()
	l.counted("ingot_remediation_stuck", 0)
}

func TestTheTimeInWhichAHostHasToBeOffBeginsWithItsHold(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(l *life, _ *v1beta2.Metal3Remediation) { l.stuckPower = true })
	l.joinControlPlane(3)
	other, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge-1"}, &v1alpha1.BareMetalHost{})
	l.write(other, func() { other.Spec.Online = false })
	l.shows(metav1.ConditionTrue, v1beta2.WaitingForControlPlaneReason)
	l.now = l.now.Add(time.Hour)
	l.write(other, func() { other.Spec.Online = true })
	l.shows(metav1.ConditionTrue, v1beta2.PoweringOffReason)
	if n := l.told(v1beta2.PowerOffNotConfirmedReason); n > 0 {
		t.Errorf("%d events before it is late", n)
	}
}

func TestWhatARemediationWaitsForIsShown(t *testing.T) {
	t.Parallel()
	for reason, tt := range map[string]struct {
		status metav1.ConditionStatus
		way    func(*life, *v1beta2.Metal3Remediation)
	}{
		v1beta2.WaitingForPodsReason: {metav1.ConditionTrue, func(l *life, _ *v1beta2.Metal3Remediation) { l.stuckPods = true }},
		v1beta2.NodeUnknownReason:    {metav1.ConditionFalse, func(l *life, _ *v1beta2.Metal3Remediation) { l.doubt = "Machine edge-1 names it, too" }},
		v1beta2.WaitingForNodeReason: {metav1.ConditionTrue, func(l *life, m *v1beta2.Metal3Remediation) {
			ways["deletion"](l, m)
			l.dead = true
		}},
		v1beta2.RecoveringReason: {metav1.ConditionTrue, func(l *life, m *v1beta2.Metal3Remediation) {
			ways["annotation"](l, m)
			l.fencing = false
		}},
		v1beta2.RecoveryNotFinishedReason: {metav1.ConditionFalse, func(l *life, m *v1beta2.Metal3Remediation) {
			ways["annotation"](l, m)
			l.fencing = false
		}},
		v1beta2.WaitingForHealthReason:  {metav1.ConditionTrue, ways["taint"]},
		v1beta2.MachineHandedOverReason: {metav1.ConditionTrue, ways["taint"]},
		string(noMachine):               {metav1.ConditionFalse, func(_ *life, m *v1beta2.Metal3Remediation) { m.OwnerReferences = nil }},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, tt.way)
			l.shows(tt.status, reason)
			for range 3 {
				l.pass()
			}
			if tt.status == metav1.ConditionTrue {
				return
			}
			if n := l.told(reason); n != 1 {
				t.Errorf("%d events, want one: %v", n, l.events)
			}
		})
	}
}

func TestASecretInTheErrorOfAWorkloadClusterIsMaskedInWhatIsShown(t *testing.T) {
	t.Parallel()
	const masked = "http://******@192.0.2.5:3128:  [31mno answer"
	l := newLife(t, func(l *life, _ *v1beta2.Metal3Remediation) {
		l.unreachable = errors.New("proxy http://ingot:hunter2@192.0.2.5:3128: \x1b[31mno answer")
	})
	l.shows(metav1.ConditionFalse, v1beta2.NodeUnknownReason)
	c := meta.FindStatusCondition(l.remediation().Status.Conditions, v1beta2.ProgressingCondition)
	if !strings.Contains(c.Message, masked) {
		t.Errorf("the condition says %q, want the error without password and control characters", c.Message)
	}
	l.untilPhase(waiting)
	at := slices.Index(l.events, eventEvictionIncomplete)
	if at < 0 || !strings.Contains(l.notes[at], masked) {
		t.Errorf("the events say %q, want one with the error without password and control characters", l.notes)
	}
}

func TestARecoveryByAnnotationIsLateOnlyAfterItHasBegun(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute
	now := time.Now().Truncate(time.Second)
	held := func(ago time.Duration) string {
		return `{"mode":"hard","nonce":"x","requestedAt":"` + now.Add(-ago).UTC().Format(time.RFC3339) + `"}`
	}
	const waits, late = v1beta2.RecoveringReason, v1beta2.RecoveryNotFinishedReason
	for name, tt := range map[string]struct {
		attempt time.Duration // since when it runs
		shown   string        // the reason that the Metal3Machine shows
		hold    string
		want    string
	}{
		"it has just been asked for":             {time.Minute, "", "", waits},
		"nobody has followed it":                 {time.Hour, "", "", late},
		"nobody has followed it since the last":  {time.Hour, v1beta2.NotRemediatingReason, "", late},
		"it cannot be followed":                  {time.Hour, v1beta2.RemediationImpossibleReason, "", late},
		"it waits for the budget":                {time.Hour, v1beta2.WaitingForBudgetReason, "", waits},
		"it waits for the control plane":         {time.Hour, v1beta2.WaitingForControlPlaneReason, "", waits},
		"it waits for the host":                  {time.Hour, v1beta2.WaitingForHostReason, "", waits},
		"it has waited and begins":               {time.Hour, v1beta2.WaitingForBudgetReason, held(time.Minute), waits},
		"it has waited and powers off":           {time.Hour, v1beta2.PoweringOffReason, held(time.Minute), waits},
		"it has waited and does not get on":      {time.Hour, v1beta2.PowerOffNotConfirmedReason, held(timeout), late},
		"the hold does not tell since when":      {time.Hour, v1beta2.PoweringOffReason, `{"mode":"hard"}`, late},
		"the hold cannot be read":                {time.Hour, v1beta2.PoweringOffReason, "milk", late},
		"the hold is older than the attempt":     {time.Minute, v1beta2.PoweringOffReason, held(time.Hour), waits},
		"the hold is older, and it is late, too": {timeout, v1beta2.PoweringOffReason, held(time.Hour), late},
	} {
		began := metav1.NewTime(now.Add(-tt.attempt))
		s := &scope{now: now, timeout: timeout, remediation: &v1beta2.Metal3Remediation{}, host: &v1alpha1.BareMetalHost{}, metal3Machine: &v1beta2.Metal3Machine{}}
		s.remediation.Status.LastRemediated = &began
		if tt.hold != "" {
			s.recovering, s.host.Annotations = true, map[string]string{v1beta2.MachineRemediationAnnotation: tt.hold}
		}
		if tt.shown != "" {
			s.metal3Machine.Status.Conditions = []metav1.Condition{{Type: v1beta2.RemediatingCondition, Status: metav1.ConditionTrue, Reason: tt.shown}}
		}
		status := metav1.ConditionTrue
		if tt.want == late {
			status = metav1.ConditionFalse
		}
		if c := progressOf(s, waitForRecovery); c.Reason != tt.want || c.Status != status {
			t.Errorf("%s: %s %s, want %s %s", name, c.Reason, c.Status, tt.want, status)
		}
	}
}
