package webhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
)

// +kubebuilder:webhook:path=/validate-metal3-io-v1alpha1-baremetalhost,verbs=create;update,groups=metal3.io,resources=baremetalhosts,versions=v1alpha1,name=baremetalhost.metal3.io,mutating=false,failurePolicy=fail,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=ingot-webhook,serviceNamespace=ingot-system
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch

var hostKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "BareMetalHost"}

// hosts checks hosts, both by themselves and against all other hosts.
type hosts struct {
	finder duplicate.Finder
	checks Checks
}

func (v hosts) ValidateCreate(ctx context.Context, h *v1alpha1.BareMetalHost) (admission.Warnings, error) {
	return v.check(ctx, nil, h)
}

func (v hosts) ValidateUpdate(ctx context.Context, old, h *v1alpha1.BareMetalHost) (admission.Warnings, error) {
	return v.check(ctx, old, h)
}

// ValidateDelete is never called: the configuration does not ask for deletions.
func (v hosts) ValidateDelete(context.Context, *v1alpha1.BareMetalHost) (admission.Warnings, error) {
	return nil, nil
}

func (v hosts) check(ctx context.Context, old, h *v1alpha1.BareMetalHost) (admission.Warnings, error) {
	f := v.checks.Host(old, h)
	if claimsMore(old, h) {
		matches, err := v.finder.Find(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("look for other hosts with the same machine, try again: %w", err)
		}
		f.addMatches(h, matches)
	}
	return f.answer(hostKind, h.Name)
}

// claimsMore reports whether a host claims a machine that it did not claim before. If hosts are
// already duplicates, their other changes must not be stopped: the operator has to be able to write
// what is wrong, and people to delete one of the hosts.
func claimsMore(old, h *v1alpha1.BareMetalHost) bool {
	if !h.DeletionTimestamp.IsZero() {
		return false
	}
	if old == nil {
		return true
	}
	_, was := old.Annotations[v1alpha1.AllowDuplicateAnnotation]
	_, is := h.Annotations[v1alpha1.AllowDuplicateAnnotation]
	return was && !is || old.Spec.BootMACAddress != h.Spec.BootMACAddress || old.Spec.BMC.Address != h.Spec.BMC.Address
}

// addMatches refuses a host if another host is certain to have the same machine, and warns if
// another host may have it.
func (f *Findings) addMatches(h *v1alpha1.BareMetalHost, matches []duplicate.Match) {
	mac, address := spec.Child("bootMACAddress"), spec.Child("bmc", "address")
	for _, m := range matches {
		at, value := address, h.Spec.BMC.Address
		if m.Reason == duplicate.SameMAC || m.Reason == duplicate.OtherNIC {
			at, value = mac, h.Spec.BootMACAddress
		}
		if m.Reason.Certain() {
			f.refuse(at, value, "%v", m)
		} else {
			f.warn(at, "%v", m)
		}
	}
}

// IndexFields registers the indexes that the webhooks need in the cache.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	return duplicate.IndexFields(ctx, indexer)
}
