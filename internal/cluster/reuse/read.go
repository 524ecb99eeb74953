package reuse

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// view reads the objects around a reservation, either from the cache or from the API server.
type view struct {
	client.Reader
	// kinds knows in which version a control plane is served.
	kinds meta.RESTMapper
}

// get reads an object and reports whether it is there.
func (v view) get(ctx context.Context, namespace, name string, into client.Object) (bool, error) {
	if name == "" {
		return false, nil
	}
	err := v.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s/%s: %w", into, namespace, name, err)
	}
	return true, nil
}

// cluster reads a Cluster. It returns nil if the Cluster does not exist.
func (v view) cluster(ctx context.Context, namespace, name string) (*clusterv1.Cluster, error) {
	var c clusterv1.Cluster
	found, err := v.get(ctx, namespace, name, &c)
	if !found {
		return nil, err
	}
	return &c, nil
}

// template reads what a Metal3MachineTemplate says. A template of another kind wants no reuse.
func (v view) template(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (template, error) {
	if ref.Name == "" {
		return template{}, nil
	}
	if ref.APIGroup != v1beta2.GroupVersion.Group || ref.Kind != templateKind {
		return template{known: true}, nil
	}
	var t v1beta2.Metal3MachineTemplate
	found, err := v.get(ctx, namespace, ref.Name, &t)
	if !found {
		return template{}, err
	}
	// An invalid selector is no reason to give hosts away. It selects no host when a host is
	// chosen, and is reported then.
	selector, err := t.Spec.Template.Spec.HostSelector.Selector()
	if err != nil {
		selector = nil
	}
	return template{
		known: true, reuse: t.Spec.NodeReuse != nil && *t.Spec.NodeReuse, selector: selector, cleaning: t.Spec.Template.Spec.AutomatedCleaningMode,
	}, nil
}

// clonedFrom returns the template that a Metal3Machine was made of.
func clonedFrom(m *v1beta2.Metal3Machine) clusterv1.ContractVersionedObjectReference {
	kind := schema.ParseGroupKind(m.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation])
	return clusterv1.ContractVersionedObjectReference{
		APIGroup: kind.Group, Kind: kind.Kind, Name: m.Annotations[clusterv1.TemplateClonedFromNameAnnotation],
	}
}

// owner reads an owner by its group, kind and name. It returns nil if the owner does not exist. A
// kind that is not served is an error, because it says nothing about the owner.
func (v view) owner(ctx context.Context, group, kind, namespace, name string) (*ownerState, error) {
	if group == clusterv1.GroupVersion.Group && kind == machineDeploymentKind {
		var d clusterv1.MachineDeployment
		found, err := v.get(ctx, namespace, name, &d)
		if !found {
			return nil, err
		}
		return machineDeployment(&d), nil
	}
	mapping, err := v.kinds.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s %s/%s, which owns reserved hosts: %w", kind, namespace, name, err)
	}
	var u unstructured.Unstructured
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	found, err := v.get(ctx, namespace, name, &u)
	if !found {
		return nil, err
	}
	return controlPlane(&u), nil
}

// ownerIfReadable reads an owner for a caller that can do without it. unreadable is a lasting
// reason why the owner cannot be read: its kind is not served, or the operator has no role for it.
func (v view) ownerIfReadable(ctx context.Context, o Owner) (state *ownerState, unreadable, err error) {
	state, err = v.owner(ctx, o.group(), o.Kind, o.Namespace, o.Name)
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
		return nil, err, nil
	}
	return state, nil, err
}

// machineDeployment returns the state of an owner that is a MachineDeployment.
func machineDeployment(d *clusterv1.MachineDeployment) *ownerState {
	s := stateOf(d, clusterv1.GroupVersion.String(), machineDeploymentKind)
	s.clusterName = d.Spec.ClusterName
	s.paused = s.paused || d.Spec.Paused != nil && *d.Spec.Paused
	s.resumed = resumed(d.Status.Conditions)
	s.infrastructure = d.Spec.Template.Spec.InfrastructureRef
	if d.Spec.Replicas != nil {
		s.replicas = int(*d.Spec.Replicas)
	}
	return s
}

