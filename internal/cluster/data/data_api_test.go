package data_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

const (
	simple   = `{metaData: {objectNames: [{key: name, object: machine}], indexes: [{key: index}]}}`
	withPool = `
metaData:
  ipAddressesFromPool: [{key: ip, name: main, apiGroup: pools.example.com, kind: Pool}]
networkData:
  links: {ethernets: [{id: eno1, type: phy, macAddress: {fromHostInterface: eno1}}]}
  networks: {ipv4: [{id: net, link: eno1, fromPoolRef: {name: main, apiGroup: pools.example.com, kind: Pool}}]}
`
)

func TestMachinesGetDataWithIndexesAndAddressesAndGiveThemBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.template("t", withPool)
	addresses := map[string]string{}
	claims := map[string]*v1beta2.Metal3DataClaim{}
	for i, name := range []string{"a", "b", "c"} {
		m, claim := b.machineWithData(name, "t")
		claims[name] = claim
		data := fmt.Sprintf("t-%d", i)
		b.points(name, data)
		d := b.ready(data, m)
		if d.Spec.Index != int32(i) || d.Labels[clusterv1.ClusterNameLabel] != clusterName || len(d.OwnerReferences) != 1 || d.OwnerReferences[0].UID != claim.UID {
			t.Errorf("data %+v %+v", d.ObjectMeta, d.Spec)
		}
		meta := b.metaData(d)
		if got, want := meta["providerid"], b.namespace+"/"+name+"/"+name; got != want {
			t.Errorf("providerid %v, want %s", got, want)
		}
		network := b.document(d, d.Spec.NetworkData, "networkData")
		first, _ := network["networks"].([]any)[0].(map[string]any)
		if meta["ip"] != first["ip_address"] || first["netmask"] != "255.255.255.0" {
			t.Errorf("metadata %v and network %v have different addresses", meta, first)
		}
		if other := addresses[fmt.Sprint(meta["ip"])]; other != "" {
			t.Errorf("%s and %s have the address %v", other, name, meta["ip"])
		}
		addresses[fmt.Sprint(meta["ip"])] = name
	}
	used := func() string {
		var t v1beta2.Metal3DataTemplate
		b.read(&t, "t")
		var all []string
		for _, e := range t.Status.Indexes {
			all = append(all, fmt.Sprintf("%d:%s", e.Index, e.Name))
		}
		return strings.Join(all, " ")
	}
	b.eventually("three indexes in the status", func() string { return cmp.Diff("0:a 1:b 2:c", used()) })
	b.remove(claims["b"])
	b.gone(&v1beta2.Metal3DataClaim{}, "b")
	if b.read(&v1beta2.Metal3Data{}, "t-1") || b.read(&ipamv1.IPAddressClaim{}, "t-1-main") || b.read(&ipamv1.IPAddress{}, "t-1-main") {
		t.Error("data or addresses of the deleted claim are left")
	}
	b.eventually("index given back", func() string { return cmp.Diff("0:a 2:c", used()) })
	m, _ := b.machineWithData("d", "t")
	b.points("d", "t-1")
	if meta := b.metaData(b.ready("t-1", m)); addresses[fmt.Sprint(meta["ip"])] != "b" {
		t.Errorf("address %v, want the one that was given back", meta["ip"])
	}
}

// TestNoTwoClaimsGetOneIndex runs the controllers twice at the same time, as no installation does.
func TestNoTwoClaimsGetOneIndex(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.start()
	b.template("t", simple)
	const machines = 12
	for i := range machines {
		b.claim(b.machine(fmt.Sprintf("m-%d", i)), "t")
	}
	b.eventually("data for each claim", func() string {
		var claims v1beta2.Metal3DataClaimList
		if err := b.client.List(t.Context(), &claims, client.InNamespace(b.namespace)); err != nil {
			return err.Error()
		}
		of := map[string]string{}
		for _, c := range claims.Items {
			if c.Status.RenderedData == nil {
				return c.Name + " has none"
			}
			if other := of[c.Status.RenderedData.Name]; other != "" {
				t.Fatalf("%s and %s have %s", other, c.Name, c.Status.RenderedData.Name)
			}
			of[c.Status.RenderedData.Name] = c.Name
		}
		var all v1beta2.Metal3DataList
		if err := b.client.List(t.Context(), &all, client.InNamespace(b.namespace)); err != nil {
			return err.Error()
		}
		if len(of) != machines || len(all.Items) != machines {
			return fmt.Sprintf("%d claims have data, and there are %d", len(of), len(all.Items))
		}
		return ""
	})
}

func TestDataThatWasMadeBeforeACrashIsFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.template("t", simple)
	b.claim(b.machine("early"), "t")
	m, claim := b.machineWithData("late", "t")
	b.create(&v1beta2.Metal3Data{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: "t-0", Finalizers: []string{v1beta2.DataFinalizer},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3DataClaim", Name: "late", UID: claim.UID}},
		},
		Spec: v1beta2.Metal3DataSpec{
			Claim: corev1.ObjectReference{Name: "late"}, Template: corev1.ObjectReference{Name: "t"},
		},
	})
	b.start()
	b.points("late", "t-0")
	b.points("early", "t-1")
	if got := b.metaData(b.ready("t-0", m)); got["name"] != "late" || got["index"] != "0" {
		t.Errorf("metadata %v", got)
	}
}

