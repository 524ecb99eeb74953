package reuse

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// world is what an API server has: a Cluster with a MachineDeployment or a control plane that wants
// three machines, m0 to m2, which hold the hosts h0 to h2. Their template is "old".
type world struct {
	cluster    *clusterv1.Cluster
	owner      client.Object
	set        *clusterv1.MachineSet // of a MachineDeployment
	templates  map[string]*v1beta2.Metal3MachineTemplate
	machines   []*clusterv1.Machine
	metal3     []*v1beta2.Metal3Machine
	hosts      []*v1alpha1.BareMetalHost
	additional []client.Object
}

// newWorld returns a world whose machines an owner has: a MachineDeployment, or a control plane.
func newWorld(owner Owner) *world {
	w := &world{
		cluster: &clusterv1.Cluster{ObjectMeta: old("one", "cluster")},
		templates: map[string]*v1beta2.Metal3MachineTemplate{
			"old": newTemplate("old", true), "new": newTemplate("new", true), "off": newTemplate("off", false),
		},
	}
	w.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: owner.group(), Kind: owner.Kind, Name: owner.Name}
	if owner.Kind == "MachineDeployment" {
		w.owner = newDeployment(owner)
		w.set = &clusterv1.MachineSet{ObjectMeta: old("one-set", "set")}
		w.set.OwnerReferences = controlledBy(owner)
	} else {
		w.owner = newControlPlane(owner)
	}
	w.points("old")
	for i := range 3 {
		w.addMachine(i)
	}
	return w
}

func old(name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "edge", Name: name, UID: uid, CreationTimestamp: metav1.NewTime(start.AddDate(-1, 0, 0)),
		Labels: map[string]string{clusterv1.ClusterNameLabel: "one"}, Annotations: map[string]string{},
	}
}

func controlledBy(o Owner) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: new(true)}}
}

func newTemplate(name string, reuse bool) *v1beta2.Metal3MachineTemplate {
	t := &v1beta2.Metal3MachineTemplate{ObjectMeta: old(name, types.UID(name))}
	t.Spec.NodeReuse = new(reuse)
	return t
}

func newDeployment(o Owner) *clusterv1.MachineDeployment {
	d := &clusterv1.MachineDeployment{ObjectMeta: old(o.Name, o.UID)}
	d.Spec.ClusterName, d.Spec.Replicas = "one", new(int32(3))
	return d
}

func newControlPlane(o Owner) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}}
	u.SetAPIVersion(o.APIVersion)
	u.SetKind(o.Kind)
	m := old(o.Name, o.UID)
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetUID(m.UID)
	u.SetLabels(m.Labels)
	u.SetCreationTimestamp(m.CreationTimestamp)
	return u
}

// addMachine adds the i-th machine of the owner and its host.
func (w *world) addMachine(i int) {
	id := string(rune('0' + i))
	machine := &clusterv1.Machine{ObjectMeta: old("m"+id, types.UID("machine-"+id))}
	machine.Spec.ClusterName = "one"
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: "m" + id}
	machine.OwnerReferences = w.machineOwner()
	if w.set == nil {
		machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	m := &v1beta2.Metal3Machine{ObjectMeta: old("m"+id, types.UID("m"+id))}
	m.Annotations = map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      "old",
		clusterv1.TemplateClonedFromGroupKindAnnotation: "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io",
		v1beta2.HostAnnotation:                          "edge/h" + id,
	}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}}
	w.machines, w.metal3 = append(w.machines, machine), append(w.metal3, m)
	w.hosts = append(w.hosts, host("h"+id, consumedBy(v1beta2.GroupVersion.String(), "Metal3Machine", m.Name, m.UID), inState(v1alpha1.StateProvisioned)))
}

// machineOwner is what the Machines have as owner.
func (w *world) machineOwner() []metav1.OwnerReference {
	if w.set != nil {
		return controlledBy(Owner{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: w.set.Name, UID: w.set.UID})
	}
	return controlledBy(w.ownerName())
}

