package data

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// obtain gets the values that are needed of pools. It claims all addresses before it waits for one.
// While an address is missing, it returns how long to wait.
func (r *reconciler) obtain(ctx context.Context, d *v1beta2.Metal3Data, host string, needs map[pool]need) (map[pool]values, time.Duration, error) {
	got, wait := map[pool]values{}, time.Duration(0)
	sorted := slices.SortedFunc(maps.Keys(needs), func(a, b pool) int { return strings.Compare(a.name, b.name) })
	for _, p := range sorted {
		version, err := r.kindOf(p)
		if err != nil {
			return nil, 0, err
		}
		v := values{need: needs[p]}
		var object map[string]any
		if v.dns {
			if object, err = r.readPool(ctx, d.Namespace, p, version); err != nil {
				return nil, 0, err
			}
			v.address = v.address || hasRangeServers(object) // the address tells which range counts
		}
		if v.address {
			w, err := r.address(ctx, d, host, p, &v)
			if err != nil {
				return nil, 0, err
			}
			wait = requeue.Soonest(wait, w)
		}
		if v.dns && wait == 0 {
			if v.dnsServers, err = dnsServers(p, object, v.ip); err != nil {
				return nil, 0, err
			}
		}
		got[p] = v
	}
	return got, wait, nil
}

// kindOf returns the kind of a pool, with a version that is served.
func (r *reconciler) kindOf(p pool) (schema.GroupVersionKind, error) {
	mapping, err := r.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: p.group, Kind: p.kind})
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, problemf("pool %s: this cluster has no kind %s.%s; install the IPAM provider that has it, or name a pool of another one (apiGroup and kind)", p, p.kind, p.group)
	}
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("look up kind %s.%s: %w", p.kind, p.group, err)
	}
	return mapping.GroupVersionKind, nil
}

// address sets the address that data has from a pool, or returns how long to wait for it.
func (r *reconciler) address(ctx context.Context, d *v1beta2.Metal3Data, host string, p pool, v *values) (time.Duration, error) {
	claim, err := r.claim(ctx, d, host, p)
	if err != nil {
		return 0, err
	}
	if !claim.DeletionTimestamp.IsZero() {
		return retryPause, nil // the watch sees the end of the claim earlier
	}
	if claim.Status.AddressRef.Name == "" {
		return r.addressWait(claim, p)
	}
	address, err := r.addressOf(ctx, claim)
	if err != nil || address == nil {
		return addressPause, err
	}
	return 0, v.take(claim, address)
}

// addressOf reads the address of a claim, or returns nil while there is none. It asks the API
// server, because the cache may still have an earlier claim and address of the same names, and an
// address that is rendered stays.
func (r *reconciler) addressOf(ctx context.Context, cached *ipamv1.IPAddressClaim) (*ipamv1.IPAddress, error) {
	var claim ipamv1.IPAddressClaim
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), &claim)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read IPAddressClaim %s: %w", cached.Name, err)
	}
	if err != nil || claim.UID != cached.UID || !claim.DeletionTimestamp.IsZero() || claim.Status.AddressRef.Name == "" {
		return nil, nil
	}
	var address ipamv1.IPAddress
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}, &address)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read IPAddress %s: %w", claim.Status.AddressRef.Name, err)
	}
	if err != nil || !address.DeletionTimestamp.IsZero() || isOfEarlier(&address, &claim) {
		return nil, nil
	}
	return &address, nil
}

// isOfEarlier reports whether an address belongs to an earlier claim of the same name, as far as
// the owners of the address tell.
func isOfEarlier(address *ipamv1.IPAddress, claim *ipamv1.IPAddressClaim) bool {
	owner := metav1.GetControllerOf(address)
	return owner != nil && owner.Kind == addressClaimKind && owner.Name == claim.Name && owner.UID != claim.UID
}

// take sets the values that the address of a claim has.
func (v *values) take(claim *ipamv1.IPAddressClaim, a *ipamv1.IPAddress) error {
	var err error
	switch {
	case a.Spec.ClaimRef.Name != claim.Name:
		return problemf("IPAddress %s, which IPAddressClaim %s names, belongs to claim %s; its provider has to correct that", a.Name, claim.Name, a.Spec.ClaimRef.Name)
	case a.Spec.Prefix == nil:
		return problemf("IPAddress %s has no prefix", a.Name)
	}
	v.prefix = int(*a.Spec.Prefix)
	if v.ip, err = netip.ParseAddr(a.Spec.Address); err != nil {
		return problemf("IPAddress %s: %.64q is no IP address", a.Name, a.Spec.Address)
	}
	if a.Spec.Gateway != "" {
		if v.gateway, err = netip.ParseAddr(a.Spec.Gateway); err != nil {
			return problemf("IPAddress %s: gateway %.64q is no IP address", a.Name, a.Spec.Gateway)
		}
	}
	return nil
}

// addressWait returns how long to wait for the provider of a pool. It returns a problem if the
// provider reports one, or has not answered within addressTimeout.
func (r *reconciler) addressWait(claim *ipamv1.IPAddressClaim, p pool) (time.Duration, error) {
	ready := meta.FindStatusCondition(claim.Status.Conditions, ipamv1.IPAddressClaimReadyCondition)
	if ready != nil && ready.Status == metav1.ConditionFalse {
		return 0, problemf("pool %s gives no address: %s: %.512s", p, ready.Reason, ready.Message)
	}
	left := addressTimeout - r.Now().Sub(claim.CreationTimestamp.Time)
	if left <= 0 {
		return 0, problemf("IPAddressClaim %s has had no address of pool %s for %s; look at the pool and at the IPAM provider of its kind", claim.Name, p, addressTimeout)
	}
	return left, nil
}

