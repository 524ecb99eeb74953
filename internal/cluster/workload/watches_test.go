package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

var clusterKey = types.NamespacedName{Namespace: "metal", Name: "one"}

func machine(name, providerID, nodeName string) clusterv1.Machine {
	return clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "of-" + name},
		Spec: clusterv1.MachineSpec{
			ClusterName: "one", ProviderID: providerID,
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: name},
		},
		Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: nodeName}},
	}
}

func TestChangesOfNodesConcernTheirMachines(t *testing.T) {
	foreign := machine("m5", "", "")
	foreign.Spec.InfrastructureRef.APIGroup = "example.com"
	machines := []clusterv1.Machine{
		machine("m1", "metal3://metal/h1/m1", "n1"),
		machine("m2", uidID, ""),
		machine("m3", "", ""),
		machine("m4", "", ""),
		foreign,
	}
	for _, tt := range []struct {
		name    string
		changes []Change
		want    []string
	}{
		{"name of nodeRef", []Change{{Node: "n1"}}, []string{"m1"}},
		{"provider ID", []Change{{Node: "x", ProviderID: "metal3://metal/h1/m1"}}, []string{"m1"}},
		{"provider ID by UID", []Change{{Node: "x", ProviderID: uidID}}, []string{"m2"}},
		{"provider ID by the UID of a host that no Machine names", []Change{{Node: "x", ProviderID: "metal3://22222222-2222-4222-8222-222222222222"}}, []string{"m2", "m3", "m4"}},
		{"provider ID that the Machine does not have yet", []Change{{Node: "x", ProviderID: "metal3://metal/h3/m3"}}, []string{"m3"}},
		{"provider ID of another namespace", []Change{{Node: "x", ProviderID: "metal3://other/h3/m3"}}, nil},
		{"provider ID of nobody", []Change{{Node: "x", ProviderID: "kind://a"}}, nil},
		{"name of a Metal3Machine", []Change{{Node: "m4"}}, []string{"m4"}},
		{"neither name nor provider ID", []Change{{Node: "x"}}, []string{"m2", "m3", "m4"}},
		{"several", []Change{{Node: "n1"}, {Node: "m4"}, {Node: "m4"}}, []string{"m1", "m4"}},
		{"all", []Change{{All: true}}, []string{"m1", "m2", "m3", "m4"}},
	} {
		var got []string
		for _, m := range concerned(machines, tt.changes) {
			got = append(got, m.Spec.InfrastructureRef.Name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestOnlyChangesOfNodesThatMatterAreTold(t *testing.T) {
	seen := map[string]summary{}
	step := func(name string, event watch.EventType, want bool, change func(*corev1.Node)) {
		t.Helper()
		n := node("n", ownID, "a", "b")
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		change(&n)
		changes, err := apply(seen, watch.Event{Type: event, Object: &n})
		if err != nil || (len(changes) == 1) != want {
			t.Errorf("%s: %v, error %v; want a change: %t", name, changes, err, want)
		}
	}
	step("it comes", watch.Added, true, func(*corev1.Node) {})
	step("heartbeat", watch.Modified, false, func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })
	step("not ready", watch.Modified, true, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	step("ready", watch.Modified, true, func(*corev1.Node) {})
	step("label", watch.Modified, true, func(n *corev1.Node) { n.Labels["a"] = "c" })
	step("bookmark", watch.Bookmark, false, func(*corev1.Node) {})
	step("taint", watch.Modified, true, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: uninitializedTaint}} })
	step("deletion", watch.Modified, true, func(n *corev1.Node) { now := metav1.Now(); n.DeletionTimestamp = &now })
	step("it goes", watch.Deleted, true, func(*corev1.Node) {})
	step("another one comes", watch.Added, true, func(n *corev1.Node) { n.UID = "2" })
	if _, err := apply(seen, watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old").ErrStatus}); !apierrors.IsResourceExpired(err) {
		t.Errorf("error %v", err)
	}
	got := replace(seen, []corev1.Node{node("m", foreignID)})
	if diff := cmp.Diff([]Change{{Node: "m", ProviderID: foreignID}, {Node: "n", ProviderID: ownID}}, got); diff != "" || len(seen) != 1 {
		t.Errorf("%d Nodes are remembered; changes (-want +got):\n%s", len(seen), diff)
	}
}

// server is a workload cluster whose answers a test decides.
type server struct {
	client.Reader

	mu       sync.Mutex
	nodes    []corev1.Node
	err      error
	connects []time.Duration // since the test began
	watches  []*watch.FakeWatcher
	began    time.Time
}

func (s *server) connect(context.Context, types.NamespacedName) (watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connects = append(s.connects, time.Since(s.began))
	return s, s.err
}

func (s *server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes, ok := list.(*corev1.NodeList)
	if !ok {
		return fmt.Errorf("a list of %T", list)
	}
	nodes.Items = slices.Clone(s.nodes)
	return nil
}

func (s *server) Watch(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := watch.NewFake()
	context.AfterFunc(ctx, w.Stop)
	s.watches = append(s.watches, w)
	return w, nil
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// has sets the Nodes.
func (s *server) has(nodes ...corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = nodes
}

// connected returns when watches began, counted from the beginning of the test.
func (s *server) connected() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.connects)
}

