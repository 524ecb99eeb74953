package infrastructure

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

const namespace = "metal"

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is the controller on an API server in memory.
type bench struct {
	testing.TB

	api client.WithWatch
	r   *Reconciler
}

func newBench(t testing.TB, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, v1beta2.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1beta2.Metal3Cluster{}).Build()
	return &bench{TB: t, api: api, r: New(Config{Client: api, Live: api, Recorder: events.NewFakeRecorder(10), Now: func() time.Time { return began }})}
}

func newClusters(change func(*clusterv1.Cluster, *v1beta2.Metal3Cluster)) []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge", UID: "uid-of-cluster"}}
	c := &v1beta2.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "infra", Labels: map[string]string{clusterv1.ClusterNameLabel: "edge"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "edge", UID: cluster.UID}},
	}}
	c.Spec.ControlPlaneEndpoint = v1beta2.APIEndpoint{Host: "192.0.2.249", Port: 6443}
	c.Spec.FailureDomains = []clusterv1.FailureDomain{{Name: "row-a", ControlPlane: new(true)}}
	if change != nil {
		change(cluster, c)
	}
	return []client.Object{cluster, c}
}

func (b *bench) passes() {
	for range 3 {
		_, _ = b.r.Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "infra"}})
	}
}

func (b *bench) cluster() *v1beta2.Metal3Cluster {
	b.Helper()
	c := &v1beta2.Metal3Cluster{}
	err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "infra"}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *bench) edit(change func(*v1beta2.Metal3Cluster)) {
	b.Helper()
	c := b.cluster()
	change(c)
	if err := b.api.Update(b.Context(), c); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) wantCondition(kind string, status metav1.ConditionStatus, reason, part string) {
	b.Helper()
	c := meta.FindStatusCondition(b.cluster().Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, part) {
		b.Errorf("condition %s is %+v, want %s/%s with %q", kind, c, status, reason, part)
	}
}

func TestClusterWithAnEndpointIsReadyForMachines(t *testing.T) {
	b := newBench(t, newClusters(nil)...)
	b.passes()
	c := b.cluster()
	if p := c.Status.Initialization.Provisioned; p == nil || !*p || len(c.Status.FailureDomains) != 1 || len(c.Finalizers) != 1 || c.Status.LastUpdated == nil {
		t.Errorf("cluster is %+v", c)
	}
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
	b.wantCondition(v1beta2.BaremetalInfrastructureReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
	b.wantCondition(v1beta2.PausedCondition, metav1.ConditionFalse, v1beta2.NotPausedReason, "")
	version := c.ResourceVersion
	b.passes()
	if b.cluster().ResourceVersion != version {
		t.Error("a pass without a reason wrote something")
	}
	b.edit(func(c *v1beta2.Metal3Cluster) { c.Spec.ControlPlaneEndpoint.Host = "not an address" })
	b.passes()
	b.wantCondition(v1beta2.BaremetalInfrastructureReadyCondition, metav1.ConditionFalse, v1beta2.ControlPlaneEndpointFailedReason, "not an address")
	if p := b.cluster().Status.Initialization.Provisioned; p == nil || !*p {
		t.Error("provisioned became false")
	}
}

func TestEndpointsThatCannotBeUsedAreExplained(t *testing.T) {
	for endpoint, want := range map[v1beta2.APIEndpoint]string{
		{Host: "192.0.2.1", Port: 6443}:      "",
		{Host: "2001:db8::1", Port: 443}:     "",
		{Host: "API.example.org", Port: 443}: "",
		{Port: 6443}:                         "host is missing",
		{Host: "a b", Port: 6443}:            "neither an IP address nor a DNS name",
		{Host: "https://x", Port: 6443}:      "neither an IP address nor a DNS name",
		{Host: "192.0.2.1"}:                  "port 0",
		{Host: "192.0.2.1", Port: 70000}:     "port 70000",
	} {
		if got := checkEndpoint(endpoint); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%+v: %q, want %q", endpoint, got, want)
		}
	}
}