// claim returns the claim for an address of a pool. It makes the claim when there is none, and
// deletes one that is for another pool.
func (r *reconciler) claim(ctx context.Context, d *v1beta2.Metal3Data, host string, p pool) (*ipamv1.IPAddressClaim, error) {
	found := map[string]*ipamv1.IPAddressClaim{}
	names := claimNames(d.Name, host, p.name, r.ClaimsByHost)
	for _, name := range names {
		claim := &ipamv1.IPAddressClaim{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, claim)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read IPAddressClaim %s: %w", name, err)
		}
		if err == nil {
			found[name] = claim
		}
	}
	claim, err := decideClaim(d, p, names, found)
	switch {
	case err != nil:
		return nil, err
	case claim.ResourceVersion == "":
		err = r.Client.Create(ctx, claim)
		if apierrors.IsInvalid(err) {
			return nil, problemf("pool %s: its claim is refused: %.512s", p, err)
		}
		return claim, err
	// The claim may be for the pool that the template named before a change.
	case !claim.DeletionTimestamp.IsZero(), claim.Spec.PoolRef != p.reference():
		if err := r.drop(ctx, claim); err != nil {
			return nil, err
		}
		claim.DeletionTimestamp = &metav1.Time{Time: r.Now()}
	}
	return claim, nil
}

// giveBack deletes claims of data: those of one host or, if host is empty, all. It reports whether
// some were left. Where claims are not named after hosts, those of a host are from an earlier time,
// so the cache has them.
func (r *reconciler) giveBack(ctx context.Context, d *v1beta2.Metal3Data, host string) (bool, error) {
	reader := r.Live
	if host != "" && !r.ClaimsByHost {
		reader = r.Client
	}
	var list ipamv1.IPAddressClaimList
	if err := reader.List(ctx, &list, client.InNamespace(d.Namespace)); err != nil {
		return false, fmt.Errorf("list IPAddressClaims in %s: %w", d.Namespace, err)
	}
	left := false
	for i := range list.Items {
		claim := &list.Items[i]
		if !related.IsOwnedBy(claim, d) || host != "" && !isLeft(claim, d.Name, host, r.ClaimsByHost) {
			continue
		}
		left = true
		if err := r.drop(ctx, claim); err != nil {
			return true, err
		}
	}
	return left, nil
}

// drop deletes a claim of data. Claims of Metal3's provider have a finalizer. drop removes it
// first, because nobody else would.
func (r *reconciler) drop(ctx context.Context, claim *ipamv1.IPAddressClaim) error {
	err := r.patch(ctx, claim, func() { controllerutil.RemoveFinalizer(claim, v1beta2.DataFinalizer) })
	if err == nil && claim.DeletionTimestamp.IsZero() {
		err = r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete IPAddressClaim %s: %w", claim.Name, err)
	}
	return nil
}

// readPool reads an IPPool of ipam.metal3.io for its DNS servers, which are not in the contract for
// addresses.
func (r *reconciler) readPool(ctx context.Context, namespace string, p pool, kind schema.GroupVersionKind) (map[string]any, error) {
	var object unstructured.Unstructured
	object.SetGroupVersionKind(kind)
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.name}, &object)
	if apierrors.IsNotFound(err) {
		return nil, problemf("pool %s does not exist in namespace %s; create it", p, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("read pool %s: %w", p, err)
	}
	return object.Object, nil
}

// hasRangeServers reports whether the DNS servers of an IPPool depend on the address.
func hasRangeServers(object map[string]any) bool {
	ranges, _, _ := unstructured.NestedSlice(object, "spec", "pools")
	return slices.ContainsFunc(ranges, func(one any) bool {
		fields, _ := one.(map[string]any)
		servers, _, _ := unstructured.NestedStringSlice(fields, "dnsServers")
		return len(servers) > 0
	})
}

// dnsServers returns the DNS servers of an IPPool: those of the range that an address is in, or
// else those of the pool. There may be none.
func dnsServers(p pool, object map[string]any, ip netip.Addr) ([]string, error) {
	servers := poolServers(object, ip)
	for _, server := range servers {
		if _, err := netip.ParseAddr(server); err != nil {
			return nil, problemf("pool %s: DNS server %.64q is no IP address", p, server)
		}
	}
	return servers, nil
}

// poolServers returns the DNS servers that an IPPool has for an address.
func poolServers(object map[string]any, ip netip.Addr) []string {
	ranges, _, _ := unstructured.NestedSlice(object, "spec", "pools")
	for _, one := range ranges {
		fields, _ := one.(map[string]any)
		servers, _, _ := unstructured.NestedStringSlice(fields, "dnsServers")
		if len(servers) > 0 && ip.IsValid() && inRange(fields, ip) {
			return servers
		}
	}
	servers, _, _ := unstructured.NestedStringSlice(object, "spec", "dnsServers")
	return servers
}

// inRange reports whether an address is in a range of a pool: a subnet, or from start to end.
func inRange(fields map[string]any, ip netip.Addr) bool {
	text := func(key string) string { s, _ := fields[key].(string); return s }
	if subnet, err := netip.ParsePrefix(text("subnet")); err == nil && !subnet.Contains(ip) {
		return false
	}
	start, startErr := netip.ParseAddr(text("start"))
	end, endErr := netip.ParseAddr(text("end"))
	return (startErr != nil || !ip.Less(start)) && (endErr != nil || !end.Less(ip)) && (startErr == nil || text("subnet") != "")
}
