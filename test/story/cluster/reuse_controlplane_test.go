package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/test/cluster"
)

// awaitHealthy waits until a control plane says that all its machines are up to date, and that the
// static pods of each are healthy.
func (c reuse) awaitHealthy(t *testing.T, k *controlplanev1.KubeadmControlPlane) {
	t.Helper()
	cluster.Eventually(t, func(ctx context.Context) error {
		if err := c.Kube.Get(ctx, client.ObjectKeyFromObject(k), k); err != nil {
			return err
		}
		if n := k.Status.UpToDateReplicas; n == nil || *n != *k.Spec.Replicas {
			return fmt.Errorf("%v machines of the control plane are up to date", n)
		}
		for _, condition := range []string{controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition, controlplanev1.KubeadmControlPlaneAvailableCondition} {
			if !meta.IsStatusConditionTrue(k.Status.Conditions, condition) {
				return fmt.Errorf("%s of the control plane is not true: %v", condition, meta.FindStatusCondition(k.Status.Conditions, condition))
			}
		}
		machines, err := c.Machines(ctx)
		if err != nil {
			return err
		}
		for _, m := range machines {
			for _, condition := range []string{
				controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
				controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
				controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
			} {
				if !meta.IsStatusConditionTrue(m.Status.Conditions, condition) {
					return fmt.Errorf("%s of %s is not true: %v", condition, m.Name, meta.FindStatusCondition(m.Status.Conditions, condition))
				}
			}
		}
		return nil
	})
}

func TestControlPlaneThatIsRolledOutKeepsHostsAndDisks(t *testing.T) {
	t.Parallel()
	const name = "control-plane"
	w := shared.World(t)
	c := reuse{Cluster: w.NewCluster(t, name, w.NewPlane(t), cluster.ControlPlaneRef(name))}
	c.seen = c.WatchReservations(t)
	c.AddHosts(t, others, used...)
	c.CreateData(t)
	c.Create(t, c.template(name, true))
	k := c.ControlPlane(int32(len(used)))
	c.Create(t, k)
	all := client.MatchingLabels{clusterv1.MachineControlPlaneNameLabel: name}
	c.awaitRollout(t, all, len(used), c.madeOf(name))
	c.awaitHealthy(t, k)
	c.mark(used...)
	c.nothingReserved(t)
	c.AddHosts(t, preferred, free...)

	next := c.template(name+"-2", true)
	c.Create(t, next)
	cluster.Change(t, c.Cluster, k, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.MachineTemplate.Spec.InfrastructureRef.Name = next.Name
	})
	if got := c.awaitRollout(t, all, len(used), c.madeOf(next.Name)); !slices.Equal(got, used) {
		t.Errorf("the Machines are on %q after the rollout, want %q", got, used)
	}
	c.awaitHealthy(t, k)
	if got := c.marked(); !slices.Equal(got, used) {
		t.Errorf("the marks of %q are left, want those of %q", got, used)
	}
	if got := slices.Sorted(slices.Values(c.seen.Begun(t))); !slices.Equal(got, used) {
		t.Errorf("the hosts %q were reserved, want %q once each", got, used)
	}
	c.nothingLeft(t)
	if rollingOut := meta.FindStatusCondition(k.Status.Conditions, controlplanev1.KubeadmControlPlaneRollingOutCondition); rollingOut == nil || rollingOut.Status != metav1.ConditionFalse {
		t.Errorf("the control plane is still rolled out: %v", rollingOut)
	}
}
