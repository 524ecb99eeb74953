//go:build fault

package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/test/cluster"
)

const (
	// recoveryTimeout is longer than anything takes here, in seconds: no attempt is repeated or given up.
	recoveryTimeout = 1200
	// shortTimeout is the shortest timeout that is allowed, in seconds.
	shortTimeout = 100
	// nodeLabel is a label of Nodes that a person has set.
	nodeLabel = "example.com/rack"
)

// recoverByAnnotation lets a machine that hangs be fenced by the annotation of its Machine. That
// recovery deletes the Node.
func (l *clusterLife) recoverByAnnotation() {
	l.t.Helper()
	l.checkHealth(v1beta2.AnnotationRemediation, recoveryTimeout)
	s := l.silence(l.shape.used[0])
	s.hang()
	switch after := s.isBack(); {
	case after.UID == s.node.UID:
		l.t.Errorf("the Node %s was not deleted", after.Name)
	case after.Labels[nodeLabel] == "":
		l.t.Errorf("the Node %s lacks the label of the former one", after.Name)
	}
	l.endHealthCheck()
}

// recoverByReboot lets another machine be fenced. Its Node is out of service meanwhile.
func (l *clusterLife) recoverByReboot() {
	l.t.Helper()
	l.checkHealth(v1beta2.RebootRemediation, recoveryTimeout)
	s := l.silence(l.shape.used[1])
	s.hang()
	after := s.isBack()
	if after.UID != s.node.UID {
		l.t.Errorf("the Node %s was deleted", after.Name)
	}
	for _, taint := range after.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			l.t.Errorf("the Node %s is still out of service", after.Name)
		}
	}
	l.endHealthCheck()
}

// replace lets a machine that stays broken be fenced, and then be replaced on the free host.
func (l *clusterLife) replace() {
	l.t.Helper()
	l.checkHealth(v1beta2.AnnotationRemediation, shortTimeout)
	s := l.silence(l.shape.used[0])
	l.Machine(s.host).Break(true)
	s.isPowered(4) // with one retry
	given := l.HostShows(l.t, s.host, "given up", isUnhealthy)
	l.Gone(l.t, s.machine)
	l.areOn(l.AwaitNodes(l.t, 1), free)
	l.ask(free)
	l.isFree(s.host)
	if now, err := l.Host(l.t.Context(), s.host); err != nil || !isUnhealthy(now) {
		l.t.Errorf("the host of the broken machine has the annotations %v, %v; want those of before, %v", now.Annotations, err, given.Annotations)
	}
	if got, want := s.powered(), []string{string(bmc.PowerOff), string(bmc.PowerOn), string(bmc.PowerOff), string(bmc.PowerOn), string(bmc.PowerOff)}; !slices.Equal(got, want) {
		l.t.Errorf("done to the broken machine: %q, want %q", got, want)
	}
	l.endHealthCheck()
}

func isUnhealthy(h *v1alpha1.BareMetalHost) bool {
	_, marked := h.Annotations[v1alpha1.UnhealthyAnnotation]
	return marked
}

// checkHealth lets Machines with silent Nodes be recovered.
func (l *clusterLife) checkHealth(strategy v1beta2.RemediationType, timeout int32) {
	l.t.Helper()
	template := &v1beta2.Metal3RemediationTemplate{ObjectMeta: l.Meta(l.Name)}
	template.Spec.Template.Spec.Strategy = &v1beta2.RemediationStrategy{Type: strategy, RetryLimit: 1, TimeoutSeconds: timeout}
	l.Create(l.t, template)
	check := l.healthCheck()
	check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
		APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3RemediationTemplate", Name: l.Name,
	}
	l.Create(l.t, check)
}

// healthCheck returns a health check that replaces Machines with silent Nodes.
func (l *clusterLife) healthCheck() *clusterv1.MachineHealthCheck {
	soon, never := int32(5), int32(0) // a Node is silent after cluster.NodeGrace
	return &clusterv1.MachineHealthCheck{ObjectMeta: l.Meta(l.Name), Spec: clusterv1.MachineHealthCheckSpec{
		ClusterName: l.Name,
		Selector:    metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineDeploymentNameLabel: l.Name}},
		Checks: clusterv1.MachineHealthCheckChecks{
			NodeStartupTimeoutSeconds: &never,
			UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: &soon},
			},
		},
	}}
}

// endHealthCheck ends all recovery, so that silence in other steps has no effect.
func (l *clusterLife) endHealthCheck() {
	l.t.Helper()
	for _, object := range []client.Object{
		&clusterv1.MachineHealthCheck{ObjectMeta: l.Meta(l.Name)}, &v1beta2.Metal3RemediationTemplate{ObjectMeta: l.Meta(l.Name)},
	} {
		l.Delete(l.t, object)
		l.Gone(l.t, object)
	}
}

