package fencing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/nodebackup"
)

const (
	testNamespace = "metal"
	testCluster   = "edge"
)

var (
	errRefused = errors.New("the test refuses this write")
	// errSilent repeats the URL of a proxy with its password and sends colours to a terminal.
	errSilent = errors.New("proxy http://ingot:hunter2@192.0.2.5:3128: \x1b[31mno answer")
)

// world is a management cluster, a workload cluster, the machines, and the host operator.
type world struct {
	testing.TB
	now   time.Time
	mgmt  client.Client
	nodes client.Client
	r     *Reconciler

	// running are the machines that are on, by the name of their host.
	running map[string]bool
	// silent is true when the workload cluster does not answer.
	silent bool
	// recordless is true when the host operator keeps no records of holds.
	recordless bool
	// finding is called when a pass looks for a Node.
	finding func()
	// refuse and lose say which write, counted from 1, fails before or after it is made.
	refuse, lose int
	writes       []string
	uids         int
	mu           sync.Mutex // of writes and running
	notes        *events.FakeRecorder
	registry     *prometheus.Registry
}

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, v1beta2.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

// newWorld has so many Machines, each with a Metal3Machine, a host that is on, and a Node.
func newWorld(tb testing.TB, machines int) *world {
	tb.Helper()
	w := &world{
		TB: tb, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), running: map[string]bool{},
		notes: events.NewFakeRecorder(10000),
	}
	objects := []client.Object{&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testCluster}}}
	var nodes []client.Object
	for i := range machines {
		machine, m3m, host := w.machine(i)
		objects = append(objects, machine, m3m, host)
		nodes = append(nodes, w.node(i))
		w.running[host.Name] = true
	}
	scheme := testScheme()
	w.mgmt = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&clusterv1.Machine{}, &v1beta2.Metal3Machine{}, &v1beta2.Metal3Remediation{}, &v1alpha1.BareMetalHost{}).Build()
	w.nodes = fake.NewClientBuilder().WithScheme(scheme).WithObjects(nodes...).Build()
	w.start()
	return w
}

func name(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }

func (w *world) machine(i int) (*clusterv1.Machine, *v1beta2.Metal3Machine, *v1alpha1.BareMetalHost) {
	machine := &clusterv1.Machine{}
	machine.Namespace, machine.Name, machine.UID = testNamespace, name("machine", i), types.UID(name("machine-uid", i))
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: testCluster}
	machine.Spec.ClusterName = testCluster
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: name("m3m", i)}
	machine.Spec.ProviderID = "metal3://" + testNamespace + "/" + name("host", i) + "/" + name("m3m", i)
	machine.Status.NodeRef.Name = name("node", i)

	m3m := &v1beta2.Metal3Machine{}
	m3m.Namespace, m3m.Name, m3m.UID = testNamespace, name("m3m", i), types.UID(name("m3m-uid", i))
	m3m.Annotations = map[string]string{v1beta2.HostAnnotation: testNamespace + "/" + name("host", i)}
	m3m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}}
	m3m.Spec.ProviderID = machine.Spec.ProviderID

	host := offHost(testKey, "")
	host.Name, host.UID, host.Annotations = name("host", i), types.UID(name("host-uid", i)), nil
	host.Status.PowerOffHolds, host.Status.PoweredOn = nil, true
	host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: testNamespace, Name: m3m.Name,
	}
	return machine, m3m, host
}

func (w *world) node(i int) *corev1.Node {
	w.uids++
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name("node", i), UID: types.UID(fmt.Sprintf("node-uid-%d-%d", i, w.uids)),
			Labels:      map[string]string{"kubernetes.io/hostname": name("node", i), "rack": "1"},
			Annotations: map[string]string{"owner": "storage"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "metal3://" + testNamespace + "/" + name("host", i) + "/" + name("m3m", i),
			Taints: []corev1.Taint{
				{Key: "dedicated", Value: "storage", Effect: corev1.TaintEffectNoSchedule},
				{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute},
			},
		},
	}
}

// start makes a reconciler that knows nothing of what another one did.
func (w *world) start(options ...func(*Config)) {
	w.Helper()
	w.registry = prometheus.NewRegistry()
	metrics, err := NewMetrics(w.registry)
	if err != nil {
		w.Fatal(err)
	}
	config := Config{
		Client: w.observed(w.mgmt), Live: w.mgmt, Workloads: w, FindNode: w.findNode,
		Guard: NewGuard(w.mgmt, w, w.findNode), Recorder: w.notes, Metrics: metrics, Now: func() time.Time { return w.now },
	}
	for _, option := range options {
		option(&config)
	}
	w.r = New(config)
}

// Client implements workloads.
func (w *world) Client(context.Context, types.NamespacedName) (client.Client, error) {
	if w.silent {
		return nil, errSilent
	}
	return w.observed(w.nodes), nil
}

