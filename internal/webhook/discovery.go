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

// discoveries warns if there are several discovery resources, because only one of them has an
// effect. It refuses nothing, because the schema already refuses what is wrong with a single
// resource.
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

// ValidateDelete is never called: the configuration does not ask for deletions.
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

// warnOverlap warns about another resource that is not suspended. The oldest of them takes all
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
