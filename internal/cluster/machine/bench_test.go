package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
)

var errTest = errors.New("the API server is away")

// keeping answers the questions about reuse with what a test says.
type keeping struct {
	reservation reuse.Reservation
	preference  reuse.Preference
}

func (k *keeping) Reserve(context.Context, *clusterv1.Machine, *v1beta2.Metal3Machine, *v1alpha1.BareMetalHost) (reuse.Reservation, error) {
	return k.reservation, nil
}

func (k *keeping) Preference(context.Context, *clusterv1.Machine, *v1beta2.Metal3Machine, []v1alpha1.BareMetalHost) (reuse.Preference, error) {
	return k.preference, nil
}

// nodes finds a Node for each machine.
type nodes struct{ result workload.Result }

func (n nodes) Sync(context.Context, *clusterv1.Cluster, *clusterv1.Machine, *v1beta2.Metal3Machine, *v1alpha1.BareMetalHost, *v1beta2.Metal3Cluster) (workload.Result, error) {
	return n.result, nil
}

// bench is the controller on an API server in memory.
type bench struct {
	testing.TB

	api     client.WithWatch
	r       *Reconciler
	keeping *keeping
	events  *events.FakeRecorder
}

func newBench(t testing.TB, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, v1beta2.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1beta2.Metal3Machine{}, &v1alpha1.BareMetalHost{}, &v1beta2.Metal3DataClaim{}, &v1beta2.Metal3Data{}).Build()
	b := &bench{TB: t, api: api, keeping: &keeping{}, events: events.NewFakeRecorder(1000)}
	b.r = New(Config{
		Client: api, Live: api, Recorder: b.events, Now: func() time.Time { return began }, Reuse: b.keeping,
		Nodes: nodes{workload.Result{Reason: v1beta2.AssociateMetal3MachineMetaDataSuccessReason}},
	})
	return b
}

// newMachineBench has one machine, ready for a host, and some hosts with their Secrets.
func newMachineBench(t testing.TB, hosts ...*v1alpha1.BareMetalHost) *bench {
	t.Helper()
	machine, cluster, infrastructure := newOwners("m-1")
	objects := []client.Object{machine, cluster, infrastructure, ownedMachine("m-1", machine)}
	for _, h := range hosts {
		objects = append(objects, h, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: h.Spec.BMC.CredentialsName}})
	}
	return newBench(t, objects...)
}

func ownedMachine(name string, machine *clusterv1.Machine) *v1beta2.Metal3Machine {
	m := newMachine(name)
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "edge"}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}}
	return m
}

// pass makes one pass over the machine.
func (b *bench) pass() (ctrl.Result, error) {
	return b.r.Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "m-1"}})
}

// passes makes as many passes as a change needs, also after errors.
func (b *bench) passes() {
	for range 8 {
		_, _ = b.pass()
	}
}

func (b *bench) machine() *v1beta2.Metal3Machine {
	b.Helper()
	m := &v1beta2.Metal3Machine{}
	err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "m-1"}, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (b *bench) hosts() []v1alpha1.BareMetalHost {
	b.Helper()
	var list v1alpha1.BareMetalHostList
	if err := b.api.List(b.Context(), &list); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func (b *bench) host(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	for _, h := range b.hosts() {
		if h.Name == name {
			return &h
		}
	}
	return nil
}

// secretLabels are the labels of the Secret of a host's BMC.
func (b *bench) secretLabels(host string) map[string]string {
	b.Helper()
	secret := &corev1.Secret{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: host + "-bmc"}, secret); err != nil {
		b.Fatal(err)
	}
	return secret.Labels
}

// edit changes an object as a person does.
func edit[T client.Object](b *bench, obj T, change func(T)) {
	b.Helper()
	if err := b.api.Get(b.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		b.Fatal(err)
	}
	change(obj)
	if err := b.api.Update(b.Context(), obj); err != nil {
		b.Fatal(err)
	}
}

// report changes the status of an object as its controller does.
func report[T client.Object](b *bench, obj T, change func(T)) {
	b.Helper()
	if err := b.api.Get(b.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		b.Fatal(err)
	}
	change(obj)
	if err := b.api.Status().Update(b.Context(), obj); err != nil {
		b.Fatal(err)
	}
}

// hostsWork makes one step of the host controller: hosts are deployed and deprovisioned.
func (b *bench) hostsWork() {
	b.Helper()
	for _, h := range b.hosts() {
		state := worked(&h)
		report(b, &h, func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = state })
	}
}

// worked is the state of a host after one step of its operator.
func worked(h *v1alpha1.BareMetalHost) v1alpha1.ProvisioningState {
	state := h.Status.Provisioning.State
	switch {
	case isAnnotated(h, v1alpha1.PausedAnnotation):
		return state
	case isSpecified(h) && state == v1alpha1.StateAvailable:
		return v1alpha1.StateProvisioning
	case isSpecified(h) && state == v1alpha1.StateProvisioning:
		return v1alpha1.StateProvisioned
	case !isSpecified(h) && (state == v1alpha1.StateProvisioned || state == v1alpha1.StateProvisioning):
		return v1alpha1.StateDeprovisioning
	case state == v1alpha1.StateDeprovisioning:
		return v1alpha1.StateAvailable
	}
	return state
}

// run lets both controllers work until nothing can be left to do.
func (b *bench) run() {
	b.Helper()
	for range 4 {
		b.passes()
		b.hostsWork()
	}
	b.passes()
}

func (b *bench) condition(kind string) metav1.Condition {
	b.Helper()
	if m := b.machine(); m != nil {
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
			return *c
		}
	}
	return metav1.Condition{}
}

func (b *bench) wantCondition(kind string, status metav1.ConditionStatus, reason, part string) {
	b.Helper()
	if c := b.condition(kind); c.Status != status || c.Reason != reason || !strings.Contains(c.Message, part) {
		b.Errorf("condition %s is %s/%s (%s), want %s/%s with %q", kind, c.Status, c.Reason, c.Message, status, reason, part)
	}
}

// told reports whether there was an event with a reason.
func (b *bench) told(reason string) bool {
	for {
		select {
		case e := <-b.events.Events:
			if strings.Contains(e, " "+reason+" ") {
				return true
			}
		default:
			return false
		}
	}
}

// held is the host of the machine.
func (b *bench) held() *v1alpha1.BareMetalHost {
	b.Helper()
	var held []v1alpha1.BareMetalHost
	for _, h := range b.hosts() {
		if h.Spec.ConsumerRef != nil && h.Spec.ConsumerRef.Name == "m-1" {
			held = append(held, h)
		}
	}
	if len(held) > 1 {
		b.Fatalf("the machine holds %d hosts", len(held))
	}
	if len(held) == 0 {
		return nil
	}
	return &held[0]
}

func (b *bench) remove() {
	b.Helper()
	if m := b.machine(); m != nil {
		if err := b.api.Delete(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}
