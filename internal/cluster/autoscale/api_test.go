package autoscale_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/autoscale"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

var plane = controlplanetest.New(controlplanetest.Options{ClusterAPI: true})

func TestMain(m *testing.M) { os.Exit(plane.Run(m)) }

// bench is a namespace with a Cluster, and the controller, whose clock the test sets.
type bench struct {
	*testing.T
	client    client.Client
	reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)
	stop      func() // the controller

	mu     sync.Mutex
	ahead  time.Duration // of the clock
	events []string
}

const namespace = "racks"

// Eventf keeps the reason of an event.
func (b *bench) Eventf(regarding, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	obj, _ := regarding.(client.Object)
	b.events = append(b.events, reason+" "+obj.GetName())
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.ahead)
}

// pass sets the clock ahead.
func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead += d
}

func (b *bench) has(event string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.events, event)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	config := plane.Config(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, clusterv1.AddToScheme, v1beta2.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, client: live}
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

// start starts a controller that knows nothing of what another one did.
func (b *bench) start() {
	b.Helper()
	config := plane.Config(b)
	objects, err := cache.New(config, cache.Options{Scheme: b.client.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	cached, err := client.New(config, client.Options{Scheme: b.client.Scheme(), Cache: &client.CacheOptions{Reader: objects}})
	if err != nil {
		b.Fatal(err)
	}
	r := autoscale.New(autoscale.Config{Client: cached, Live: b.client, Recorder: b, Now: b.now})
	b.reconcile = r.Reconcile
	skip := true
	c, err := r.Controller(objects, controller.Options{SkipNameValidation: &skip, UsePriorityQueue: new(false)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, start := range []func(context.Context) error{objects.Start, c.Start} {
		running.Go(func() {
			if err := start(ctx); err != nil {
				b.Errorf("run: %v", err)
			}
		})
	}
	b.stop = func() { cancel(); running.Wait() }
}

// apply creates the objects of a text.
func (b *bench) apply(text string) {
	b.Helper()
	for one := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(one, &u.Object); err != nil {
			b.Fatal(err)
		}
		if u.GetKind() != "ClusterRole" && u.GetKind() != "Namespace" {
			u.SetNamespace(namespace)
		}
		if err := b.client.Create(b.Context(), u); err != nil {
			b.Fatalf("create %s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

// eventually waits until check says nothing.
func (b *bench) eventually(what string, check func() string) {
	b.Helper()
	polltest.Until(b.T, 3*time.Minute, what, func() error {
		if problem := check(); problem != "" {
			return errors.New(problem)
		}
		return nil
	})
}

func (b *bench) host(name, rack string) *v1alpha1.BareMetalHost {
	b.Helper()
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"rack": rack}}}
	h.Spec.BMC = v1alpha1.BMCDetails{Address: "redfish://192.0.2.1/redfish/v1/Systems/" + name, CredentialsName: name}
	if err := b.client.Create(b.Context(), h); err != nil {
		b.Fatal(err)
	}
	before := h.DeepCopy()
	h.Status.Provisioning.State, h.Status.OperationalStatus = v1alpha1.StateAvailable, v1alpha1.OperationalStatusOK
	if err := b.client.Status().Patch(b.Context(), h, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	return h
}

// edit changes an object until nobody else does at the same time.
func edit[T client.Object](b *bench, name string, obj T, change func(T)) {
	b.Helper()
	b.eventually("a change of "+name, func() string {
		if err := b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
			return err.Error()
		}
		before, _ := obj.DeepCopyObject().(client.Object)
		change(obj)
		if err := b.client.Patch(b.Context(), obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err.Error()
		}
		return ""
	})
}

// claim gives a host to a Metal3Machine.
func (b *bench) claim(host, machine string) {
	b.Helper()
	edit(b, host, &v1alpha1.BareMetalHost{}, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: namespace, Name: machine}
	})
}

// machines are the names of the Machines of a set that have Metal3Machines.
func (b *bench) machines(set string) []string {
	b.Helper()
	var infrastructure v1beta2.Metal3MachineList
	if err := b.client.List(b.Context(), &infrastructure, client.InNamespace(namespace)); err != nil {
		b.Fatal(err)
	}
	var names []string
	for _, m := range infrastructure.Items {
		owned := slices.ContainsFunc(m.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind == "Machine" })
		if strings.HasPrefix(m.Name, set+"-") && owned && m.DeletionTimestamp.IsZero() {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (b *bench) hasMachines(set string, n int) []string {
	b.Helper()
	var names []string
	b.eventually(fmt.Sprintf("%d machines of %s", n, set), func() string {
		if names = b.machines(set); len(names) == n {
			return ""
		}
		return fmt.Sprint(names)
	})
	return names
}

// reports waits for the condition of an object.
func (b *bench) reports(kind schema.GroupVersionKind, name, want string) {
	b.Helper()
	b.eventually(fmt.Sprintf("condition %s of %s", want, name), func() string {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		if err := b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
			return err.Error()
		}
		fields, _, _ := unstructured.NestedMap(u.Object, "status")
		var status struct {
			Conditions []metav1.Condition `json:"conditions"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
			return err.Error()
		}
		got := ""
		if c := meta.FindStatusCondition(status.Conditions, v1beta2.AutoscaledToHostsCondition); c != nil {
			got = c.Reason
		}
		if got == want {
			return ""
		}
		return fmt.Sprintf("it is %q in %v", got, status.Conditions)
	})
}

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: racks}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3MachineTemplate
metadata: {name: worker}
spec: {template: {spec: {image: {url: "http://192.0.2.9/image", checksum: "http://192.0.2.9/sum"}, hostSelector: {matchLabels: {rack: a}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3MachineTemplate
metadata: {name: any}
spec: {template: {spec: {image: {url: "http://192.0.2.9/image", checksum: "http://192.0.2.9/sum"}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Cluster
metadata: {name: edge}
spec: {controlPlaneEndpoint: {host: 127.0.0.1, port: 1}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: edge, annotations: {metal3.io/autoscale-to-hosts: ""}}
spec:
  replicas: 1
  version: v1.36.3
  machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: worker}}}
  kubeadmConfigSpec: {preKubeadmCommands: [echo first]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: edge}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: edge}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: edge}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: followers
  annotations: {machineset.cluster.x-k8s.io/skip-preflight-checks: All, metal3.io/autoscale-to-hosts: ""}
spec:
  clusterName: edge
  replicas: 0
  template:
    spec:
      clusterName: edge
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: worker}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata:
  name: alone
  annotations: {machineset.cluster.x-k8s.io/skip-preflight-checks: All, metal3.io/autoscale-to-hosts: ""}
spec:
  clusterName: edge
  replicas: 0
  selector: {matchLabels: {of: alone}}
  template:
    metadata: {labels: {of: alone}}
    spec:
      clusterName: edge
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: any}
`

var (
	deployments   = clusterv1.GroupVersion.WithKind("MachineDeployment")
	machineSets   = clusterv1.GroupVersion.WithKind("MachineSet")
	controlPlanes = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}
)

func TestMachinesFollowHostsWithTheControllersOfClusterAPI(t *testing.T) {
	b := newBench(t)
	role, err := os.ReadFile("../../../config/rbac/clusterapi/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b.apply(string(role))
	b.apply(objects)

	// A control plane never follows, and a MachineSet needs to be told that it may have every host.
	b.reports(controlPlanes, "edge", v1beta2.AutoscaleControlPlaneReason)
	b.reports(machineSets, "alone", v1beta2.AutoscaleNoSelectorReason)
	b.reports(deployments, "followers", v1beta2.AutoscaleFollowsReason)
	for _, event := range []string{"AutoscaleRefused edge", "AutoscaleRefused alone"} {
		b.eventually("event "+event, func() string { // which follows the condition
			if b.has(event) {
				return ""
			}
			return "it is not there"
		})
	}

	b.stop()
	for _, name := range []string{"a1", "a2", "a3"} {
		b.host(name, "a")
	}
	b.host("b1", "b")
	b.start() // and finds the hosts that came meanwhile
	followers := b.hasMachines("followers", 3)
	b.claim("a1", followers[0])
	b.claim("a2", followers[2])
	edit(b, "alone", &clusterv1.MachineSet{}, func(s *clusterv1.MachineSet) {
		s.Annotations[v1beta2.AutoscaleToHostsAnnotation] = v1beta2.AutoscaleAllHosts
	})
	b.hasMachines("alone", 1) // a3 belongs to the older MachineDeployment

	// A host goes: the machine that holds none goes after a while.
	if err := b.client.Delete(t.Context(), &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "a3", Namespace: namespace}}); err != nil {
		t.Fatal(err)
	}
	b.reports(deployments, "followers", v1beta2.AutoscaleFallingReason)
	b.eventually("the mark of the machine without a host", func() string {
		m := &clusterv1.Machine{}
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: followers[1]}, m); err != nil {
			return err.Error()
		}
		if m.Annotations[clusterv1.DeleteMachineAnnotation] != v1beta2.AutoscaleDeletionMark {
			return fmt.Sprint(m.Annotations)
		}
		return ""
	})
	if got := b.machines("followers"); len(got) != 3 {
		t.Errorf("machines are %v before the time is over", got)
	}
	falling := func() string {
		d := &clusterv1.MachineDeployment{}
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "followers"}, d); err != nil {
			t.Fatal(err)
		}
		var record struct {
			Since string `json:"since"`
		}
		if err := yaml.Unmarshal([]byte(d.Annotations[v1beta2.AutoscaleFallingAnnotation]), &record); err != nil {
			t.Fatal(err)
		}
		return record.Since
	}
	since := falling()
	b.stop()
	b.pass(20 * time.Second)
	b.start()
	b.eventually("a pass of another controller", func() string {
		if _, err := b.reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace}}); err != nil {
			return err.Error()
		}
		return ""
	})
	if now := falling(); since == "" || now != since {
		t.Errorf("there are fewer hosts since %q, and since %q before the controller was replaced", now, since)
	}
	b.pass(2 * time.Minute)
	b.eventually("the end of the surplus machine", func() string {
		if _, err := b.reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace}}); err != nil {
			return err.Error()
		}
		if got := b.machines("followers"); !slices.Equal(got, []string{followers[0], followers[2]}) {
			return fmt.Sprint(got)
		}
		return ""
	})
	b.reports(deployments, "followers", v1beta2.AutoscaleFollowsReason)

	// Without the annotations nothing is left, and hosts do not matter.
	edit(b, "followers", &clusterv1.MachineDeployment{}, func(d *clusterv1.MachineDeployment) {
		delete(d.Annotations, v1beta2.AutoscaleToHostsAnnotation)
	})
	b.reports(deployments, "followers", "")
	plane := &unstructured.Unstructured{}
	plane.SetGroupVersionKind(controlPlanes)
	edit(b, "edge", plane, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	b.reports(controlPlanes, "edge", "")
	b.host("a4", "a")
	b.hasMachines("alone", 2)
	b.hasMachines("followers", 2)
}
