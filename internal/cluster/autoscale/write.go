package autoscale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// maxNote is how long the text of an event may be, in bytes.
const maxNote = 1024

// Events and their action.
const (
	eventScaled  = "ScaledToHosts"
	eventRefused = "AutoscaleRefused"
	actionScale  = "Scale"
)

// markLead is the time between marking Machines and making their set smaller, in which Cluster API
// has to see the marks.
const markLead = 2 * time.Second

// pass is one reconciliation of a namespace.
type pass struct {
	*Reconciler
	namespace string
	cached    map[string]outcome
	live      map[string]outcome // decided from the API server's objects; nil until it is needed
	soonest   time.Duration
}

// again asks for another pass.
func (p *pass) again(after time.Duration) { p.soonest = requeue.Soonest(p.soonest, after) }

// apply writes what was decided about a set.
func (p *pass) apply(ctx context.Context, s *set) error {
	o := p.cached[s.key()]
	switch {
	case !o.follows:
		return p.forget(ctx, s, o)
	case o.refused != nil:
		return p.refuse(ctx, s, o)
	}
	return p.scale(ctx, s, o)
}

// scale changes the size of a set. The set becomes smaller only after its surplus Machines are
// marked, and only if the API server's objects lead to the same size as those in the cache.
func (p *pass) scale(ctx context.Context, s *set, o outcome) error {
	d := o.decision
	p.again(d.again)
	marked, err := p.mark(ctx, o.machines, d.planned(), s.rolling)
	if err != nil {
		return err
	}
	record, size := d.falling, d.replicas
	if marked {
		if size < *s.replicas {
			record, size = s.falling(), *s.replicas
			p.again(markLead)
		}
		if record != nil {
			record.Marked = p.Now()
		}
	}
	if size < *s.replicas {
		if confirmed, err := p.isConfirmed(ctx, s, d); err != nil || !confirmed {
			p.again(requeue.Soon)
			return err
		}
	}
	before, from := s.copy(), *s.replicas
	*s.replicas = size
	s.setFalling(record)
	if err := p.patch(ctx, s, before); err != nil {
		return err
	}
	if size != d.replicas { // it waits for the marks
		return nil
	}
	if size != from {
		p.Recorder.Eventf(s.scaled, nil, corev1.EventTypeNormal, eventScaled, actionScale, "Scaled from %d to %d: %s", from, size, d.message)
	}
	return p.report(ctx, s, metav1.ConditionTrue, d.reason, d.message)
}

// isConfirmed reports whether the API server's objects lead to the same size as those in the cache.
// A pass reads them at most once.
func (p *pass) isConfirmed(ctx context.Context, s *set, d decision) (bool, error) {
	if p.live == nil {
		fresh, err := p.read(ctx, p.Live, p.namespace)
		if err != nil {
			return false, err
		}
		p.live = p.decide(fresh)
	}
	o := p.live[s.key()]
	return o.follows && o.refused == nil && o.decision.replicas == d.replicas, nil
}

// refuse leaves the size of a set alone and says why.
func (p *pass) refuse(ctx context.Context, s *set, o outcome) error {
	if o.refused.reason != v1beta2.AutoscalePausedReason { // a paused set keeps its record and marks
		if err := p.clear(ctx, s, o.machines); err != nil {
			return err
		}
	}
	last := meta.FindStatusCondition(s.GetConditions(), v1beta2.AutoscaledToHostsCondition)
	isNew := last == nil || last.Reason != o.refused.reason
	if err := p.report(ctx, s, metav1.ConditionFalse, o.refused.reason, o.refused.message); err != nil {
		return err
	}
	if isNew {
		p.Recorder.Eventf(s.scaled, nil, corev1.EventTypeWarning, eventRefused, actionScale, "%s", node.CutTextTo(o.refused.message, maxNote))
	}
	return nil
}

