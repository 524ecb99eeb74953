package reuse

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/config"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
)

var plane = controlplanetest.New(controlplanetest.Options{CRDs: definitions()})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(plane.Run(m))
}

// definitions are Ingot's kinds and, without their schemas, those of Cluster API.
func definitions() fs.FS {
	files := fstest.MapFS{}
	err := fs.WalkDir(config.CRDs, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := config.CRDs.ReadFile(path)
		files[path] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		panic(err)
	}
	for kind, group := range map[string]string{
		"Cluster": "cluster.x-k8s.io", "Machine": "cluster.x-k8s.io", "MachineSet": "cluster.x-k8s.io", "MachineDeployment": "cluster.x-k8s.io",
		"KubeadmControlPlane": "controlplane.cluster.x-k8s.io",
	} {
		plural := strings.ToLower(kind) + "s"
		files["crd/"+group+"_"+plural+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[3]s}
spec:
  group: %[3]s
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s}
  versions:
  - name: v1beta2
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural, group)}
	}
	return files
}

// setup is a namespace of an API server with a Cluster, a MachineDeployment that wants one machine,
// its template, a reserved host and a free one. The controller runs.
type setup struct {
	*testing.T
	client.Client
	namespace  string
	cluster    *clusterv1.Cluster
	deployment *clusterv1.MachineDeployment
	template   *v1beta2.Metal3MachineTemplate
	free       *v1alpha1.BareMetalHost
}

// run starts the controller until the end of the test, and returns a client without a cache.
func run(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1beta2.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	rest := plane.Config(t)
	mgr, err := manager.New(rest, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("reuse"), Now: time.Now})
	c, err := r.Controller(mgr.GetCache(), controller.Options{MaxConcurrentReconciles: 4, SkipNameValidation: new(true), UsePriorityQueue: new(false)})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(c); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	live, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func newSetup(t *testing.T, c client.Client) *setup {
	t.Helper()
	s := &setup{T: t, Client: c}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "reuse-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	s.cluster = &clusterv1.Cluster{ObjectMeta: s.meta("one")}
	s.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: kubeadm.group(), Kind: kubeadm.Kind, Name: "one"}
	s.create(s.cluster)
	s.template = &v1beta2.Metal3MachineTemplate{ObjectMeta: s.meta("one")}
	s.template.Spec.NodeReuse = new(true)
	s.template.Spec.Template.Spec.Image = v1beta2.Image{URL: "http://images.example.com/os.raw", Checksum: strings.Repeat("0", 64), ChecksumType: "sha256", DiskFormat: "raw"}
	s.create(s.template)
	s.deployment = &clusterv1.MachineDeployment{ObjectMeta: s.meta("one")}
	s.deployment.Spec.ClusterName, s.deployment.Spec.Replicas = "one", new(int32(1))
	s.deployment.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: "one"}
	s.create(s.deployment)
	s.free = &v1alpha1.BareMetalHost{ObjectMeta: s.meta("free")}
	s.create(s.free)
	return s
}

func (s *setup) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "one"}}
}

func (s *setup) create(obj client.Object) {
	s.Helper()
	if err := s.Create(s.Context(), obj); err != nil {
		s.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
}

// change writes an object anew.
func (s *setup) change(obj client.Object, change func()) {
	s.Helper()
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := s.Patch(s.Context(), obj, client.MergeFrom(before)); err != nil {
		s.Fatalf("change %T %s: %v", obj, obj.GetName(), err)
	}
}

// eventually waits until a host is as it should be.
func (s *setup) eventually(name, what string, is func(*v1alpha1.BareMetalHost) bool) {
	s.Helper()
	var h v1alpha1.BareMetalHost
	err := s.poll(func(ctx context.Context) (bool, error) {
		err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, &h)
		return err == nil && is(&h), err
	})
	if err != nil {
		s.Fatalf("host %s is not %s: %v; consumer %v, labels %v, annotations %v", name, what, err, h.Spec.ConsumerRef, h.Labels, h.Annotations)
	}
}

// poll asks until something is done, for less time than the recheck takes.
func (s *setup) poll(done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, 30*time.Second, true, done)
}

// host is a host as it is stored.
func (s *setup) host(name string) *v1alpha1.BareMetalHost {
	s.Helper()
	var h v1alpha1.BareMetalHost
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &h); err != nil {
		s.Fatal(err)
	}
	return &h
}

