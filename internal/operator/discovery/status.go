package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

const (
	// maxSkipped and maxTombstones are the lengths that the schema allows.
	maxSkipped    = 50
	maxTombstones = 200
	// pollTimeStep is how much lastPollTime may lag behind while nothing else
	// changes, so that an idle poll writes nothing.
	pollTimeStep = 30 * time.Second
)

// outcome is what one poll found and did.
type outcome struct {
	engineNodes int
	matched     int
	created     int // hosts of the resource that exist
	made        int // hosts made in this poll
	failed      int
	left        int // nodes that an older resource takes
	skipped     []discoveryv1.SkippedNode
	templateErr error
	owner       *discoveryv1.BareMetalHostDiscovery
}

func (o *outcome) merge(c creationResult) {
	o.made += c.made
	o.created += c.made
	o.matched += c.made + c.matched
	o.failed += c.failed
	o.skipped = append(o.skipped, c.skipped...)
}

// record writes the outcome of a poll into the status.
func (r *Reconciler) record(resource *discoveryv1.BareMetalHostDiscovery, o outcome) {
	now := metav1.NewTime(r.Now())
	status := &resource.Status
	status.LastPollTime = &now
	if o.made > 0 {
		status.LastCreateTime = &now
	}
	status.Counts = discoveryv1.DiscoveryCounts{
		EngineNodes: count(o.engineNodes), Matched: count(o.matched), Created: count(o.created),
		Skipped: count(len(o.skipped)), Failed: count(o.failed),
	}
	r.reportSkipped(resource, o.skipped)
	status.Skipped = skippedList(status.Skipped, o.skipped, now)
	r.Metrics.observe(resource, o)

	setCondition(resource, discoveryv1.EngineReachableCondition, metav1.ConditionTrue,
		discoveryv1.EngineReachedReason, "The engine answers")
	setTemplateCondition(resource, o.templateErr)
	r.setConflict(resource, o)
	setReady(resource)
}

// recordUnreachable keeps the counts of the last poll that reached the engine.
func (r *Reconciler) recordUnreachable(resource *discoveryv1.BareMetalHostDiscovery, err error) {
	if !meta.IsStatusConditionFalse(resource.Status.Conditions, discoveryv1.EngineReachableCondition) {
		r.warn(resource, eventEngineUnreachable, "%s", cut(err.Error()))
	}
	setCondition(resource, discoveryv1.EngineReachableCondition, metav1.ConditionFalse,
		discoveryv1.EngineUnreachableReason, cut(err.Error()))
	setTemplateCondition(resource, checkTemplate(resource.Spec.ResourceNameTemplate))
	setReady(resource)
}

// suspend reports that discovery is suspended.
func (r *Reconciler) suspend(resource *discoveryv1.BareMetalHostDiscovery) {
	setTemplateCondition(resource, checkTemplate(resource.Spec.ResourceNameTemplate))
	setCondition(resource, discoveryv1.ConflictCondition, metav1.ConditionFalse, discoveryv1.NoConflictReason, "Discovery is suspended")
	setCondition(resource, discoveryv1.ReadyCondition, metav1.ConditionFalse, discoveryv1.SuspendedReason,
		"Discovery is suspended; unset spec.suspend to discover new machines")
}

func setTemplateCondition(resource *discoveryv1.BareMetalHostDiscovery, err error) {
	if err != nil {
		setCondition(resource, discoveryv1.NameTemplateUsableCondition, metav1.ConditionFalse,
			discoveryv1.TemplateUnusableReason, cut(err.Error())+"; change spec.resourceNameTemplate")
		return
	}
	setCondition(resource, discoveryv1.NameTemplateUsableCondition, metav1.ConditionTrue,
		discoveryv1.TemplateUsableReason, "The template produces valid names")
}

func (r *Reconciler) setConflict(resource *discoveryv1.BareMetalHostDiscovery, o outcome) {
	if o.owner == nil || sameResource(o.owner, resource) {
		setCondition(resource, discoveryv1.ConflictCondition, metav1.ConditionFalse,
			discoveryv1.NoConflictReason, "No older discovery resource is active")
		return
	}
	message := fmt.Sprintf("%s/%s is older and takes all nodes, %d of them waiting; suspend or delete one of the two",
		o.owner.Namespace, o.owner.Name, o.left)
	if !meta.IsStatusConditionTrue(resource.Status.Conditions, discoveryv1.ConflictCondition) {
		r.warn(resource, eventDiscoveryConflict, "%s", message)
	}
	setCondition(resource, discoveryv1.ConflictCondition, metav1.ConditionTrue, discoveryv1.OlderResourceReason, message)
}

// setReady sums the other conditions up. The first obstacle gives reason and
// message.
func setReady(resource *discoveryv1.BareMetalHostDiscovery) {
	for _, want := range []struct {
		condition string
		status    metav1.ConditionStatus
	}{
		{discoveryv1.EngineReachableCondition, metav1.ConditionTrue},
		{discoveryv1.NameTemplateUsableCondition, metav1.ConditionTrue},
		{discoveryv1.ConflictCondition, metav1.ConditionFalse},
	} {
		c := meta.FindStatusCondition(resource.Status.Conditions, want.condition)
		if c == nil {
			setCondition(resource, discoveryv1.ReadyCondition, metav1.ConditionUnknown, discoveryv1.NotPolledReason, "The engine was not polled yet")
			return
		}
		if c.Status != want.status {
			setCondition(resource, discoveryv1.ReadyCondition, metav1.ConditionFalse, c.Reason, c.Message)
			return
		}
	}
	setCondition(resource, discoveryv1.ReadyCondition, metav1.ConditionTrue, discoveryv1.PollingReason, "New machines become hosts")
}

func setCondition(resource *discoveryv1.BareMetalHostDiscovery, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&resource.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: resource.Generation,
	})
}

// skippedList sorts what was skipped, keeps since when the reason has not
// changed, and cuts the list at what the schema allows.
func skippedList(before, now []discoveryv1.SkippedNode, at metav1.Time) []discoveryv1.SkippedNode {
	list := slices.Clone(now)
	slices.SortFunc(list, func(a, b discoveryv1.SkippedNode) int { return strings.Compare(a.NodeID, b.NodeID) })
	list = list[:min(len(list), maxSkipped)]
	for i := range list {
		list[i].Since = at
		if old := findSkipped(before, list[i].NodeID); old != nil && old.Reason == list[i].Reason {
			list[i].Since = old.Since
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func findSkipped(list []discoveryv1.SkippedNode, nodeID string) *discoveryv1.SkippedNode {
	i := slices.IndexFunc(list, func(s discoveryv1.SkippedNode) bool { return s.NodeID == nodeID })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// patchStatus writes what changed, if that is worth a write.
func (r *Reconciler) patchStatus(ctx context.Context, before, after *discoveryv1.BareMetalHostDiscovery) error {
	after.Status.ObservedGeneration = after.Generation
	if !worthWriting(&before.Status, &after.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

func worthWriting(before, after *discoveryv1.BareMetalHostDiscoveryStatus) bool {
	if after.LastPollTime == nil || before.LastPollTime == nil ||
		after.LastPollTime.Sub(before.LastPollTime.Time) >= pollTimeStep {
		return !equality.Semantic.DeepEqual(before, after)
	}
	same := after.DeepCopy()
	same.LastPollTime = before.LastPollTime
	return !equality.Semantic.DeepEqual(before, same)
}

func count(n int) int32 { return int32(min(n, 1<<31-1)) }