func (w *world) ownerName() Owner {
	switch o := w.owner.(type) {
	case *unstructured.Unstructured:
		return Owner{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: "edge", Name: o.GetName(), UID: o.GetUID()}
	default:
		return Owner{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Namespace: "edge", Name: o.GetName(), UID: o.GetUID()}
	}
}

// points lets the owner make its machines of a template. A control plane of another group has the
// fields of the contract v1beta1.
func (w *world) points(template string) {
	switch o := w.owner.(type) {
	case *clusterv1.MachineDeployment:
		o.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: template}
	case *unstructured.Unstructured:
		if o.GetKind() == foreign.Kind {
			ref := map[string]any{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3MachineTemplate", "name": template, "namespace": "edge"}
			_ = unstructured.SetNestedMap(o.Object, ref, "spec", "machineTemplate", "infrastructureRef")
			return
		}
		ref := map[string]any{"apiGroup": v1beta2.GroupVersion.Group, "kind": "Metal3MachineTemplate", "name": template}
		_ = unstructured.SetNestedMap(o.Object, ref, "spec", "machineTemplate", "spec", "infrastructureRef")
	}
}

func (w *world) scale(replicas int) {
	switch o := w.owner.(type) {
	case *clusterv1.MachineDeployment:
		o.Spec.Replicas = new(int32(replicas))
	case *unstructured.Unstructured:
		_ = unstructured.SetNestedField(o.Object, int64(replicas), "spec", "replicas")
	}
}

// delete begins the deletion of an object.
func (*world) delete(obj client.Object) {
	obj.SetDeletionTimestamp(new(metav1.NewTime(start)))
	obj.SetFinalizers([]string{"example.com/test"})
}

// reserve ends the i-th machine, and reserves its host for the owner.
func (w *world) reserve(i int, changes ...func(*v1alpha1.BareMetalHost)) {
	w.machines[i].Name = "" // left out
	reserve(w.hosts[i], w.ownerName(), start)
	w.hosts[i].Status.Provisioning.State = v1alpha1.StateDeprovisioning
	for _, change := range changes {
		change(w.hosts[i])
	}
}

// objects are those that exist.
func (w *world) objects() []client.Object {
	objects := append([]client.Object{}, w.additional...)
	add := func(obj client.Object) { objects = append(objects, obj.DeepCopyObject().(client.Object)) }
	if w.cluster != nil {
		add(w.cluster)
	}
	if w.owner != nil {
		add(w.owner)
	}
	if w.set != nil {
		add(w.set)
	}
	for _, t := range w.templates {
		add(t)
	}
	for i := range w.machines {
		if w.machines[i].Name != "" {
			add(w.machines[i])
			add(w.metal3[i])
		}
	}
	for _, h := range w.hosts {
		add(h)
	}
	return objects
}

// client is an API server that has this world.
func (w *world) client(tb testing.TB, hooks interceptor.Funcs) client.WithWatch {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, v1beta2.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{kubeadm.kind().GroupVersion(), foreign.kind().GroupVersion()})
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	for _, o := range []Owner{kubeadm, foreign} {
		mapper.Add(o.kind(), meta.RESTScopeNamespace)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(w.objects()...).WithInterceptorFuncs(hooks).Build()
}

func (o Owner) kind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
}

// unused is a reader that must not be asked.
func unused(tb testing.TB, w *world) client.Reader {
	tb.Helper()
	return w.client(tb, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			tb.Errorf("%T %s is read from the API server, want from the cache", obj, key)
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			tb.Errorf("%T is listed from the API server, want from the cache", list)
			return nil
		},
	})
}

// unlisted is a reader that may be asked for single objects only.
func unlisted(tb testing.TB, w *world) client.Reader {
	tb.Helper()
	return w.client(tb, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			tb.Errorf("%T is listed from the API server, want from the cache", list)
			return nil
		},
	})
}

// clock is an hour after what happened in the world.
func clock() time.Time { return start.Add(time.Hour) }
