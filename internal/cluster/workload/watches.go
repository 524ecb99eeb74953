package workload

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
	operatorwatch "github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch

const (
	// maxWatches is how many workload clusters are watched, unless the configuration says
	// otherwise. The Nodes of further clusters are read each minute.
	maxWatches = 200
	// watchDuration is how long each watch is requested to last. After that, the Nodes are listed
	// again.
	watchDuration = 7 * time.Minute
	// minWatch is how long a watch lasts at least if it is in order. A watch that the server ends
	// earlier has failed.
	minWatch = 2 * requestTimeout
	// minBackoff and maxBackoff limit the wait after a watch that failed.
	minBackoff, maxBackoff = time.Second, 30 * time.Second
	maxDoublings           = 5
	// eventRate is how many events of one watch are processed per second, after a burst of
	// eventBurst: a server that sends more has to wait.
	eventRate, eventBurst = 100, 2000
)

// WatchesConfig is what Watches need.
type WatchesConfig struct {
	// Client reads Clusters, Metal3Clusters and Machines from a cache.
	Client client.Reader
	// Clients reach the workload clusters.
	Clients *Clients
	// Max limits how many clusters are watched at once; 0 means 200.
	Max int
	// Filter selects the Metal3Clusters whose Clusters are watched.
	Filter related.Filter
}

// Watches watch the Nodes of workload clusters whose infrastructure is a Metal3Cluster. Each
// cluster takes one request and one goroutine, from the start of the controller until it stops or
// the Cluster is gone. Watches keep only those fields of a Node that tell whether it changed.
type Watches struct {
	WatchesConfig

	// connect makes the client that watches a cluster.
	connect func(context.Context, types.NamespacedName) (watcher, error)

	mu sync.Mutex
	// start starts to watch a cluster; nil while the controller does not run.
	start       func(types.NamespacedName, *state) context.CancelFunc
	states      map[types.NamespacedName]*state
	subscribers []func(context.Context, types.NamespacedName, []Change)
}

// watcher is the part of a client that a watch needs.
type watcher interface {
	client.Reader
	Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error)
}

// state is the state of the watch of one Cluster.
type state struct {
	uid     types.UID
	stop    context.CancelFunc
	watched bool
}

// Change is a Node that came, went, or changed in its UID, provider ID, labels, readiness, being
// deleted or being initialized. All is set when Nodes of the cluster are not watched any more,
// so that any of them may have changed.
type Change struct {
	Node, ProviderID string
	All              bool
}

// NewWatches returns watches that begin when their controller starts.
func NewWatches(c WatchesConfig) *Watches {
	if c.Max == 0 {
		c.Max = maxWatches
	}
	connect := func(ctx context.Context, cluster types.NamespacedName) (watcher, error) {
		return c.Clients.watching(ctx, cluster)
	}
	return &Watches{WatchesConfig: c, connect: connect, states: map[types.NamespacedName]*state{}}
}

// PollAfter returns after which time the Nodes of a cluster have to be read again: 0 while they are
// watched, otherwise a minute. Nil Watches watch nothing.
func (w *Watches) PollAfter(cluster types.NamespacedName) time.Duration {
	if w == nil {
		return pollInterval
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.states[cluster]; s != nil && s.watched {
		return 0
	}
	return pollInterval
}

// Metal3MachineRequest returns a request for the Metal3Machine of a Machine.
func Metal3MachineRequest(m *clusterv1.Machine) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}}
}

// Source returns a source of requests for the Machines whose Nodes changed, and for all Machines of
// a cluster when its Nodes are not watched any more.
func (w *Watches) Source(request func(*clusterv1.Machine) ctrl.Request) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.subscribers = append(w.subscribers, func(ctx context.Context, cluster types.NamespacedName, changes []Change) {
			var machines clusterv1.MachineList
			if err := w.Client.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name},
				client.UnsafeDisableDeepCopy); err != nil {
				log.FromContext(ctx).Error(err, "Machines of Nodes that changed could not be listed")
				return
			}
			for _, m := range concerned(machines.Items, changes) {
				queue.Add(request(m))
			}
		})
		return nil
	})
}

