package host

import (
	"context"
	"errors"
	"strings"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// provisioning deploys what the host asks for. A deployment that fails is removed before the next
// attempt.
type provisioning struct {
	work
	inputs deploymentInputs
	media  media
}

// provisionStep is what a provisioning host has to do next.
type provisionStep int

const (
	provisionWork   provisionStep = iota // the engine deploys, or has to be asked
	provisionRemove                      // what was deployed so far has to be removed
)

// decideProvisioning returns the next step of a provisioning host. A deployment under way is
// removed when the host asks for another one or none, or when a person interrupts it, as soon as
// the engine can be interrupted. While the engine deploys, an error in the status is that of an
// earlier attempt. A host that is not to be online is powered off only after it is deployed.
func decideProvisioning(h *v1alpha1.BareMetalHost, n provisioner.Node, record v1alpha1.OperationStatus) provisionStep {
	changed := !isAttempted(h)
	begun := record.Request == askDeploy
	switch {
	case n.State == node.Deploying, n.State == node.Active:
		return provisionWork
	case !asksForDeployment(h), n.State == node.Available && !h.Spec.Online && !begun:
		return provisionRemove
	case n.State == node.Available && !changed:
		return provisionWork // nothing is there to be removed; a refusal is tried again after a wait
	case !begun && n.State == node.DeployFailed && record.Failures > 0 && changedSince(record, n):
		return provisionWork // it records the failure of a request whose answer was lost
	case !begun && n.State == node.DeployFailed && record.Failures > 0:
		return provisionRemove
	case !begun && h.Status.ErrorType == v1alpha1.ErrorProvisioning && n.State != node.DeployWait && n.State != node.DeployHold:
		return provisionRemove
	case begun && (changed || forced(h)):
		return provisionRemove
	default:
		return provisionWork
	}
}

func (p provisioning) reconcile(ctx context.Context, s *scope) (result, error) {
	if attempt := &s.host.Status; attempt.LastAttemptedImage == nil && attempt.LastAttemptedCustomDeploy == nil {
		// Metal3's operator has begun the deployment. It records no method and, in older versions,
		// no image.
		attempt.LastAttemptedImage, attempt.LastAttemptedCustomDeploy = s.host.Spec.Image.DeepCopy(), s.host.Spec.CustomDeploy.DeepCopy()
	}
	record := s.operation(v1alpha1.OperationProvision)
	if decideProvisioning(s.host, *s.node, *record) == provisionRemove {
		if forced(s.host) {
			delete(s.host.Annotations, v1alpha1.RebootAnnotation)
		}
		return s.moveKeepingError(v1alpha1.StateDeprovisioning), nil
	}
	if s.node.State == node.Available && s.host.HasBMC() {
		if ready, res, err := p.media.reconcile(ctx, s); err != nil || !ready {
			return res, err // the engine powers the machine on
		}
	}
	attempted := deploymentName(s.host.Status.LastAttemptedImage, s.host.Status.LastAttemptedCustomDeploy)
	complete, res, err := p.advance(ctx, s, task{
		operation: v1alpha1.OperationProvision, workflow: provisionWorkflow, reason: v1alpha1.ProvisioningReason,
		message: "The engine deploys " + attempted,
		failed:  "The deployment failed; what is there of it is removed",
		send: map[string]func(context.Context) error{askDeploy: func(ctx context.Context) error {
			deployment, err := p.inputs.deployment(ctx, s.host)
			if err != nil {
				return err
			}
			return p.engine.Deploy(ctx, s.node.ID, deployment)
		}},
	})
	var unusable *imageAuthError
	// There is no event for each further try.
	if errors.As(err, &unusable) && !strings.Contains(s.before.Status.ErrorMessage, unusable.message) {
		s.warn(unusable.reason, "%s", unusable.message)
	}
	var failed *failure
	if errors.As(err, &failed) && s.node.State != node.Available {
		s.host.Status.ProvisioningFailCount++
		return stoppedFor(soon), err
	}
	if !complete {
		return res, err
	}
	effective := &s.host.Status.Provisioning
	effective.Image, effective.CustomDeploy = v1alpha1.Image{}, s.host.Status.LastAttemptedCustomDeploy.DeepCopy()
	if s.host.Status.LastAttemptedImage != nil {
		effective.Image = *s.host.Status.LastAttemptedImage.DeepCopy()
	}
	s.host.Status.ProvisioningFailCount = 0
	s.note(eventProvisioningComplete, "%s is deployed", capitalized(attempted))
	return s.moveTo(v1alpha1.StateProvisioned), nil
}

// deploymentChanged reports whether a host in use is to run something else than it does, or
// nothing. An image or a method that the status does not name is unknown. If the spec names one
// now, beside what is deployed or after Metal3's operator, that is no reason to wipe the machine.
func deploymentChanged(h *v1alpha1.BareMetalHost) bool {
	image, method := imageURL(h.Spec.Image), deployMethod(h.Spec.CustomDeploy)
	nowImage, nowMethod := h.Status.Provisioning.Image.URL, deployMethod(h.Status.Provisioning.CustomDeploy)
	return image == "" && method == "" || nowImage != "" && nowImage != image || nowMethod != "" && nowMethod != method
}
