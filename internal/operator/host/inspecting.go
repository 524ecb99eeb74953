package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// inspecting has the engine read the hardware, and copies what it found.
type inspecting struct {
	work
	details details
}

// inspectStep is what an inspecting host has to do next.
type inspectStep int

const (
	inspectWork    inspectStep = iota // the engine inspects, or has to be asked
	inspectLeave                      // the machine is externally provisioned
	inspectSkip                       // nobody wants an inspection any more
	inspectRestart                    // the inspection under way has to begin anew
	inspectAwait                      // the inspection is over, and the engine may still store its result
	inspectCollect                    // the inspection is over
)

// decideInspection returns the next step of an inspecting host.
func decideInspection(h *v1alpha1.BareMetalHost, n provisioner.Node, record v1alpha1.OperationStatus) inspectStep {
	running := n.State == node.Inspecting || n.State == node.InspectWait
	switch {
	case h.Spec.ExternallyProvisioned && n.State == node.InspectWait:
		return inspectRestart // it aborts the inspection
	case h.Spec.ExternallyProvisioned && !running:
		return inspectLeave
	case running && forced(h) && n.State == node.InspectWait:
		return inspectRestart
	case running:
		return inspectWork
	case inspectionDisabled(h):
		return inspectSkip
	case n.State == node.Manageable && n.LastError == "" && (record.Request == askInspect && arrived(record, n) || inspectedMeanwhile(h, n, record)):
		if n.Busy { // Ironic stores the inventory after the state, under the same lock
			return inspectAwait
		}
		return inspectCollect
	default:
		return inspectWork
	}
}

// inspectedMeanwhile reports whether the first inspection of a host has ended. It is for an
// inspection that Metal3's operator asked for, which left no record. A later inspection is
// repeated: the two times are of different clocks, and a person asked for that one.
func inspectedMeanwhile(h *v1alpha1.BareMetalHost, n provisioner.Node, record v1alpha1.OperationStatus) bool {
	return record.Request == "" && record.Failures == 0 && h.Status.HardwareDetails == nil && n.InspectedAt.After(h.Status.OperationHistory.Inspect.Start.Time)
}

// forced reports whether the request for one power cycle asks to interrupt what is under
// way. Keys that hold a host off cannot.
func forced(h *v1alpha1.BareMetalHost) bool {
	value, there := h.Annotations[v1alpha1.RebootAnnotation]
	arguments, err := v1alpha1.ParseRebootArguments(value)
	return there && err == nil && arguments.Force
}

func (p inspecting) reconcile(ctx context.Context, s *scope) (result, error) {
	record := s.operation(v1alpha1.OperationInspect)
	switch decideInspection(s.host, *s.node, *record) {
	case inspectLeave:
		return s.moveTo(v1alpha1.StateExternallyProvisioned), nil
	case inspectSkip:
		s.note(eventInspectionSkipped, "Inspection is disabled")
		return s.moveTo(v1alpha1.StatePreparing), nil
	case inspectRestart:
		delete(s.host.Annotations, v1alpha1.RebootAnnotation)
		if err := p.engine.Abort(ctx, s.node.ID); err != nil {
			return stopped(), refused(v1alpha1.OperationInspect, askAbort, s.node.ID, err)
		}
		s.asked(v1alpha1.OperationInspect, askAbort, *s.node)
		return stoppedFor(workPoll), nil
	case inspectAwait:
		s.working(v1alpha1.InspectingReason, "The engine stores what it has read of the hardware")
		return stoppedFor(workPoll), nil
	case inspectCollect:
		return p.collect(ctx, s)
	}
	if state := s.node.State; (state == node.Inspecting || state == node.InspectWait) && record.Request != askInspect && record.Request != askAbort {
		s.asked(v1alpha1.OperationInspect, askInspect, *s.node) // the answer was lost
	}
	if record.Request == "" && record.Failures == 0 {
		s.note(eventInspectionStarted, "The engine reads the hardware")
	}
	t := task{
		operation: v1alpha1.OperationInspect, workflow: inspectWorkflow, reason: v1alpha1.InspectingReason,
		message: "The engine reads the hardware", recorded: askInspect,
		failed: "Inspection failed and is tried again after a wait; change spec to try at once",
	}
	if !s.host.HasBMC() && s.node.State == node.InspectWait {
		t.reason, t.message = v1alpha1.WaitingForManualBootReason, "The engine waits for the inventory, which the ramdisk sends when it starts"+bootByHand
	}
	_, res, err := p.advance(ctx, s, t)
	if canDoWithout(s, err) {
		s.warn(eventInspectionError, "The host keeps the hardware details that it has: %s", node.CutText(err.Error()))
		s.working(v1alpha1.PreparingReason, messagePreparing)
		return s.moveTo(v1alpha1.StatePreparing), nil
	}
	return res, err
}

