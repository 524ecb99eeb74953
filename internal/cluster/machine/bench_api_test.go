package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/infrastructure"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

var plane = controlplanetest.New(controlplanetest.Options{})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(plane.Run(m))
}

// apiTimeout is how long a test on a real API server waits for what has to happen.
const apiTimeout = 2 * time.Minute

// clusterAPIKinds are kinds of Cluster API without schemas.
func clusterAPIKinds() fstest.MapFS {
	files := fstest.MapFS{}
	for _, kind := range []string{"Cluster", "Machine", "MachineSet", "MachineDeployment"} {
		plural := strings.ToLower(kind) + "s"
		files[plural+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.cluster.x-k8s.io}
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

// apiBench is a namespace of a real API server with a Cluster and a MachineDeployment. The test
// does what Cluster API's controllers do.
type apiBench struct {
	*testing.T
	client.Client

	config     *rest.Config
	namespace  string
	cluster    *clusterv1.Cluster
	deployment *clusterv1.MachineDeployment
	set        *clusterv1.MachineSet
	// owner is the MachineDeployment as hosts name it.
	owner reuse.Owner

	mu sync.Mutex
	// cleaned are the modes with which hosts were deprovisioned, in their order.
	cleaned map[string][]v1alpha1.AutomatedCleaningMode
}

func newAPIBench(t *testing.T, replicas int) *apiBench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, clusterv1.AddToScheme, v1beta2.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &apiBench{T: t, config: plane.Config(t), cleaned: map[string][]v1alpha1.AutomatedCleaningMode{}}
	if err := controlplane.InstallCRDs(t.Context(), s.config, clusterAPIKinds()); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Client, err = client.New(s.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "machine-"}}
	s.create(namespace)
	s.namespace = namespace.Name

	s.cluster = &clusterv1.Cluster{ObjectMeta: s.meta("edge")}
	s.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: "edge"}
	s.create(s.cluster)
	s.report(s.cluster, func() { s.cluster.Status.Initialization.InfrastructureProvisioned = new(true) })
	s.create(s.infrastructure("edge", "192.0.2.249"))
	s.deployment = &clusterv1.MachineDeployment{ObjectMeta: s.meta("workers")}
	s.deployment.Spec.ClusterName, s.deployment.Spec.Replicas = "edge", new(int32(replicas))
	s.create(s.deployment)
	s.set = &clusterv1.MachineSet{ObjectMeta: s.meta("set")}
	s.set.OwnerReferences = s.ownedBy("MachineDeployment", s.deployment)
	s.create(s.set)
	s.owner = reuse.Owner{Kind: "MachineDeployment", APIVersion: clusterv1.GroupVersion.String(), Namespace: s.namespace, Name: "workers", UID: s.deployment.UID}
	return s
}

func (s *apiBench) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "edge"}}
}

func (*apiBench) ownedBy(kind string, owner client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}}
}

// infrastructure returns a Metal3Cluster of the Cluster whose endpoint has no port.
func (s *apiBench) infrastructure(name, host string) *v1beta2.Metal3Cluster {
	c := &v1beta2.Metal3Cluster{ObjectMeta: s.meta(name)}
	c.OwnerReferences = s.ownedBy("Cluster", s.cluster)
	c.Spec.ControlPlaneEndpoint.Host = host
	return c
}

func (s *apiBench) create(obj client.Object) {
	s.Helper()
	if err := s.Create(s.Context(), obj); err != nil {
		s.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
}

// change writes an object anew, and report its status.
func (s *apiBench) change(obj client.Object, change func()) {
	s.Helper()
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := s.Patch(s.Context(), obj, client.MergeFrom(before)); err != nil {
		s.Fatalf("change %T %s: %v", obj, obj.GetName(), err)
	}
}

func (s *apiBench) report(obj client.Object, change func()) {
	s.Helper()
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := s.Status().Patch(s.Context(), obj, client.MergeFrom(before)); err != nil {
		s.Fatalf("change the status of %T %s: %v", obj, obj.GetName(), err)
	}
}

// template creates a template, and has the MachineDeployment make its machines of it.
func (s *apiBench) template(name string, reuse bool, cleaning string) {
	s.Helper()
	t := &v1beta2.Metal3MachineTemplate{ObjectMeta: s.meta(name)}
	t.Spec.NodeReuse = new(reuse)
	t.Spec.Template.Spec = v1beta2.Metal3MachineSpec{Image: testImage, AutomatedCleaningMode: cleaning}
	s.create(t)
	s.change(s.deployment, func() {
		s.deployment.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: name,
		}
	})
}

var testImage = v1beta2.Image{URL: "https://images/os.qcow2", Checksum: "https://images/os.qcow2.sha256"}

// addMachine creates a Machine with bootstrap data, and its Metal3Machine of the template of the
// MachineDeployment.
func (s *apiBench) addMachine(name string) {
	s.Helper()
	machine := &clusterv1.Machine{ObjectMeta: s.meta(name)}
	machine.OwnerReferences, machine.Finalizers = s.ownedBy("MachineSet", s.set), []string{clusterv1.MachineFinalizer}
	machine.Spec.ClusterName = "edge"
	machine.Spec.Bootstrap.DataSecretName = new(name + "-bootstrap")
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: name}
	s.create(machine)
	m := &v1beta2.Metal3Machine{ObjectMeta: s.meta(name)}
	m.Annotations = map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      s.deployment.Spec.Template.Spec.InfrastructureRef.Name,
		clusterv1.TemplateClonedFromGroupKindAnnotation: "Metal3MachineTemplate." + v1beta2.GroupVersion.Group,
	}
	m.OwnerReferences = s.ownedBy("Machine", machine)
	m.Spec.Image = testImage
	s.create(m)
}

