package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// importPoll is how often an importing host asks for an inventory.
const importPoll = 10 * time.Second

const messageUnreadable = "The inventory cannot be read; this is tried again after a wait"

// importing copies the inventory of the engine's node to the host, so that it
// need not be inspected again.
type importing struct {
	engine     inventoryReader
	data       hardwareData
	maxBackoff time.Duration
}

// importStep is what an importing host has to do next.
type importStep int

const (
	importWait  importStep = iota // there are no details yet
	importLeave                   // the machine is externally provisioned
	importDone                    // details are there, or not wanted
)

// decideImport is pure: inspected reports whether the engine has an inventory.
func decideImport(h *v1alpha1.BareMetalHost, inspected bool) importStep {
	switch {
	case h.Spec.ExternallyProvisioned:
		return importLeave
	case inspected, h.Status.HardwareDetails != nil, inspectionDisabled(h):
		return importDone
	default:
		return importWait
	}
}

func (p importing) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.state() != v1alpha1.StateImporting {
		return result{}, nil
	}
	if wait := s.wait(v1alpha1.ErrorInspection, p.maxBackoff); wait > 0 {
		s.waiting(messageUnreadable)
		return result{requeueAfter: wait, stop: true}, nil
	}
	inspected, err := p.collect(ctx, s)
	if err != nil {
		return result{stop: true}, err
	}
	switch decideImport(s.host, inspected) {
	case importLeave:
		s.note(eventImportComplete, "Host is externally provisioned; its machine is not changed")
		return s.moveTo(v1alpha1.StateExternallyProvisioned), nil
	case importWait:
		s.working(v1alpha1.ImportingReason, "Waiting for the inventory of node %s; boot the machine into the ramdisk if it is off", s.node.ID)
		return result{requeueAfter: importPoll, stop: true}, nil
	default:
		s.note(eventImportComplete, "Hardware details were copied from node %s", s.node.ID)
		s.working(v1alpha1.PreparingReason, messagePreparing)
		return s.moveTo(v1alpha1.StatePreparing), nil
	}
}

// collect reads the inventory into the host and its HardwareData. It reports
// whether there is one. Details that a person supplied are kept.
func (p importing) collect(ctx context.Context, s *scope) (bool, error) {
	if inspectionDisabled(s.host) && s.host.Status.HardwareDetails != nil {
		return false, nil
	}
	inv, err := p.engine.Inventory(ctx, s.node.ID)
	missing := errors.Is(err, provisioner.ErrNoInventory) || errors.Is(err, provisioner.ErrNotFound)
	switch {
	case err == nil, missing:
	case errors.Is(err, provisioner.ErrUnreachable), errors.Is(err, provisioner.ErrBusy), ctx.Err() != nil:
		return false, err
	default:
		s.waiting(messageUnreadable)
		return false, &failure{v1alpha1.ErrorInspection, fmt.Errorf("read inventory of node %s: %w", s.node.ID, err)}
	}
	if inv != nil {
		s.host.Status.HardwareDetails = hardware.Details(inv)
	}
	details := s.host.Status.HardwareDetails
	if details == nil {
		return false, nil
	}
	if s.host.Spec.Architecture == "" {
		s.host.Spec.Architecture = details.CPU.Arch
	}
	return inv != nil, p.data.write(ctx, s.host, details)
}

// inspectionDisabled reports whether the host has inspection disabled.
func inspectionDisabled(h *v1alpha1.BareMetalHost) bool {
	return h.Spec.InspectionMode == v1alpha1.InspectionModeDisabled ||
		h.Annotations[v1alpha1.InspectAnnotation] == v1alpha1.InspectDisabled
}
