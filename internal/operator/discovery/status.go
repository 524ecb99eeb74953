package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// pollTimeStep is how far lastPollTime may lag behind while nothing else changes. An idle poll
	// therefore writes nothing.
	pollTimeStep = 10 * time.Minute
)

// outcome is what one poll found and did.
type outcome struct {
	engineNodes int
	matched     int
	created     int // hosts of the resource that exist
	left        int // nodes that are left to an older resource
	skipped     []discoveryv1.SkippedNode
	templateErr error
	engineErr   error // the engine stopped answering in the middle of the poll
	owner       *discoveryv1.BareMetalHostDiscovery
	due         time.Time // when the outcome may change
	creationResult
}

// merge adds a plan and the outcome of creating its hosts.
func (o *outcome) merge(decided plan, c creationResult) {
	o.matched += decided.matched + len(c.made) + c.overtaken
	o.skipped = slices.Concat(o.skipped, decided.skipped, c.refused)
	o.made = append(o.made, c.made...)
	o.failed, o.failure = o.failed+c.failed, errors.Join(o.failure, c.failure)
}

// recordOutcome writes the outcome of a poll into the status, and publishes events and metrics
// about what is new since the last poll. It returns what the next poll has to remember.
func (r *Reconciler) recordOutcome(resource *discoveryv1.BareMetalHostDiscovery, o outcome, last *evaluation) skipMemory {
	now := metav1.NewTime(r.Now())
	status := &resource.Status
	memory, fresh := memoryOf(last, status).update(o.skipped, now)
	status.LastPollTime = &now
	if len(o.made) > 0 {
		status.LastCreateTime = &now
	}
	status.Counts = discoveryv1.DiscoveryCounts{
		EngineNodes: count(o.engineNodes), Matched: count(o.matched), Created: count(o.created),
		Skipped: count(len(o.skipped)), Failed: count(o.failed),
	}
	status.Skipped = skippedList(o.skipped)
	r.announce(resource, o.made)
	r.reportSkipped(resource, fresh)
	r.Metrics.observe(resource, o, fresh)

	setCondition(resource, discoveryv1.EngineReachableCondition, metav1.ConditionTrue,
		discoveryv1.EngineReachedReason, "The engine answers")
	setTemplateCondition(resource, o.templateErr)
	r.setConflict(resource, o)
	setReady(resource)
	if o.failed > 0 && meta.IsStatusConditionTrue(status.Conditions, discoveryv1.ReadyCondition) {
		setCondition(resource, discoveryv1.ReadyCondition, metav1.ConditionFalse, discoveryv1.CreateFailedReason,
			fmt.Sprintf("%d hosts could not be created, which is tried again: %s", o.failed, cut(o.failure.Error())))
	}
	return memory
}

// recordReached notes a poll that found nothing changed since the last one.
func (r *Reconciler) recordReached(resource *discoveryv1.BareMetalHostDiscovery) {
	now := metav1.NewTime(r.Now())
	resource.Status.LastPollTime = &now
}

// recordUnreachable notes that the engine did not answer. The counts of the last poll that reached
// the engine stay.
func (r *Reconciler) recordUnreachable(resource *discoveryv1.BareMetalHostDiscovery, err error) {
	if !meta.IsStatusConditionFalse(resource.Status.Conditions, discoveryv1.EngineReachableCondition) {
		r.warn(resource, eventEngineUnreachable, "%s", cut(err.Error()))
	}
	setCondition(resource, discoveryv1.EngineReachableCondition, metav1.ConditionFalse,
		discoveryv1.EngineUnreachableReason, cut(err.Error()))
	setTemplateCondition(resource, checkTemplate(resource.Spec.ResourceNameTemplate))
	setReady(resource)
}

// suspend notes in the status that discovery is suspended.
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

// setReady sums up the other conditions. Reason and message are those of the first obstacle.
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
	message := "New machines become hosts"
	if n := resource.Status.Counts.Skipped; n > 0 {
		message = fmt.Sprintf("New machines become hosts; %d got none, for the reasons in status.skipped", n)
	}
	setCondition(resource, discoveryv1.ReadyCondition, metav1.ConditionTrue, discoveryv1.PollingReason, message)
}

func setCondition(resource *discoveryv1.BareMetalHostDiscovery, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&resource.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: resource.Generation,
	})
}

// patchStatus writes what has changed, if it is worth a write. Others write tombstones, too, so
// these need an optimistic lock. Everything else in the status belongs to this controller alone.
func (r *Reconciler) patchStatus(ctx context.Context, before, after *discoveryv1.BareMetalHostDiscovery) error {
	after.Status.ObservedGeneration = after.Generation
	if !worthWriting(&before.Status, &after.Status) {
		return nil
	}
	patch := client.MergeFrom(before)
	if !equality.Semantic.DeepEqual(before.Status.Tombstones, after.Status.Tombstones) {
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
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