// controlPlane returns the state of an owner that is a control plane, from the fields that Cluster
// API's contracts v1beta2 and v1beta1 name.
func controlPlane(u *unstructured.Unstructured) *ownerState {
	s := stateOf(u, u.GetAPIVersion(), u.GetKind())
	s.clusterName = u.GetLabels()[clusterv1.ClusterNameLabel]
	if n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && err == nil {
		s.replicas = int(n)
	}
	for _, path := range [][]string{{"status", "conditions"}, {"status", "v1beta2", "conditions"}} {
		var status struct {
			Conditions []metav1.Condition `json:"conditions"`
		}
		list, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
		if !found || err != nil {
			continue
		}
		// Conditions of another shape say nothing about a pause.
		if runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"conditions": list}, &status) == nil {
			s.resumed = later(s.resumed, resumed(status.Conditions))
		}
	}
	for _, path := range [][]string{{"spec", "machineTemplate", "spec", "infrastructureRef"}, {"spec", "machineTemplate", "infrastructureRef"}} {
		ref, found, err := unstructured.NestedMap(u.Object, path...)
		if !found || err != nil {
			continue
		}
		text := func(field string) string { value, _ := ref[field].(string); return value }
		s.infrastructure = clusterv1.ContractVersionedObjectReference{APIGroup: text("apiGroup"), Kind: text("kind"), Name: text("name")}
		if version := text("apiVersion"); version != "" {
			s.infrastructure.APIGroup = groupOf(version)
		}
		break
	}
	return s
}

// stateOf returns what the metadata of an owner say. replicas is 1, for owners whose spec does not
// tell it.
func stateOf(obj client.Object, apiVersion, kind string) *ownerState {
	return &ownerState{
		Owner:    Owner{APIVersion: apiVersion, Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()},
		deleting: !obj.GetDeletionTimestamp().IsZero(), paused: related.IsPaused(nil, obj), replicas: 1,
	}
}

