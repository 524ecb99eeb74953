package reuse

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// Reason is why a host is not reserved, or not any more. Events and metrics name it.
type Reason string

// Reasons.
const (
	// reasonNoOwner means that the machine stands alone, or belongs to a MachineSet without a
	// MachineDeployment.
	reasonNoOwner Reason = "NoOwner"
	// reasonClusterDeleting means that the Cluster is being deleted.
	reasonClusterDeleting Reason = "ClusterDeleting"
	// reasonOwnerMissing means that the owner is gone, or has not appeared in time after its host.
	reasonOwnerMissing Reason = "OwnerMissing"
	// reasonClusterMissing means that the Cluster is gone, or has not appeared in time after the
	// host.
	reasonClusterMissing Reason = "ClusterMissing"
	// reasonOwnerUnreadable means that the kind of the owner is not served, or that the operator
	// may not read it. It is no reason to free a host.
	reasonOwnerUnreadable Reason = "OwnerUnreadable"
	// reasonOwnerReplaced means that another owner has the name now.
	reasonOwnerReplaced Reason = "OwnerReplaced"
	// reasonOwnerDeleting means that the owner is being deleted.
	reasonOwnerDeleting Reason = "OwnerDeleting"
	// reasonTemplateMissing means that there is no template that says whether reuse is wanted. It
	// is no reason to free a host.
	reasonTemplateMissing Reason = "TemplateMissing"
	// reasonReuseDisabled means that the template of the owner does not want reuse.
	reasonReuseDisabled Reason = "ReuseDisabled"
	// reasonHostDeleting means that the host is being deleted.
	reasonHostDeleting Reason = "HostDeleting"
	// reasonHostUnhealthy means that the host is annotated as unhealthy.
	reasonHostUnhealthy Reason = "HostUnhealthy"
	// reasonHostDetached means that the host is detached.
	reasonHostDetached Reason = "HostDetached"
	// reasonHostExternallyProvisioned means that the host is provisioned externally.
	reasonHostExternallyProvisioned Reason = "HostExternallyProvisioned"
	// reasonHostUnreviewed means that the host waits for a review.
	reasonHostUnreviewed Reason = "HostUnreviewed"
	// reasonHostDeployed means that somebody gave a reserved host an image of its own.
	reasonHostDeployed Reason = "HostDeployed"
	// reasonHostError means that the host cannot be reached or powered. It is no reason to free
	// a host: such errors pass.
	reasonHostError Reason = "HostError"
	// reasonSelectorMismatch means that the host selector of the template does not match.
	reasonSelectorMismatch Reason = "SelectorMismatch"
	// reasonNotNeeded means that the owner has, or has reserved, as many hosts as it wants.
	reasonNotNeeded Reason = "NotNeeded"
	// reasonWaitedTooLong means that no machine of the owner came for the host in time. The reason
	// does not apply while the owner cannot be read, because the owner may be paused.
	reasonWaitedTooLong Reason = "WaitedTooLong"
)

// recheck is how often the controller checks a reserved host without a change. It does not watch
// control planes, because they can be of any kind.
const recheck = 2 * time.Minute

// facts are what was read for a decision about one host.
type facts struct {
	now time.Time
	// wait is how long a reservation lasts; 0 means for ever.
	wait time.Duration
	host *v1alpha1.BareMetalHost
	// cluster and owner are nil when they do not exist; owner also when it is unreadable.
	cluster *clusterv1.Cluster
	owner   *ownerState
	// unreadable is why the owner cannot be read, or nil.
	unreadable error
	// template is the owner's template for new machines. If that is missing when a machine is
	// deleted, it is the template of that machine.
	template template
	// appearing says that an owner or a Cluster that does not exist may still appear.
	appearing bool
	// counted says that rank and need are known: how many hosts are reserved for
	// the owner before this one, and how many it can use.
	counted    bool
	rank, need int
}

// ownerState is an owner as it is now.
type ownerState struct {
	Owner
	clusterName string
	// deleting says that the owner is being deleted. paused says that its metadata or spec pause
	// it.
	deleting, paused bool
	// resumed is when its last pause ended, or the zero time.
	resumed time.Time
	// replicas is how many machines the owner wants.
	replicas int
	// infrastructure refers to its template for new machines.
	infrastructure clusterv1.ContractVersionedObjectReference
}

