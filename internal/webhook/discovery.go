package webhook

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

// +kubebuilder:webhook:path=/validate-metal3-io-v1alpha1-baremetalhostdiscovery,verbs=create;update,groups=metal3.io,resources=baremetalhostdiscoveries,versions=v1alpha1,name=baremetalhostdiscovery.metal3.io,mutating=false,failurePolicy=ignore,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=5,serviceName=ingot-webhook,serviceNamespace=ingot-system
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhostdiscoveries,verbs=get;list;watch

// discoveries warns about resources of which only one has an effect. What makes a single one
// wrong is in its schema, so that nothing is refused here.
type discoveries struct{ cache client.Reader }

func (v discoveries) ValidateCreate(ctx context.Context, d *discoveryv1.BareMetalHostDiscovery) (admission.Warnings, error) {
	return v.check(ctx, d)
}

func (v discoveries) ValidateUpdate(ctx context.Context, old, d *discoveryv1.BareMetalHostDiscovery) (admission.Warnings, error) {
	if !old.Spec.Suspend || d.Spec.Suspend {
		return nil, nil
	}
	return v.check(ctx, d)
}

// ValidateDelete is not asked for.
func (v discoveries) ValidateDelete(context.Context, *discoveryv1.BareMetalHostDiscovery) (admission.Warnings, error) {
	return nil, nil
}

func (v discoveries) check(ctx context.Context, d *discoveryv1.BareMetalHostDiscovery) (admission.Warnings, error) {
	var all discoveryv1.BareMetalHostDiscoveryList
	if err := v.cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list other discovery resources: %w", err)
	}
	var f Findings
	warnOverlap(d, all.Items, &f)
	return f.Warnings, nil
}

// warnOverlap names another resource that is not suspended: the oldest of them takes all
// machines.
func warnOverlap(d *discoveryv1.BareMetalHostDiscovery, all []discoveryv1.BareMetalHostDiscovery, f *Findings) {
	if d.Spec.Suspend {
		return
	}
	for i := range all {
		other := &all[i]
		if other.Spec.Suspend || client.ObjectKeyFromObject(other) == client.ObjectKeyFromObject(d) {
			continue
		}
		f.warn(spec.Child("suspend"), "%s/%s is active, too, and only the older of the two makes hosts; suspend or delete one of them", other.Namespace, other.Name)
		return
	}
}
