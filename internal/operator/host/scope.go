package host

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// soon is the wait before the next pass after a change of state. It gives
	// the cache time to show the change.
	soon = 20 * time.Millisecond
	// busyWait is the wait while the engine works on the node.
	busyWait = 3 * time.Second
	// unreachableWait is the wait while the engine does not answer.
	unreachableWait = 10 * time.Second
)

// result is the outcome of a phase.
type result struct {
	// requeueAfter is the longest wait before the next pass; 0 means that only
	// a change brings one.
	requeueAfter time.Duration
	// stop ends the pass.
	stop bool
}

// failure is an error of an operation on the host. It is shown in the status
// and retried with growing pauses.
type failure struct {
	kind v1alpha1.ErrorType
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// scope is the state of one pass.
type scope struct {
	// host is changed by the phases; before is the host as it was read.
	host, before *v1alpha1.BareMetalHost
	// now is the time of the pass.
	now time.Time
	// agentWindow is how long after its last heartbeat a ramdisk is alive.
	agentWindow time.Duration
	// node is the engine's node, set by the phase linked.
	node *provisioner.Node
	// progress, if set, is the content of the condition Progressing.
	progress *progress
	// unrestored is true while the status annotation cannot be checked. The status
	// that the pass writes then does not count as one, so that it is restored later.
	unrestored bool
	// engineError is why the engine could not be used, and engineReason the reason of
	// the conditions that say so.
	engineReason, engineError string
	// ignoredHolds are reboot annotations that cannot be fulfilled.
	ignoredHolds []string
	// events are published when the pass is written.
	events []hostEvent
}

// progress is the reason and the message of the condition Progressing.
type progress struct {
	active          bool
	reason, message string
}

func newScope(host *v1alpha1.BareMetalHost, now time.Time, agentWindow time.Duration) *scope {
	return &scope{host: host, before: host.DeepCopy(), now: now, agentWindow: agentWindow}
}

// state is the host's provisioning state.
func (s *scope) state() v1alpha1.ProvisioningState { return s.host.Status.Provisioning.State }

// moveTo changes the state and ends the pass. It clears errors of the old state.
func (s *scope) moveTo(state v1alpha1.ProvisioningState) result {
	s.host.Status.Provisioning.State = state
	s.clearError()
	return result{requeueAfter: soon, stop: true}
}

// clearError records that the current operation works.
func (s *scope) clearError() {
	s.host.Status.ErrorType = v1alpha1.ErrorNone
	s.host.Status.ErrorMessage = ""
	s.host.Status.ErrorCount = 0
}

// working sets what is being done.
func (s *scope) working(reason, format string, args ...any) {
	s.progress = &progress{active: true, reason: reason, message: fmt.Sprintf(format, args...)}
}

// waiting sets what must happen before anything can be done.
func (s *scope) waiting(format string, args ...any) {
	s.progress = &progress{reason: v1alpha1.NotProgressingReason, message: fmt.Sprintf(format, args...)}
}

// agentAlive reports whether the machine's ramdisk can be given work.
func (s *scope) agentAlive() bool {
	return s.node != nil && s.node.Agent.Alive(s.now, s.agentWindow)
}

// lastMessage is the message of a condition before this pass.
func (s *scope) lastMessage(kind string) string {
	return conditionOf(s.before.Status.Conditions, kind).Message
}

func conditionOf(list []metav1.Condition, kind string) metav1.Condition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// wait is the pause before a failed operation is retried. A
// changed spec is retried at once.
func (s *scope) wait(kind v1alpha1.ErrorType, limit time.Duration) time.Duration {
	status := &s.before.Status
	if status.ErrorType != kind || status.ErrorCount == 0 || status.LastUpdated == nil {
		return 0
	}
	if conditionOf(status.Conditions, v1alpha1.ProgressingCondition).ObservedGeneration != s.host.Generation {
		return 0
	}
	next := status.LastUpdated.Add(backoff(status.ErrorCount, limit, string(s.host.UID)))
	return max(next.Sub(s.now), 0)
}
