package fencing

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

const (
	// holdExpiry is the age at which a hold is removed if its request was withdrawn and the host is
	// still on (extra action).
	holdExpiry = 30 * time.Minute
	// offGrace is how long a host has to be off without a hold until it gets one (extra action). It
	// is two polls of the host operator.
	offGrace = 2 * time.Minute
)

// Times until the next pass when it waits for something that no watch reports.
const (
	nodePoll   = 15 * time.Second // a Node, or its API server
	longPoll   = time.Minute      // changes that take longer, or that a watch usually reports
	restorable = 5 * time.Minute  // the return of a Node that was given up
)

// limits are what an administrator chooses.
type limits struct {
	// budget is how many hosts of a cluster may be fenced at once.
	budget int
	// nodeTimeout is how long health checks stay suspended for a Node to come back.
	nodeTimeout time.Duration
	// extra switches on the extra actions of the table.
	extra bool
}

// facts are what a pass has read from the API servers.
type facts struct {
	now time.Time
	// machine is nil when it is gone.
	machine *clusterv1.Machine
	paused  bool
	// host is the host of the Machine, or nil.
	host *v1alpha1.BareMetalHost
	// stray is another host with a hold of this Machine, or nil.
	stray *v1alpha1.BareMetalHost
	// node is nil if the Node does not exist or is not known. If it is not known, either
	// unreachable says why, or ambiguous says why the Node that was found may be that of another
	// machine.
	node                   *corev1.Node
	unreachable, ambiguous string
	// occupied are the names of the hosts that take up places in the budget.
	occupied []string
	// endangered says why the control plane needs this Machine, or is empty.
	endangered string
	// lasting means that the other machines are too few to do without this one, even if all of them
	// are ready.
	lasting bool
	// shown is the reason of the Metal3Machine's condition, or empty.
	shown string
}

// decision is what a pass does: either it makes one write, or it shows a condition and waits.
type decision struct {
	do action
	// reason and message are what the condition says. An empty reason leaves it as it is.
	reason, message string
	// after is the time until the next pass; 0 means that the next pass comes with the next change.
	after time.Duration
}

// falseReasons are the reasons with which the condition is False.
var falseReasons = map[string]bool{
	v1beta2.NotRemediatingReason:        true,
	v1beta2.RemediationImpossibleReason: true,
	v1beta2.HostOffReason:               true,
	v1beta2.NodeNotBackReason:           true,
	v1beta2.ForeignHoldReason:           true,
}

func (d decision) condition() metav1.Condition {
	status := metav1.ConditionTrue
	if falseReasons[d.reason] {
		status = metav1.ConditionFalse
	}
	return metav1.Condition{Type: v1beta2.RemediatingCondition, Status: status, Reason: d.reason, Message: d.message}
}

func write(a action) decision { return decision{do: a} }

func wait(after time.Duration, reason, format string, args ...any) decision {
	return decision{reason: reason, message: fmt.Sprintf(format, args...), after: after}
}

// stuckReasons are the reasons of the condition for a recovery that is stuck while its host is held
// off.
var stuckReasons = map[string]bool{
	v1beta2.PowerOffNotConfirmedReason: true,
	v1beta2.NodeDeletionBlockedReason:  true,
}

// isStuckBy reports whether the recovery is stuck while the host is held off. If the decision shows
// no condition, shown counts, which is the reason of the present condition.
func (d decision) isStuckBy(shown string) bool {
	return stuckReasons[d.reason] || d.reason == "" && stuckReasons[shown]
}

// decide returns what the next pass does. Guards come before the truth table, because the table
// does not cover what is paused, orphaned or foreign.
func decide(f facts, l limits) decision {
	switch {
	case f.paused:
		return decision{after: longPoll} // no watch reports that a Cluster is no longer paused
	case f.stray != nil:
		return write(removeStray)
	case f.machine == nil:
		return decision{}
	case !f.machine.DeletionTimestamp.IsZero():
		if f.host != nil && holdOf(f.host) != nil {
			return write(removeHold) // the deletion powers the host off by itself
		}
		return idle(f)
	case f.host == nil:
		return withoutHost(f)
	case isHeld(f.host) && holdOf(f.host) == nil && isSuspended(f.machine):
		return write(endSkip)
	case isHeld(f.host) && holdOf(f.host) == nil:
		return wait(longPoll, v1beta2.ForeignHoldReason, "Host %s has the annotation %s, which somebody else has set; remove it to let the Machine be recovered",
			f.host.Name, holdKey)
	case isHeld(f.host) && !holdOf(f.host).isOf(f.machine):
		if isRequested(f.machine) {
			return write(renewHold)
		}
		return write(removeHold)
	default:
		return follow(f, l)
	}
}

