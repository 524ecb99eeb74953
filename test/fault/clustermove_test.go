//go:build fault

package fault_test

import (
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/cluster"
)

// there is what a moving cluster has in the other management cluster.
type there struct {
	writes   *writes
	operator *killableOperator // nil before the move
	// rules says that writes to the workload cluster are those of this operator.
	rules atomic.Bool
}

// operators returns the operators of all management clusters.
func (l *clusterLife) operators() []*killableOperator {
	if l.there.operator == nil {
		return []*killableOperator{l.operator}
	}
	return []*killableOperator{l.operator, l.there.operator}
}

// move moves the cluster to another management cluster while one machine is fenced and one host is
// reserved. The move must not touch any machine. The recovery and the replacement end in the other
// cluster.
func (l *clusterLife) move() {
	l.t.Helper()
	to := l.NewManagementWithoutOperator(l.t)
	l.there.operator = l.startOperator(to.Config, l.there.writes, thereTitle)
	fenced, replaced, running := l.silence(l.shape.used[0]), l.silence(l.shape.used[1]), l.silence(l.shape.used[2])

	l.PauseMachineSet(l.t, true)
	l.Delete(l.t, replaced.machine)
	l.Gone(l.t, replaced.machine)
	l.HostShows(l.t, replaced.host, "reserved", cluster.IsReservedFor(l.deployment))
	l.KeepNode(l.t, fenced.node.Name, true)
	cluster.Change(l.t, l.Cluster, fenced.machine, func(m *clusterv1.Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.ExternalRemediationAnnotation, "")
	})
	fenced.shows(v1beta2.WaitingForNodeDeletionReason)
	l.PauseFree(l.t, free)
	before := l.allPowered(fenced, replaced, running)

	from := l.Kube
	l.Move(l.t, to)
	l.there.rules.Store(true)
	l.HasLeft(l.t, from)
	fenced.shows(v1beta2.WaitingForNodeDeletionReason)
	l.HostShows(l.t, fenced.host, "confirmed off", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Status.PowerOffHolds) == 1 && h.Status.PowerOffHolds[0].ConfirmedAt != nil && !h.Status.PoweredOn
	})
	l.HostShows(l.t, replaced.host, "reserved", cluster.IsReservedFor(l.deployment))
	l.HostShows(l.t, running.host, "provisioned and on", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateProvisioned && h.Status.PoweredOn
	})
	l.ChangeHost(l.t, free, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.PausedAnnotation) })
	l.HostShows(l.t, free, "available", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateAvailable && h.Annotations[v1alpha1.StatusAnnotation] == ""
	})
	if got := l.allPowered(fenced, replaced, running); !slices.Equal(got, before) {
		l.t.Errorf("done to the machines: %q, want %q as before the move", got, before)
	}

	l.KeepNode(l.t, fenced.node.Name, false)
	if after := fenced.comesBack(); after.UID == fenced.node.UID || !hasLabel(after) {
		l.t.Errorf("the Node %s has the UID %s and the labels %v, want a new one with the label of the former", after.Name, after.UID, after.Labels)
	}
	l.PauseMachineSet(l.t, false)
	l.areOn(l.AwaitNodes(l.t, len(l.shape.used)), l.shape.used...)
	l.ask(replaced.host)
	if node, err := l.Node(l.t.Context(), running.node.Name); err != nil || node == nil || node.UID != running.node.UID || len(running.powered()) > 0 {
		l.t.Errorf("the Node of the machine that only moved is %+v, %v, and done to it was %q; want the one as before and nothing", node, err, running.powered())
	}
}

// allPowered returns what was done to the power of the machines.
func (l *clusterLife) allPowered(all ...*silence) (kinds []string) {
	for _, s := range all {
		for _, kind := range s.powered() {
			kinds = append(kinds, s.host+": "+kind)
		}
	}
	return kinds
}
