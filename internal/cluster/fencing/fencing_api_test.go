package fencing

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

var plane = controlplanetest.New(controlplanetest.Options{})

func TestMain(m *testing.M) { os.Exit(plane.Run(m)) }

// clusterAPIKinds are kinds of Cluster API without schemas.
func clusterAPIKinds() fstest.MapFS {
	files := fstest.MapFS{}
	for _, kind := range []string{"Machine", "Cluster"} {
		plural := strings.ToLower(kind) + "s"
		files[plural+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.cluster.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s}
  versions:
  - name: v1beta2
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural)}
	}
	return files
}

// newServerWorld is a world on a real API server, which has the Nodes, too.
func newServerWorld(t *testing.T, machines int) (*world, *rest.Config) {
	t.Helper()
	config := plane.Config(t)
	if err := controlplane.InstallCRDs(t.Context(), config, clusterAPIKinds()); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: testScheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, now: time.Now(), mgmt: c, nodes: c, running: map[string]bool{}, notes: events.NewFakeRecorder(1000)}
	create := func(obj client.Object) {
		t.Helper()
		obj.SetUID("")
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}})
	create(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testCluster}})
	for i := range machines {
		machine, m3m, host := w.machine(i)
		machineStatus, hostStatus := machine.Status, host.Status
		create(machine)
		m3m.OwnerReferences[0].UID = machine.UID
		create(m3m)
		create(host)
		create(w.node(i))
		w.running[host.Name] = true
		machine.Status, host.Status = machineStatus, hostStatus
		for _, obj := range []client.Object{machine, host} {
			if err := c.Status().Update(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w, config
}

// run starts the controller and returns what stops it.
func (w *world) run(config *rest.Config) (stop func()) {
	w.Helper()
	skip := true
	mgr, err := manager.New(config, manager.Options{
		Scheme: testScheme(), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.start(func(c *Config) {
		c.Client, c.Live, c.Now = w.observed(w.mgmt), mgr.GetAPIReader(), time.Now
		c.Client = cachedReader{c.Client, mgr.GetClient()}
	})
	made, err := w.r.Controller(mgr.GetCache(), controller.Options{SkipNameValidation: &skip, MaxConcurrentReconciles: 3, Logger: logr.Discard(), UsePriorityQueue: new(false)})
	if err != nil {
		w.Fatal(err)
	}
	if err := mgr.Add(made); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	}
}

// cachedReader reads from a cache what another client writes.
type cachedReader struct {
	client.Client

	cache client.Reader
}

func (c cachedReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.cache.Get(ctx, key, obj, opts...)
}

func (c cachedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.cache.List(ctx, list, opts...)
}

// until lets the host operator work until something is so.
func (w *world) until(machines int, what string, so func() bool) {
	w.Helper()
	polltest.Until(w, 3*time.Minute, what, func() error {
		if so() {
			return nil
		}
		for i := range machines {
			w.operate(i)
		}
		if held := w.held(); len(held) > DefaultBudget {
			w.Errorf("the hosts %q are held at once, want %d", held, DefaultBudget)
		}
		return fmt.Errorf("the writes are %q", w.made())
	})
}

func TestMachinesAreRecoveredOneAfterTheOtherOnARealAPIServer(t *testing.T) {
	const machines = 3
	w, config := newServerWorld(t, machines)
	var old [machines]*corev1.Node
	for i := range machines {
		old[i] = w.theNode(i)
		w.request(i)
	}
	stop := w.run(config)
	for n := 1; n <= 4; n++ { // the controller is replaced in the middle of cycles
		w.until(machines, "more writes", func() bool { return len(w.made()) >= 6*n })
		stop()
		stop = w.run(config)
	}
	for i := range machines {
		w.until(machines, "a recovered machine", func() bool {
			return !isConcerned(w.theMachine(i)) && w.theNode(i) != nil && w.reason(i) == "NotRemediating"
		})
	}
	stop()
	for i := range machines {
		w.checkRecovered(i, old[i].UID)
	}

	w.request(0)
	stop = w.run(config)
	w.until(machines, "the hold of the host", func() bool { return isHeld(w.host(0)) })
	stop()
	if err := w.mgmt.Delete(t.Context(), w.theMachine(0)); err != nil {
		t.Fatal(err)
	}
	defer w.run(config)()
	w.until(machines, "the end of the orphaned hold", func() bool { return !isHeld(w.host(0)) && w.running[name("host", 0)] })
}