func TestDataIsRenderedAgainOnlyForAnotherHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	template := b.template("t", simple)
	m, _ := b.machineWithData("a", "t")
	d := b.ready("t-0", m)
	b.update(template, func() {
		template.Spec.MetaData.Strings = []v1beta2.MetaDataString{{Key: "new", Value: "x"}}
	})
	other, _ := b.machineWithData("b", "t")
	if got := b.metaData(b.ready("t-1", other)); got["new"] != "x" {
		t.Errorf("metadata that is rendered after the change: %v", got)
	}
	if got := b.metaData(d); got["new"] != nil {
		t.Errorf("metadata that was rendered before the change: %v", got)
	}
	b.take(m, b.host("second"))
	if got, want := b.metaData(b.ready("t-0", m))["providerid"], b.namespace+"/second/a"; got != want {
		t.Errorf("providerid %v, want %s", got, want)
	}
}

func TestSecretOfSomebodyElseIsNeverChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "t-0-metadata"}, Data: map[string][]byte{"password": []byte("x")}}
	b.create(secret)
	template := b.template("t", simple)
	m, _ := b.machineWithData("a", "t")
	b.failing("t-0", "Secret t-0-metadata exists and does not belong to this Metal3Data; delete it")
	if b.read(secret, secret.Name); string(secret.Data["password"]) != "x" || len(secret.Data) != 1 {
		t.Errorf("Secret was changed: %v", secret.Data)
	}
	b.remove(secret)
	b.update(template, func() { template.Spec.MetaData.Strings = []v1beta2.MetaDataString{{Key: "again", Value: "x"}} })
	b.ready("t-0", m)
}

func TestDataOfAMachineThatLivesIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	template := b.template("t", withPool)
	m, claim := b.machineWithData("a", "t")
	d := b.ready("t-0", m)
	b.points("a", "t-0")
	b.remove(d)
	b.failing("t-0", "waits for the end of Metal3Machine a")
	b.remove(template)
	late := b.machine("late")
	b.claim(late, "t")
	b.refused("late", "is being deleted")
	if !b.read(&ipamv1.IPAddressClaim{}, "t-0-main") || !b.read(&v1beta2.Metal3DataTemplate{}, "t") {
		t.Error("the address, or the template, of a living machine is gone")
	}
	b.remove(claim)
	b.gone(&v1beta2.Metal3DataClaim{}, "a")
	b.gone(&v1beta2.Metal3DataTemplate{}, "t")
	b.gone(&ipamv1.IPAddressClaim{}, "t-0-main")
	b.refused("late", "does not exist")
	b.template("t", simple)
	b.points("late", "t-0")
}

func TestClaimThatAPersonDeletesKeepsItsAddressesUntilTheMachineHasReleasedItsHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.template("t", withPool)
	m, claim := b.machineWithData("a", "t")
	b.ready("t-0", m)
	b.points("a", "t-0")
	b.update(m, func() {
		m.Finalizers, m.Spec.DataTemplate = []string{v1beta2.MachineFinalizer}, &v1beta2.ObjectReference{Name: "t"}
	})
	b.remove(claim)
	b.eventually("claim that says what it waits for", func() string {
		var c v1beta2.Metal3DataClaim
		if !b.read(&c, "a") {
			return "it is gone"
		}
		if !strings.Contains(say(c.Status.ErrorMessage), "waits for the end of Metal3Machine a") {
			return say(c.Status.ErrorMessage)
		}
		return ""
	})
	b.remove(m)
	d := &v1beta2.Metal3Data{}
	if !b.read(&ipamv1.IPAddressClaim{}, "t-0-main") || !b.read(d, "t-0") || !d.DeletionTimestamp.IsZero() {
		t.Error("the address of a machine that may run is given back")
	}
	b.update(m, func() { m.Finalizers = nil })
	b.gone(&v1beta2.Metal3DataClaim{}, "a")
	b.gone(&ipamv1.IPAddressClaim{}, "t-0-main")
}

func TestFinalizersOfMetal3sProviderKeepNothingThatIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, finalizers := range map[string][]string{
		"data it has rendered":     {v1beta2.DataFinalizer, v1beta2.DataClaimFinalizer},
		"data it has not seen yet": {v1beta2.DataClaimFinalizer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.start()
			b.template("t", withPool)
			m, claim := b.machineWithData("a", "t")
			d := b.ready("t-0", m)
			b.points("a", "t-0")
			var address ipamv1.IPAddressClaim
			address.Name = "t-0-main"
			b.update(&address, func() { controllerutil.AddFinalizer(&address, v1beta2.DataFinalizer) })
			b.update(d, func() { d.Finalizers = finalizers })
			b.update(claim, func() { controllerutil.AddFinalizer(claim, v1beta2.MachineFinalizer) })
			b.remove(claim)
			b.gone(&v1beta2.Metal3DataClaim{}, "a")
			b.gone(&v1beta2.Metal3Data{}, "t-0")
			b.gone(&ipamv1.IPAddressClaim{}, "t-0-main")
		})
	}
}

func TestATemplateIsOwnedByItsCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	template := b.template("t", simple)
	owned := func(by *clusterv1.Cluster) {
		t.Helper()
		b.read(by, by.Name)
		want := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: by.Name, UID: by.UID}}
		b.eventually("owner of "+template.Name, func() string {
			b.read(template, template.Name)
			return cmp.Diff(want, template.OwnerReferences)
		})
	}
	first := &clusterv1.Cluster{ObjectMeta: b.meta(clusterName)}
	owned(first)
	b.update(template, func() { template.OwnerReferences[0].UID = "in-another-management-cluster" })
	owned(first)

	template = &v1beta2.Metal3DataTemplate{ObjectMeta: b.meta("early"), Spec: v1beta2.Metal3DataTemplateSpec{ClusterName: "late"}}
	b.create(template)
	b.eventually("template without its Cluster", func() string {
		if b.read(template, "early"); len(template.Finalizers) == 0 {
			return "it has no finalizer"
		}
		return ""
	})
	late := &clusterv1.Cluster{ObjectMeta: b.meta("late"), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: "late"},
	}}
	b.create(late)
	owned(late)
}

func TestNothingIsDoneWhileTheClusterIsPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var cluster clusterv1.Cluster
	cluster.Namespace, cluster.Name = b.namespace, clusterName
	pause := func(paused bool) { b.update(&cluster, func() { cluster.Spec.Paused = &paused }) }
	pause(true)
	b.start()
	b.template("t", simple)
	m, claim := b.machineWithData("a", "t")
	// That a template of another cluster is answered shows that the controllers work.
	other := b.template("other", simple)
	b.update(other, func() { other.Spec.ClusterName = "another" })
	free := b.machine("free")
	c := b.claim(free, "other")
	b.update(c, func() { c.Labels = nil })
	b.points("free", "other-0")
	if b.read(claim, "a"); claim.Status.RenderedData != nil || len(claim.Finalizers) > 0 || b.read(&v1beta2.Metal3Data{}, "t-0") {
		t.Errorf("claim of a paused cluster: %+v", claim)
	}
	pause(false)
	b.ready("t-0", m)
}

func TestProblemsOfPoolsAreSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	template := b.template("t", `{metaData: {ipAddressesFromPool: [{key: ip, name: empty, apiGroup: pools.example.com, kind: Pool}]}}`)
	m, _ := b.machineWithData("a", "t")
	b.failing("t-0", `pool Pool.pools.example.com "empty" gives no address: PoolExhausted: all 0 addresses are in use`)
	b.update(template, func() {
		template.Spec.MetaData = &v1beta2.MetaData{DNSServersFromPool: []v1beta2.FromPool{{Key: "dns", Name: "main"}}}
	})
	b.failing("t-0", `this cluster has no kind IPPool.ipam.metal3.io; install the IPAM provider that has it`)
	b.define("ipam.metal3.io", "IPPool")
	again := func(key string) {
		b.update(template, func() { template.Spec.MetaData.Strings = []v1beta2.MetaDataString{{Key: key}} })
	}
	again("first")
	b.failing("t-0", `pool IPPool.ipam.metal3.io "main" does not exist`)
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
		"metadata": map[string]any{"namespace": b.namespace, "name": "main"},
		"spec":     map[string]any{"dnsServers": []any{"192.0.2.53", "192.0.2.54"}},
	}}
	b.create(pool)
	again("second")
	if got := b.metaData(b.ready("t-0", m))["dns"]; got != "192.0.2.53,192.0.2.54" {
		t.Errorf("DNS servers %v", got)
	}
}

func TestClaimThatIsNamedAfterAHostFollowsTheHostFromMachineToMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.byHost = true
	b.start()
	b.template("t", withPool)
	h := b.host("node-7")
	first := b.machine("first")
	b.take(first, h)
	claim := b.claim(first, "t")
	d := b.ready("t-0", first)
	var address ipamv1.IPAddressClaim
	if !b.read(&address, "node-7-main") || address.OwnerReferences[0].UID != d.UID || b.read(&ipamv1.IPAddressClaim{}, "t-0-main") {
		t.Fatalf("claim for an address is %+v, want that of the host and no other", address.ObjectMeta)
	}

	second := b.machine("second")
	b.take(second, h)
	b.claim(second, "t")
	b.failing("t-1", "node-7-main belongs to Metal3Data t-0")
	b.remove(claim)
	next := b.ready("t-1", second)
	if !b.read(&address, "node-7-main") || address.OwnerReferences[0].UID != next.UID {
		t.Errorf("claim for an address is %+v, want that of the next machine", address.ObjectMeta)
	}

	b.take(second, b.host("node-8"))
	b.ready("t-1", second)
	if !b.read(&ipamv1.IPAddressClaim{}, "node-8-main") {
		t.Error("there is no claim that is named after the other host")
	}
	b.gone(&ipamv1.IPAddressClaim{}, "node-7-main")
}