// withoutHost ends the recovery of a Machine whose host is gone or belongs to another Machine.
func withoutHost(f facts) decision {
	switch {
	case isSuspended(f.machine):
		return write(endSkip)
	case isRequested(f.machine):
		return wait(0, v1beta2.RemediationImpossibleReason, "Machine %s has no host that could be powered off", f.machine.Name)
	default:
		return idle(f)
	}
}

// isSuspended reports whether the recovery suspends the health checks of a Machine, or has left a
// stage on it.
func isSuspended(m *clusterv1.Machine) bool { return isMarked(m) || stageOf(m) != nil }

// idle shows that nothing is left to do.
func idle(f facts) decision {
	if f.shown == "" {
		return decision{}
	}
	return wait(0, v1beta2.NotRemediatingReason, "")
}

// situationOf returns the row of the truth table. A host with a request and a hold counts as on
// until it is proven to be off; unproven then says why it is not.
func situationOf(f facts) (s situation, unproven string) {
	s = situation{node: f.node != nil, requested: isRequested(f.machine), on: f.host.Status.PoweredOn, held: isHeld(f.host)}
	if s.requested && s.held {
		err := ProvenOff(f.host, holdKey, f.host.Annotations[holdKey])
		if s.on = err != nil; s.on {
			unproven = err.Error()
		}
	}
	return s, unproven
}

// needsNode reports whether the next step depends on whether the Node exists.
func needsNode(m *clusterv1.Machine, h *v1alpha1.BareMetalHost) bool {
	return isConcerned(m) && (isRequested(m) || !isHeld(h))
}

// follow takes the action of the row. If it is not known whether the Node exists, follow acts only
// on a host that is already held, and only if the rows with and without the Node say the same.
func follow(f facts, l limits) decision {
	s, unproven := situationOf(f)
	r := table[s]
	if f.unreachable != "" || f.ambiguous != "" {
		other := s
		other.node = !s.node
		if !s.held || table[other] != r {
			return unknown(f, l, s)
		}
	}
	if l.extra && r.extra != noExtra {
		if d, applies := extraOf(f, l, r.extra); applies {
			return d
		}
	}
	switch {
	case r.do == addHold:
		d := begin(f, l)
		if d.do == doNothing { // an earlier cycle may not be finished
			d.do = finish(f, l).do
		}
		return d
	case s.held && s.requested:
		return held(f, r.do, unproven)
	case r.do != doNothing:
		return write(r.do)
	case s.held:
		return withdrawn(f)
	}
	d := finish(f, l)
	if d.do == doNothing && s.requested {
		d.reason = v1beta2.HostOffReason
		d.message = fmt.Sprintf("Host %s is off without a hold of this Machine, so that it is not fenced: spec.online is false, another annotation holds it, or it has no power", f.host.Name)
	}
	return d
}

// isPast reports whether a time is known and not in the future. It is in the future if the clock
// was set back after it was noted, and then nothing can be measured from it.
func isPast(t *metav1.Time, now time.Time) bool { return t != nil && !t.After(now) }

// unknown returns the decision while the Node is not known. With a request and a hold, only a host
// that is proven to be off waits for the Node here; without that proof both rows say the same.
// Health checks stay suspended no longer than they do when the Node is known not to be back.
func unknown(f facts, l limits, s situation) decision {
	d := wait(nodePoll, v1beta2.WorkloadClusterUnreachableReason, "Nothing is known about the Node, so that nothing is done: %s", f.unreachable)
	if f.ambiguous != "" {
		d = wait(nodePoll, v1beta2.AmbiguousNodeReason, "It is not certain which Node is that of the machine, so that nothing is done: %s", f.ambiguous)
	}
	due := suspension(f, l)
	switch {
	case s.requested && s.held && isOverdue(f.host, f.now):
		return blocked(f, d.message)
	case s.held, due == doNothing:
		return d
	case s.requested: // noteRelease would count as a boot, during which no request is followed
		return write(endSkip)
	default:
		return write(due)
	}
}

// blocked shows that the Node of a host that is off cannot be deleted. Health checks may look at
// the Machine meanwhile. They are suspended again before the Node is deleted.
func blocked(f facts, why string) decision {
	if isSuspended(f.machine) {
		return write(endSkip)
	}
	return wait(nodePoll, v1beta2.NodeDeletionBlockedReason, "Host %s is proven to be off since %s, and stays off until its Node is deleted or the annotation %s is removed from the Machine. %s",
		f.host.Name, confirmedAt(f.host).UTC().Format(time.RFC3339), v1beta2.ExternalRemediationAnnotation, why)
}