func (w *world) findNode(ctx context.Context, c client.Client, machine *clusterv1.Machine, _ ...string) (*corev1.Node, error) {
	if w.finding != nil {
		w.finding()
	}
	var node corev1.Node
	err := c.Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, &node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &node, err
}

// observed is a client whose writes are counted, checked, and fail when the test says so.
func (w *world) observed(c client.Client) client.Client {
	withWatch, ok := c.(client.WithWatch)
	if !ok {
		w.Fatalf("%T cannot be observed", c)
	}
	write := func(what string, obj client.Object, do func() error) error {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*")
		w.mu.Lock()
		w.writes = append(w.writes, what+" "+kind[strings.Index(kind, ".")+1:])
		n := len(w.writes)
		w.mu.Unlock()
		if n == w.refuse {
			return errRefused
		}
		err := do()
		if err == nil && n == w.lose {
			return errRefused
		}
		return err
	}
	return interceptor.NewClient(withWatch, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+sub+" of", obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write("delete", obj, func() error { return w.deleteNode(ctx, c, obj, opts) })
		},
	})
}

// deleteNode is what the workload API server does, and checks what must never happen.
func (w *world) deleteNode(ctx context.Context, c client.WithWatch, obj client.Object, opts []client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	if options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID == "" {
		w.Errorf("Node %s is deleted without the UID of the one that was fenced", obj.GetName())
		return errRefused
	}
	var node corev1.Node
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), &node); err != nil {
		return err
	}
	if node.UID != *options.Preconditions.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, obj.GetName(), errors.New("another UID"))
	}
	host := strings.Replace(obj.GetName(), "node-", "host-", 1)
	if w.isRunning(host) {
		w.Errorf("Node %s is deleted while its machine runs, after %q", obj.GetName(), w.made())
	}
	return c.Delete(ctx, obj, opts...)
}

// made are the writes so far.
func (w *world) made() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

func (w *world) isRunning(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[host]
}

func (w *world) setRunning(host string, running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[host] = running
}

func (w *world) host(i int) *v1alpha1.BareMetalHost {
	w.Helper()
	return read(w, w.mgmt, &v1alpha1.BareMetalHost{}, testNamespace, name("host", i))
}

// held returns the names of the hosts that are held at one moment. One list shows them: between two
// reads, the controller may pass a place in the budget from one host to the next.
func (w *world) held() (names []string) {
	w.Helper()
	var hosts v1alpha1.BareMetalHostList
	if err := w.mgmt.List(w.Context(), &hosts); err != nil {
		w.Fatal(err)
	}
	for i := range hosts.Items {
		if isHeld(&hosts.Items[i]) {
			names = append(names, hosts.Items[i].Name)
		}
	}
	return names
}

func (w *world) theMachine(i int) *clusterv1.Machine {
	w.Helper()
	return read(w, w.mgmt, &clusterv1.Machine{}, testNamespace, name("machine", i))
}

// theNode is nil when there is none.
func (w *world) theNode(i int) *corev1.Node {
	w.Helper()
	var node corev1.Node
	err := w.nodes.Get(w.Context(), client.ObjectKey{Name: name("node", i)}, &node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return &node
}

// reason is that of the condition of a Metal3Machine.
func (w *world) reason(i int) string {
	w.Helper()
	m := read(w, w.mgmt, &v1beta2.Metal3Machine{}, testNamespace, name("m3m", i))
	if c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.RemediatingCondition); c != nil {
		return c.Reason
	}
	return ""
}

func read[T client.Object](w *world, c client.Client, into T, namespace, name string) T {
	w.Helper()
	if err := c.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		w.Fatal(err)
	}
	return into
}

// changeHost changes a host and its status.
func (w *world) changeHost(i int, change func(h *v1alpha1.BareMetalHost)) {
	w.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		h := w.host(i)
		before := h.DeepCopy()
		change(h)
		status := h.Status
		if err := w.mgmt.Update(w.Context(), h); err != nil || equality.Semantic.DeepEqual(status, before.Status) {
			return err
		}
		h.Status = status
		return w.mgmt.Status().Update(w.Context(), h)
	})
	if err != nil {
		w.Fatal(err)
	}
}

