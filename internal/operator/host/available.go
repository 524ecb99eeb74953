package host

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// available keeps an unused host in step with its node until it is to be used.
type available struct {
	power   power
	slots   capacity
	updater updater
	// maxFailures is how often the same image is tried; 0 is no limit.
	maxFailures int
}

// availableStep is what an available host has to do next.
type availableStep int

const (
	availableStay      availableStep = iota // nothing
	availableLeave                          // the machine is externally provisioned
	availableLost                           // the node is not available any more
	availableInspect                        // the hardware has to be read again
	availablePrepare                        // the configuration has changed, or has to be checked before a deployment
	availableProvision                      // something is to be deployed
	availableFailed                         // the image failed too often
	availableSilent                         // something is to be deployed, but no heartbeat comes
	availableHeld                           // there is work for the machine, and the host is held off
)

// powersOn are the steps that lead to work for which the machine is powered on.
var powersOn = map[availableStep]bool{availableInspect: true, availablePrepare: true, availableProvision: true}

// decideAvailable returns the next step of an available host. Nothing begins on a host that is held
// off: whoever holds it relies on that, and may have the machine open.
func decideAvailable(h *v1alpha1.BareMetalHost, n provisioner.Node, c configuration, alive bool, maxFailures int) availableStep {
	next := nextAvailable(h, n, c, alive, maxFailures)
	if powersOn[next] && h.IsHeldOff() {
		return availableHeld
	}
	return next
}

// nextAvailable is decideAvailable without regard to what holds the host off.
func nextAvailable(h *v1alpha1.BareMetalHost, n provisioner.Node, c configuration, alive bool, maxFailures int) availableStep {
	switch {
	case h.Spec.ExternallyProvisioned:
		return availableLeave
	case wantsInspection(h) && (h.HasBMC() || alive):
		return availableInspect
	case n.State != node.Available:
		return availableLost
	case h.HasBMC() && c.wanted():
		return availablePrepare
	case !h.HasBMC() && hasVolumes(h.Spec.RAID): // which the preparation refuses
		return availablePrepare
	case !wantsDeployment(h):
		return availableStay
	case h.HasBMC() && (c.changes.unseen() || c.changes.problem() != ""):
		return availablePrepare
	case maxFailures > 0 && h.Status.ProvisioningFailCount >= maxFailures:
		return availableFailed
	case !h.HasBMC() && !alive:
		return availableSilent
	default:
		return availableProvision
	}
}

// wantsInspection reports whether a person asks to read the hardware again.
func wantsInspection(h *v1alpha1.BareMetalHost) bool {
	value, there := h.Annotations[v1alpha1.InspectAnnotation]
	return there && value == "" && h.Spec.InspectionMode != v1alpha1.InspectionModeDisabled
}

// wantsDeployment reports whether a deployment of the host is to begin.
func wantsDeployment(h *v1alpha1.BareMetalHost) bool { return h.Spec.Online && asksForDeployment(h) }

// asksForDeployment reports whether the host names what is to run on it.
func asksForDeployment(h *v1alpha1.BareMetalHost) bool {
	return !isLeaving(h) && (imageURL(h.Spec.Image) != "" || deployMethod(h.Spec.CustomDeploy) != "")
}

func imageURL(image *v1alpha1.Image) string {
	if image == nil {
		return ""
	}
	return image.URL
}

func deployMethod(deploy *v1alpha1.CustomDeploy) string {
	if deploy == nil {
		return ""
	}
	return deploy.Method
}