func TestNothingIsDoneWithoutAnOwnerWhenPausedOrManagedByOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*clusterv1.Cluster, *v1beta2.Metal3Cluster)
		check  func(*bench)
	}{
		"no owner": {func(_ *clusterv1.Cluster, c *v1beta2.Metal3Cluster) { c.OwnerReferences = nil }, func(b *bench) {
			b.wantCondition(v1beta2.BaremetalInfrastructureReadyCondition, metav1.ConditionFalse, v1beta2.FailedToGetOwnerClusterReason, "No Cluster owns")
		}},
		"paused Cluster": {func(c *clusterv1.Cluster, _ *v1beta2.Metal3Cluster) { c.Spec.Paused = new(true) }, func(b *bench) {
			b.wantCondition(v1beta2.PausedCondition, metav1.ConditionTrue, v1beta2.PausedReason, "paused")
		}},
		"paused itself": {func(_ *clusterv1.Cluster, c *v1beta2.Metal3Cluster) {
			c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, func(b *bench) {
			b.wantCondition(v1beta2.PausedCondition, metav1.ConditionTrue, v1beta2.PausedReason, "paused")
		}},
		"managed by others": {func(_ *clusterv1.Cluster, c *v1beta2.Metal3Cluster) {
			c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"}
		}, func(b *bench) {
			if conditions := b.cluster().Status.Conditions; len(conditions) > 0 {
				b.Errorf("conditions are %+v, want none", conditions)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newClusters(tt.change)...)
			b.passes()
			tt.check(b)
			if c := b.cluster(); c.Status.Initialization.Provisioned != nil || len(c.Finalizers) > 0 {
				t.Errorf("cluster is %+v, want it left alone", c)
			}
		})
	}
}

func TestDeletedClusterStaysWhileItHasMachines(t *testing.T) {
	m := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1", Labels: map[string]string{clusterv1.ClusterNameLabel: "edge"}}}
	other := m.DeepCopy()
	other.Name, other.Labels = "m-2", map[string]string{clusterv1.ClusterNameLabel: "other"}
	b := newBench(t, append(newClusters(nil), m, other)...)
	b.passes()
	if err := b.api.Delete(t.Context(), b.cluster()); err != nil {
		t.Fatal(err)
	}
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, "1 Metal3Machines to be deleted, among them m-1")
	if asked := b.r.ofMachine(t.Context(), m); len(asked) != 1 || asked[0].Name != "infra" {
		t.Errorf("a machine that is gone asks for %v", asked)
	}
	if err := b.api.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.passes()
	if c := b.cluster(); c != nil {
		t.Errorf("cluster is still there: %+v", c)
	}
}

func TestFailuresAreShownUntilTheClusterIsReady(t *testing.T) {
	away := errors.New("the API server is away")
	for name, tt := range map[string]struct {
		hooks  interceptor.Funcs
		reason string
	}{
		"the owner cannot be read": {interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
				if _, owner := obj.(*clusterv1.Cluster); owner {
					return away
				}
				return c.Get(ctx, key, obj, o...)
			},
		}, v1beta2.FailedToGetOwnerClusterReason},
		"hosts cannot be listed": {interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if _, hosts := list.(*v1alpha1.BareMetalHostList); hosts {
					return away
				}
				return c.List(ctx, list, o...)
			},
		}, v1beta2.InternalFailureReason},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newClusters(nil)...)
			b.r.Client = interceptor.NewClient(b.api, tt.hooks)
			b.r.Live = b.r.Client
			b.passes()
			b.wantCondition(v1beta2.BaremetalInfrastructureReadyCondition, metav1.ConditionFalse, tt.reason, "the API server is away")
			b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "the API server is away")
			b.r.Client, b.r.Live = b.api, b.api
			b.passes()
			b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
			version := b.cluster().ResourceVersion
			b.r.Client = interceptor.NewClient(b.api, tt.hooks)
			if _, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.cluster())}); !errors.Is(err, away) {
				t.Errorf("error %v, want %v", err, away)
			}
			if b.cluster().ResourceVersion != version {
				t.Errorf("a ready Metal3Cluster was written for one failure: %+v", b.cluster().Status.Conditions)
			}
		})
	}
}