// canDoWithout reports whether a host goes on without the inspection that the engine refuses. It
// does if it has no BMC, its machine was inspected before, and the ramdisk still waits for work.
func canDoWithout(s *scope, err error) bool {
	refusal := errors.Is(err, provisioner.ErrInvalid) || errors.Is(err, provisioner.ErrUnsupported)
	return refusal && !s.host.HasBMC() && s.node.State == node.Manageable && s.host.Status.HardwareDetails != nil
}

func (p inspecting) collect(ctx context.Context, s *scope) (result, error) {
	found, err := p.details.collect(ctx, s, v1alpha1.OperationInspect)
	if err != nil {
		return stopped(), err
	}
	if !found {
		hint := ""
		if s.host.Spec.InspectionMode == v1alpha1.InspectionModeFast {
			hint = "; Ironic 2023.1 and older store none of an inspection through the BMC: set spec.inspectionMode to " + string(v1alpha1.InspectionModeAgent)
		}
		return stopped(), &failure{v1alpha1.OperationInspect, fmt.Errorf("node %s was inspected, and the engine has no inventory of it%s", s.node.ID, hint)}
	}
	s.note(eventInspectionComplete, "Hardware inspection completed")
	s.working(v1alpha1.PreparingReason, messagePreparing)
	return s.moveTo(v1alpha1.StatePreparing), nil
}

// details reads the inventory of a node into its host and the host's HardwareData.
type details struct {
	engine   inventoryReader
	readings *hardware.Readings
}

// collect sets the hardware details of the host from the inventory of its node, and reports whether
// there is an inventory. Details that a person supplied are kept.
func (p details) collect(ctx context.Context, s *scope, operation v1alpha1.OperationName) (bool, error) {
	if inspectionDisabled(s.host) && s.host.Status.HardwareDetails != nil {
		return false, nil
	}
	if s.restored && p.readings.Has(s.node.ID, s.node.InspectedAt, s.host.Status.HardwareDetails) {
		p.take(s, s.host.Status.HardwareDetails)
		return true, nil
	}
	inv, err := p.engine.Inventory(ctx, s.node.ID)
	missing := errors.Is(err, provisioner.ErrNoInventory) || errors.Is(err, provisioner.ErrNotFound)
	switch {
	case err == nil, missing:
	case isTemporary(err), ctx.Err() != nil:
		return false, err
	default:
		s.waiting(messageUnreadable)
		return false, &failure{operation, fmt.Errorf("read inventory of node %s: %w", s.node.ID, err)}
	}
	if inv != nil {
		s.host.Status.HardwareDetails = hardware.Details(inv)
	}
	found := s.host.Status.HardwareDetails
	if found == nil {
		return false, nil
	}
	p.take(s, found)
	return inv != nil, nil
}

// take has the pass store hardware details, and writes their architecture into the spec.
func (details) take(s *scope, found *v1alpha1.HardwareDetails) {
	keepArchitecture(s.host)
	s.collected = found
}

// keepArchitecture writes the architecture of the hardware into a spec without one. It is called
// again until the node is available: the spec is written after the status, and the operator may end
// in between.
func keepArchitecture(h *v1alpha1.BareMetalHost) {
	if found := h.Status.HardwareDetails; h.Spec.Architecture == "" && found != nil {
		h.Spec.Architecture = found.CPU.Arch
	}
}