// last returns the last watch that began.
func (s *server) last() *watch.FakeWatcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches[len(s.watches)-1]
}

// bench is Watches on such a server, with the changes that they published.
type bench struct {
	*Watches
	*server
	mu   sync.Mutex
	told []Change
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	management := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	b := &bench{Watches: NewWatches(WatchesConfig{Client: management, Clients: New(management, scheme), Max: 1}), server: &server{began: time.Now()}}
	b.Watches.connect = b.server.connect
	b.subscribers = append(b.subscribers, func(_ context.Context, _ types.NamespacedName, changes []Change) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, changes...)
	})
	return b
}

// expect fails the test unless exactly these changes were published since the last call.
func (b *bench) expect(t *testing.T, what string, want ...Change) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.told, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	b.told = nil
}

func (b *bench) poll(t *testing.T, want time.Duration) {
	t.Helper()
	synctest.Wait()
	if got := b.PollAfter(clusterKey); got != want {
		t.Errorf("poll after %s, want %s", got, want)
	}
}

func cluster(name string, uid types.UID) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: name, UID: uid},
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: name}},
	}
}

func (b *bench) reconcile(t *testing.T, name string) ctrl.Result {
	t.Helper()
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: clusterKey.Namespace, Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of synctest
	synctest.Wait()
}

func TestNodesArePolledOnlyWhileTheyAreNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		b.has(node("n", ownID))
		stop := b.open(t.Context())
		defer stop()
		b.poll(t, pollInterval)
		b.reconcile(t, "one")
		b.poll(t, 0)
		b.expect(t, "first list", Change{Node: "n", ProviderID: ownID})

		n := node("m", "")
		b.last().Add(&n)
		b.expect(t, "event", Change{Node: "m"})

		b.fail(errors.New("down"))
		b.last().Error(&apierrors.NewInternalError(errors.New("broken")).ErrStatus)
		b.expect(t, "the watch breaks", Change{All: true})
		b.poll(t, pollInterval)

		b.fail(nil)
		b.has(node("n", ownID))
		sleep(maxBackoff)
		b.expect(t, "what changed meanwhile", Change{Node: "m"})
		b.poll(t, 0)
	})
}

func TestWatchThatEndsInTimeBeginsAgainWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		defer b.open(t.Context())()
		b.reconcile(t, "one")
		for range 3 {
			sleep(watchDuration)
			b.last().Stop()
			synctest.Wait()
			b.poll(t, 0)
		}
		b.expect(t, "nothing")
		if len(b.connected()) != 4 {
			t.Errorf("connected %d times, want 4", len(b.connected()))
		}
		sleep(watchDuration + requestTimeout) // a server that does not end a watch
		b.expect(t, "a watch that does not end", Change{All: true})
	})
}

func TestFailedWatchesAreTriedAgainMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		b.fail(ErrNoAccess)
		defer b.open(t.Context())()
		b.reconcile(t, "one")
		sleep(10 * time.Minute)
		b.fail(nil)
		sleep(maxBackoff)
		b.poll(t, 0)
		limit := minBackoff
		for i := 1; i < len(b.connected()); i++ {
			if wait := b.connected()[i] - b.connected()[i-1]; wait > limit || wait < limit/2 {
				t.Errorf("wait %d is %s, want %s to %s", i, wait, limit/2, limit)
			}
			limit = min(2*limit, maxBackoff)
		}
		if n := len(b.connected()); n < 20 || n > 50 {
			t.Errorf("connected %d times in ten minutes", n)
		}
	})
}

func TestWatchesThatServersEndAtOnceAreFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		defer b.open(t.Context())()
		b.reconcile(t, "one")
		for range 5 {
			synctest.Wait()
			began := len(b.connected())
			b.last().Stop()
			for len(b.connected()) == began {
				sleep(100 * time.Millisecond)
			}
		}
		if span := b.connected()[len(b.connected())-1]; span < 15*minBackoff {
			t.Errorf("five watches in %s", span)
		}
	})
}

func TestEachClusterIsWatchedOnceAndAsLongAsItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := cluster("other", "2")
		other.Spec.InfrastructureRef.APIGroup = "example.com"
		b := newBench(t, cluster("one", "1"), cluster("two", "3"), other)
		stop := b.open(t.Context())
		b.reconcile(t, "one")
		b.reconcile(t, "one")
		b.reconcile(t, "other")
		b.poll(t, 0)
		if len(b.connected()) != 1 {
			t.Errorf("connected %d times, want once", len(b.connected()))
		}
		if result := b.reconcile(t, "two"); result.RequeueAfter != pollInterval {
			t.Errorf("beyond the limit of watches: %+v", result)
		}

		management := b.Client.(client.Client)
		if err := management.Delete(t.Context(), cluster("one", "1")); err != nil {
			t.Fatal(err)
		}
		b.reconcile(t, "one")
		b.poll(t, pollInterval)
		if !b.last().IsStopped() {
			t.Error("the watch of a Cluster that is gone goes on")
		}
		b.reconcile(t, "two")
		synctest.Wait()
		if len(b.connected()) != 2 {
			t.Errorf("connected %d times, want also to the next cluster", len(b.connected()))
		}
		stop()
		if !b.last().IsStopped() {
			t.Error("the watch goes on after the controller")
		}
		b.reconcile(t, "two") // starts nothing
	})
}

func TestClusterThatWasMadeAgainIsWatchedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		defer b.open(t.Context())()
		b.reconcile(t, "one")
		synctest.Wait()
		first := b.last()
		management := b.Client.(client.Client)
		if err := errors.Join(management.Delete(t.Context(), cluster("one", "1")), management.Create(t.Context(), cluster("one", "2"))); err != nil {
			t.Fatal(err)
		}
		b.reconcile(t, "one")
		b.poll(t, 0)
		if !first.IsStopped() || len(b.connected()) != 2 {
			t.Errorf("the first watch ended: %t; connected %d times", first.IsStopped(), len(b.connected()))
		}
	})
}

func TestWithoutWatchesNodesArePolled(t *testing.T) {
	var none *Watches
	if got := none.PollAfter(clusterKey); got != pollInterval {
		t.Errorf("poll after %s", got)
	}
}

func TestNodesOfClustersThatTheFilterExcludesAreNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		infrastructure := &v1beta2.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: "one", Labels: map[string]string{clusterv1.WatchLabel: "red"}}}
		b := newBench(t, cluster("one", "1"), infrastructure)
		b.Filter = "blue"
		stop := b.open(t.Context())
		defer stop()
		if result := b.reconcile(t, "one"); result.RequeueAfter == 0 {
			t.Error("the label is not looked at again")
		}
		b.poll(t, pollInterval)
		b.Filter = "red"
		b.reconcile(t, "one")
		b.poll(t, 0)
	})
}

func TestNodesOfAClusterAreNotWatchedBeforeTheFilterIsKnownToAllowIt(t *testing.T) {
	foreign := cluster("one", "1")
	foreign.Spec.InfrastructureRef.Kind = "OtherCluster"
	labelled := &v1beta2.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: "one", Labels: map[string]string{clusterv1.WatchLabel: "blue"}}}
	for name, objects := range map[string][]client.Object{
		"no Metal3Cluster yet":           {cluster("one", "1")},
		"infrastructure of another kind": {foreign, labelled},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, objects...)
			b.Filter = "blue"
			stop := b.open(t.Context())
			defer stop()
			if result := b.reconcile(t, "one"); result.RequeueAfter != pollInterval {
				t.Errorf("%s: looked at again after %s, want %s", name, result.RequeueAfter, pollInterval)
			}
			b.poll(t, pollInterval)
		})
	}
}