// newHosts returns two hosts in a state: one that is reserved for a machine of the Cluster, and one
// that is not.
func newHosts(state v1alpha1.ProvisioningState) (reserved, used *v1alpha1.BareMetalHost) {
	reserved = &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kept", Labels: map[string]string{clusterv1.ClusterNameLabel: "edge"}}}
	used = reserved.DeepCopy()
	used.Name = "used"
	reuse.Reservation{Owner: reuse.Owner{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Namespace: namespace, Name: "workers"}, At: began}.Apply(reserved)
	reserved.Status.Provisioning.State = state
	return reserved, used
}

func (b *bench) host(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	h := &v1alpha1.BareMetalHost{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: name}, h); err != nil {
		b.Fatal(err)
	}
	return h
}

// pause pauses the Cluster, or ends that.
func (b *bench) pause(paused bool) {
	b.Helper()
	cluster := &clusterv1.Cluster{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "edge"}, cluster); err != nil {
		b.Fatal(err)
	}
	cluster.Spec.Paused = new(paused)
	if err := b.api.Update(b.Context(), cluster); err != nil {
		b.Fatal(err)
	}
	b.passes()
}

func TestReservedHostsArePausedAlsoWhereOthersManageTheCluster(t *testing.T) {
	reserved, used := newHosts(v1alpha1.StateAvailable)
	b := newBench(t, append(newClusters(func(_ *clusterv1.Cluster, c *v1beta2.Metal3Cluster) {
		c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"}
	}), reserved, used)...)
	version := b.cluster().ResourceVersion
	for _, paused := range []bool{true, false} {
		b.pause(paused)
		if got := related.IsPausedByUs(b.host("kept")); got != paused || related.IsPausedByUs(b.host("used")) {
			t.Errorf("Cluster paused %v: reserved host paused %v, used host paused %v", paused, got, related.IsPausedByUs(b.host("used")))
		}
	}
	if b.cluster().ResourceVersion != version {
		t.Error("a Metal3Cluster that others manage was written")
	}
}

func TestReservedHostsArePausedBeforeTheClusterMoves(t *testing.T) {
	reserved, used := newHosts(v1alpha1.StateDeprovisioning)
	b := newBench(t, append(newClusters(nil), reserved, used)...)
	host, pause := b.host, b.pause
	blocked := func() bool { _, there := b.cluster().Annotations[related.BlockMoveAnnotation]; return there }
	b.passes()
	pause(true)
	if !blocked() || related.IsPausedByUs(host("kept")) {
		t.Error("a host that is being cleaned is paused, or the Cluster can be moved before that")
	}
	h := host("kept")
	h.Status.Provisioning.State, h.Status.Provisioning.ID, h.Status.LastUpdated = v1alpha1.StateAvailable, "node-1", &metav1.Time{Time: began}
	h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PowerManagementSupportedCondition, Status: metav1.ConditionTrue}}
	if err := b.api.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	b.passes()
	if h = host("kept"); !blocked() || !related.IsPausedByUs(h) {
		t.Errorf("blocked %v, reserved host paused %v, want both before its node is released", blocked(), related.IsPausedByUs(h))
	}
	b.wantCondition(v1beta2.PausedCondition, metav1.ConditionTrue, v1beta2.PausedReason, "whose nodes their operator has not released: kept")
	h.Annotations[v1alpha1.ReleasedAnnotation] = v1alpha1.ReleaseOf(h.Annotations[v1alpha1.StatusAnnotation])
	if err := b.api.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	b.passes()
	if blocked() || !related.IsPausedByUs(host("kept")) || related.IsPausedByUs(host("used")) {
		t.Errorf("blocked %v, reserved host paused %v, used host paused %v", blocked(), related.IsPausedByUs(host("kept")), related.IsPausedByUs(host("used")))
	}
	pause(false)
	if !blocked() || related.IsPausedByUs(host("kept")) {
		t.Error("the pause did not end")
	}
}