// silence is a machine whose Node stops reporting its status.
type silence struct {
	*clusterLife
	host    string
	machine *clusterv1.Machine
	node    *corev1.Node // as it was before
	since   int64        // number of the last effect before
}

// silence returns the machine of a host before its Node stops reporting its status.
func (l *clusterLife) silence(host string) *silence {
	l.t.Helper()
	s := &silence{clusterLife: l, host: host}
	cluster.Eventually(l.t, func(ctx context.Context) (err error) {
		if s.machine, err = l.machineOn(ctx, host); err != nil {
			return err
		}
		if s.node, err = l.nodeOf(ctx, s.machine); err != nil {
			return err
		}
		labelled := s.node.DeepCopy()
		metav1.SetMetaDataLabel(&labelled.ObjectMeta, nodeLabel, "7")
		return l.Workload.Patch(ctx, labelled, client.MergeFrom(s.node))
	})
	all := l.effectsOf(host, 0)
	s.since = all[len(all)-1].Sequence
	return s
}

// hang makes the Node silent until the next boot.
func (s *silence) hang() {
	s.t.Helper()
	if err := s.Machine(s.host).Hang(); err != nil {
		s.t.Fatal(err)
	}
}

// isBack waits until the machine of the same Machine has come back, and returns its Node.
func (s *silence) isBack() *corev1.Node {
	s.t.Helper()
	node := s.comesBack()
	var machine clusterv1.Machine
	if err := s.Kube.Get(s.t.Context(), client.ObjectKeyFromObject(s.machine), &machine); err != nil || machine.UID != s.machine.UID {
		s.t.Errorf("the Machine has the UID %q, %v, want %q as before", machine.UID, err, s.machine.UID)
	}
	return node
}

// comesBack waits until the machine was powered off and on, its Node is Ready, and nothing is left
// of the recovery. It returns the Node.
func (s *silence) comesBack() (node *corev1.Node) {
	s.t.Helper()
	s.isPowered(2)
	cluster.Eventually(s.t, func(ctx context.Context) (err error) {
		if ready, err := s.NodeReady(ctx, s.node.Name); err != nil || !ready {
			return errors.Join(fmt.Errorf("the Node %s is not Ready", s.node.Name), err)
		}
		if err := s.nothingLeft(ctx); err != nil {
			return err
		}
		node, err = s.nodeOf(ctx, s.machine)
		return err
	})
	if got, want := s.powered(), []string{string(bmc.PowerOff), string(bmc.PowerOn)}; !slices.Equal(got, want) {
		s.t.Errorf("done to the machine of %s: %q, want %q", s.host, got, want)
	}
	return node
}

// isPowered waits until the power of the machine was changed this many times. Each change has a
// wait of its own, because a retry begins only after the timeout of the attempt before.
func (s *silence) isPowered(times int) {
	s.t.Helper()
	for wanted := range times {
		cluster.Eventually(s.t, func(context.Context) error {
			if done := s.powered(); len(done) <= wanted {
				return fmt.Errorf("done to the machine of %s: %q", s.host, done)
			}
			return nil
		})
	}
}

// powered returns what was done to the power of the machine since its Node was healthy.
func (s *silence) powered() (kinds []string) {
	for _, e := range s.effectsOf(s.host, s.since) {
		if e.Kind == string(bmc.PowerOff) || slices.Contains(poweringOn, e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// nothingLeft returns an error that says what is left of the recovery.
func (s *silence) nothingLeft(ctx context.Context) error {
	var remediations v1beta2.Metal3RemediationList
	if err := s.Kube.List(ctx, &remediations, client.InNamespace(s.Name)); err != nil {
		return err
	}
	if n := len(remediations.Items); n > 0 {
		return fmt.Errorf("there are %d Metal3Remediations", n)
	}
	machine := &clusterv1.Machine{}
	if err := s.Kube.Get(ctx, client.ObjectKeyFromObject(s.machine), machine); err != nil {
		return err
	}
	host, err := s.Host(ctx, s.host)
	if err != nil {
		return err
	}
	for _, object := range []client.Object{machine, host} {
		for key := range object.GetAnnotations() {
			if isOfRecovery(key) {
				return fmt.Errorf("%T %s has the annotation %s", object, object.GetName(), key)
			}
		}
	}
	return nil
}

// isOfRecovery reports whether an annotation belongs to a recovery that is not over.
func isOfRecovery(key string) bool {
	return key == v1beta2.ExternalRemediationAnnotation || key == clusterv1.MachineSkipRemediationAnnotation ||
		strings.HasPrefix(key, "remediation.metal3.io/") || strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix)
}
