package data

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// claimNames are the names that the claim of data for an address of a pool may have: the one that a new
// claim gets, and the one that it had if claims were named the other way before. They are Metal3's, so that
// addresses that pools keep for claims by name stay the same.
func claimNames(data, host, pool string, byHost bool) [2]string {
	if byHost {
		return [2]string{host + "-" + pool, data + "-" + pool}
	}
	return [2]string{data + "-" + pool, host + "-" + pool}
}

// isLeft reports whether a claim of data is given back when the machine has another host than this one: the next
// machine of the host needs its name. A name that is that of the data, too, stays unless claims are named after hosts.
func isLeft(claim *ipamv1.IPAddressClaim, data, host string, byHost bool) bool {
	return isClaimOf(claim, host) && (byHost || claim.Name != data+"-"+claim.Spec.PoolRef.Name)
}

// isClaimOf reports whether a claim is named after a host.
func isClaimOf(claim *ipamv1.IPAddressClaim, host string) bool {
	return claim.Name == host+"-"+claim.Spec.PoolRef.Name
}

// decideClaim is pure: it returns the claim that data has for an address of a pool, of those that exist under its names,
// or the one that has to be made, without a resource version. A claim of anybody else is never taken over: that of other data is waited
// for, because the machine that had the host before gives it back. A name can stand for several pools: data a-0 and host a have
// a-0-c for both c and 0-c. So the claim of the pool itself comes first, and under the other name no other counts.
func decideClaim(d *v1beta2.Metal3Data, p pool, names [2]string, found map[string]*ipamv1.IPAddressClaim) (*ipamv1.IPAddressClaim, error) {
	for _, name := range names {
		if claim := found[name]; claim != nil && related.IsOwnedBy(claim, d) && claim.Spec.PoolRef.Name == p.name {
			return claim, nil
		}
	}
	name := names[0]
	if claim := found[name]; claim != nil && related.IsOwnedBy(claim, d) {
		return claim, nil // of another pool; it has to be replaced
	}
	if len(name) > maxName {
		return nil, problemf("pool %s: its name is too long for that of a claim, %s", p, name)
	}
	foreign := found[name]
	if foreign == nil {
		return newClaim(d, p, name), nil
	}
	owner := metav1.GetControllerOf(foreign)
	switch {
	case !foreign.DeletionTimestamp.IsZero():
		return nil, waitf("IPAddressClaim %s of an earlier owner is being deleted; its end is waited for", name)
	case owner != nil && owner.Kind == dataKind:
		return nil, waitf("IPAddressClaim %s belongs to Metal3Data %s; it is waited for until the machine of that one has given it back", name, owner.Name)
	default:
		return nil, problemf("IPAddressClaim %s exists and does not belong to this Metal3Data; delete it", name)
	}
}

func newClaim(d *v1beta2.Metal3Data, p pool, name string) *ipamv1.IPAddressClaim {
	claim := &ipamv1.IPAddressClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: d.Labels[clusterv1.ClusterNameLabel]},
			OwnerReferences: []metav1.OwnerReference{ownerReference(d, dataKind)},
		},
		Spec: ipamv1.IPAddressClaimSpec{ClusterName: d.Labels[clusterv1.ClusterNameLabel], PoolRef: p.reference()},
	}
	related.CarryFilter(claim, d)
	return claim
}

func (p pool) reference() ipamv1.IPPoolReference {
	return ipamv1.IPPoolReference{Name: p.name, Kind: p.kind, APIGroup: p.group}
}
