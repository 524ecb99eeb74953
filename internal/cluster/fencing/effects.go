package fencing

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/nodebackup"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/node"
)

// Reasons of events on Machines.
const (
	eventFencingStarted        = "FencingStarted"
	eventNodeDeleted           = "NodeDeleted"
	eventHostReleased          = "HostReleased"
	eventOrphanedHoldRemoved   = "OrphanedHoldRemoved"
	eventNodeRestored          = "NodeRestored"
	eventNodeNotBack           = "NodeNotBack"
	eventRemediationImpossible = "RemediationImpossible"
	eventPowerOffNotConfirmed  = "PowerOffNotConfirmed"
	eventHostOff               = "HostOff"
	eventForeignHold           = "ForeignHold"
	eventAmbiguousNode         = "AmbiguousNode"
	eventNodeDeletionBlocked   = "NodeDeletionBlocked"
	eventRequestDropped        = "RequestDropped"
)

// warnings maps the reasons of conditions that need a person to the reasons of their
// events.
var warnings = map[string]string{
	v1beta2.RemediationImpossibleReason: eventRemediationImpossible,
	v1beta2.PowerOffNotConfirmedReason:  eventPowerOffNotConfirmed,
	v1beta2.HostOffReason:               eventHostOff,
	v1beta2.ForeignHoldReason:           eventForeignHold,
	v1beta2.AmbiguousNodeReason:         eventAmbiguousNode,
	v1beta2.NodeDeletionBlockedReason:   eventNodeDeletionBlocked,
}

// effect makes the one write of a pass.
func (r *Reconciler) effect(ctx context.Context, p *pass, do action) error {
	return map[action]func(context.Context, *pass) error{
		addHold: r.addHold, renewHold: r.setHold, removeHold: r.removeHold, removeStray: r.removeStray,
		deleteNode: r.deleteNode, saveNode: r.saveNode, restoreNode: r.restoreNode,
		removeRequest: r.removeRequest, markCycle: r.markCycle, noteOff: r.noteOff, noteRelease: r.noteRelease,
		endSkip: r.endSkip, closeCycle: r.closeCycle,
	}[do](ctx, p)
}

// addHold sets the hold if the budget and the control plane still let the host be fenced. It reads
// both again while no other hold of the cluster can be set.
func (r *Reconciler) addHold(ctx context.Context, p *pass) error {
	release, err := r.Guard.enter(ctx, p.machine)
	if err != nil {
		return err
	}
	defer release()
	if err := r.readOthers(ctx, &p.facts); err != nil {
		return err
	}
	if begin(p.facts, r.limits()).do != addHold {
		return nil // the next pass says what it waits for
	}
	if err := r.setHold(ctx, p); err != nil {
		return err
	}
	r.Metrics.started.WithLabelValues(p.machine.Namespace, p.machine.Spec.ClusterName).Inc()
	r.event(p, corev1.EventTypeNormal, eventFencingStarted, "Host %s is powered off, because annotation %s requests it", p.host.Name, v1beta2.ExternalRemediationAnnotation)
	return nil
}

// setHold gives the hold a new value, which names the Machine and the Node as they are now.
func (r *Reconciler) setHold(ctx context.Context, p *pass) error {
	value := hold{
		Mode: v1alpha1.RebootModeHard, Nonce: rand.Text(), Cluster: p.machine.Spec.ClusterName,
		Machine: refOf(p.machine), RequestedAt: *at(p.now),
	}
	if p.node != nil {
		value.Node = &nodeRef{Name: p.node.Name, UID: p.node.UID}
	}
	return r.annotate(ctx, p.host, func(annotations map[string]string) { annotations[holdKey] = encode(value) })
}

func (r *Reconciler) removeHold(ctx context.Context, p *pass) error {
	if err := r.annotate(ctx, p.host, without(holdKey)); err != nil {
		return err
	}
	r.event(p, corev1.EventTypeNormal, eventHostReleased, "The hold on host %s is removed", p.host.Name)
	return nil
}

