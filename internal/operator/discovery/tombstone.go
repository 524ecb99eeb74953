package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// RecordDeletion adds a tombstone for a host that is being deleted to the discovery resource that
// created it, if that resource denies rediscovery. It does nothing for hosts that were not
// discovered or have no valid boot MAC address.
//
// The controller that deletes hosts calls RecordDeletion in each pass that deletes the node from
// the engine or removes the host's finalizer, before it does either. The machine is then not
// discovered again, whether discovery runs meanwhile or not.
//
// RecordDeletion reads the resource with live, which must not be a cache, and writes with writer.
// now is the time of deletion for hosts without one. The caller needs the rights to get
// baremetalhostdiscoveries and to patch their status. Errors are those of the API server; a
// conflict can be tried again at once. A missing resource, or a cluster without the resource's
// kind, is no error.
func RecordDeletion(ctx context.Context, live client.Reader, writer client.StatusClient, host *v1alpha1.BareMetalHost, now time.Time) error {
	source, tombstone, ok := tombstoneOf(host, now)
	if !ok {
		return nil
	}
	err := retry.RetryOnConflict(recordBackoff, func() error {
		var resource discoveryv1.BareMetalHostDiscovery
		if err := live.Get(ctx, source, &resource); err != nil {
			return err
		}
		patch, err := tombstonePatch(&resource, tombstone)
		if patch == nil || err != nil {
			return err
		}
		return writer.Status().Patch(ctx, &resource, patch)
	})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep the machine of host %s/%s from being discovered again by %s: %w", host.Namespace, host.Name, source, err)
	}
	return nil
}

// recordBackoff sets the pauses between attempts to write a tombstone. There may be many attempts,
// because many hosts may be deleted at once.
var recordBackoff = wait.Backoff{Steps: 20, Duration: 20 * time.Millisecond, Factor: 1.2, Jitter: 0.5}

// tombstonePatch returns the patch that adds a machine to the tombstones of a resource, or nil if
// there is nothing to add. If the list exists and has room, the patch appends to it, which never
// conflicts with what others append.
func tombstonePatch(resource *discoveryv1.BareMetalHostDiscovery, t discoveryv1.Tombstone) (client.Patch, error) {
	before := resource.DeepCopy()
	if resource.Spec.Rediscovery != discoveryv1.RediscoveryDeny || !addTombstone(resource, t) {
		return nil, nil
	}
	if n := len(before.Status.Tombstones); n == 0 || n >= maxTombstones {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), nil
	}
	data, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status/tombstones/-", "value": t}})
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.JSONPatchType, data), nil
}

// tombstoneOf returns the tombstone of a host, and the resource that created the host. ok is false
// for a host that was not discovered or has no valid boot MAC address.
func tombstoneOf(host *v1alpha1.BareMetalHost, now time.Time) (source types.NamespacedName, t discoveryv1.Tombstone, ok bool) {
	from, discovered := originOf(host)
	mac, octets := node.ParseHardwareAddress(host.Spec.BootMACAddress)
	if !discovered || octets == 0 {
		return types.NamespacedName{}, discoveryv1.Tombstone{}, false
	}
	at := metav1.NewTime(now)
	if host.DeletionTimestamp != nil {
		at = *host.DeletionTimestamp
	}
	return from.resource, discoveryv1.Tombstone{MAC: mac, DeletedAt: at}, true
}

// deletionSeen remembers the tombstone of a deleted host for the resource that created it, and
// returns that resource. The resource's next reconciliation writes the tombstone, unless
// [RecordDeletion] already did.
func (r *Reconciler) deletionSeen(host *v1alpha1.BareMetalHost) (types.NamespacedName, bool) {
	source, tombstone, ok := tombstoneOf(host, r.Now())
	if !ok {
		return types.NamespacedName{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[source] = append(r.pending[source], tombstone)
	return source, true
}

// addPending adds the pending tombstones to the status and returns how many there are. They stay
// pending until the status has been written.
func (r *Reconciler) addPending(resource *discoveryv1.BareMetalHostDiscovery) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := r.pending[types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}]
	if resource.Spec.Rediscovery == discoveryv1.RediscoveryDeny {
		for _, t := range pending {
			addTombstone(resource, t)
		}
	}
	return len(pending)
}

// dropPending removes the first n pending tombstones of a resource.
func (r *Reconciler) dropPending(name types.NamespacedName, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[name] = r.pending[name][min(n, len(r.pending[name])):]
	if len(r.pending[name]) == 0 {
		delete(r.pending, name)
	}
}

// addTombstone adds a machine once and drops the oldest tombstones beyond the limit. It reports
// whether it added the machine.
func addTombstone(resource *discoveryv1.BareMetalHostDiscovery, t discoveryv1.Tombstone) bool {
	list := &resource.Status.Tombstones
	if slices.ContainsFunc(*list, func(old discoveryv1.Tombstone) bool { return strings.EqualFold(old.MAC, t.MAC) }) {
		return false
	}
	*list = append(*list, t)
	slices.SortStableFunc(*list, func(a, b discoveryv1.Tombstone) int { return a.DeletedAt.Compare(b.DeletedAt.Time) })
	if len(*list) > maxTombstones {
		*list = (*list)[len(*list)-maxTombstones:]
	}
	return true
}
