package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// preparePoll is how often the node is read while the engine works on it.
	preparePoll = time.Second
	// idlePoll is how often the node is read while a person has to act. A
	// change of the node triggers a reconciliation at once.
	idlePoll = time.Minute
)

// Messages of Progressing. The next pass reads messageFailed to distinguish a failure
// that was already reported from a new one.
const (
	messagePreparing = "The engine makes the node available"
	messageFailed    = "Preparation failed and is tried again after a wait; change spec to try at once"
)

// preparing brings the node to available.
type preparing struct {
	engine     provisioner.Lifecycle
	maxBackoff time.Duration
	asked      *attempts
}

// attempts remembers which verb was sent for which host, to distinguish a verb that
// failed from one that was not sent yet. An operator that loses this at a
// restart sends the verb once more. It is safe for concurrent use.
type attempts struct {
	mu   sync.Mutex
	sent map[types.UID]prepareStep
}

func (a *attempts) get(host types.UID) (prepareStep, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	step, ok := a.sent[host]
	return step, ok
}

func (a *attempts) put(host types.UID, step prepareStep) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent[host] = step
}

func (a *attempts) forget(host types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sent, host)
}

// prepareStep is what a preparing host has to do next.
type prepareStep int

const (
	prepareDone    prepareStep = iota // the node is available
	prepareManage                     // the engine has to take control
	prepareProvide                    // the engine has to make it available
	prepareWait                       // the engine is at work
	prepareFailed                     // something failed that was not shown yet
	prepareHold                       // a failure was shown; its wait is not over
	prepareBlocked                    // a person has to act
)

// prepareSteps maps the node's state to the next step. States that are missing
// mean that another client uses the node.
var prepareSteps = map[node.State]prepareStep{
	node.Enroll:        prepareManage,
	node.Verifying:     prepareWait,
	node.Inspecting:    prepareWait,
	node.InspectWait:   prepareWait,
	node.InspectFailed: prepareFailed,
	node.Manageable:    prepareProvide,
	node.Cleaning:      prepareWait,
	node.CleanWait:     prepareWait,
	node.CleanFailed:   prepareFailed,
	node.AdoptFailed:   prepareFailed,
	node.Available:     prepareDone,
}

// attempt is the outcome of earlier passes.
type attempt struct {
	// asked is the last verb sent, if hasAsked.
	asked    prepareStep
	hasAsked bool
	// failed is true if a failure was reported.
	failed bool
	// waiting is true during the pause after it.
	waiting bool
}

// decidePrepare is pure. The message explains failed and blocked.
func decidePrepare(h *v1alpha1.BareMetalHost, n provisioner.Node, last attempt) (prepareStep, string) {
	step, known := prepareSteps[n.State]
	switch {
	case known && step == prepareDone:
		return prepareDone, ""
	case n.Maintenance:
		return prepareBlocked, withReason("The node is in maintenance", n.MaintenanceReason)
	case !known:
		return prepareBlocked, withReason(fmt.Sprintf("The node is in state %q: another client uses it", n.State), n.LastError)
	case step == prepareWait:
		return prepareWait, ""
	case last.failed && last.waiting:
		return prepareHold, ""
	case unsupportedRAID(h.Spec.RAID):
		return prepareFailed, "RAID cannot be configured on a host without a BMC in this version; remove spec.raid"
	case step == prepareFailed && last.failed:
		return prepareManage, "" // the way out of every failed state
	case step == prepareFailed:
		return prepareFailed, withReason(fmt.Sprintf("The node is in state %q", n.State), n.LastError)
	case n.LastError != "" && !node.IsYielded(n.LastError) && last.hasAsked && last.asked == step:
		return prepareFailed, n.LastError // the node is back where the verb found it
	default:
		return step, ""
	}
}

func withReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// unsupportedRAID reports whether there are volumes to create. Empty lists ask to
// delete volumes; Ingot creates none on hosts without a BMC.
func unsupportedRAID(raid *v1alpha1.RAIDConfig) bool {
	return raid != nil && len(raid.HardwareRAIDVolumes)+len(raid.SoftwareRAIDVolumes) > 0
}

func (p preparing) reconcile(ctx context.Context, s *scope) (result, error) {
	switch s.state() {
	case v1alpha1.StateMatchProfile:
		return s.moveTo(v1alpha1.StatePreparing), nil
	case v1alpha1.StatePreparing:
	default:
		return result{}, nil
	}
	wait := s.wait(v1alpha1.ErrorPreparation, p.maxBackoff)
	last := attempt{failed: s.lastMessage(v1alpha1.ProgressingCondition) == messageFailed, waiting: wait > 0}
	last.asked, last.hasAsked = p.asked.get(s.host.UID)
	step, message := decidePrepare(s.host, *s.node, last)
	switch step {
	case prepareDone:
		p.asked.forget(s.host.UID)
		s.host.Status.Provisioning.RootDeviceHints = s.host.Spec.RootDeviceHints.DeepCopy()
		s.host.Status.Provisioning.BootMode = s.host.Spec.BootMode
		s.host.Status.Provisioning.RAID = s.host.Spec.RAID.DeepCopy()
		return s.moveTo(v1alpha1.StateAvailable), nil
	case prepareManage, prepareProvide:
		s.working(v1alpha1.PreparingReason, messagePreparing)
		if err := p.send(ctx, s, step); err != nil {
			return result{stop: true}, err
		}
		p.asked.put(s.host.UID, step)
		if last.hasAsked && last.asked == step {
			return result{requeueAfter: preparePoll, stop: true}, nil // the engine is slow to begin
		}
		return result{requeueAfter: soon, stop: true}, nil
	case prepareWait:
		s.working(v1alpha1.PreparingReason, messagePreparing)
		return result{requeueAfter: preparePoll, stop: true}, nil
	case prepareBlocked:
		s.waiting("%s", cut(message))
		return result{requeueAfter: idlePoll, stop: true}, nil
	case prepareHold:
		s.waiting(messageFailed)
		return result{requeueAfter: wait, stop: true}, nil
	default: // prepareFailed
		p.asked.forget(s.host.UID)
		s.waiting(messageFailed)
		return result{stop: true}, &failure{v1alpha1.ErrorPreparation, errors.New(cut(message))}
	}
}

// send asks the engine for the verb of a step.
func (p preparing) send(ctx context.Context, s *scope, step prepareStep) error {
	if step == prepareManage {
		return refused(v1alpha1.ErrorPreparation, "take node %s under control", s.node.ID, p.engine.Manage(ctx, s.node.ID))
	}
	opts := provisioner.ProvideOptions{SkipCleaning: s.host.Spec.AutomatedCleaningMode == v1alpha1.CleaningModeDisabled}
	return refused(v1alpha1.ErrorPreparation, "make node %s available", s.node.ID, p.engine.Provide(ctx, s.node.ID, opts))
}

// refused converts a refusal of the engine into a failure of that kind. Temporary
// errors stay unchanged.
func refused(kind v1alpha1.ErrorType, format, id string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, provisioner.ErrBusy), errors.Is(err, provisioner.ErrUnreachable), errors.Is(err, provisioner.ErrNotFound):
		return err
	default:
		return &failure{kind, fmt.Errorf(format+": %w", id, err)}
	}
}
