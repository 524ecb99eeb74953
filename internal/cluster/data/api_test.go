package data_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/data"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

var plane = controlplanetest.New(controlplanetest.Options{})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(plane.Run(m))
}

const (
	testTimeout = 3 * time.Minute
	clusterName = "edge"
	// poolGroup and poolKind are those of the pools of the tests' provider of addresses.
	poolGroup, poolKind = "pools.example.com", "Pool"
	providerFinalizer   = "pools.example.com/address"
)

// bench is the controllers in a namespace of their own, with a provider of addresses.
type bench struct {
	testing.TB

	client    client.Client
	scheme    *runtime.Scheme
	namespace string
	// byHost names claims for addresses after hosts.
	byHost bool
}

var namespaces atomic.Int32

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{TB: t, scheme: runtime.NewScheme(), namespace: fmt.Sprintf("data-%d", namespaces.Add(1))}
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, eventsv1.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, v1beta2.AddToScheme, clusterv1.AddToScheme, ipamv1.AddToScheme,
	} {
		if err := add(b.scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := plane.Config(t)
	assets, err := controlplane.AssetsDir()
	if err != nil {
		t.Fatal(err)
	}
	kinds := os.DirFS(filepath.Join(assets, "cluster-api-"+controlplane.ClusterAPIVersion))
	if err := controlplane.InstallCRDs(t.Context(), config, kinds); err != nil {
		t.Fatalf("install the kinds of Cluster API: %v", err)
	}
	if b.client, err = client.New(config, client.Options{Scheme: b.scheme}); err != nil {
		t.Fatal(err)
	}
	b.define(poolGroup, poolKind)
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}})
	b.create(&clusterv1.Cluster{ObjectMeta: b.meta(clusterName), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: clusterName},
	}})
	return b
}

// define makes a kind that has anything in it.
func (b *bench) define(group, kind string) {
	b.Helper()
	plural, preserve := strings.ToLower(kind)+"s", true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
	if err := b.client.Create(b.Context(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
	b.eventually("kind "+kind, func() string {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: kind + "List"})
		return text(b.client.List(b.Context(), list))
	})
}

// start runs the controllers, and the provider, until the test ends.
func (b *bench) start() {
	b.Helper()
	mgr, err := manager.New(plane.Config(b), manager.Options{
		Scheme: b.scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{b.namespace: {}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	skip := true
	options := controller.Options{SkipNameValidation: &skip, MaxConcurrentReconciles: 4, Logger: logr.Discard(), UsePriorityQueue: new(false)}
	controllers, err := data.Controllers(data.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("ingot-cluster"), Now: time.Now,
		ClaimsByHost: b.byHost,
	}, mgr.GetCache(), options)
	if err != nil {
		b.Fatal(err)
	}
	options.Reconciler = reconcile.Func(b.provide)
	options.MaxConcurrentReconciles = 1
	provider, err := controller.NewUnmanaged("provider", options)
	if err != nil {
		b.Fatal(err)
	}
	err = provider.Watch(source.Kind(mgr.GetCache(), &ipamv1.IPAddressClaim{}, &handler.TypedEnqueueRequestForObject[*ipamv1.IPAddressClaim]{}))
	for _, c := range append(controllers, provider) {
		err = errors.Join(err, mgr.Add(c))
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("manager ended: %v", err)
		}
	})
}