// template is what a Metal3MachineTemplate says about the hosts of its machines. The zero value
// stands for a template that does not exist.
type template struct {
	known bool
	reuse bool
	// selector selects the hosts that its machines can have; nil selects all.
	selector labels.Selector
	// cleaning is the cleaning mode of its machines; if empty, their hosts keep their own.
	cleaning string
}

// moment is when a reason counts; moments can be combined.
type moment int

const (
	atDeletion moment = 1 << iota
	whileReserved
)

// objection is a reason against a reservation.
type objection struct {
	reason Reason
	at     moment
	holds  func(*facts) bool
	// text says the reason about the host or its owner.
	text string
}

// objections are all reasons against a reservation. The first one that holds is reported.
var objections = []objection{
	{reasonClusterDeleting, atDeletion | whileReserved, func(f *facts) bool { return f.cluster != nil && !f.cluster.DeletionTimestamp.IsZero() }, "the Cluster is being deleted"},
	{reasonOwnerUnreadable, atDeletion, func(f *facts) bool { return f.unreadable != nil }, "nothing can be read about the owner; give the operator a role for its kind"},
	{reasonOwnerMissing, atDeletion | whileReserved, func(f *facts) bool { return f.owner == nil && f.unreadable == nil && !f.appearing }, "the owner does not exist"},
	{reasonClusterMissing, atDeletion | whileReserved, func(f *facts) bool { return f.cluster == nil && !f.appearing }, "the Cluster of the owner does not exist"},
	{reasonOwnerReplaced, whileReserved, func(f *facts) bool { return f.owner != nil && !ReservedFor(&f.owner.Owner, f.host) }, "the owner that it was reserved for is gone, and another one has its name"},
	{reasonOwnerDeleting, atDeletion | whileReserved, func(f *facts) bool { return f.owner != nil && f.owner.deleting }, "the owner is being deleted"},
	{reasonTemplateMissing, atDeletion, func(f *facts) bool { return !f.template.known }, "neither the template of the owner nor that of the machine exists, so that nothing says whether reuse is wanted"},
	{reasonReuseDisabled, atDeletion | whileReserved, func(f *facts) bool { return f.template.known && !f.template.reuse }, "nodeReuse is not set in the template of the owner"},
	{reasonHostDeleting, atDeletion | whileReserved, hostHas(reasonHostDeleting), "the host is being deleted"},
	{reasonHostUnhealthy, atDeletion | whileReserved, hostHas(reasonHostUnhealthy), "the host is annotated as unhealthy"},
	{reasonHostDetached, atDeletion | whileReserved, hostHas(reasonHostDetached), "the host is detached"},
	{reasonHostExternallyProvisioned, atDeletion | whileReserved, hostHas(reasonHostExternallyProvisioned), "the host is provisioned externally"},
	{reasonHostUnreviewed, atDeletion | whileReserved, hostHas(reasonHostUnreviewed), "the host waits for a review"},
	{reasonHostDeployed, whileReserved, hostHas(reasonHostDeployed), "somebody has given the host an image"},
	{reasonHostError, atDeletion, func(f *facts) bool { return unreachable[f.host.Status.ErrorType] }, "the host has an error of its registration or its power"},
	{reasonSelectorMismatch, atDeletion | whileReserved, hostHas(reasonSelectorMismatch), "the hostSelector in the template of the owner does not match the host"},
	{reasonNotNeeded, atDeletion | whileReserved, func(f *facts) bool { return f.counted && f.rank >= f.need }, "the owner has, or has reserved, as many hosts as it wants"},
	{reasonWaitedTooLong, whileReserved, func(f *facts) bool { return f.unreadable == nil && f.waitLeft() < 0 }, "no machine of the owner came for it in time"},
}

// unreachable are the types of errors that keep a host from being reserved.
var unreachable = map[v1alpha1.ErrorType]bool{
	v1alpha1.ErrorRegistration: true, v1alpha1.ErrorProvisionedRegistration: true, v1alpha1.ErrorPowerManagement: true,
}

// against returns the first reason against a reservation at a moment and its text, or nothing.
func (f *facts) against(when moment) (Reason, string) {
	for _, o := range objections {
		if o.at&when != 0 && o.holds(f) {
			return o.reason, o.text
		}
	}
	return "", ""
}

