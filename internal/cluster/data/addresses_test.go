package data

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func TestAddressIsTakenOnlyOfAClaimAndAnAddressThatExist(t *testing.T) {
	t.Parallel()
	d := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "workers-0", UID: "own"}}
	p := newPool("", "", "main")
	claimed := func(uid types.UID) *ipamv1.IPAddressClaim {
		c := newClaim(d, p, "workers-0-main")
		c.UID, c.Status.AddressRef.Name = uid, "address"
		return c
	}
	addressed := func(ip string, owner types.UID) *ipamv1.IPAddress {
		return &ipamv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "address", OwnerReferences: []metav1.OwnerReference{
				{Kind: addressClaimKind, Name: "workers-0-main", UID: owner, Controller: new(true)},
			}},
			Spec: ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: "workers-0-main"}, Address: ip, Prefix: new(int32(24))},
		}
	}
	deleting := func(obj client.Object) client.Object {
		obj.SetFinalizers([]string{"example.com/pool"})
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		return obj
	}
	ownerless := addressed("192.0.2.2", "new")
	ownerless.OwnerReferences = nil
	for name, tt := range map[string]struct {
		live []client.Object
		want string // address, or none
	}{
		"both are":                        {[]client.Object{claimed("new"), addressed("192.0.2.2", "new")}, "192.0.2.2"},
		"address without owner":           {[]client.Object{claimed("new"), ownerless}, "192.0.2.2"},
		"claim is gone":                   {[]client.Object{addressed("192.0.2.2", "new")}, ""},
		"claim is another one":            {[]client.Object{claimed("newer"), addressed("192.0.2.2", "newer")}, ""},
		"claim is being deleted":          {[]client.Object{deleting(claimed("new")), addressed("192.0.2.2", "new")}, ""},
		"address is gone":                 {[]client.Object{claimed("new")}, ""},
		"address is being deleted":        {[]client.Object{claimed("new"), deleting(addressed("192.0.2.2", "new"))}, ""},
		"address is of the earlier claim": {[]client.Object{claimed("new"), addressed("192.0.2.1", "old")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReconciler(Config{Client: newFake(t, claimed("new"), addressed("192.0.2.1", "old")), Live: newFake(t, tt.live...), Now: time.Now})
			var v values
			wait, err := r.address(t.Context(), d, "node-7", p, &v)
			if err != nil || (wait > 0) != (tt.want == "") {
				t.Fatalf("wait %s, error %v; want the address %q", wait, err, tt.want)
			}
			if wait == 0 && v.ip.String() != tt.want {
				t.Errorf("address %s, want %s", v.ip, tt.want)
			}
		})
	}
}

// pooled is an API server in memory that knows IPPools.
type pooled struct {
	client.Client

	mapper meta.RESTMapper
}

func (p pooled) RESTMapper() meta.RESTMapper { return p.mapper }

func TestAddressIsClaimedForDNSServersOnlyWhereTheRangeOfTheAddressHasThem(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: metal3IPAMGroup, Version: "v1alpha1", Kind: metal3PoolKind}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{kind.GroupVersion()})
	mapper.Add(kind, meta.RESTScopeNamespace)
	servers := func(of ...any) map[string]any { return map[string]any{"dnsServers": of} }
	for name, tt := range map[string]struct {
		spec    map[string]any
		claimed bool
		want    []string
	}{
		"of the pool": {spec: servers("192.0.2.53"), want: []string{"192.0.2.53"}},
		"of a range": {
			spec: map[string]any{"pools": []any{
				map[string]any{"subnet": "198.51.100.0/24", "dnsServers": []any{"198.51.100.53"}},
				map[string]any{"subnet": "192.0.2.0/24", "dnsServers": []any{"192.0.2.54"}},
			}},
			claimed: true, want: []string{"192.0.2.54"},
		},
		"of the pool, because the range of the address has none": {
			spec: map[string]any{"dnsServers": []any{"192.0.2.53"}, "pools": []any{
				map[string]any{"subnet": "198.51.100.0/24", "dnsServers": []any{"198.51.100.53"}},
			}},
			claimed: true, want: []string{"192.0.2.53"},
		},
		"none": {spec: map[string]any{"pools": []any{map[string]any{"subnet": "192.0.2.0/24"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "workers-0", UID: "own"}}
			object := &unstructured.Unstructured{Object: map[string]any{"spec": tt.spec}}
			object.SetGroupVersionKind(kind)
			object.SetNamespace("metal")
			object.SetName("main")
			api := pooled{newFake(t, object), mapper}
			r := newReconciler(Config{Client: api, Live: api, Now: func() time.Time { return time.Time{} }})
			p := newPool("", "", "main")
			got, wait, err := r.obtain(t.Context(), d, "node-7", map[pool]need{p: {dns: true}})
			if err != nil || (wait > 0) != tt.claimed {
				t.Fatalf("wait %s, error %v; want that an address is waited for: %v", wait, err, tt.claimed)
			}
			var claim ipamv1.IPAddressClaim
			err = api.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: "workers-0-main"}, &claim)
			if (err == nil) != tt.claimed {
				t.Fatalf("claim for an address: %v, want one: %v", err, tt.claimed)
			}
			if tt.claimed {
				claim.Status.AddressRef.Name = "address"
				address := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "address"}, Spec: ipamv1.IPAddressSpec{
					ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, Address: "192.0.2.17", Prefix: new(int32(24)),
				}}
				if err := errors.Join(api.Update(t.Context(), &claim), api.Create(t.Context(), address)); err != nil {
					t.Fatal(err)
				}
				if got, wait, err = r.obtain(t.Context(), d, "node-7", map[pool]need{p: {dns: true}}); err != nil || wait > 0 {
					t.Fatalf("wait %s, error %v", wait, err)
				}
			}
			if !slices.Equal(got[p].dnsServers, tt.want) {
				t.Errorf("DNS servers %v, want %v", got[p].dnsServers, tt.want)
			}
		})
	}
}
