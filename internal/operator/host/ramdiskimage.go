package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// ramdiskWait is how often a host checks for its ramdisk. A change of the PreprovisioningImage, or
// of the Secret with the network configuration, triggers a pass at once.
const ramdiskWait = 5 * time.Minute

// ramdiskImages creates a PreprovisioningImage for each host with a BMC, to ask for the host's
// ramdisk, if the operator is configured to do so.
type ramdiskImages struct {
	enabled bool
	// served is true when there is an image controller.
	served bool
	client client.Client
	live   client.Reader
}

// find returns the image of the ramdisk of a host; missing says why there is none yet. It creates
// the PreprovisioningImage, and keeps its spec as the host needs it.
func (p ramdiskImages) find(ctx context.Context, h *v1alpha1.BareMetalHost, access bmc.Access) (image *provisioner.RamdiskImage, missing string, err error) {
	if !p.enabled {
		return nil, "", nil
	}
	var found v1alpha1.PreprovisioningImage
	wanted := imageSpecOf(h, access)
	err = p.client.Get(ctx, client.ObjectKeyFromObject(h), &found)
	if apierrors.IsNotFound(err) {
		missing := "PreprovisioningImage " + h.Name + " was not built yet"
		if !h.DeletionTimestamp.IsZero() {
			return nil, missing, nil // a namespace that is being deleted takes no new objects
		}
		return nil, missing, p.create(ctx, h, wanted)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read PreprovisioningImage %s: %w", h.Name, err)
	}
	if err := p.keep(ctx, h, &found, wanted); err != nil {
		return nil, "", err
	}
	secret, err := p.secretOf(ctx, h)
	if err != nil {
		return nil, "", err
	}
	if why := whyUnusable(&found, wanted, secret); why != "" {
		return nil, fmt.Sprintf("PreprovisioningImage %s %s", h.Name, why), nil
	}
	return ramdiskImageOf(found.Status), "", nil
}

// imageSpecOf returns the ramdisk that a host needs. Every machine can boot an initial ramdisk: the
// engine turns it into an ISO image where it has to.
func imageSpecOf(h *v1alpha1.BareMetalHost, access bmc.Access) v1alpha1.PreprovisioningImageSpec {
	spec := v1alpha1.PreprovisioningImageSpec{NetworkDataName: h.Spec.PreprovisioningNetworkDataName, Architecture: h.Spec.Architecture}
	if details := h.Status.HardwareDetails; spec.Architecture == "" && details != nil {
		spec.Architecture = details.CPU.Arch
	}
	if access.Abilities.BootsISO {
		spec.AcceptFormats = append(spec.AcceptFormats, v1alpha1.ImageFormatISO)
	}
	spec.AcceptFormats = append(spec.AcceptFormats, v1alpha1.ImageFormatInitrd)
	return spec
}

func (p ramdiskImages) create(ctx context.Context, h *v1alpha1.BareMetalHost, spec v1alpha1.PreprovisioningImageSpec) error {
	err := p.client.Create(ctx, &v1alpha1.PreprovisioningImage{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Namespace, Name: h.Name, Finalizers: []string{v1alpha1.HostPreprovisioningImageFinalizer},
			OwnerReferences: []metav1.OwnerReference{ownerReference(h)},
		},
		Spec: spec,
	})
	if err != nil && !apierrors.IsAlreadyExists(err) { // the cache does not have it yet
		return fmt.Errorf("create PreprovisioningImage %s: %w", h.Name, err)
	}
	return nil
}

// keep writes what differs in the image that has the host's name. It takes the finalizer off an
// image that is being deleted; the next pass creates another.
func (p ramdiskImages) keep(ctx context.Context, h *v1alpha1.BareMetalHost, image *v1alpha1.PreprovisioningImage, spec v1alpha1.PreprovisioningImageSpec) error {
	before := image.DeepCopy()
	if image.DeletionTimestamp.IsZero() {
		// The name belongs to the host; the former owner of the object no longer exists.
		image.OwnerReferences = []metav1.OwnerReference{ownerReference(h)}
		controllerutil.AddFinalizer(image, v1alpha1.HostPreprovisioningImageFinalizer)
		image.Spec = spec
	} else {
		controllerutil.RemoveFinalizer(image, v1alpha1.HostPreprovisioningImageFinalizer)
	}
	return client.IgnoreNotFound(patchMeta(ctx, p.client, image, before))
}

