package webhook

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// +kubebuilder:webhook:path=/validate-metal3-io-v1alpha1-hostfirmwarecomponents,verbs=create;update,groups=metal3.io,resources=hostfirmwarecomponents,versions=v1alpha1,name=hostfirmwarecomponents.metal3.io,mutating=false,failurePolicy=fail,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=ingot-webhook,serviceNamespace=ingot-system
// +kubebuilder:webhook:path=/validate-metal3-io-v1alpha1-dataimage,verbs=create;update,groups=metal3.io,resources=dataimages,versions=v1alpha1,name=dataimage.metal3.io,mutating=false,failurePolicy=fail,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=ingot-webhook,serviceNamespace=ingot-system
// +kubebuilder:webhook:path=/validate-metal3-io-v1alpha1-bmceventsubscription,verbs=create,groups=metal3.io,resources=bmceventsubscriptions,versions=v1alpha1,name=bmceventsubscription.metal3.io,mutating=false,failurePolicy=fail,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=ingot-webhook,serviceNamespace=ingot-system
// +kubebuilder:webhook:path=/validate-metal3-io-v1alpha1-hostupdatepolicy,verbs=create,groups=metal3.io,resources=hostupdatepolicies,versions=v1alpha1,name=hostupdatepolicy.metal3.io,mutating=false,failurePolicy=ignore,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=5,serviceName=ingot-webhook,serviceNamespace=ingot-system

// alone validates objects of a kind by their own content, in the same way when they are created and
// when they are changed.
type alone[T client.Object] struct {
	kind  schema.GroupKind
	check func(ctx context.Context, obj T, f *Findings) error
}

func (v alone[T]) ValidateCreate(ctx context.Context, obj T) (admission.Warnings, error) {
	var f Findings
	if err := v.check(ctx, obj, &f); err != nil {
		return nil, err
	}
	return f.answer(v.kind, obj.GetName())
}

func (v alone[T]) ValidateUpdate(ctx context.Context, old, obj T) (admission.Warnings, error) {
	var before, f Findings
	if !obj.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	if err := v.check(ctx, old, &before); err != nil {
		return nil, err
	}
	if err := v.check(ctx, obj, &f); err != nil {
		return nil, err
	}
	f.tolerate(before)
	return f.answer(v.kind, obj.GetName())
}

// ValidateDelete is never called: the configuration does not ask for deletions.
func (v alone[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// components checks the names of components more strictly than their pattern in the schema, and
// URLs.
func (c Checks) components(_ context.Context, o *v1alpha1.HostFirmwareComponents, f *Findings) error {
	var seen []string
	for i, update := range o.Spec.Updates {
		path := spec.Child("updates").Index(i)
		name, nic := strings.CutPrefix(update.Component, v1alpha1.ComponentNICPrefix)
		switch {
		case slices.Contains(seen, update.Component):
			f.Errors = append(f.Errors, field.Duplicate(path.Child("component"), update.Component))
		case nic && name == "":
			f.refuse(path.Child("component"), update.Component, "does not say which NIC; write %s and a name from status.components", v1alpha1.ComponentNICPrefix)
		case !nic && update.Component != v1alpha1.ComponentBMC && update.Component != v1alpha1.ComponentBIOS:
			f.refuse(path.Child("component"), update.Component, "is not one of %s, %s, %s and a name", v1alpha1.ComponentBMC, v1alpha1.ComponentBIOS, v1alpha1.ComponentNICPrefix)
		}
		seen = append(seen, update.Component)
		c.fileURL(path.Child("url"), update.URL, firmwareSchemes, f)
	}
	return nil
}

func (c Checks) dataImage(_ context.Context, d *v1alpha1.DataImage, f *Findings) error {
	c.imageURL(spec.Child("url"), d.Spec.URL, f)
	return nil
}

// checkSubscription checks what the schema cannot check, because the schema does not see the
// object's namespace.
func checkSubscription(_ context.Context, s *v1alpha1.BMCEventSubscription, f *Findings) error {
	if ref := s.Spec.HTTPHeadersRef; ref != nil && ref.Namespace != "" && ref.Namespace != s.Namespace {
		f.forbid(spec.Child("httpHeadersRef", "namespace"), "a subscription reads a Secret of its own namespace only; leave it out, or copy the Secret to namespace %s", s.Namespace)
	}
	return nil
}

// policyCheck warns about a policy that belongs to no host. A policy belongs to the host of the
// same name. policyCheck refuses nothing, even if the host cannot be read because its namespace is
// not watched.
func policyCheck(hosts client.Reader) func(context.Context, *v1alpha1.HostUpdatePolicy, *Findings) error {
	return func(ctx context.Context, p *v1alpha1.HostUpdatePolicy, f *Findings) error {
		const effect = "a policy has an effect only on the host of the same name"
		name := field.NewPath("metadata", "name")
		err := hosts.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, &v1alpha1.BareMetalHost{})
		switch {
		case apierrors.IsNotFound(err):
			f.warn(name, "there is no BareMetalHost %s/%s; %s", p.Namespace, p.Name, effect)
		case err != nil:
			f.warn(name, "the operator could not look for BareMetalHost %s/%s, perhaps because it does not watch the namespace; %s", p.Namespace, p.Name, effect)
		}
		return nil
	}
}