// removeStray removes a hold whose Machine is gone or no longer has the host.
func (r *Reconciler) removeStray(ctx context.Context, p *pass) error {
	of := holdOf(p.stray).Machine
	if err := r.annotate(ctx, p.stray, without(holdKey)); err != nil {
		return err
	}
	r.Recorder.Eventf(p.stray, nil, corev1.EventTypeNormal, eventOrphanedHoldRemoved, actionFence, "%s",
		cut(fmt.Sprintf("The hold of Machine %s is removed: the Machine is gone or does not have this host", of.Name)))
	return nil
}

// deleteNode deletes the Node that the hold names. Finding the Node took its time, so deleteNode
// reads Machine and host once more. It reads the host last, because the proof that the host is off
// counts most.
func (r *Reconciler) deleteNode(ctx context.Context, p *pass) error {
	var m clusterv1.Machine
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(p.machine), &m); err != nil {
		return err
	}
	if m.UID != p.machine.UID || !isRequested(&m) {
		return nil // the request was withdrawn
	}
	var h v1alpha1.BareMetalHost
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(p.host), &h); err != nil {
		return err
	}
	value := p.host.Annotations[holdKey]
	if h.UID != p.host.UID || !related.Consumes(p.m3m, &h) || ProvenOff(&h, holdKey, value) != nil {
		return nil // the next pass says why
	}
	uid := holdOf(p.host).nodeUID()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.node.Name}}
	if err := p.workload.Delete(ctx, node, client.Preconditions{UID: &uid}); err != nil {
		return fmt.Errorf("delete Node %s with UID %s: %w", p.node.Name, uid, err)
	}
	r.Metrics.deleted.WithLabelValues(p.machine.Namespace, p.machine.Spec.ClusterName).Inc()
	r.event(p, corev1.EventTypeNormal, eventNodeDeleted, "Node %s is deleted: host %s is proven to be off", p.node.Name, p.host.Name)
	return nil
}

func (r *Reconciler) saveNode(ctx context.Context, p *pass) error {
	saved := takeBackup(p.node, backupOf(p.machine))
	return r.annotate(ctx, p.machine, func(annotations map[string]string) {
		annotations[v1beta2.RestorePendingAnnotation] = encode(saved)
	})
}

func (r *Reconciler) restoreNode(ctx context.Context, p *pass) error {
	before := p.node.DeepCopy()
	backupOf(p.machine).restore(p.node)
	if err := p.workload.Patch(ctx, p.node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("restore labels, annotations and taints of Node %s: %w", p.node.Name, err)
	}
	r.event(p, corev1.EventTypeNormal, eventNodeRestored, "Node %s is back and has its labels, annotations and taints again", p.node.Name)
	return nil
}

func (r *Reconciler) removeRequest(ctx context.Context, p *pass) error {
	if err := r.annotate(ctx, p.machine, without(v1beta2.ExternalRemediationAnnotation)); err != nil || p.node == nil {
		return err
	}
	r.event(p, corev1.EventTypeNormal, eventRequestDropped, "The request that was made while the machine booted is removed: Node %s is back", p.node.Name)
	return nil
}

// markCycle suspends the health checks of the Machine, unless a person has done so.
func (r *Reconciler) markCycle(ctx context.Context, p *pass) error {
	return r.annotate(ctx, p.machine, func(annotations map[string]string) {
		if _, skipped := annotations[clusterv1.MachineSkipRemediationAnnotation]; !skipped {
			annotations[clusterv1.MachineSkipRemediationAnnotation] = v1beta2.SkipRemediationMarker
		}
		annotations[v1beta2.RemediationStageAnnotation] = encode(stage{Hold: holdOf(p.host).Nonce})
	})
}

func (r *Reconciler) noteOff(ctx context.Context, p *pass) error {
	return r.annotate(ctx, p.machine, func(annotations map[string]string) {
		annotations[v1beta2.RemediationStageAnnotation] = encode(stage{OffSince: at(p.now)})
	})
}

