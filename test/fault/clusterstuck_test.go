//go:build fault

package fault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/test/cluster"
)

// recoverWithoutBMC lets a machine that hangs be fenced while its BMC does not answer. The recovery
// is stuck and the Node stays. When the BMC answers again, the recovery ends.
func (l *clusterLife) recoverWithoutBMC() {
	l.t.Helper()
	l.checkHealth(v1beta2.AnnotationRemediation, recoveryTimeout)
	s := l.silence(l.shape.used[2])
	s.reachable(false)
	s.hang()
	s.shows(v1beta2.PoweringOffReason)
	s.waitedLong()
	s.shows(v1beta2.PowerOffNotConfirmedReason)
	if node, err := l.Node(l.t.Context(), s.node.Name); err != nil || node == nil || node.UID != s.node.UID || !node.DeletionTimestamp.IsZero() {
		l.t.Errorf("the Node of a machine that may run is %+v, %v", node, err)
	}
	if done := s.powered(); len(done) > 0 {
		l.t.Errorf("done to the machine of %s through a BMC that does not answer: %q", s.host, done)
	}
	s.reachable(true)
	if after := s.isBack(); after.UID == s.node.UID || !hasLabel(after) {
		l.t.Errorf("the Node %s has the UID %s and the labels %v, want a new one with the label of the former", after.Name, after.UID, after.Labels)
	}
	l.endHealthCheck()
}

func hasLabel(node *corev1.Node) bool { return node.Labels[nodeLabel] != "" }

// reachable sets whether the BMC of the machine answers.
func (s *silence) reachable(answers bool) {
	s.t.Helper()
	faults := &effect.Faults{Unreachable: 1}
	if answers {
		faults = nil
	}
	if err := s.MachinesWithBMC().Recorder().SetFaults(strconv.Itoa(s.Hosts[s.host]), faults); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until the condition of the recovery has a reason.
func (s *silence) shows(reason string) {
	s.t.Helper()
	cluster.Eventually(s.t, func(ctx context.Context) error {
		var m v1beta2.Metal3Machine
		if err := s.Kube.Get(ctx, s.Key(s.machine.Spec.InfrastructureRef.Name), &m); err != nil {
			return err
		}
		if shown := meta.FindStatusCondition(m.Status.Conditions, v1beta2.RemediatingCondition); shown == nil || shown.Reason != reason {
			return fmt.Errorf("the condition is %+v, want the reason %s", shown, reason)
		}
		return nil
	})
}

// waitedLong makes the hold of the host an hour old. After that time, the recovery counts as stuck.
func (s *silence) waitedLong() {
	s.t.Helper()
	s.ChangeHost(s.t, s.host, func(h *v1alpha1.BareMetalHost) {
		var hold map[string]any
		if err := json.Unmarshal([]byte(h.Annotations[v1beta2.MachineRemediationAnnotation]), &hold); err != nil {
			s.t.Errorf("read the annotation %s: %v", v1beta2.MachineRemediationAnnotation, err)
			return
		}
		hold["requestedAt"] = metav1.NewTime(time.Now().Add(-time.Hour))
		text, err := json.Marshal(hold)
		if err != nil {
			s.t.Errorf("write the annotation %s: %v", v1beta2.MachineRemediationAnnotation, err)
			return
		}
		h.Annotations[v1beta2.MachineRemediationAnnotation] = string(text)
	})
}
