package operator

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// HostStates returns how many hosts of a namespace are in each provisioning state. It reads the
// operator's own cache, so it costs no request, however many hosts there are. It returns no hosts
// before Run has started the cache, and waits while the cache is being filled.
func (o *Operator) HostStates(ctx context.Context, namespace string) (map[v1alpha1.ProvisioningState]int, error) {
	var hosts v1alpha1.BareMetalHostList
	err := o.manager.GetCache().List(ctx, &hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	var notStarted *cache.ErrCacheNotStarted
	if err != nil && !errors.As(err, &notStarted) {
		return nil, fmt.Errorf("count the hosts of namespace %s: %w", namespace, err)
	}
	states := map[v1alpha1.ProvisioningState]int{}
	for i := range hosts.Items {
		states[hosts.Items[i].Status.Provisioning.State]++
	}
	return states, nil
}