// concerned returns the Machines that changes are about. A Node without a provider ID may be that
// of any Machine that has no Node yet, unless its name tells. So may a Node whose provider ID is
// the UID of a host, which no Machine names.
func concerned(machines []clusterv1.Machine, changes []Change) []*clusterv1.Machine {
	var all []*clusterv1.Machine
	for i := range machines {
		m := &machines[i]
		if m.Spec.InfrastructureRef.APIGroup == v1beta2.GroupVersion.Group {
			all = append(all, m)
		}
	}
	matching := func(matches func(*clusterv1.Machine) bool) map[*clusterv1.Machine]bool {
		found := map[*clusterv1.Machine]bool{}
		for _, m := range all {
			if matches(m) {
				found[m] = true
			}
		}
		return found
	}
	asked := map[*clusterv1.Machine]bool{}
	for _, c := range changes {
		found := matching(func(m *clusterv1.Machine) bool { return c.All || c.names(m) })
		if len(found) == 0 && (c.ProviderID == "" || isByUID(c.ProviderID)) {
			found = matching(func(m *clusterv1.Machine) bool { return nodeName(m) == "" })
		}
		maps.Copy(asked, found)
	}
	return slices.DeleteFunc(all, func(m *clusterv1.Machine) bool { return !asked[m] })
}

// names reports whether a changed Node has the name or the provider ID that the Node of a Machine
// may have.
func (c Change) names(m *clusterv1.Machine) bool {
	infrastructure := m.Spec.InfrastructureRef.Name
	return c.Node == nodeName(m) || c.Node == infrastructure || c.ProviderID != "" && (c.ProviderID == m.Spec.ProviderID ||
		strings.HasPrefix(c.ProviderID, v1beta2.ProviderIDPrefix+m.Namespace+"/") && strings.HasSuffix(c.ProviderID, "/"+infrastructure))
}

// Controller returns the controller that starts and stops watches as Clusters come and go. The
// caller starts and stops it; all goroutines have ended when it has.
func (w *Watches) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = w
	// Only changes of the spec matter.
	changes := predicate.TypedGenerationChangedPredicate[*clusterv1.Cluster]{}
	c, err := operatorwatch.Controller("workload-nodes", options,
		source.Kind(cache, &clusterv1.Cluster{}, &handler.TypedEnqueueRequestForObject[*clusterv1.Cluster]{}, changes))
	if err != nil {
		return nil, err
	}
	return running{c, w}, nil
}

// running ends the goroutines of watches when the controller stops.
type running struct {
	controller.Controller
	watches *Watches
}

// Start runs the controller until ctx ends.
func (r running) Start(ctx context.Context) error {
	stop := r.watches.open(log.IntoContext(ctx, r.GetLogger()))
	defer stop()
	return r.Controller.Start(ctx)
}

// open lets watches start. stop ends all watches and waits for their goroutines.
func (w *Watches) open(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var goroutines sync.WaitGroup
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start = func(cluster types.NamespacedName, s *state) context.CancelFunc {
		ctx, cancel := context.WithCancel(log.IntoContext(ctx, log.FromContext(ctx).WithValues("cluster", cluster)))
		goroutines.Go(func() { w.watch(ctx, cluster, s) })
		return cancel
	}
	return func() {
		w.mu.Lock()
		w.start = nil
		clear(w.states)
		w.mu.Unlock()
		cancel()
		goroutines.Wait()
	}
}

// Reconcile starts or stops the watch of the Nodes of a Cluster.
func (w *Watches) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster clusterv1.Cluster
	err := w.Client.Get(ctx, request.NamespacedName, &cluster)
	switch {
	case apierrors.IsNotFound(err):
		w.end(request.NamespacedName)
		w.Clients.Forget(request.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	case cluster.Spec.InfrastructureRef.APIGroup != v1beta2.GroupVersion.Group:
		w.end(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	allowed, err := w.Filter.AllowsNodes(ctx, w.Client, &cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !allowed {
		w.end(request.NamespacedName)
		return ctrl.Result{RequeueAfter: pollInterval}, nil
	}
	if !w.begin(request.NamespacedName, cluster.UID) {
		return ctrl.Result{RequeueAfter: pollInterval}, nil
	}
	return ctrl.Result{}, nil
}

// begin starts to watch a Cluster, if it is not watched. It returns false when too many Clusters
// are watched.
func (w *Watches) begin(cluster types.NamespacedName, uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.states[cluster]
	if ok && s.uid == uid || w.start == nil {
		return true
	}
	if ok {
		s.stop()
		delete(w.states, cluster)
	}
	if len(w.states) >= w.Max {
		return false
	}
	s = &state{uid: uid}
	s.stop = w.start(cluster, s)
	w.states[cluster] = s
	return true
}

// end stops the watch of a Cluster.
func (w *Watches) end(cluster types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.states[cluster]; ok {
		s.stop()
		delete(w.states, cluster)
	}
}

// watch watches the Nodes of a cluster until ctx ends. After each failure in a row it waits longer.
func (w *Watches) watch(ctx context.Context, cluster types.NamespacedName, s *state) {
	seen := map[string]summary{}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := w.follow(ctx, cluster, s, seen)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= minWatch {
			failures = 0
			if err == nil {
				continue
			}
		}
		if w.set(s, false) {
			log.FromContext(ctx).Info("Nodes of the workload cluster are not watched any more; they are read each minute until they are", "err", err)
			w.publish(ctx, cluster, []Change{{All: true}})
		}
		timer := time.NewTimer(backoff(failures, cluster))
		failures++
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// backoff returns the wait after the n-th failure in a row, where the first n is 0.
func backoff(n int, cluster types.NamespacedName) time.Duration {
	wait := min(minBackoff<<min(n, maxDoublings), maxBackoff)
	return requeue.Spread(wait, wait/2, cluster.String(), n)
}

// follow lists the Nodes of a cluster, and watches them until the server ends the watch. It
// publishes how they differ from seen, and updates seen.
func (w *Watches) follow(ctx context.Context, cluster types.NamespacedName, s *state, seen map[string]summary) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := w.connect(ctx, cluster)
	if err != nil {
		return err
	}
	nodes, version, err := list(ctx, c)
	if err != nil {
		return err
	}
	seconds := int64(watchDuration / time.Second)
	watch, err := c.Watch(ctx, &corev1.NodeList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: &seconds}})
	if err != nil {
		return fmt.Errorf("watch the Nodes of the workload cluster: %w", err)
	}
	defer watch.Stop()
	w.set(s, true)
	w.publish(ctx, cluster, replace(seen, nodes))
	// This ends a watch that the server does not end in the requested time.
	end := time.NewTimer(watchDuration + requestTimeout)
	defer end.Stop()
	limit := rate.NewLimiter(eventRate, eventBurst)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return errors.New("the watch of Nodes did not end in time")
		case event, ok := <-watch.ResultChan():
			if !ok {
				return nil
			}
			if err := limit.Wait(ctx); err != nil {
				return err
			}
			changes, err := apply(seen, event)
			switch {
			case err != nil:
				return err
			case len(seen) > maxNodes:
				clear(seen)
				return errTooManyNodes
			}
			w.publish(ctx, cluster, changes)
		}
	}
}