// hostFlaws are what no reserved host may have, because no machine can be put on the host until a
// person does something. A pause is not a flaw: it ends, and nothing is done about the host in the
// meantime.
var hostFlaws = []struct {
	reason Reason
	has    func(*v1alpha1.BareMetalHost, template) bool
}{
	{reasonHostDeleting, hostIs(eligible.Deleted)},
	{reasonHostUnhealthy, hostIs(eligible.Unhealthy)},
	{reasonHostDetached, hostIs(eligible.Detached)},
	{reasonHostExternallyProvisioned, hostIs(eligible.ExternallyProvisioned)},
	{reasonHostUnreviewed, hostIs(eligible.Unreviewed)},
	{reasonHostDeployed, func(h *v1alpha1.BareMetalHost, _ template) bool {
		// Before the reservation, the host has the image of its machine.
		return IsReserved(h) && eligible.Is(eligible.Deployed, h)
	}},
	{reasonSelectorMismatch, func(h *v1alpha1.BareMetalHost, t template) bool {
		return t.selector != nil && !t.selector.Matches(labels.Set(h.Labels))
	}},
}

// hostIs returns a test for hosts that cannot be used for the given reason.
func hostIs(because string) func(*v1alpha1.BareMetalHost, template) bool {
	return func(h *v1alpha1.BareMetalHost, _ template) bool { return eligible.Is(because, h) }
}

func has(h *v1alpha1.BareMetalHost, annotation string) bool {
	_, ok := h.Annotations[annotation]
	return ok
}

// hasFlaw reports whether machines of a template cannot use a host, not even when it becomes
// available.
func hasFlaw(h *v1alpha1.BareMetalHost, t template) bool {
	for _, flaw := range hostFlaws {
		if flaw.has(h, t) {
			return true
		}
	}
	return false
}

// hostHas returns a test of whether the host of a decision has a flaw.
func hostHas(reason Reason) func(*facts) bool {
	return func(f *facts) bool {
		for _, flaw := range hostFlaws {
			if flaw.reason == reason {
				return flaw.has(f.host, f.template)
			}
		}
		return false
	}
}

// rankOf returns how many other hosts are reserved for an owner before this one. A host that is not
// reserved comes last. Hosts that cannot be used do not count.
func rankOf(h *v1alpha1.BareMetalHost, owner *Owner, t template, hosts []v1alpha1.BareMetalHost) int {
	rank, reserved := 0, ReservedFor(owner, h)
	for i := range hosts {
		other := &hosts[i]
		if other.Name != h.Name && ReservedFor(owner, other) && !hasFlaw(other, t) && (!reserved || isBefore(other, h)) {
			rank++
		}
	}
	return rank
}

// isBefore reports whether a was reserved before b. The names decide between hosts of the same
// time.
func isBefore(a, b *v1alpha1.BareMetalHost) bool {
	if at, bt := ReservedAt(a), ReservedAt(b); !at.Equal(bt) {
		return at.Before(bt)
	}
	return a.Name < b.Name
}

// waitLeft returns how long the reservation still lasts: a negative duration when its time is over,
// and 0 when it has no end. After a pause of the owner or of the Cluster, the time begins anew.
func (f *facts) waitLeft() time.Duration {
	since := ReservedAt(f.host)
	if f.wait == 0 || since.IsZero() {
		return 0
	}
	if f.owner != nil {
		since = later(since, f.owner.resumed)
	}
	since = later(since, clusterResumed(f.cluster))
	return endsIn(since.Add(f.wait), f.now)
}