func (p available) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.state() == v1alpha1.StateReady {
		return s.moveTo(v1alpha1.StateAvailable), nil
	}
	forgetFailures(s.host)
	var err error
	if s.changes, err = p.updater.read(ctx, s.host); err != nil {
		return stopped(), err
	}
	s.updatePending = preparingUpdate(s.host, s.changes)
	step := decideAvailable(s.host, *s.node, configurationOf(s.host, s.changes), s.agentAlive(), p.maxFailures)
	requests, _ := powerRequestsOf(s.host)
	if step == availableHeld && s.changes.wanted() {
		s.updatePending = blockedByHolds(s.changes, requests.holders())
	}
	switch step {
	case availableLeave:
		showRAID(&s.host.Status.Provisioning, nil)
		s.host.Status.Provisioning.RootDeviceHints = nil
		s.host.Status.Provisioning.Image = v1alpha1.Image{}
		return s.moveTo(v1alpha1.StateExternallyProvisioned), nil
	case availableLost:
		why := withReason(fmt.Sprintf("Node %s changed to state %q without a request of this host", s.node.ID, s.node.State), s.node.LastError)
		s.warn(eventNodeLeftAvailable, "%s", node.CutText(why))
		s.working(v1alpha1.PreparingReason, "%s", node.CutText(why))
		return s.moveTo(v1alpha1.StatePreparing), nil
	case availableInspect:
		if free, res, err := p.slots.take(ctx, s, v1alpha1.OperationInspect); !free {
			return res, err
		}
		return s.moveTo(v1alpha1.StateInspecting), nil
	case availablePrepare:
		s.working(v1alpha1.PreparingReason, "The host is prepared again for its settings, firmware or volumes")
		return s.moveTo(v1alpha1.StatePreparing), nil
	case availableSilent:
		s.waiting("%s", silence(s.node.Agent.LastHeartbeat))
		return result{requeueAfter: untilSilent(s)}, nil
	case availableProvision:
		free, res, err := p.slots.take(ctx, s, v1alpha1.OperationProvision)
		if !free {
			return res, err
		}
		p.begin(s)
		return s.moveTo(v1alpha1.StateProvisioning), nil
	}
	done, res, err := p.power.steer(ctx, s)
	if err != nil || !done {
		return res, err
	}
	queuedAt := s.host.Status.Operation.QueuedAt
	s.host.Status.Operation = v1alpha1.OperationStatus{} // the power is as it should be
	s.clearError()
	switch step {
	case availableHeld:
		s.host.Status.Operation.QueuedAt = queuedAt // it keeps its place
		s.waiting("The host is kept powered off by %s; what is asked for begins when nothing does so any more", requests.holders())
	case availableFailed:
		message := fmt.Sprintf("Provisioning was given up after %d failures; change or remove spec.image to try again", s.host.Status.ProvisioningFailCount)
		s.waiting("%s", message)
		s.host.Status.ErrorType, s.host.Status.ErrorMessage = v1alpha1.ErrorProvisioning, message
	}
	res.requeueAfter = requeue.Soonest(res.requeueAfter, untilSilent(s))
	return res, nil
}

// begin saves what the deployment will use.
func (available) begin(s *scope) {
	effective := &s.host.Status.Provisioning
	effective.RootDeviceHints = s.host.Spec.RootDeviceHints.DeepCopy()
	effective.BootMode = s.host.Spec.BootMode
	s.host.Status.LastAttemptedImage = s.host.Spec.Image.DeepCopy()
	s.host.Status.LastAttemptedCustomDeploy = s.host.Spec.CustomDeploy.DeepCopy()
	s.note(eventProvisioningStarted, "Deployment of %s started", deploymentName(s.host.Spec.Image, s.host.Spec.CustomDeploy))
}

// forgetFailures resets the count of failed deployments when the host asks for something else.
func forgetFailures(h *v1alpha1.BareMetalHost) {
	if h.Status.ProvisioningFailCount > 0 && !isAttempted(h) {
		h.Status.ProvisioningFailCount = 0
		h.Status.LastAttemptedImage, h.Status.LastAttemptedCustomDeploy = nil, nil
	}
}

// isAttempted reports whether the last attempt was to deploy what the host asks for now.
func isAttempted(h *v1alpha1.BareMetalHost) bool {
	return imageURL(h.Spec.Image) == imageURL(h.Status.LastAttemptedImage) &&
		deployMethod(h.Spec.CustomDeploy) == deployMethod(h.Status.LastAttemptedCustomDeploy)
}

func deploymentName(image *v1alpha1.Image, deploy *v1alpha1.CustomDeploy) string {
	if url := imageURL(image); url != "" {
		return "the image " + node.CutText(node.MaskURLs(url))
	}
	return "the method " + deployMethod(deploy)
}

// untilSilent is the time until the ramdisk counts as gone unless it sends another
// heartbeat. A ramdisk that comes back triggers a reconciliation.
func untilSilent(s *scope) time.Duration {
	if s.host.HasBMC() || !s.agentAlive() {
		return 0
	}
	return s.node.Agent.LastHeartbeat.Add(s.agentWindow).Sub(s.now) + time.Second
}
