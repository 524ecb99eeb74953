package data

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			r := NewReconciler(Config{Client: newFake(t, claimed("new"), addressed("192.0.2.1", "old")), Live: newFake(t, tt.live...), Now: time.Now})
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