// endsIn returns the time until an end, and a negative duration from then on.
func endsIn(end, now time.Time) time.Duration {
	if left := end.Sub(now); left > 0 {
		return left
	}
	return -1
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// isPaused reports whether a pause of the Cluster, the owner or the host forbids to change the
// reservation.
func (f *facts) isPaused() bool {
	if f.cluster != nil && f.cluster.Spec.Paused != nil && *f.cluster.Spec.Paused {
		return true
	}
	return f.owner != nil && f.owner.paused || f.host.IsPaused()
}

// verdict is what becomes of a reservation.
type verdict struct {
	// release says why the host is freed, and text the same as part of a sentence.
	release Reason
	text    string
	// stamp says that the reservation is written again in its present form: with the time at, and
	// with the label of the Cluster.
	stamp   bool
	at      time.Time
	cluster string
	// again is when to check again.
	again time.Duration
}

// verdict decides what becomes of the reservation of a host.
func (f *facts) verdict() verdict {
	v := verdict{again: requeue.Spread(recheck, recheck/4, f.host.Namespace+"/"+f.host.Name, 0)}
	if f.isPaused() {
		return v
	}
	if reason, text := f.against(whileReserved); reason != "" {
		return verdict{release: reason, text: text}
	}
	if f.owner == nil || f.cluster == nil {
		v.again = requeue.Soonest(v.again, f.host.CreationTimestamp.Add(appearance).Sub(f.now))
	} else {
		v.stamp, v.at = f.stamp()
		if v.stamp {
			v.cluster = f.cluster.Name
		}
	}
	v.again = requeue.Soonest(v.again, f.waitLeft())
	return v
}

// stamp reports whether the reservation has to be written again, because it comes from elsewhere,
// lacks something, or does not fit its owner. It also returns the time of the reservation, which is
// now if the host does not tell.
func (f *facts) stamp() (bool, time.Time) {
	m, _ := markOf(f.host)
	at := ReservedAt(f.host)
	if at.IsZero() {
		return true, f.now
	}
	return m.carried() || m.ref == nil || f.host.Labels[clusterv1.ClusterNameLabel] != f.cluster.Name || m.ref.UID != f.owner.UID || m.ref.Namespace != f.owner.Namespace || f.host.Labels[v1beta2.NodeReuseLabel] != f.owner.label(), at
}

// blocker is a host that a new machine of its owner may wait for.
type blocker struct {
	host *v1alpha1.BareMetalHost
	// machine is the Machine in deletion that holds the host, and since is when its deletion began.
	// machine is empty when the host is reserved.
	machine string
	since   time.Time
}

// String returns the host and its state, as conditions name them.
func (b blocker) String() string {
	state := string(b.host.Status.Provisioning.State)
	switch why := eligible.Unusable(b.host); {
	case why == "", why == eligible.NotAvailable: // the state says so
	case why == eligible.Paused, b.machine == "":
		state += ", " + why
	}
	if b.machine != "" {
		return fmt.Sprintf("host %s (%s) of Machine %s, which is being deleted", b.host.Name, state, b.machine)
	}
	return fmt.Sprintf("host %s (%s), which is reserved", b.host.Name, state)
}

// queue is what limits the wait of a new machine.
type queue struct {
	now time.Time
	// wait bounds the wait for a Machine in deletion; 0 means for ever. The wait for a reserved
	// host needs no bound: the controller frees the host when its time is over.
	wait time.Duration
	// from is the earliest time from which a wait counts: from then on, the machine existed, and
	// neither its owner nor its Cluster was paused.
	from     time.Time
	template template
}

// waiting sets what a machine waits for, if anything. A machine does not wait for hosts that have
// an error or that it cannot use any more.
func (q queue) waiting(p *Preference, blockers []blocker) {
	slices.SortFunc(blockers, func(a, b blocker) int {
		if isBefore(a.host, b.host) {
			return -1
		}
		return 1
	})
	var expired []string
	for _, b := range blockers {
		if hasFlaw(b.host, q.template) || hasError(b.host) {
			continue
		}
		if b.machine != "" && q.wait > 0 {
			left := endsIn(later(b.since, q.from).Add(q.wait), q.now)
			if left < 0 {
				expired = append(expired, b.String())
				continue
			}
			p.RequeueAfter = requeue.Soonest(p.RequeueAfter, left)
		}
		if !p.Waiting {
			p.Waiting, p.WaitingFor = true, fmt.Sprintf("Waiting for %s, so that a machine of %s gets it again.", b, p.Owner)
		}
	}
	if !p.Waiting && len(expired) > 0 {
		p.Skipped = fmt.Sprintf("Not waiting any longer than %s for %s", q.wait, expired[0])
	}
}

func hasError(h *v1alpha1.BareMetalHost) bool {
	return h.Status.ErrorType != "" || h.Status.ErrorMessage != "" || h.Status.OperationalStatus == v1alpha1.OperationalStatusError
}
