package autoscale

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// Kinds of sets, as their references and events name them.
const (
	deploymentKind = "MachineDeployment"
	machineSetKind = "MachineSet"
	templateKind   = "Metal3MachineTemplate"
)

// scaled is an object that makes Machines.
type scaled interface {
	client.Object
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

// set is an object whose size follows the number of hosts, or did so.
type set struct {
	scaled
	kind        string
	clusterName string
	replicas    *int32 // that of the spec; nil for control planes, whose size is not changed
	templateRef clusterv1.ContractVersionedObjectReference
	template    *v1beta2.Metal3MachineTemplate // nil when it is gone
	cluster     *clusterv1.Cluster             // nil when it is gone
	paused      bool                           // by its own spec
	rolling     bool

	selector labels.Selector // set by check
	bounds   bounds          // set by check
}

// key returns a name of the set that is unique in its namespace.
func (s *set) key() string { return s.kind + "/" + s.GetName() }

// follows reports whether the size of a set is to follow the number of hosts.
func (s *set) follows() bool {
	_, there := s.GetAnnotations()[v1beta2.AutoscaleToHostsAnnotation]
	return there && s.GetDeletionTimestamp().IsZero()
}

// followed reports whether a set still has the record or the condition of a time when it followed
// hosts.
func (s *set) followed() bool {
	_, falls := s.GetAnnotations()[v1beta2.AutoscaleFallingAnnotation]
	return s.GetDeletionTimestamp().IsZero() && (falls || meta.FindStatusCondition(s.GetConditions(), v1beta2.AutoscaledToHostsCondition) != nil)
}

// refusal is why the size of a set is not changed: reason and message of the condition.
type refusal struct{ reason, message string }

// check sets the selector and the bounds of a set, or returns why the set is refused. A pause is
// the last reason that it looks for, so a paused set has both.
func (s *set) check() *refusal {
	refuse := func(reason, format string, args ...any) *refusal {
		return &refusal{reason, fmt.Sprintf(format, args...)}
	}
	_, hasMin := s.GetAnnotations()[clusterv1.AutoscalerMinSizeAnnotation]
	_, hasMax := s.GetAnnotations()[clusterv1.AutoscalerMaxSizeAnnotation]
	_, owned := s.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]
	switch {
	case s.replicas == nil:
		return refuse(v1beta2.AutoscaleControlPlaneReason, "A control plane does not follow the number of hosts, because its size decides about its quorum; remove the annotation %s",
			v1beta2.AutoscaleToHostsAnnotation)
	case owned:
		return refuse(v1beta2.AutoscaleTopologyReason, "The topology of the Cluster owns this object and its size; use an object of its own beside the topology, or remove the annotation %s",
			v1beta2.AutoscaleToHostsAnnotation)
	case hasMin || hasMax:
		return refuse(v1beta2.AutoscaleConflictReason, "The cluster autoscaler changes the size, too; remove its annotations %s and %s, or %s",
			clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation, v1beta2.AutoscaleToHostsAnnotation)
	}
	var err error
	if s.bounds, err = parseBounds(s.GetAnnotations()); err != nil {
		return refuse(v1beta2.AutoscaleInvalidBoundsReason, "The bounds cannot be used: %v; correct the annotations", err)
	}
	switch {
	case s.templateRef.Kind != templateKind || s.templateRef.APIGroup != v1beta2.GroupVersion.Group:
		return refuse(v1beta2.AutoscaleOtherMachinesReason, "The machines are made of a %s of %s, which has no hosts; remove the annotation %s",
			s.templateRef.Kind, s.templateRef.APIGroup, v1beta2.AutoscaleToHostsAnnotation)
	case s.template == nil:
		return refuse(v1beta2.AutoscaleTemplateMissingReason, "The template %s/%s, which selects the hosts, is not there; create it, or name another one",
			s.GetNamespace(), s.templateRef.Name)
	}
	if s.selector, err = s.template.Spec.Template.Spec.HostSelector.Selector(); err != nil {
		return refuse(v1beta2.AutoscaleInvalidSelectorReason, "The template %s/%s selects no host: %v", s.GetNamespace(), s.templateRef.Name, err)
	}
	switch {
	case s.selector.Empty() && s.GetAnnotations()[v1beta2.AutoscaleToHostsAnnotation] != v1beta2.AutoscaleAllHosts:
		return refuse(v1beta2.AutoscaleNoSelectorReason, "The template %s/%s has no hostSelector; set one, or give the annotation %s the value %q to count every host of the namespace",
			s.GetNamespace(), s.templateRef.Name, v1beta2.AutoscaleToHostsAnnotation, v1beta2.AutoscaleAllHosts)
	case s.paused || related.IsPaused(s.cluster, s):
		return refuse(v1beta2.AutoscalePausedReason, "The object or its Cluster is paused; the size follows again when it is not")
	}
	return nil
}

// counts reports whether hosts are counted for a set. They are counted for a paused set, too, so
// that no other set gets them.
func (r *refusal) counts() bool { return r == nil || r.reason == v1beta2.AutoscalePausedReason }

func parseBounds(annotations map[string]string) (bounds, error) {
	b := bounds{most: -1}
	for _, bound := range []struct {
		key  string
		into *int32
	}{{v1beta2.AutoscaleMinAnnotation, &b.least}, {v1beta2.AutoscaleMaxAnnotation, &b.most}} {
		text, there := annotations[bound.key]
		if !there {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return bounds{}, fmt.Errorf("%s is %q, want a number that is 0 or more", bound.key, text)
		}
		*bound.into = int32(n)
	}
	if b.most >= 0 && b.least > b.most {
		return bounds{}, fmt.Errorf("%s is %d, more than %s, %d", v1beta2.AutoscaleMinAnnotation, b.least, v1beta2.AutoscaleMaxAnnotation, b.most)
	}
	return b, nil
}

// oldestFirst sorts sets by age, and sets of the same second by kind and name.
func oldestFirst(sets []*set) {
	slices.SortFunc(sets, func(a, b *set) int {
		at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.key(), b.key()))
	})
}

// asSet returns the set for an object that makes Machines.
func asSet(obj scaled) *set {
	switch o := obj.(type) {
	case *clusterv1.MachineDeployment:
		return &set{
			scaled: o, kind: deploymentKind, clusterName: o.Spec.ClusterName, replicas: orOne(&o.Spec.Replicas), templateRef: o.Spec.Template.Spec.InfrastructureRef,
			paused: o.Spec.Paused != nil && *o.Spec.Paused, rolling: isRolling(o),
		}
	case *clusterv1.MachineSet:
		return &set{
			scaled: o, kind: machineSetKind, clusterName: o.Spec.ClusterName, replicas: orOne(&o.Spec.Replicas),
			templateRef: o.Spec.Template.Spec.InfrastructureRef,
		}
	default:
		return &set{scaled: obj, kind: controlPlaneKind.Kind}
	}
}

// orOne returns a pointer to the replicas of a spec. If they are not set, it sets them to 1, the
// default.
func orOne(replicas **int32) *int32 {
	if *replicas == nil {
		one := int32(1)
		*replicas = &one
	}
	return *replicas
}

// isRolling reports whether Machines of a deployment are being replaced, or its controller has not
// seen the latest spec yet.
func isRolling(d *clusterv1.MachineDeployment) bool {
	return d.Status.ObservedGeneration < d.Generation || meta.IsStatusConditionTrue(d.Status.Conditions, clusterv1.MachineDeploymentRollingOutCondition)
}