// resumed returns when the last pause of an object ended, from its conditions. It returns the zero
// time if they do not tell, or if the object is paused.
func resumed(conditions []metav1.Condition) time.Time {
	c := meta.FindStatusCondition(conditions, clusterv1.PausedCondition)
	if c == nil || c.Status != metav1.ConditionFalse {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// clusterResumed returns when the last pause of a Cluster ended, or the zero time.
func clusterResumed(c *clusterv1.Cluster) time.Time {
	if c == nil {
		return time.Time{}
	}
	return resumed(c.Status.Conditions)
}

// reservedBy reads the owner that a reserved host names. unreadable is as in ownerIfReadable.
func (v view) reservedBy(ctx context.Context, m mark) (state *ownerState, unreadable, err error) {
	if m.ref != nil {
		if m.namespace() != m.host.Namespace {
			return nil, nil, nil // machines and hosts of one owner share its namespace
		}
		return v.ownerIfReadable(ctx, Owner{APIVersion: m.ref.APIVersion, Kind: m.ref.Kind, Namespace: m.namespace(), Name: m.ref.Name})
	}
	var deployments clusterv1.MachineDeploymentList
	if err := v.List(ctx, &deployments, client.InNamespace(m.host.Namespace)); err != nil {
		return nil, nil, fmt.Errorf("list MachineDeployments: %w", err)
	}
	for i := range deployments.Items {
		if s := machineDeployment(&deployments.Items[i]); m.names(s.Owner) {
			return s, nil, nil
		}
	}
	var clusters clusterv1.ClusterList
	if err := v.List(ctx, &clusters, client.InNamespace(m.host.Namespace)); err != nil {
		return nil, nil, fmt.Errorf("list Clusters: %w", err)
	}
	for i := range clusters.Items {
		ref := clusters.Items[i].Spec.ControlPlaneRef
		owner := Owner{APIVersion: schema.GroupVersion{Group: ref.APIGroup}.String(), Kind: ref.Kind, Namespace: m.host.Namespace, Name: ref.Name}
		if m.names(owner) {
			return v.ownerIfReadable(ctx, owner)
		}
	}
	return nil, nil, nil
}

// clusterNameOf returns the name of the Cluster that a reserved host belongs to, as far as the host
// and its owner tell.
func clusterNameOf(h *v1alpha1.BareMetalHost, owner *ownerState) string {
	if owner != nil && owner.clusterName != "" {
		return owner.clusterName
	}
	if name := h.Labels[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	if ref := h.Spec.ConsumerRef; ref != nil && ref.Kind == clusterKind {
		return ref.Name
	}
	return ""
}

// owners finds the owners of Machines. It reads each MachineSet only once.
type owners struct {
	client.Reader
	sets map[string]*Owner
}

// of returns the owner of a Machine, or nil when there is none.
func (o owners) of(ctx context.Context, machine *clusterv1.Machine) (*Owner, error) {
	ref := controllerOf(machine)
	switch {
	case ref == nil:
		return nil, nil
	case groupOf(ref.APIVersion) == clusterv1.GroupVersion.Group && ref.Kind == machineSetKind:
		return o.ofSet(ctx, machine.Namespace, ref)
	case groupOf(ref.APIVersion) == clusterv1.GroupVersion.Group:
		return nil, nil
	}
	if _, ok := machine.Labels[clusterv1.MachineControlPlaneLabel]; !ok {
		return nil, nil
	}
	return ownerIn(machine.Namespace, ref), nil
}

// ofSet returns the MachineDeployment of a MachineSet.
func (o owners) ofSet(ctx context.Context, namespace string, ref *metav1.OwnerReference) (*Owner, error) {
	if owner, asked := o.sets[ref.Name]; asked {
		return owner, nil
	}
	var set clusterv1.MachineSet
	found, err := view{Reader: o.Reader}.get(ctx, namespace, ref.Name, &set)
	if err != nil {
		return nil, err
	}
	var owner *Owner
	if found && set.UID == ref.UID {
		if of := controllerOf(&set); of != nil && groupOf(of.APIVersion) == clusterv1.GroupVersion.Group && of.Kind == machineDeploymentKind {
			owner = ownerIn(namespace, of)
		}
	}
	o.sets[ref.Name] = owner
	return owner, nil
}

// controllerOf returns the owner that controls an object.
func controllerOf(obj client.Object) *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(obj) }

func ownerIn(namespace string, ref *metav1.OwnerReference) *Owner {
	return &Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: namespace, Name: ref.Name, UID: ref.UID}
}

// machinesOf calls a function with each Machine of an owner in a Cluster.
func (v view) machinesOf(ctx context.Context, owner Owner, cluster string, each func(*clusterv1.Machine) error) error {
	var machines clusterv1.MachineList
	if err := v.List(ctx, &machines, client.InNamespace(owner.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
		return fmt.Errorf("list Machines of Cluster %s/%s: %w", owner.Namespace, cluster, err)
	}
	all := owners{v.Reader, map[string]*Owner{}}
	for i := range machines.Items {
		its, err := all.of(ctx, &machines.Items[i])
		if err != nil {
			return err
		}
		if its == nil || its.UID != owner.UID {
			continue
		}
		if err := each(&machines.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// count sets need and rank: how many hosts the owner of a reservation can use, and how many hosts
// are reserved for the owner before this one.
func (v view) count(ctx context.Context, f *facts) error {
	var hosts v1alpha1.BareMetalHostList
	if err := v.List(ctx, &hosts, client.InNamespace(f.host.Namespace)); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	held := map[string]bool{}
	for i := range hosts.Items {
		if ref := hosts.Items[i].Spec.ConsumerRef; isMetal3Machine(ref) {
			held[ref.Name] = true
		}
	}
	with := 0
	err := v.machinesOf(ctx, f.owner.Owner, f.owner.clusterName, func(m *clusterv1.Machine) error {
		infra := m.Spec.InfrastructureRef
		if m.DeletionTimestamp.IsZero() && infra.APIGroup == v1beta2.GroupVersion.Group && infra.Kind == metal3MachineKind && held[infra.Name] {
			with++
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.counted, f.need = true, max(0, f.owner.replicas-with)
	f.rank = rankOf(f.host, &f.owner.Owner, f.template, hosts.Items)
	return nil
}

// leaving returns the hosts that an owner's Machines in deletion hold.
func (v view) leaving(ctx context.Context, owner Owner, cluster string) ([]blocker, error) {
	var found []blocker
	err := v.machinesOf(ctx, owner, cluster, func(machine *clusterv1.Machine) error {
		if machine.DeletionTimestamp.IsZero() {
			return nil
		}
		m, err := related.Metal3Machine(ctx, v, machine)
		if m == nil || err != nil {
			return err
		}
		h, err := related.Host(ctx, v, m)
		if h != nil {
			found = append(found, blocker{host: h, machine: machine.Name, since: machine.DeletionTimestamp.Time})
		}
		return err
	})
	return found, err
}

// reserved returns the hosts whose label says that they are reserved for an owner.
func (v view) reserved(ctx context.Context, owner *Owner) ([]v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	err := v.List(ctx, &hosts, client.InNamespace(owner.Namespace), client.MatchingLabels{v1beta2.NodeReuseLabel: owner.label()})
	if err != nil {
		return nil, fmt.Errorf("list hosts that are reserved for %s: %w", owner, err)
	}
	return hosts.Items, nil
}