func (r *Reconciler) noteRelease(ctx context.Context, p *pass) error {
	return r.annotate(ctx, p.machine, func(annotations map[string]string) {
		annotations[v1beta2.RemediationStageAnnotation] = encode(stage{ReleasedAt: at(p.now)})
	})
}

// endSkip lets health checks look at the Machine again. The backup of the Node stays.
func (r *Reconciler) endSkip(ctx context.Context, p *pass) error {
	if err := r.annotate(ctx, p.machine, resume); err != nil {
		return err
	}
	if p.host != nil && !isHeld(p.host) && !isRequested(p.machine) {
		r.event(p, corev1.EventTypeWarning, eventNodeNotBack, "The Node is not back, or not known, or not as it was, %s after host %s could be powered on; health checks look at the Machine again", r.NodeTimeout, p.host.Name)
	}
	return nil
}

func (r *Reconciler) closeCycle(ctx context.Context, p *pass) error {
	return r.annotate(ctx, p.machine, func(annotations map[string]string) {
		resume(annotations)
		delete(annotations, v1beta2.RestorePendingAnnotation)
	})
}

// resume removes the stage, and the suspension of health checks if it is ours.
func resume(annotations map[string]string) {
	delete(annotations, v1beta2.RemediationStageAnnotation)
	if annotations[clusterv1.MachineSkipRemediationAnnotation] == v1beta2.SkipRemediationMarker {
		delete(annotations, clusterv1.MachineSkipRemediationAnnotation)
	}
}

func without(key string) func(map[string]string) {
	return func(annotations map[string]string) { delete(annotations, key) }
}

// annotate changes the annotations of an object. The write fails with a conflict if the object has
// changed since it was read.
func (r *Reconciler) annotate(ctx context.Context, obj client.Object, change func(map[string]string)) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", obj)
	}
	annotations := nodebackup.Merged(obj.GetAnnotations(), nil)
	change(annotations)
	obj.SetAnnotations(annotations)
	return r.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// show writes the condition of the Metal3Machine if it changed, and publishes an event if somebody
// should look. If there is no Metal3Machine, or it is being deleted, show only publishes the event.
func (r *Reconciler) show(ctx context.Context, p *pass, d decision) error {
	if d.reason == "" || p.machine == nil {
		return nil
	}
	shown := p.shown
	if p.m3m == nil || !p.m3m.DeletionTimestamp.IsZero() {
		shown = r.told.swap(client.ObjectKeyFromObject(p.machine), d.reason, shown)
	} else {
		before := p.m3m.DeepCopy()
		c := d.condition()
		c.Message, c.ObservedGeneration, c.LastTransitionTime = cut(c.Message), p.m3m.Generation, *at(p.now)
		if !meta.SetStatusCondition(&p.m3m.Status.Conditions, c) {
			return nil
		}
		if err := r.Client.Status().Patch(ctx, p.m3m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("show condition %s of Metal3Machine %s: %w", c.Type, p.m3m.Name, err)
		}
	}
	if reason := warnings[d.reason]; reason != "" && d.reason != shown {
		r.event(p, corev1.EventTypeWarning, reason, "%s", d.message)
	}
	return nil
}

// actionFence is the action of events.
const actionFence = "Fence"

// event publishes an event about a Machine and its host.
func (r *Reconciler) event(p *pass, kind, reason, format string, args ...any) {
	note := cut(fmt.Sprintf(format, args...))
	if p.host == nil { // a nil pointer in an interface is not nil
		r.Recorder.Eventf(p.machine, nil, kind, reason, actionFence, "%s", note)
		return
	}
	r.Recorder.Eventf(p.machine, p.host, kind, reason, actionFence, "%s", note)
}

// maxNote is the longest message of a condition or an event, in bytes.
const maxNote = 1024

// cut shortens text to maxNote and makes it safe to show, because it may repeat what a workload
// cluster answered.
func cut(text string) string { return node.CutTextTo(text, maxNote) }