// forget removes the record, the marks and the condition of a set that does not follow hosts any
// more.
func (p *pass) forget(ctx context.Context, s *set, o outcome) error {
	if err := p.clear(ctx, s, o.machines); err != nil {
		return err
	}
	before := s.copy()
	conditions := s.GetConditions()
	if !meta.RemoveStatusCondition(&conditions, v1beta2.AutoscaledToHostsCondition) {
		return nil
	}
	s.SetConditions(conditions)
	return p.writeStatus(ctx, s, before)
}

// clear removes the record of a set and the marks of its Machines.
func (p *pass) clear(ctx context.Context, s *set, machines []machine) error {
	if _, err := p.mark(ctx, machines, int32(len(machines)), false); err != nil {
		return err
	}
	if _, there := s.GetAnnotations()[v1beta2.AutoscaleFallingAnnotation]; !there {
		return nil
	}
	before := s.copy()
	s.setFalling(nil)
	return p.patch(ctx, s, before)
}

// mark marks the Machines that Cluster API is to delete first when the set will have planned
// replicas, and removes the marks of other Machines. It reports whether it marked any.
func (p *pass) mark(ctx context.Context, machines []machine, planned int32, rolling bool) (bool, error) {
	add, remove := marks(machines, planned, rolling)
	for _, m := range add {
		if err := p.annotate(ctx, m, func(annotations map[string]string) {
			annotations[clusterv1.DeleteMachineAnnotation] = v1beta2.AutoscaleDeletionMark
		}); err != nil {
			return false, err
		}
	}
	for _, m := range remove {
		if err := p.annotate(ctx, m, func(annotations map[string]string) { delete(annotations, clusterv1.DeleteMachineAnnotation) }); err != nil {
			return false, err
		}
	}
	return len(add) > 0, nil
}

func (p *pass) annotate(ctx context.Context, m machine, edit func(map[string]string)) error {
	after := m.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	edit(after.Annotations)
	if err := p.Client.Patch(ctx, after, client.MergeFromWithOptions(m.Machine, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("mark Machine %s: %w", m.Name, err)
	}
	return nil
}

// patch writes a set when it differs from before.
func (p *pass) patch(ctx context.Context, s *set, before client.Object) error {
	if equality.Semantic.DeepEqual(before, s.scaled) {
		return nil
	}
	if err := p.Client.Patch(ctx, s.scaled, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write %s %s: %w", s.kind, s.GetName(), err)
	}
	return nil
}

// report writes the condition of a set when it changes.
func (p *pass) report(ctx context.Context, s *set, status metav1.ConditionStatus, reason, message string) error {
	before := s.copy()
	conditions := s.GetConditions()
	if !meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1beta2.AutoscaledToHostsCondition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: s.GetGeneration(), LastTransitionTime: metav1.NewTime(p.Now()),
	}) {
		return nil
	}
	s.SetConditions(conditions)
	return p.writeStatus(ctx, s, before)
}

// writeStatus writes the conditions of a set. The patch replaces the whole list, so it must fail if
// somebody has changed the list since it was read.
func (p *pass) writeStatus(ctx context.Context, s *set, before client.Object) error {
	if err := p.Client.Status().Patch(ctx, s.scaled, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the condition %s of %s %s: %w", v1beta2.AutoscaledToHostsCondition, s.kind, s.GetName(), err)
	}
	return nil
}

// copy returns a copy of the object of a set.
func (s *set) copy() client.Object {
	return s.DeepCopyObject().(client.Object)
}

// falling returns the record of a set, or nil.
func (s *set) falling() *falling {
	return parseFalling(s.GetAnnotations()[v1beta2.AutoscaleFallingAnnotation])
}

// setFalling sets the record of a set, or removes it.
func (s *set) setFalling(f *falling) {
	annotations := s.GetAnnotations() // never nil: one of them asked to follow hosts, or is the record
	if f == nil {
		delete(annotations, v1beta2.AutoscaleFallingAnnotation)
	} else {
		annotations[v1beta2.AutoscaleFallingAnnotation] = f.String()
	}
	s.SetAnnotations(annotations)
}