// extraOf returns the extra action of a row, and whether it is due.
func extraOf(f facts, l limits, e extra) (decision, bool) {
	switch e {
	case expireHold:
		return write(removeHold), holdOf(f.host).age(f.now) >= holdExpiry
	case finishRequest:
		return write(removeRequest), backupOf(f.machine) != nil
	case awaitBoot:
		return whileBooting(f, l)
	default: // holdAfterGrace
		seen := stageOf(f.machine)
		if seen == nil || !isPast(seen.OffSince, f.now) {
			return write(noteOff), true
		}
		if left := offGrace - f.now.Sub(seen.OffSince.Time); left > 0 {
			return wait(left, v1beta2.HostOffReason, "Host %s is off without a hold of this Machine; it gets one if it stays off", f.host.Name), true
		}
		return begin(f, l), true
	}
}

// whileBooting keeps a request that was made while the machine may be booting from powering it off
// again. If the Node comes back within the node timeout, the machine is recovered and the request
// is removed. Otherwise the request is followed after that timeout.
func whileBooting(f facts, l limits) (d decision, applies bool) {
	s := stageOf(f.machine)
	if isForced(f.machine) || s == nil || !isPast(s.ReleasedAt, f.now) || f.now.Sub(s.ReleasedAt.Time) >= l.nodeTimeout {
		return decision{}, false
	}
	if f.node != nil && f.node.DeletionTimestamp.IsZero() {
		return write(removeRequest), true
	}
	d = finish(f, l)
	d.message += fmt.Sprintf("; a request that is made meanwhile is followed after that, unless its value is %q", v1beta2.ForcedRemediation)
	return d, true
}

// begin starts a cycle, unless that is impossible or has to wait.
func begin(f facts, l limits) decision {
	h := f.host
	switch {
	case unfenceable(h) != "":
		return impossible(unfenceable(h))
	case unready(h) != "":
		return wait(longPoll, v1beta2.WaitingForHostReason, "The machine is not powered off yet: %s", unready(h))
	case f.lasting:
		return wait(longPoll, v1beta2.RemediationImpossibleReason, "The request is kept and nothing is done: without the machine the control plane has no majority, even if all others are ready (%s)", f.endangered)
	case f.endangered != "":
		return wait(longPoll, v1beta2.WaitingForControlPlaneReason, "Host %s is not powered off, because the control plane would lose its majority: %s", h.Name, f.endangered)
	case len(f.occupied) >= l.budget:
		return wait(longPoll, v1beta2.WaitingForBudgetReason, "%d of %d hosts that may be fenced at once are: %s", len(f.occupied), l.budget, strings.Join(f.occupied, ", "))
	default:
		return write(addHold)
	}
}

func impossible(why string) decision {
	return wait(0, v1beta2.RemediationImpossibleReason, "The request is kept and nothing is done: %s", why)
}

// unready says why a hold would not power off the machine of a host now, or is empty. Errors of the
// host do not count, because the host operator keeps trying.
func unready(h *v1alpha1.BareMetalHost) string {
	_, paused := h.Annotations[v1alpha1.PausedAnnotation]
	switch {
	case paused:
		return fmt.Sprintf("host %s is paused by the annotation %s", h.Name, v1alpha1.PausedAnnotation)
	case !h.DeletionTimestamp.IsZero():
		return fmt.Sprintf("host %s is being deleted", h.Name)
	case !isDeployed(h):
		return fmt.Sprintf("host %s is not provisioned, its state is %q", h.Name, h.Status.Provisioning.State)
	default:
		return ""
	}
}

// isDeployed reports whether the machine of a host runs what was deployed on it whenever it is on.
func isDeployed(h *v1alpha1.BareMetalHost) bool {
	state := h.Status.Provisioning.State
	return state == v1alpha1.StateProvisioned || state == v1alpha1.StateExternallyProvisioned
}

