package data

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// claimNames returns the names that the claim of data for an address of a pool may have: that of a
// new claim, and then that of a claim from a time with another value of byHost. They are the names
// of Metal3's provider, so that addresses that pools keep for claims by name stay the same.
func claimNames(data, host, pool string, byHost bool) [2]string {
	if byHost {
		return [2]string{host + "-" + pool, data + "-" + pool}
	}
	return [2]string{data + "-" + pool, host + "-" + pool}
}

// isLeft reports whether a claim of data is given back when the machine leaves a host, because the
// next machine of the host needs the name of the claim. A claim whose name is also that for the
// data stays, unless claims are named after hosts.
func isLeft(claim *ipamv1.IPAddressClaim, data, host string, byHost bool) bool {
	return isClaimOf(claim, host) && (byHost || claim.Name != data+"-"+claim.Spec.PoolRef.Name)
}

// isClaimOf reports whether a claim is named after a host.
func isClaimOf(claim *ipamv1.IPAddressClaim, host string) bool {
	return claim.Name == host+"-"+claim.Spec.PoolRef.Name
}

// decideClaim returns the claim that data has for an address of a pool: one of those found under
// its names, or a new claim, which has no resource version and has to be created. It never takes
// over a claim of anybody else. If other data has the claim, decideClaim returns an expected
// problem: the machine that had the host before gives the claim back. A name can stand for several
// pools: with data a-0 and host a, a-0-c stands for c and for 0-c. So a claim for this very pool
// comes first, and under the second name no other claim counts.
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