func TestReservedHostsAreResumedAlsoWhenTheClusterIsDeletedDuringThePause(t *testing.T) {
	for name, machines := range map[string][]client.Object{
		"no machine is left": nil,
		"a machine is left": {&v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "m-1", Labels: map[string]string{clusterv1.ClusterNameLabel: "edge"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			reserved, _ := newHosts(v1alpha1.StateAvailable)
			b := newBench(t, append(append(newClusters(nil), reserved), machines...)...)
			b.passes()
			b.pause(true)
			if err := b.api.Delete(t.Context(), b.cluster()); err != nil {
				t.Fatal(err)
			}
			b.passes()
			if b.cluster() == nil || !related.IsPausedByUs(b.host("kept")) {
				t.Fatal("the paused Metal3Cluster is gone, or its reserved host is not paused")
			}
			b.pause(false)
			if left := b.cluster() != nil; left != (len(machines) > 0) || related.IsPausedByUs(b.host("kept")) {
				t.Errorf("Metal3Cluster left %v, reserved host paused %v", left, related.IsPausedByUs(b.host("kept")))
			}
		})
	}
}

func TestReservedHostsAreResumedAlsoWhileTheCacheDoesNotShowTheirPause(t *testing.T) {
	external := func(_ *clusterv1.Cluster, c *v1beta2.Metal3Cluster) {
		c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"}
	}
	for name, change := range map[string]func(*clusterv1.Cluster, *v1beta2.Metal3Cluster){"managed here": nil, "managed by others": external} {
		t.Run(name, func(t *testing.T) {
			reserved, _ := newHosts(v1alpha1.StateAvailable)
			b := newBench(t, append(newClusters(change), reserved)...)
			b.passes()
			lists := 0
			b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
					err := c.List(ctx, list, o...)
					if hosts, ok := list.(*v1alpha1.BareMetalHostList); ok {
						for i := range hosts.Items {
							delete(hosts.Items[i].Annotations, v1alpha1.PausedAnnotation)
						}
					}
					return err
				},
			})
			b.r.Live = interceptor.NewClient(b.api, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
					lists++
					return c.List(ctx, list, o...)
				},
			})
			b.pause(true)
			if !related.IsPausedByUs(b.host("kept")) {
				t.Fatal("the reserved host is not paused")
			}
			lists = 0
			b.pause(false)
			if related.IsPausedByUs(b.host("kept")) {
				t.Error("the reserved host is still paused")
			}
			if change == nil && lists != 1 {
				t.Errorf("%d lists from the API server in three passes, want one for the end of the pause", lists)
			}
		})
	}
}

func TestClusterWithoutTheLabelThatTheFilterWantsIsLeftAlone(t *testing.T) {
	b := newBench(t, newClusters(nil)...)
	b.r.Filter = "blue"
	for _, label := range []string{"", "red"} {
		if label != "" {
			b.edit(func(c *v1beta2.Metal3Cluster) { c.Labels[clusterv1.WatchLabel] = label })
		}
		b.passes()
		if c := b.cluster(); len(c.Finalizers) > 0 || len(c.Status.Conditions) > 0 {
			t.Fatalf("label %q: finalizers %v, conditions %v; want none", label, c.Finalizers, c.Status.Conditions)
		}
	}
	b.edit(func(c *v1beta2.Metal3Cluster) { c.Labels[clusterv1.WatchLabel] = "blue" })
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
}
