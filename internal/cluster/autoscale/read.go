package autoscale

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/operator/classification"
)

// snapshot is what a pass reads of a namespace. Its hosts, Machines and profiles are shared with
// the cache and must not be changed.
type snapshot struct {
	sets     []*set // those that follow hosts, or did so, oldest first
	hosts    []v1alpha1.BareMetalHost
	machines map[types.UID][]machine // by the UID of their set
	profiles []v1alpha1.HardwareClassification
	hardware map[string]*v1alpha1.HardwareData // by the name of the host
}

// list reads the objects of a kind in a namespace.
func list(ctx context.Context, r client.Reader, namespace, what string, into client.ObjectList, options ...client.ListOption) error {
	if err := r.List(ctx, into, append(options, client.InNamespace(namespace))...); err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

// read reads a namespace. If no set of the namespace follows hosts or did so, it reads no other
// kinds.
func (r *Reconciler) read(ctx context.Context, from client.Reader, namespace string) (*snapshot, error) {
	var deployments clusterv1.MachineDeploymentList
	if err := list(ctx, from, namespace, "MachineDeployments", &deployments); err != nil {
		return nil, err
	}
	var machineSets clusterv1.MachineSetList
	if err := list(ctx, from, namespace, "MachineSets", &machineSets); err != nil {
		return nil, err
	}
	s := &snapshot{}
	owners := map[types.UID]types.UID{} // from MachineSets to MachineDeployments
	for i := range deployments.Items {
		s.add(&deployments.Items[i])
	}
	for i := range machineSets.Items {
		m := &machineSets.Items[i]
		if owner := metav1.GetControllerOf(m); owner != nil && owner.Kind == deploymentKind {
			owners[m.UID] = owner.UID // its annotations are copies of its owner's
			continue
		}
		s.add(m)
	}
	// No decision depends on control planes: they only get a condition. So a live read skips them.
	if r.controlPlanes != nil && from == client.Reader(r.Client) {
		if err := s.readControlPlanes(ctx, r.controlPlanes, namespace); err != nil {
			return nil, err
		}
	}
	if len(s.sets) == 0 {
		return s, nil
	}
	oldestFirst(s.sets)
	return s, s.complete(ctx, from, namespace, owners)
}

// add adds an object to the sets if it follows hosts or did so.
func (s *snapshot) add(obj scaled) {
	if one := asSet(obj); one.follows() || one.followed() {
		s.sets = append(s.sets, one)
	}
}

// complete reads what the decisions about the sets need.
func (s *snapshot) complete(ctx context.Context, from client.Reader, namespace string, owners map[types.UID]types.UID) error {
	shared := client.UnsafeDisableDeepCopy
	var clusters clusterv1.ClusterList
	var templates v1beta2.Metal3MachineTemplateList
	var hosts v1alpha1.BareMetalHostList
	var machines clusterv1.MachineList
	var infrastructure v1beta2.Metal3MachineList
	var profiles v1alpha1.HardwareClassificationList
	for _, kind := range []struct {
		what string
		into client.ObjectList
	}{
		{"Clusters", &clusters},
		{"Metal3MachineTemplates", &templates},
		{"BareMetalHosts", &hosts},
		{"Machines", &machines},
		{"Metal3Machines", &infrastructure},
		{"HardwareClassifications", &profiles},
	} {
		if err := list(ctx, from, namespace, kind.what, kind.into, shared); err != nil {
			return err
		}
	}
	s.hosts = hosts.Items
	for i := range profiles.Items {
		if profiles.Items[i].DeletionTimestamp.IsZero() {
			s.profiles = append(s.profiles, profiles.Items[i])
		}
	}
	if len(s.profiles) > 0 {
		var data v1alpha1.HardwareDataList
		if err := list(ctx, from, namespace, "HardwareData", &data, shared); err != nil {
			return err
		}
		s.hardware = byName(data.Items, func(d *v1alpha1.HardwareData) string { return d.Name })
	}
	clusterOf := byName(clusters.Items, func(c *clusterv1.Cluster) string { return c.Name })
	templateOf := byName(templates.Items, func(t *v1beta2.Metal3MachineTemplate) string { return t.Name })
	for _, one := range s.sets {
		one.template, one.cluster = templateOf[one.templateRef.Name], clusterOf[one.clusterName]
	}
	s.assignMachines(machines.Items, infrastructure.Items, owners)
	return nil
}

// assignMachines finds the Machines of each set and the hosts that they hold.
func (s *snapshot) assignMachines(machines []clusterv1.Machine, infrastructure []v1beta2.Metal3Machine, owners map[types.UID]types.UID) {
	m3ms := byName(infrastructure, func(m *v1beta2.Metal3Machine) string { return m.Name })
	consumed := map[string]*v1alpha1.BareMetalHost{} // by the name of the consumer
	for i := range s.hosts {
		if ref := s.hosts[i].Spec.ConsumerRef; ref != nil {
			if m := m3ms[ref.Name]; m != nil && related.Consumes(m, &s.hosts[i]) {
				consumed[m.Name] = &s.hosts[i]
			}
		}
	}
	s.machines = map[types.UID][]machine{}
	for i := range machines {
		owner := metav1.GetControllerOf(&machines[i])
		if owner == nil {
			continue
		}
		uid := owner.UID
		if deployment, there := owners[uid]; there {
			uid = deployment
		}
		one := machine{Machine: &machines[i]}
		if m := m3ms[machines[i].Spec.InfrastructureRef.Name]; m != nil && related.IsOwnedBy(m, &machines[i]) {
			one.host = consumed[m.Name]
		}
		s.machines[uid] = append(s.machines[uid], one)
	}
}

// count returns the facts about each set that hosts are counted for; refusal.counts says which
// these are. A free host counts for the oldest set that selects it. The caller fills in the time
// and the record.
func (s *snapshot) count(refused map[*set]*refusal) map[*set]facts {
	counted := map[*set]facts{}
	for _, one := range s.sets {
		if !one.follows() || !refused[one].counts() {
			continue
		}
		f := facts{replicas: *one.replicas, rolling: one.rolling, bounds: one.bounds}
		for _, m := range s.machines[one.GetUID()] {
			switch {
			case m.host == nil:
			case !m.isDeleted():
				f.inUse++
			case one.canReturn(m.host):
				f.returning++
			}
		}
		counted[one] = f
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		for _, one := range s.sets {
			f, there := counted[one]
			if !there {
				continue
			}
			if reuse.ReservedFor(one.owner(), h) { // a new Machine of the set asks the same
				if one.canReturn(h) {
					f.returning++
				}
			} else if s.isFree(h) && one.selects(h) {
				f.free++
			} else {
				continue
			}
			counted[one] = f
			break
		}
	}
	return counted
}

// isFree reports whether a host can be given to any machine that selects it.
func (s *snapshot) isFree(h *v1alpha1.BareMetalHost) bool {
	consumed := h.Spec.ConsumerRef != nil && h.Spec.ConsumerRef.Name != ""
	return !consumed && !reuse.IsReserved(h) && !reuse.IsForeign(h) && eligible.Unusable(h) == "" &&
		!classification.Pending(h, s.profiles, s.hardware[h.Name])
}

func (s *set) selects(h *v1alpha1.BareMetalHost) bool {
	return s.selector.Matches(labels.Set(h.Labels))
}

// canReturn reports whether the set can use a host again once the host is free.
func (s *set) canReturn(h *v1alpha1.BareMetalHost) bool {
	return eligible.Withdrawn(h) == "" && s.selects(h)
}

// owner returns the object that hosts are reserved for when Machines of the set are deleted. It is
// nil for a MachineSet without a MachineDeployment, for which no hosts are reserved.
func (s *set) owner() *reuse.Owner {
	if s.kind != deploymentKind {
		return nil
	}
	return &reuse.Owner{Kind: s.kind, APIVersion: clusterv1.GroupVersion.String(), Namespace: s.GetNamespace(), Name: s.GetName(), UID: s.GetUID()}
}

func byName[T any](items []T, name func(*T) string) map[string]*T {
	found := make(map[string]*T, len(items))
	for i := range items {
		found[name(&items[i])] = &items[i]
	}
	return found
}