// removeMachine deletes a Machine with its Metal3Machine, and machineGone waits until the latter is
// gone.
func (s *apiBench) removeMachine(name string) {
	s.Helper()
	for _, obj := range []client.Object{&clusterv1.Machine{ObjectMeta: s.meta(name)}, &v1beta2.Metal3Machine{ObjectMeta: s.meta(name)}} {
		if err := s.Delete(s.Context(), obj); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *apiBench) machineGone(name string) {
	s.Helper()
	s.eventually("Metal3Machine "+name+" gone", func() string {
		m, err := s.machine(name)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint(err, m.Status.Conditions)
	})
	machine := &clusterv1.Machine{}
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, machine); err != nil {
		s.Fatal(err)
	}
	s.change(machine, func() { machine.Finalizers = nil })
}

func (s *apiBench) machine(name string) (*v1beta2.Metal3Machine, error) {
	m := &v1beta2.Metal3Machine{}
	return m, s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, m)
}

// condition waits for a condition of a Metal3Machine.
func (s *apiBench) condition(name, kind string, status metav1.ConditionStatus, reason string) {
	s.Helper()
	s.eventually(fmt.Sprintf("condition %s=%s/%s of machine %s", kind, status, reason, name), func() string {
		m, err := s.machine(name)
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); err != nil || c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprint(err, m.Status.Conditions)
		}
		return ""
	})
}

// addHost creates a host that is available, with the Secret of its BMC.
func (s *apiBench) addHost(name string, changes ...func(*v1alpha1.BareMetalHost)) {
	s.Helper()
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-bmc"}})
	h := newHost(name, changes...)
	h.Namespace, h.UID, h.CreationTimestamp = s.namespace, "", metav1.Time{}
	status := h.Status
	s.create(h)
	s.report(h, func() { h.Status = status })
}

func (s *apiBench) host(name string) *v1alpha1.BareMetalHost {
	s.Helper()
	h := &v1alpha1.BareMetalHost{}
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, h); err != nil {
		s.Fatal(err)
	}
	return h
}

// hostOf returns the name of the host whose consumer is a machine, or nothing. The test fails when
// there are two.
func (s *apiBench) hostOf(machine string) string {
	s.Helper()
	var list v1alpha1.BareMetalHostList
	if err := s.List(s.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.Fatal(err)
	}
	held := ""
	for _, h := range list.Items {
		if ref := h.Spec.ConsumerRef; ref != nil && ref.Kind == "Metal3Machine" && ref.Name == machine {
			if held != "" {
				s.Fatalf("machine %s holds hosts %s and %s", machine, held, h.Name)
			}
			held = h.Name
		}
	}
	return held
}

// secretCluster returns the name of the Cluster in the label of the Secret of a host's BMC.
func (s *apiBench) secretCluster(host string) string {
	s.Helper()
	secret := &corev1.Secret{}
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: host + "-bmc"}, secret); err != nil {
		s.Fatal(err)
	}
	return secret.Labels[clusterv1.ClusterNameLabel]
}

// eventually waits until missing returns nothing.
func (s *apiBench) eventually(what string, missing func() string) {
	s.Helper()
	polltest.Until(s.T, apiTimeout, what, func() error {
		if problem := missing(); problem != "" {
			return errors.New(problem)
		}
		return nil
	})
}

// run starts the controllers, and a host operator that deploys and deprovisions, until the end of
// the test.
func (s *apiBench) run() {
	s.Helper()
	mgr, err := manager.New(s.config, manager.Options{
		Scheme: s.Scheme(), Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
	})
	if err != nil {
		s.Fatal(err)
	}
	cached, live, objects := mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache()
	recorder := mgr.GetEventRecorder("test")
	options := controller.Options{MaxConcurrentReconciles: 4, SkipNameValidation: new(true), UsePriorityQueue: new(false)}
	clusters, clustersErr := infrastructure.New(infrastructure.Config{Client: cached, Live: live, Recorder: recorder, Now: time.Now}).Controller(objects, options)
	machines, machinesErr := New(Config{
		Client: cached, Live: live, Recorder: recorder, Now: time.Now, Reuse: reuse.Reuse{Client: cached, Live: live, Now: time.Now},
	}).Controller(objects, options)
	reserved, reservedErr := reuse.New(reuse.Config{Client: cached, Live: live, Recorder: recorder, Now: time.Now}).Controller(objects, options)
	if err := errors.Join(clustersErr, machinesErr, reservedErr, mgr.Add(clusters), mgr.Add(machines), mgr.Add(reserved)); err != nil {
		s.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(s.Context()); err != nil {
			s.Errorf("manager: %v", err)
		}
	})
	running.Go(func() { wait.UntilWithContext(s.Context(), s.hostsWork, 20*time.Millisecond) })
	s.Cleanup(running.Wait)
}

// hostsWork makes one step of the host operator for each host.
func (s *apiBench) hostsWork(ctx context.Context) {
	var list v1alpha1.BareMetalHostList
	if s.List(ctx, &list, client.InNamespace(s.namespace)) != nil {
		return // the test ends
	}
	for i := range list.Items {
		h := &list.Items[i]
		state := worked(h)
		if state == h.Status.Provisioning.State {
			continue
		}
		before := h.DeepCopy()
		h.Status.Provisioning.State = state
		if s.Status().Patch(ctx, h, client.MergeFrom(before)) == nil && state == v1alpha1.StateDeprovisioning {
			s.mu.Lock()
			s.cleaned[h.Name] = append(s.cleaned[h.Name], h.Spec.AutomatedCleaningMode)
			s.mu.Unlock()
		}
	}
}