// provide gives each claim of the pools the lowest free address, and takes it back at its end.
// The pool "empty" has none.
func (b *bench) provide(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var claim ipamv1.IPAddressClaim
	if err := b.client.Get(ctx, req.NamespacedName, &claim); err != nil || claim.Spec.PoolRef.APIGroup != poolGroup && claim.Spec.PoolRef.APIGroup != "ipam.metal3.io" {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	address := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	if !claim.DeletionTimestamp.IsZero() {
		if err := b.client.Delete(ctx, address); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&claim, providerFinalizer)
		return ctrl.Result{}, client.IgnoreNotFound(b.client.Update(ctx, &claim))
	}
	if claim.Status.AddressRef.Name != "" {
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&claim, providerFinalizer) {
		if err := b.client.Update(ctx, &claim); err != nil {
			return ctrl.Result{}, err
		}
	}
	if claim.Spec.PoolRef.Name == "empty" {
		claim.Status.Conditions = []metav1.Condition{{
			Type: ipamv1.IPAddressClaimReadyCondition, Status: metav1.ConditionFalse, Reason: ipamv1.IPAddressClaimReadyPoolExhaustedReason,
			Message: "all 0 addresses are in use", LastTransitionTime: metav1.Now(),
		}}
		return ctrl.Result{}, b.client.Status().Update(ctx, &claim)
	}
	var all ipamv1.IPAddressList
	if err := b.client.List(ctx, &all, client.InNamespace(claim.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	used := map[string]bool{}
	for _, a := range all.Items {
		used[a.Spec.Address] = true
	}
	free := 10
	for used[fmt.Sprintf("192.0.2.%d", free)] {
		free++
	}
	prefix := int32(24)
	address.Spec = ipamv1.IPAddressSpec{
		ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef,
		Address: fmt.Sprintf("192.0.2.%d", free), Prefix: &prefix, Gateway: "192.0.2.1",
	}
	if err := b.client.Create(ctx, address); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}
	claim.Status.AddressRef.Name = address.Name
	return ctrl.Result{}, b.client.Status().Update(ctx, &claim)
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (b *bench) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}}
}

func (b *bench) create(obj client.Object) {
	b.Helper()
	if err := b.client.Create(b.Context(), obj); err != nil {
		b.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
}

func (b *bench) remove(obj client.Object) {
	b.Helper()
	if err := b.client.Delete(b.Context(), obj); err != nil {
		b.Fatalf("delete %T %s: %v", obj, obj.GetName(), err)
	}
}

// update changes an object, as kubectl edit does.
func (b *bench) update(obj client.Object, change func()) {
	b.Helper()
	b.read(obj, obj.GetName())
	before, _ := obj.DeepCopyObject().(client.Object)
	change()
	if err := b.client.Patch(b.Context(), obj, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// read reads an object and reports whether it exists.
func (b *bench) read(obj client.Object, name string) bool {
	b.Helper()
	err := b.client.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		b.Fatal(err)
	}
	return err == nil
}

// eventually waits until check returns "", and fails with what it said last.
func (b *bench) eventually(what string, check func() string) {
	b.Helper()
	polltest.Until(b, testTimeout, what, func() error {
		if problem := check(); problem != "" {
			return errors.New(problem)
		}
		return nil
	})
}

// template makes a template from the YAML of its spec.
func (b *bench) template(name, spec string) *v1beta2.Metal3DataTemplate {
	b.Helper()
	t := &v1beta2.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &t.Spec); err != nil {
		b.Fatal(err)
	}
	t.Spec.ClusterName = clusterName
	b.create(t)
	return t
}

// host makes a host with a network card.
func (b *bench) host(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	b.create(h)
	h.Status.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{Name: "eno1", MAC: "52:54:00:00:00:01"}}}
	if err := b.client.Status().Update(b.Context(), h); err != nil {
		b.Fatal(err)
	}
	return h
}

// machine makes a Machine and its Metal3Machine, without a host.
func (b *bench) machine(name string) *v1beta2.Metal3Machine {
	b.Helper()
	secretName := "bootstrap"
	machine := &clusterv1.Machine{ObjectMeta: b.meta(name), Spec: clusterv1.MachineSpec{
		ClusterName:       clusterName,
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: &secretName},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: name},
	}}
	b.create(machine)
	m := &v1beta2.Metal3Machine{ObjectMeta: b.meta(name)}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: machine.UID}}
	m.Spec.CustomDeploy.Method = "install"
	b.create(m)
	return m
}

// take makes a machine choose and claim a host.
func (b *bench) take(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) {
	b.Helper()
	b.update(m, func() { metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.HostAnnotation, h.Namespace+"/"+h.Name) })
	b.update(h, func() {
		h.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: m.Namespace, Name: m.Name,
		}
	})
}