// annotate sets an annotation, or removes it when the value is nil.
func (w *world) annotate(obj client.Object, key string, value *string) {
	w.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := w.mgmt.Get(w.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		annotations := nodebackup.Merged(obj.GetAnnotations(), nil)
		delete(annotations, key)
		if value != nil {
			annotations[key] = *value
		}
		obj.SetAnnotations(annotations)
		return w.mgmt.Update(w.Context(), obj)
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) request(i int) {
	w.Helper()
	w.annotate(w.theMachine(i), v1beta2.ExternalRemediationAnnotation, new(string))
}

func (w *world) withdraw(i int) {
	w.Helper()
	w.annotate(w.theMachine(i), v1beta2.ExternalRemediationAnnotation, nil)
}

// pass makes one pass, which makes one write at most.
func (w *world) pass(i int) (ctrl.Result, error) {
	w.Helper()
	before := len(w.writes)
	result, err := w.r.Reconcile(w.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: name("machine", i)}})
	if made := w.writes[before:]; len(made) > 1 {
		w.Errorf("one pass made the writes %q, want one at most", made)
	}
	return result, err
}

// passes makes passes until one writes nothing.
func (w *world) passes(i int) {
	w.Helper()
	for range 50 {
		before := len(w.writes)
		if _, err := w.pass(i); err != nil && !errors.Is(err, errRefused) {
			w.Fatalf("pass after %q: %v", w.writes, err)
		}
		if len(w.writes) == before {
			return
		}
	}
	w.Fatalf("passes do not end: %q", w.writes[max(0, len(w.writes)-20):])
}

// operate is one step of the host operator, which reads a machine and then powers it on or off.
// It answers nothing while the host is paused, detached or without a BMC that answers.
func (w *world) operate(i int) {
	w.Helper()
	h := w.host(i)
	_, paused := h.Annotations[v1alpha1.PausedAnnotation]
	if paused || unwatched(h) != "" {
		return
	}
	w.changeHost(i, func(h *v1alpha1.BareMetalHost) {
		running := w.isRunning(h.Name)
		h.Status.PoweredOn = running
		var records []v1alpha1.PowerOffHold
		for _, key := range slices.Sorted(maps.Keys(h.Annotations)) {
			if !strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix) {
				continue
			}
			record := v1alpha1.PowerOffHold{Key: key, Value: recordedValue(h.Annotations[key]), RequestedAt: metav1.NewTime(w.now)}
			for _, known := range h.Status.PowerOffHolds {
				if known.Key == record.Key && known.Value == record.Value {
					if record = known; !running {
						record.ConfirmedAt = at(w.now)
					}
				}
			}
			records = append(records, record)
		}
		switch off := len(records) > 0 || !h.Spec.Online; {
		case off:
			w.setRunning(h.Name, false)
		case len(h.Status.PowerOffHolds) > 0: // the records go before the power comes
		default:
			w.boot(i)
		}
		if h.Status.PowerOffHolds = records; w.recordless {
			h.Status.PowerOffHolds = nil
		}
	})
}

// boot powers a machine on, whose operating system registers its Node unless that exists.
func (w *world) boot(i int) {
	w.Helper()
	if w.isRunning(name("host", i)) {
		return
	}
	w.setRunning(name("host", i), true)
	if w.theNode(i) == nil {
		node := w.node(i)
		node.Labels = map[string]string{"kubernetes.io/hostname": node.Name}
		node.Annotations, node.Spec.Taints, node.Spec.ProviderID = nil, nil, ""
		if err := w.nodes.Create(w.Context(), node); err != nil {
			w.Fatal(err)
		}
	}
}

// live makes passes and steps of the operator in turn.
func (w *world) live(i int) {
	w.Helper()
	for range 12 {
		w.passes(i)
		w.operate(i)
		w.now = w.now.Add(2 * time.Second)
	}
	w.passes(i)
}

// checkRecovered checks that a machine runs again, and that nothing is left of its recovery.
func (w *world) checkRecovered(i int, old types.UID) {
	w.Helper()
	machine, host, node := w.theMachine(i), w.host(i), w.theNode(i)
	if isConcerned(machine) {
		w.Errorf("Machine %s still has annotations: %v", machine.Name, machine.Annotations)
	}
	if isHeld(host) || !w.running[host.Name] {
		w.Errorf("host %s is held (%v) or off", host.Name, host.Annotations)
	}
	if got := w.reason(i); got != v1beta2.NotRemediatingReason {
		w.Errorf("the condition says %q, want %q", got, v1beta2.NotRemediatingReason)
	}
	switch {
	case node == nil:
		w.Errorf("Node %s is not back", machine.Status.NodeRef.Name)
	case node.UID == old:
		w.Errorf("Node %s was not deleted", node.Name)
	case node.Labels["rack"] != "1" || node.Annotations["owner"] != "storage" ||
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "dedicated" }):
		w.Errorf("Node %s is back with labels %v, annotations %v and taints %v", node.Name, node.Labels, node.Annotations, node.Spec.Taints)
	}
}

// metric is the sum of a metric over its labels.
func (w *world) metric(name string) (sum float64) {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// events are those that were recorded since the last call.
func (w *world) events() (all []string) {
	for {
		select {
		case e := <-w.notes.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}
