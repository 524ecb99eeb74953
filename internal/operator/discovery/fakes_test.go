package discovery

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// fakeAPI holds one or two discovery resources and the hosts, and counts writes.
type fakeAPI struct {
	client.Client

	mu       sync.Mutex // held while hosts are created
	resource *discoveryv1.BareMetalHostDiscovery
	older    *discoveryv1.BareMetalHostDiscovery // another resource, or nil
	hosts    map[types.NamespacedName]*v1alpha1.BareMetalHost
	refusal  error            // of creating hosts
	refusals map[string]error // of creating hosts, by name
	creates  int
	patches  []string // of the status
}

func (a *fakeAPI) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch obj := obj.(type) {
	case *discoveryv1.BareMetalHostDiscovery:
		if a.resource != nil {
			a.resource.DeepCopyInto(obj)
			return nil
		}
	case *v1alpha1.BareMetalHost:
		if h := a.hosts[key]; h != nil {
			h.DeepCopyInto(obj)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (a *fakeAPI) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if resources, ok := list.(*discoveryv1.BareMetalHostDiscoveryList); ok {
		resources.Items = []discoveryv1.BareMetalHostDiscovery{*a.resource.DeepCopy()}
		if a.older != nil {
			resources.Items = append(resources.Items, *a.older.DeepCopy())
		}
		return nil
	}
	return fmt.Errorf("unexpected list of %T", list)
}

func (a *fakeAPI) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	h, ok := obj.(*v1alpha1.BareMetalHost)
	if !ok {
		return fmt.Errorf("unexpected creation of %T", obj)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refusal != nil {
		return a.refusal
	}
	if err := a.refusals[h.Name]; err != nil {
		return err
	}
	if a.hosts[client.ObjectKeyFromObject(h)] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, h.Name)
	}
	a.creates++
	h.UID = types.UID(fmt.Sprint("uid-", a.creates))
	a.hosts[client.ObjectKeyFromObject(h)] = h.DeepCopy()
	return nil
}

func (a *fakeAPI) Status() client.SubResourceWriter { return statusWriter{api: a} }

// statusWriter writes the status of the resource.
type statusWriter struct {
	client.SubResourceWriter
	api *fakeAPI
}

// Patch refuses a write that is based on an older version.
func (w statusWriter) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	after, ok := obj.(*discoveryv1.BareMetalHostDiscovery)
	if !ok {
		return fmt.Errorf("unexpected write of %T", obj)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	if strings.Contains(string(data), "resourceVersion") && after.ResourceVersion != w.api.resource.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("it changed"))
	}
	w.api.patches = append(w.api.patches, string(data))
	w.api.resource.Status = *after.Status.DeepCopy()
	w.api.touch()
	return nil
}

func (a *fakeAPI) touch() {
	version, _ := strconv.Atoi(a.resource.ResourceVersion)
	a.resource.ResourceVersion = strconv.Itoa(version + 1)
}

// fakeRecorder keeps the notes of events.
type fakeRecorder struct{ notes []string }

func (r *fakeRecorder) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.notes = append(r.notes, reason+": "+fmt.Sprintf(note, args...))
}

// bench is a reconciler with everything around it.
type bench struct {
	*testing.T

	engine *fakeNodes
	api    *fakeAPI
	events *fakeRecorder
	r      *Reconciler
	reg    *prometheus.Registry
}

func newBench(t *testing.T, engine *fakeNodes, change func(*discoveryv1.BareMetalHostDiscovery)) *bench {
	t.Helper()
	b := &bench{
		T: t, engine: engine, events: &fakeRecorder{}, reg: prometheus.NewRegistry(),
		api: &fakeAPI{hosts: map[types.NamespacedName]*v1alpha1.BareMetalHost{}, resource: testResource(func(d *discoveryv1.BareMetalHostDiscovery) {
			d.UID, d.Generation, d.ResourceVersion = "resource", 1, "1"
			if change != nil {
				change(d)
			}
		})},
	}
	b.restart()
	return b
}

// restart replaces the reconciler, as a new process does.
func (b *bench) restart() {
	b.Helper()
	b.reg = prometheus.NewRegistry()
	metrics, err := NewMetrics(b.reg)
	if err != nil {
		b.Fatal(err)
	}
	b.r = New(Config{
		Client: b.api, Live: b.api, NodeCache: b.engine, Engine: b.engine,
		Recorder: b.events, Metrics: metrics, Now: time.Now,
	})
	for _, h := range b.api.hosts {
		b.r.index.put(h)
	}
}

// reconcile makes one pass and returns when the next one is due.
func (b *bench) reconcile() time.Duration {
	b.Helper()
	result, err := b.r.Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.api.resource)})
	if err != nil {
		b.Fatal(err)
	}
	for _, h := range b.api.hosts { // as the watch does
		b.r.index.put(h)
	}
	return result.RequeueAfter
}

// runFor makes all passes that are due within d.
func (b *bench) runFor(d time.Duration) {
	b.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(max(b.reconcile(), time.Millisecond))
	}
}

func (b *bench) condition(kind string) metav1.Condition {
	b.Helper()
	c := meta.FindStatusCondition(b.api.resource.Status.Conditions, kind)
	if c == nil {
		b.Fatalf("no condition %s", kind)
	}
	return *c
}

// skippedTotal is the sum of the metric of skipped nodes.
func (b *bench) skippedTotal() (sum float64) {
	b.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "ingot_discovery_skipped_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
