package host

import (
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Requests of a live update besides askAbort. askService asks the engine to run the update.
// askObserve goes to no engine: it is recorded while other controllers have yet to look at the
// machine.
const (
	askService = "service"
	askObserve = "observe"
)

// observeTimeout is how long, after its end, a live update counts as running until somebody has
// compared the objects with the machine. A comparison triggers a pass. Without one, there is a pass
// every observePoll.
const (
	observeTimeout = 2 * time.Minute
	observePoll    = 15 * time.Second
)

// firmwareStep is the name of the step that writes firmware, which must not be interrupted. It is
// aborted only on an engine that first completes the component that is being written.
const firmwareStep = "update"

// inService are the states of a node that is being serviced, by this operator or by another client.
var inService = map[node.State]bool{
	node.Servicing:     true,
	node.ServiceWait:   true,
	node.ServiceHold:   true,
	node.ServiceFailed: true,
}

// serviceStep is what has to be done about a live update next. After steps up to serviceBlocked the
// power is steered as usual.
type serviceStep int

const (
	serviceNone       serviceStep = iota // nothing
	serviceObserve                       // it has succeeded, and no comparison shows that yet
	serviceBlocked                       // a person or another client has to act
	serviceUnbootable                    // the restart that begins it waits until there is a ramdisk
	serviceRestart                       // the machine is powered off for another attempt
	serviceBegin                         // it is planned, and its request recorded
	serviceSend                          // the request is sent
	serviceWait                          // the engine is at work
	serviceAbort                         // the engine has to end what it does
	serviceDone                          // it has succeeded
	serviceFailed                        // it has failed
	servicePause                         // the node is in use again after a failure
	serviceSeen                          // it has succeeded, and the objects show that, or nobody looks
	serviceEnd                           // it is not wanted any more, and nothing of it runs
)

// serviceView is what decides about a live update.
type serviceView struct {
	node     provisioner.Node
	record   v1alpha1.OperationStatus
	requests powerRequests
	// wanted is true when something may be applied to the machine in use. ready is true when it is
	// known what. kept is true while what was requested is still what is wanted.
	wanted, ready, kept bool
	// observed is true when the objects show what was applied, or nobody looks.
	observed bool
	// explicit is true when only the reboot annotation may begin the update.
	explicit bool
	// waiting is true while a failure is not tried again, for a time or for good.
	waiting bool
	// inherited is true when the service failed that Metal3's operator had asked for.
	inherited bool
	// noRamdisk is true while there is no ramdisk that the machine could boot for the update.
	noRamdisk bool
}

// again reports whether an earlier attempt has to be followed by another one.
func (v serviceView) again() bool { return v.record.Failures > 0 || v.record.Request == askAbort }

// startable reports whether a live update may run now. A host that is held off stays off.
func (v serviceView) startable() bool {
	return v.wanted && v.ready && v.requests.online && len(v.requests.holds) == 0 && !isMaintained(v.node)
}

// decideService returns the next step of a live update.
func decideService(v serviceView) serviceStep {
	switch v.node.State {
	case node.Servicing:
		return serviceWait
	case node.ServiceWait, node.ServiceHold:
		ends := v.record.Request == askAbort && !v.record.Accepted || v.record.Request == askService && !v.kept
		if ends && (v.node.Step != firmwareStep || v.node.GuardsFirmware) {
			return serviceAbort
		}
		return serviceWait
	case node.ServiceFailed:
		return v.afterFailure()
	case node.Active:
		return v.whileActive()
	default:
		return serviceNone
	}
}

// afterFailure decides for a node whose service has failed. The node goes back to active even if
// another attempt follows, so that the machine is on meanwhile.
func (v serviceView) afterFailure() serviceStep {
	switch {
	case isMaintained(v.node):
		return serviceBlocked
	case v.record.Request == "" && v.record.Failures == 0 && !v.inherited:
		return serviceBlocked // the service of another client
	case v.record.Request == askService && v.kept:
		return serviceFailed
	default:
		return serviceAbort
	}
}

// whileActive decides for a node that is not being serviced: not yet, or not any more. If the power
// of a node cannot be read, its error is about that, and not about the update.
func (v serviceView) whileActive() serviceStep {
	switch asked := v.record.Request; {
	case asked == askObserve && v.observed:
		return serviceSeen
	case asked == askObserve:
		return serviceObserve
	case asked == askService && arrived(v.record, v.node) && (v.node.LastError == "" || v.node.Fault == node.FaultPowerFailure):
		return serviceDone
	case asked == askService && arrived(v.record, v.node) && v.kept:
		return serviceFailed
	case asked == askService && v.startable() && v.kept:
		return serviceSend
	case asked == askService:
		return serviceEnd // it was aborted, or never sent
	case asked == askAbort && v.record.Failures > 0:
		return servicePause
	case v.again() && !v.wanted:
		return serviceEnd
	case !v.startable(), v.waiting:
		return serviceNone
	default:
		return v.trigger()
	}
}

// trigger decides whether a live update begins. It begins when the machine is off and is to be on,
// or, if the machine must not be off, at once when a restart is asked for.
func (v serviceView) trigger() serviceStep {
	asked := v.requests.cycle || v.again()
	switch {
	case v.node.Busy || v.node.TargetPower != "":
		return serviceNone
	case v.noRamdisk && v.requests.cycle && v.node.Power == node.PowerOn:
		return serviceUnbootable
	case v.noRamdisk: // a machine that is off is not kept off for an update
		return serviceNone
	case v.node.Power == node.PowerOff && (asked || !v.explicit):
		return serviceBegin
	case v.requests.neverOff && asked:
		return serviceBegin
	case v.again() && v.node.Power == node.PowerOn:
		return serviceRestart
	default:
		return serviceNone
	}
}

// isServiced reports whether a live update of the host runs, or is about to.
func isServiced(h *v1alpha1.BareMetalHost) bool {
	return hasDeployment[h.Status.Provisioning.State] && h.Status.Updates.Service.Request != ""
}