// set notes whether a cluster is watched, and returns whether that changed.
func (w *Watches) set(s *state, watched bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := s.watched != watched
	s.watched = watched
	return changed
}

// publish tells all subscribers about changes.
func (w *Watches) publish(ctx context.Context, cluster types.NamespacedName, changes []Change) {
	if len(changes) == 0 {
		return
	}
	w.mu.Lock()
	subscribers := slices.Clone(w.subscribers)
	w.mu.Unlock()
	for _, tell := range subscribers {
		tell(ctx, cluster, changes)
	}
}

// summary is what is remembered of a Node. Its texts are bounded.
type summary struct {
	uid           types.UID
	providerID    string
	labels        uint64 // their hash
	ready         corev1.ConditionStatus
	uninitialized bool
	deleting      bool
}

func summarize(n *corev1.Node) summary {
	s := summary{uid: bounded(n.UID), providerID: bounded(n.Spec.ProviderID), labels: hash(n.Labels), deleting: n.DeletionTimestamp != nil}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			s.ready = bounded(c.Status)
		}
	}
	s.uninitialized = slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitializedTaint })
	return s
}

func hash(labels map[string]string) uint64 {
	h := fnv.New64a()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		_, _ = fmt.Fprintf(h, "%s=%s,", key, labels[key])
	}
	return h.Sum64()
}

// replace updates seen to the Nodes of a list, and returns the changes.
func replace(seen map[string]summary, nodes []corev1.Node) []Change {
	var changes []Change
	listed := map[string]bool{}
	for i := range nodes {
		listed[nodes[i].Name] = true
		changes = append(changes, update(seen, &nodes[i])...)
	}
	for name, s := range seen {
		if !listed[name] {
			delete(seen, name)
			changes = append(changes, Change{Node: name, ProviderID: s.providerID})
		}
	}
	return changes
}

// apply applies an event of a watch to seen, and returns the change.
func apply(seen map[string]summary, event watch.Event) ([]Change, error) {
	node, ok := event.Object.(*corev1.Node)
	switch {
	case event.Type == watch.Error:
		return nil, fmt.Errorf("watch the Nodes of the workload cluster: %w", apierrors.FromObject(event.Object))
	case !ok || event.Type == watch.Bookmark || !isNamed(node):
		return nil, nil
	case event.Type == watch.Deleted:
		delete(seen, node.Name)
		return []Change{{Node: node.Name, ProviderID: bounded(node.Spec.ProviderID)}}, nil
	default:
		return update(seen, node), nil
	}
}

func update(seen map[string]summary, node *corev1.Node) []Change {
	before, had := seen[node.Name]
	now := summarize(node)
	if had && before == now {
		return nil
	}
	seen[node.Name] = now
	return []Change{{Node: node.Name, ProviderID: now.providerID}}
}
