package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
	"github.com/ingot-metal/ingot/internal/polltest"
)

var plane = controlplanetest.New(controlplanetest.Options{})

func TestMain(m *testing.M) {
	operator.RouteLogs(slog.New(slog.DiscardHandler))
	os.Exit(plane.Run(m))
}

// testTimeout is how long a test waits for something that has to happen.
const testTimeout = 3 * time.Minute

// bench is an operator in a namespace of its own, with an engine in memory.
type bench struct {
	testing.TB

	client    client.Client
	engine    *demo.Engine
	namespace string
	stop      func()
}

var namespaces atomic.Int32

// newBench starts an operator on the shared API server; change may alter its
// options.
func newBench(t testing.TB, change func(*operator.Options)) *bench {
	t.Helper()
	return newBenchOn(t, plane.Config(t), change)
}

func newBenchOn(t testing.TB, config *rest.Config, change func(*operator.Options)) *bench {
	t.Helper()
	b := newIdleBenchOn(t, config)
	b.startWith(config, change)
	return b
}

// newIdleBenchOn returns a bench without an operator.
func newIdleBenchOn(t testing.TB, config *rest.Config) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme, discoveryv1.AddToScheme, v1beta2.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, client: c, engine: demo.New(demo.Options{}), namespace: fmt.Sprintf("bench-%d", namespaces.Add(1))}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}); err != nil {
		t.Fatal(err)
	}
	return b
}

// startWith starts an operator that watches the namespace of the bench; change may alter its
// options.
func (b *bench) startWith(config *rest.Config, change func(*operator.Options)) {
	b.Helper()
	log := &logWriter{tb: b.TB}
	b.Cleanup(log.close)
	opts := operator.Options{
		Config: config, Engine: b.engine, Namespaces: []string{b.namespace},
		PollInterval: 100 * time.Millisecond,
		Logger:       slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if change != nil {
		change(&opts)
	}
	b.start(opts)
}

func (b *bench) start(opts operator.Options) {
	b.Helper()
	op, err := operator.New(opts)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	stopped := false
	b.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("operator ended: %v", err)
		}
	}
	b.Cleanup(b.stop)
}

func (b *bench) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace, Name: name}
}

func (b *bench) create(obj client.Object) {
	b.Helper()
	if err := b.client.Create(context.Background(), obj); err != nil {
		b.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
}

// discover creates a discovery resource that names hosts by their host names.
func (b *bench) discover(name string, change func(*discoveryv1.BareMetalHostDiscoverySpec)) *discoveryv1.BareMetalHostDiscovery {
	b.Helper()
	d := &discoveryv1.BareMetalHostDiscovery{ObjectMeta: b.meta(name), Spec: discoveryv1.BareMetalHostDiscoverySpec{
		ResourceNameTemplate: discoveryv1.ResourceNameTemplate{HardwareDetails: discoveryv1.DetailHostname},
		PollInterval:         metav1.Duration{Duration: 5 * time.Second},
	}}
	if change != nil {
		change(&d.Spec)
	}
	b.create(d)
	return d
}

// boot makes a machine known to the engine that nobody has registered, and returns its node.
func (b *bench) boot(hostname string) string {
	return b.engine.Discover(demo.Machine{Inventory: demo.SampleInventory(hostname)})
}

// host reads a host, or returns nil when there is none.
func (b *bench) host(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	var h v1alpha1.BareMetalHost
	err := b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: name}, &h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return &h
}

func (b *bench) hosts() []v1alpha1.BareMetalHost {
	b.Helper()
	var list v1alpha1.BareMetalHostList
	if err := b.client.List(context.Background(), &list, client.InNamespace(b.namespace)); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// update changes an object, as kubectl edit does.
func (b *bench) update(obj client.Object, change func()) {
	b.Helper()
	if err := b.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj); err != nil {
		b.Fatal(err)
	}
	before, _ := obj.DeepCopyObject().(client.Object)
	change()
	if err := b.client.Patch(context.Background(), obj, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// logWriter writes into the log of a test as long as it runs. Event recorders
// may outlive their manager for a moment.
type logWriter struct {
	mu   sync.Mutex
	tb   testing.TB
	done bool
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return len(p), nil
	}
	return w.tb.Output().Write(p)
}

func (w *logWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
}

// eventually waits until check returns "". If it does not, the test fails with check's last answer.
func (b *bench) eventually(what string, check func() string) {
	b.Helper()
	polltest.Until(b, testTimeout, what, func() error {
		if problem := check(); problem != "" {
			return errors.New(problem)
		}
		return nil
	})
}

// inState waits until the host is in a state and returns it.
func (b *bench) inState(name string, state v1alpha1.ProvisioningState) *v1alpha1.BareMetalHost {
	b.Helper()
	var h *v1alpha1.BareMetalHost
	b.eventually(fmt.Sprintf("host %s in state %q", name, state), func() string {
		if h = b.host(name); h == nil {
			return "there is no such host"
		}
		if got := h.Status.Provisioning.State; got != state {
			return fmt.Sprintf("state %q, error %q, conditions %s", got, h.Status.ErrorMessage, conditionText(h.Status.Conditions))
		}
		return ""
	})
	return h
}

// hasCondition waits until a condition has a status and a reason.
func (b *bench) hasCondition(name, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	b.Helper()
	var found metav1.Condition
	b.eventually(fmt.Sprintf("condition %s=%s/%s of host %s", kind, status, reason, name), func() string {
		h := b.host(name)
		if h == nil {
			return "there is no such host"
		}
		for _, c := range h.Status.Conditions {
			if c.Type == kind && c.Status == status && c.Reason == reason {
				found = c
				return ""
			}
		}
		return "conditions: " + conditionText(h.Status.Conditions)
	})
	return found
}

func (b *bench) gone(name string) {
	b.Helper()
	b.eventually("host "+name+" gone", func() string {
		if h := b.host(name); h != nil {
			return fmt.Sprintf("state %q, finalizers %v", h.Status.Provisioning.State, h.Finalizers)
		}
		return ""
	})
}

// hasEvent waits for an event on the named object with that reason whose note has all parts.
func (b *bench) hasEvent(name, reason string, parts ...string) {
	b.Helper()
	b.eventually("event "+reason+" on "+name, func() string {
		var list eventsv1.EventList
		if err := b.client.List(context.Background(), &list, client.InNamespace(b.namespace)); err != nil {
			b.Fatal(err)
		}
		var seen []string
		for _, e := range list.Items {
			lacks := func(part string) bool { return !strings.Contains(e.Note, part) }
			if e.Regarding.Name == name && e.Reason == reason && !slices.ContainsFunc(parts, lacks) {
				return ""
			}
			seen = append(seen, e.Regarding.Name+":"+e.Reason)
		}
		return "events: " + strings.Join(seen, " ")
	})
}

// forAWhile fails if check returns anything but "" before some polls have passed.
func (b *bench) forAWhile(what string, check func() string) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		if bad := check(); bad != "" {
			b.Fatalf("%s: %s", what, bad)
		}
		<-tick.C
	}
}

func conditionText(list []metav1.Condition) string {
	var all []string
	for _, c := range list {
		all = append(all, fmt.Sprintf("%s=%s/%s(%s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, " ")
}