// held continues a requested cycle whose hold is set. While the cycle is stuck, health checks may
// look at the Machine. They are suspended again before the Node is deleted.
func held(f facts, do action, unproven string) decision {
	h := holdOf(f.host)
	stuck := unproven != "" && (h.age(f.now) >= ConfirmTimeout || unfenceable(f.host) != "")
	marked := isMarkedFor(f.machine, h)
	switch {
	case stuck && isSuspended(f.machine):
		return write(endSkip)
	case stuck && unfenceable(f.host) != "":
		return impossible(unfenceable(f.host))
	case stuck:
		return wait(longPoll, v1beta2.PowerOffNotConfirmedReason, "The Node stays, because the machine is not proven to be off since %s: %s; repair the host or its BMC, or remove the annotation %s from the Machine",
			h.RequestedAt.UTC().Format(time.RFC3339), unproven, v1beta2.ExternalRemediationAnnotation)
	case unproven == "" && isLeaving(f, do) && isOverdue(f.host, f.now):
		return blocked(f, leaving(f))
	case !marked:
		return write(markCycle)
	case unproven != "":
		left := max(ConfirmTimeout-h.age(f.now), time.Second)
		return wait(min(left, longPoll), v1beta2.PoweringOffReason, "Waiting until the machine is proven to be off: %s", unproven)
	case do != deleteNode:
		return write(do)
	case h.nodeUID() != f.node.UID:
		return write(renewHold)
	case backupOf(f.machine) == nil || backupOf(f.machine).isFor(f.node.UID):
		return write(saveNode)
	case isLeaving(f, do):
		return wait(nodePoll, v1beta2.WaitingForNodeDeletionReason, "%s; host %s stays off until it is gone", leaving(f), f.host.Name)
	default:
		return write(deleteNode)
	}
}

// withdrawn waits for a host to be off whose request was withdrawn while it was held. Health checks
// stay suspended no longer than they would with the request.
func withdrawn(f facts) decision {
	h := holdOf(f.host)
	left := ConfirmTimeout - h.age(f.now)
	switch {
	case left > 0:
		return wait(min(left, longPoll), v1beta2.PoweringOffReason, "The request was withdrawn before host %s was off; its hold is removed when it is off", f.host.Name)
	case isSuspended(f.machine):
		return write(endSkip)
	default:
		return wait(longPoll, v1beta2.PowerOffNotConfirmedReason, "The request was withdrawn, and host %s is not off since %s; its hold is removed when it is. Repair the host or its BMC",
			f.host.Name, h.RequestedAt.UTC().Format(time.RFC3339))
	}
}

// isLeaving reports whether the Node that is to be deleted is already being deleted.
func isLeaving(f facts, do action) bool {
	return do == deleteNode && !f.node.DeletionTimestamp.IsZero()
}

func leaving(f facts) string {
	return fmt.Sprintf("Node %s is being deleted and still has the finalizers %s", f.node.Name, strings.Join(f.node.Finalizers, ", "))
}

// isMarkedFor reports whether the health checks of a Machine are suspended for this hold. The
// suspension may be that of a person, from before the recovery.
func isMarkedFor(m *clusterv1.Machine, h *hold) bool {
	_, skipped := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	s := stageOf(m)
	return skipped && s != nil && *s == stage{Hold: h.Nonce}
}

// finish continues after the hold is gone, until the Node is back and has its labels, annotations
// and taints again. Health checks do not stay suspended for a Node that cannot be restored.
func finish(f facts, l limits) decision {
	suspended, saved, due := isSuspended(f.machine), backupOf(f.machine), suspension(f, l)
	back := f.node != nil && f.node.DeletionTimestamp.IsZero() // a leaving Node has to register again
	incomplete := back && saved != nil && saved.isFor(f.node.UID) && saved.restore(f.node.DeepCopy())
	switch {
	case !suspended && saved == nil:
		return idle(f)
	case back && !incomplete:
		return write(closeCycle)
	case due != doNothing:
		return write(due)
	case incomplete:
		return write(restoreNode)
	case !suspended:
		return wait(restorable, v1beta2.NodeNotBackReason, "The host was powered on, and the Node %s is not back; its labels, annotations and taints are kept for it", saved.Node.Name)
	default:
		released := stageOf(f.machine).ReleasedAt
		return wait(nodePoll, v1beta2.WaitingForNodeReason, "Host %s may be powered on since %s; waiting for its Node until %s", f.host.Name,
			released.UTC().Format(time.RFC3339), released.Add(l.nodeTimeout).UTC().Format(time.RFC3339))
	}
}

// suspension returns the action that is due by the clock after the hold is gone: noting the time of
// the release, or letting health checks look at the Machine again.
func suspension(f facts, l limits) action {
	s := stageOf(f.machine)
	switch {
	case !isSuspended(f.machine):
		return doNothing
	case s == nil || !isPast(s.ReleasedAt, f.now):
		return noteRelease
	case f.now.Sub(s.ReleasedAt.Time) >= l.nodeTimeout:
		return endSkip
	default:
		return doNothing
	}
}
