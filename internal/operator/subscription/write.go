package subscription

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// headersOf returns HTTP headers in the form of Redfish: one object for each header.
func headersOf(data map[string][]byte) []map[string]string {
	var headers []map[string]string
	for _, name := range slices.Sorted(maps.Keys(data)) {
		headers = append(headers, map[string]string{name: string(data[name])})
	}
	return headers
}

// write stores a change of the status, if it changes anything.
func (r *Reconciler) write(ctx context.Context, s *v1alpha1.BMCEventSubscription, change func(*v1alpha1.BMCEventSubscriptionStatus)) error {
	before := s.DeepCopy()
	change(&s.Status)
	if equality.Semantic.DeepEqual(before.Status, s.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, s, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status of subscription %s: %w", s.Name, err)
	}
	return nil
}

// finalize adds or removes the finalizer. It fails if the object has changed since the decision
// about it.
func (r *Reconciler) finalize(ctx context.Context, s *v1alpha1.BMCEventSubscription, change func(client.Object, string) bool) error {
	before := s.DeepCopy()
	if !change(s, v1alpha1.BMCEventSubscriptionFinalizer) {
		return nil
	}
	if err := r.Client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write subscription %s: %w", s.Name, err)
	}
	return nil
}
