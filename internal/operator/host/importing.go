package host

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// importPoll is how often an importing host asks for an inventory.
const importPoll = 10 * time.Second

const messageUnreadable = "The inventory cannot be read; this is tried again after a wait"

// importing copies the inventory of the engine's node to the host, so that it
// need not be inspected again.
type importing struct {
	details    details
	maxBackoff time.Duration
}

// importStep is what an importing host has to do next.
type importStep int

const (
	importWait  importStep = iota // there are no details yet
	importLeave                   // the machine is externally provisioned
	importUsed                    // something is deployed on the machine
	importDone                    // details are there, or not wanted
)

// decideImport returns the next step of an importing host. inspected reports whether the engine has
// an inventory.
func decideImport(h *v1alpha1.BareMetalHost, inspected bool) importStep {
	switch {
	case h.Spec.ExternallyProvisioned:
		return importLeave
	case runsDeployment(h):
		return importUsed
	case inspected, h.Status.HardwareDetails != nil, inspectionDisabled(h):
		return importDone
	default:
		return importWait
	}
}

func (p importing) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.host.HasBMC() {
		return s.moveTo(v1alpha1.StateRegistering), nil
	}
	if wait := s.wait(v1alpha1.OperationImport, p.maxBackoff); wait > 0 {
		s.waiting(messageUnreadable)
		return stoppedFor(wait), nil
	}
	inspected, err := p.details.collect(ctx, s, v1alpha1.OperationImport)
	if err != nil {
		return stopped(), err
	}
	switch decideImport(s.host, inspected) {
	case importLeave:
		s.note(eventImportComplete, "Host is externally provisioned; its machine is not changed")
		return s.moveTo(v1alpha1.StateExternallyProvisioned), nil
	case importUsed:
		s.note(eventImportComplete, "The machine of node %s has data; it is taken over as it is", s.node.ID)
		return s.moveTo(v1alpha1.StateProvisioned), nil
	case importWait:
		s.working(v1alpha1.ImportingReason, "Waiting for the inventory of node %s; boot the machine into the ramdisk if it is off", s.node.ID)
		return stoppedFor(importPoll), nil
	default:
		s.note(eventImportComplete, "Hardware details were copied from node %s", s.node.ID)
		s.working(v1alpha1.PreparingReason, messagePreparing)
		return s.moveTo(v1alpha1.StatePreparing), nil
	}
}

// runsDeployment reports whether something was deployed on the machine of a host and not
// removed since, as far as the status says.
func runsDeployment(h *v1alpha1.BareMetalHost) bool {
	return h.Status.Provisioning.Image.URL != "" || deployMethod(h.Status.Provisioning.CustomDeploy) != ""
}

// inspectionDisabled reports whether the host has inspection disabled.
func inspectionDisabled(h *v1alpha1.BareMetalHost) bool {
	return h.Spec.InspectionMode == v1alpha1.InspectionModeDisabled ||
		h.Annotations[v1alpha1.InspectAnnotation] == v1alpha1.InspectDisabled
}