func TestEachChangeThatEndsAReservationIsSeen(t *testing.T) {
	c := run(t)
	for name, end := range map[string]func(*setup){
		"owner scaled down": func(s *setup) {
			s.change(s.deployment, func() { s.deployment.Spec.Replicas = new(int32(0)) })
		},
		"owner deleted": func(s *setup) {
			if err := s.Delete(s.Context(), s.deployment); err != nil {
				s.Fatal(err)
			}
		},
		"Cluster deleted": func(s *setup) {
			if err := s.Delete(s.Context(), s.cluster); err != nil {
				s.Fatal(err)
			}
		},
		"template edited": func(s *setup) {
			s.change(s.template, func() { s.template.Spec.NodeReuse = new(false) })
		},
		"another host taken": func(s *setup) {
			set := &clusterv1.MachineSet{ObjectMeta: s.meta("set")}
			set.OwnerReferences = controlledBy(Owner{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "one", UID: s.deployment.UID})
			s.create(set)
			machine := &clusterv1.Machine{ObjectMeta: s.meta("new")}
			machine.OwnerReferences = controlledBy(Owner{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", UID: set.UID})
			machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: "new"}
			s.create(machine)
			s.change(s.free, func() { consumedBy(v1beta2.GroupVersion.String(), "Metal3Machine", "new", "")(s.free) })
		},
		"host marked": func(s *setup) {
			h := s.host("a")
			s.change(h, func() { h.Annotations[v1alpha1.UnhealthyAnnotation] = "" })
		},
		"pause ended": func(s *setup) {
			s.change(s.cluster, func() { s.cluster.Spec.Paused = new(true) })
			s.change(s.template, func() { s.template.Spec.NodeReuse = new(false) })
			s.change(s.cluster, func() { s.cluster.Spec.Paused = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, c)
			h := &v1alpha1.BareMetalHost{ObjectMeta: s.meta("a")}
			consumedBy(clusterv1.GroupVersion.String(), "MachineDeployment", "one", "")(h)
			h.Spec.ConsumerRef.Namespace = s.namespace
			s.create(h)
			s.eventually("a", "reserved and stamped", func(h *v1alpha1.BareMetalHost) bool {
				return ReservedFor(&Owner{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Namespace: s.namespace, Name: "one", UID: s.deployment.UID}, h) &&
					h.Spec.ConsumerRef.UID == s.deployment.UID && h.Labels[v1beta2.NodeReuseLabel] == "md-one" && !ReservedAt(h).IsZero()
			})
			end(s)
			s.eventually("a", "free", func(h *v1alpha1.BareMetalHost) bool { return h.Spec.ConsumerRef == nil && !IsReserved(h) })
		})
	}
}

func TestControlPlaneOfAnOlderLabelIsFoundAndTold(t *testing.T) {
	s := newSetup(t, run(t))
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(kubeadm.APIVersion)
	u.SetKind(kubeadm.Kind)
	u.SetNamespace(s.namespace)
	u.SetName("one")
	u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "one"})
	ref := map[string]any{"apiGroup": v1beta2.GroupVersion.Group, "kind": "Metal3MachineTemplate", "name": "one"}
	if err := unstructured.SetNestedMap(u.Object, ref, "spec", "machineTemplate", "spec", "infrastructureRef"); err != nil {
		t.Fatal(err)
	}
	s.create(u)
	h := &v1alpha1.BareMetalHost{ObjectMeta: s.meta("a")}
	h.Labels[v1beta2.NodeReuseLabel] = "cp-one"
	s.create(h)
	s.eventually("a", "reserved for the control plane", func(h *v1alpha1.BareMetalHost) bool {
		return h.Spec.ConsumerRef != nil && h.Spec.ConsumerRef.UID == u.GetUID() && h.Spec.ConsumerRef.Kind == kubeadm.Kind
	})
	s.change(s.template, func() { s.template.Spec.NodeReuse = nil })
	s.eventually("a", "free", func(h *v1alpha1.BareMetalHost) bool { return h.Spec.ConsumerRef == nil })

	about := map[string]bool{}
	err := s.poll(func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		err := s.List(ctx, &events, client.InNamespace(s.namespace))
		for _, e := range events.Items {
			if e.Reason == eventReleased {
				about[e.Regarding.Kind+" "+e.Regarding.Name] = true
			}
		}
		return about["BareMetalHost a"] && about["KubeadmControlPlane one"], err
	})
	if err != nil {
		t.Fatalf("events are about %v, want the host and its owner: %v", about, err)
	}
}
