package autoscale

import (
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// machine is a Machine of a set and the host that it holds, nil when it has none.
type machine struct {
	*clusterv1.Machine
	host *v1alpha1.BareMetalHost
}

func (m machine) isDeleted() bool { return !m.DeletionTimestamp.IsZero() }

// isMarked reports whether this controller marked a Machine for deletion.
func (m machine) isMarked() bool {
	return m.Annotations[clusterv1.DeleteMachineAnnotation] == v1beta2.AutoscaleDeletionMark
}

// marks decides which Machines of a set to mark, so that Cluster API deletes them first, and which
// marks to remove, for a set that will have planned replicas. It marks the newest Machines without
// a host, as many as are surplus. During a rollout a set can have more Machines than replicas,
// which is no surplus: marks then only removes the marks of Machines that hold a host.
func marks(machines []machine, planned int32, rolling bool) (mark, unmark []machine) {
	var without []machine
	chosen := map[string]bool{}
	surplus := -int(planned)
	for _, m := range machines {
		if m.isDeleted() {
			continue
		}
		surplus++
		switch {
		case m.host != nil:
		case rolling && m.isMarked():
			chosen[m.Name] = true
		case !rolling:
			without = append(without, m)
		}
	}
	slices.SortFunc(without, func(a, b machine) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, m := range without[:max(0, min(surplus, len(without)))] {
		chosen[m.Name] = true
		if _, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]; !marked {
			mark = append(mark, m)
		}
	}
	for _, m := range machines {
		if m.isMarked() && !m.isDeleted() && !chosen[m.Name] {
			unmark = append(unmark, m)
		}
	}
	return mark, unmark
}
