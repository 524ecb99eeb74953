package discovery

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hostDeleted remembers that a host which a resource made is gone, and returns
// the resource. The next reconciliation of the resource writes the tombstone.
func (r *Reconciler) hostDeleted(host *v1alpha1.BareMetalHost) (types.NamespacedName, bool) {
	r.created.forget(host.UID)
	from, ok := originOf(host)
	if !ok || host.Spec.BootMACAddress == "" {
		return types.NamespacedName{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[from.resource] = append(r.pending[from.resource], r.tombstoneOf(host))
	return from.resource, true
}

func (r *Reconciler) tombstoneOf(host *v1alpha1.BareMetalHost) discoveryv1.Tombstone {
	at := metav1.NewTime(r.Now())
	if host.DeletionTimestamp != nil {
		at = *host.DeletionTimestamp
	}
	return discoveryv1.Tombstone{MAC: strings.ToLower(host.Spec.BootMACAddress), DeletedAt: at}
}

// addDeletingHosts adds tombstones for hosts that are being deleted, also for
// deletions that the controller did not watch.
func (r *Reconciler) addDeletingHosts(resource *discoveryv1.BareMetalHostDiscovery, hosts []v1alpha1.BareMetalHost) {
	if resource.Spec.Rediscovery != discoveryv1.RediscoveryDeny {
		return
	}
	for i := range hosts {
		host := &hosts[i]
		from, ok := originOf(host)
		if ok && !host.DeletionTimestamp.IsZero() && host.Spec.BootMACAddress != "" &&
			from.resource.Namespace == resource.Namespace && from.resource.Name == resource.Name {
			addTombstone(resource, r.tombstoneOf(host))
		}
	}
}

// addPending adds the pending tombstones to the status and returns how many there
// were. They stay pending until the status is written.
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
	r.pending[name] = r.pending[name][n:]
	if len(r.pending[name]) == 0 {
		delete(r.pending, name)
	}
}

// addTombstone adds a machine once and drops the oldest beyond the limit.
func addTombstone(resource *discoveryv1.BareMetalHostDiscovery, t discoveryv1.Tombstone) {
	list := &resource.Status.Tombstones
	if slices.ContainsFunc(*list, func(old discoveryv1.Tombstone) bool { return strings.EqualFold(old.MAC, t.MAC) }) {
		return
	}
	*list = append(*list, t)
	slices.SortStableFunc(*list, func(a, b discoveryv1.Tombstone) int { return a.DeletedAt.Compare(b.DeletedAt.Time) })
	if len(*list) > maxTombstones {
		*list = (*list)[len(*list)-maxTombstones:]
	}
}