// claim asks for the data of a machine.
func (b *bench) claim(m *v1beta2.Metal3Machine, template string) *v1beta2.Metal3DataClaim {
	b.Helper()
	c := &v1beta2.Metal3DataClaim{ObjectMeta: b.meta(m.Name), Spec: v1beta2.Metal3DataClaimSpec{Template: corev1.ObjectReference{Name: template, Namespace: m.Namespace}}}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Name: m.Name, UID: m.UID}}
	b.create(c)
	return c
}

// machineWithData makes a machine on a new host of its name, which claims data.
func (b *bench) machineWithData(name, template string) (*v1beta2.Metal3Machine, *v1beta2.Metal3DataClaim) {
	b.Helper()
	m := b.machine(name)
	b.take(m, b.host(name))
	return m, b.claim(m, template)
}

// points waits until the status of a claim names data.
func (b *bench) points(claim, data string) {
	b.Helper()
	b.eventually("claim "+claim+" with data "+data, func() string {
		var c v1beta2.Metal3DataClaim
		if !b.read(&c, claim) || c.Status.RenderedData == nil || c.Status.RenderedData.Name != data || c.Status.ErrorMessage != nil {
			return fmt.Sprintf("%+v, error %q", c.Status.RenderedData, say(c.Status.ErrorMessage))
		}
		return ""
	})
}

// refused waits until a claim says why it has no data.
func (b *bench) refused(claim, why string) {
	b.Helper()
	b.eventually("refusal of claim "+claim, func() string {
		var c v1beta2.Metal3DataClaim
		if !b.read(&c, claim) || !strings.Contains(say(c.Status.ErrorMessage), why) {
			return fmt.Sprintf("%+v, error %q", c.Status.RenderedData, say(c.Status.ErrorMessage))
		}
		return ""
	})
}

func say(message *string) string {
	if message == nil {
		return ""
	}
	return *message
}

// ready waits until data is ready for a machine.
func (b *bench) ready(name string, m *v1beta2.Metal3Machine) *v1beta2.Metal3Data {
	b.Helper()
	d := &v1beta2.Metal3Data{}
	b.eventually("data "+name+" ready", func() string {
		if !b.read(d, name) || !data.ReadyFor(d, m) {
			return fmt.Sprintf("annotations %v, ready %v, error %q", d.Annotations, d.Status.Ready, say(d.Status.ErrorMessage))
		}
		return ""
	})
	return d
}

// failing waits until data says what is wrong.
func (b *bench) failing(name, why string) {
	b.Helper()
	b.eventually("problem of data "+name, func() string {
		d := &v1beta2.Metal3Data{}
		if !b.read(d, name) || !strings.Contains(say(d.Status.ErrorMessage), why) {
			return fmt.Sprintf("ready %v, error %q", d.Status.Ready, say(d.Status.ErrorMessage))
		}
		return ""
	})
}

func (b *bench) gone(obj client.Object, name string) {
	b.Helper()
	b.eventually(fmt.Sprintf("%T %s gone", obj, name), func() string {
		if b.read(obj, name) {
			return fmt.Sprintf("it is there with finalizers %v", obj.GetFinalizers())
		}
		return ""
	})
}

// document reads the document in a Secret of data.
func (b *bench) document(d *v1beta2.Metal3Data, ref *corev1.SecretReference, key string) map[string]any {
	b.Helper()
	var secret corev1.Secret
	if ref == nil || !b.read(&secret, ref.Name) {
		b.Fatalf("Secret %v of data %s does not exist", ref, d.Name)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != d.UID {
		b.Errorf("owners of Secret %s are %+v, want the data", secret.Name, secret.OwnerReferences)
	}
	var document map[string]any
	if err := yaml.Unmarshal(secret.Data[key], &document); err != nil || len(secret.Data) != 1 {
		b.Errorf("Secret %s with %d keys: %v", secret.Name, len(secret.Data), err)
	}
	return document
}

func (b *bench) metaData(d *v1beta2.Metal3Data) map[string]any {
	b.Helper()
	return b.document(d, d.Spec.MetaData, "metaData")
}
