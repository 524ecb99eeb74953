package data

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func TestClaimForAnAddressIsFoundUnderBothNamesAndNeverTakenFromOthers(t *testing.T) {
	t.Parallel()
	const byData, byHost = "workers-0-main", "node-7-main"
	d := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "workers-0", UID: "own", Labels: map[string]string{
		clusterv1.ClusterNameLabel: "edge", clusterv1.WatchLabel: "blue",
	}}}
	p := newPool("", "", "main")
	claim := func(name string, uid types.UID, kind string, deleting bool) *ipamv1.IPAddressClaim {
		c := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}}
		c.Spec.PoolRef.Name = "main"
		if kind != "" {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", UID: uid, Controller: new(true)}}
		}
		if deleting {
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return c
	}
	of := func(pool string, c *ipamv1.IPAddressClaim) *ipamv1.IPAddressClaim {
		c.Spec.PoolRef.Name = pool
		return c
	}
	for name, tt := range map[string]struct {
		byHost   bool
		exist    []*ipamv1.IPAddressClaim
		want     string // name
		made     bool
		wrong    string
		expected bool
	}{
		"none, by data":                       {want: byData, made: true},
		"none, by host":                       {byHost: true, want: byHost, made: true},
		"own, by data":                        {exist: []*ipamv1.IPAddressClaim{claim(byData, "own", dataKind, false)}, want: byData},
		"own, by host":                        {byHost: true, exist: []*ipamv1.IPAddressClaim{claim(byHost, "own", dataKind, false)}, want: byHost},
		"own from before the flag":            {byHost: true, exist: []*ipamv1.IPAddressClaim{claim(byData, "own", dataKind, false)}, want: byData},
		"own from before the flag was ended":  {exist: []*ipamv1.IPAddressClaim{claim(byHost, "own", dataKind, false)}, want: byHost},
		"own from before, host's of another":  {byHost: true, exist: []*ipamv1.IPAddressClaim{claim(byHost, "other", dataKind, false), claim(byData, "own", dataKind, false)}, want: byData},
		"own of both names":                   {byHost: true, exist: []*ipamv1.IPAddressClaim{claim(byHost, "own", dataKind, false), claim(byData, "own", dataKind, false)}, want: byHost},
		"own of another pool":                 {exist: []*ipamv1.IPAddressClaim{of("other", claim(byData, "own", dataKind, false))}, want: byData},
		"own of another pool, by host":        {exist: []*ipamv1.IPAddressClaim{of("7-main", claim(byHost, "own", dataKind, false))}, want: byData, made: true},
		"own of another pool, by data":        {byHost: true, exist: []*ipamv1.IPAddressClaim{of("0-main", claim(byData, "own", dataKind, false))}, want: byHost, made: true},
		"own, and another pool's by its name": {byHost: true, exist: []*ipamv1.IPAddressClaim{of("7-main", claim(byHost, "own", dataKind, false)), claim(byData, "own", dataKind, false)}, want: byData},
		"that of other data":                  {byHost: true, exist: []*ipamv1.IPAddressClaim{claim(byHost, "other", dataKind, false)}, wrong: "belongs to Metal3Data owner", expected: true},
		"that of other data, which goes":      {byHost: true, exist: []*ipamv1.IPAddressClaim{claim(byHost, "other", dataKind, true)}, wrong: "is being deleted", expected: true},
		"that of a person":                    {byHost: true, exist: []*ipamv1.IPAddressClaim{claim(byHost, "", "", false)}, wrong: "delete it"},
		"that of another kind":                {exist: []*ipamv1.IPAddressClaim{claim(byData, "x", "Pod", false)}, wrong: "delete it"},
		"that of other data under other name": {exist: []*ipamv1.IPAddressClaim{claim(byHost, "other", dataKind, false)}, want: byData, made: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := map[string]*ipamv1.IPAddressClaim{}
			for _, c := range tt.exist {
				found[c.Name] = c
			}
			got, err := decideClaim(d, p, claimNames(d.Name, "node-7", p.name, tt.byHost), found)
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) || isExpected(err) != tt.expected {
					t.Fatalf("claim %v, error %v (expected: %v); want %q (%v)", got, err, isExpected(err), tt.wrong, tt.expected)
				}
				return
			}
			if err != nil || got.Name != tt.want || (got.ResourceVersion == "") != tt.made {
				t.Fatalf("claim %+v, error %v; want %s, made: %v", got, err, tt.want, tt.made)
			}
			if tt.made && (!metav1.IsControlledBy(got, d) || got.Spec.PoolRef.Name != "main" || got.Spec.ClusterName != "edge" || got.Labels[clusterv1.WatchLabel] != "blue") {
				t.Errorf("the new claim is %+v", got)
			}
		})
	}
}

func TestOnlyClaimsThatAreNamedAfterTheFormerHostAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		claim, host  string
		byHost, left bool
	}{
		"of the host": {"node-7-main", "node-7", true, true},
		"of the host, from before the flag ended": {"node-7-main", "node-7", false, true},
		"of the data":                               {"workers-0-main", "node-7", true, false},
		"of data and host of one name":              {"workers-0-main", "workers-0", true, true},
		"of data that has the name of a host":       {"workers-0-main", "workers-0", false, false},
		"of a host whose name begins with the same": {"node-77-main", "node-7", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "workers-0", UID: "own"}}
			claim := newClaim(d, newPool("", "", "main"), tt.claim)
			api := newFake(t, d, claim)
			r := newReconciler(Config{Client: api, Live: api, ClaimsByHost: tt.byHost})
			if _, err := r.giveBack(t.Context(), d, tt.host); err != nil {
				t.Fatal(err)
			}
			err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
			if left := apierrors.IsNotFound(err); left != tt.left {
				t.Errorf("given back: %v (%v), want %v", left, err, tt.left)
			}
		})
	}
}

func TestClaimThatMetal3sProviderHoldsIsLetGoWhenItIsDeletedBeforeDataIsRendered(t *testing.T) {
	t.Parallel()
	d := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "workers-0", UID: "own"}}
	p := newPool("", "", "main")
	for name, change := range map[string]func(*ipamv1.IPAddressClaim){
		"by a person":                func(c *ipamv1.IPAddressClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"with another kind of pools": func(c *ipamv1.IPAddressClaim) { c.Spec.PoolRef.Kind = "Other" },
	} {
		claim := newClaim(d, p, "workers-0-main")
		claim.Finalizers = []string{v1beta2.DataFinalizer}
		change(claim)
		api := newFake(t, d, claim)
		r := newReconciler(Config{Client: api, Live: api, Now: time.Now})
		if wait, err := r.address(t.Context(), d, "node-7", p, &values{}); wait == 0 || err != nil {
			t.Errorf("%s: wait %s, error %v; want the end of the claim to be waited for", name, wait, err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the claim is there (%v) with finalizers %v", name, err, claim.Finalizers)
		}
	}
}

func TestNameOfAClaimIsBounded(t *testing.T) {
	t.Parallel()
	d := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Name: "d"}}
	names := claimNames("d", strings.Repeat("h", maxName), "main", true)
	if _, err := decideClaim(d, newPool("", "", "main"), names, nil); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("error %v, want that the name is too long", err)
	}
}