// secretOf returns the present version of the Secret with the network configuration.
func (p ramdiskImages) secretOf(ctx context.Context, h *v1alpha1.BareMetalHost) (v1alpha1.SecretStatus, error) {
	name := h.Spec.PreprovisioningNetworkDataName
	if name == "" {
		return v1alpha1.SecretStatus{}, nil
	}
	secret := watch.SecretMetadata()
	if err := p.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, secret); err != nil && !apierrors.IsNotFound(err) {
		return v1alpha1.SecretStatus{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return v1alpha1.SecretStatus{Name: name, Version: secret.ResourceVersion}, nil
}

// whyUnusable returns why a host cannot boot the image that an image controller has built, "" if it
// can.
func whyUnusable(image *v1alpha1.PreprovisioningImage, wanted v1alpha1.PreprovisioningImageSpec, secret v1alpha1.SecretStatus) string {
	status := image.Status
	ready := conditionOf(status.Conditions, v1alpha1.ImageReadyCondition)
	failed := conditionOf(status.Conditions, v1alpha1.ImageErrorCondition)
	switch {
	case !image.DeletionTimestamp.IsZero():
		return "is being deleted"
	case !equality.Semantic.DeepEqual(image.Spec, wanted):
		return "was asked for with other properties"
	case failed.Status == metav1.ConditionTrue && failed.ObservedGeneration == image.Generation:
		return "cannot be built: " + node.CutText(withReason(failed.Reason, failed.Message))
	case ready.Status != metav1.ConditionTrue, ready.ObservedGeneration != image.Generation, status.ImageURL == "":
		return "was not built yet"
	case status.Architecture != wanted.Architecture:
		return fmt.Sprintf("is for the architecture %q, and the host has %q", status.Architecture, wanted.Architecture)
	case !slices.Contains(wanted.AcceptFormats, status.Format):
		return fmt.Sprintf("has the format %q, and the host accepts %q", status.Format, wanted.AcceptFormats)
	case wanted.NetworkDataName != "" && status.NetworkData != secret:
		return fmt.Sprintf("was built with another version of Secret %s", wanted.NetworkDataName)
	default:
		return ""
	}
}

func ramdiskImageOf(status v1alpha1.PreprovisioningImageStatus) *provisioner.RamdiskImage {
	if status.Format == v1alpha1.ImageFormatISO {
		return &provisioner.RamdiskImage{ISO: status.ImageURL}
	}
	return &provisioner.RamdiskImage{Kernel: status.KernelURL, Ramdisk: status.ImageURL, KernelParams: status.ExtraKernelParams}
}

// release deletes the image of a deleted host, even if the operator does not ask for images now:
// the image may be from earlier. If there is no image controller, release also removes that
// controller's finalizer.
func (p ramdiskImages) release(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	finalizers := []string{v1alpha1.HostPreprovisioningImageFinalizer}
	if !p.served {
		finalizers = append(finalizers, v1alpha1.PreprovisioningImageFinalizer)
	}
	return releaseChild(ctx, p.live, p.client, h, &v1alpha1.PreprovisioningImage{}, finalizers...)
}

// withoutRamdisk are the requests to the engine for which no machine boots the ramdisk.
var withoutRamdisk = map[string]bool{askManage: true, askAdopt: true, askAbort: true}

// bootsRamdisk reports whether the engine boots the ramdisk for a request.
func bootsRamdisk(h *v1alpha1.BareMetalHost, request string) bool {
	switch request {
	case askInspect:
		return h.Spec.InspectionMode != v1alpha1.InspectionModeFast
	case askProvide, askUndeploy:
		return !skipsCleaning(h)
	default:
		return !withoutRamdisk[request]
	}
}
