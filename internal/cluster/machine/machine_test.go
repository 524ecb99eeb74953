package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
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
		if isAnnotated(&h, v1alpha1.PausedAnnotation) {
			continue
		}
		state := h.Status.Provisioning.State
		switch {
		case isSpecified(&h) && state == v1alpha1.StateAvailable:
			state = v1alpha1.StateProvisioning
		case isSpecified(&h) && state == v1alpha1.StateProvisioning:
			state = v1alpha1.StateProvisioned
		case !isSpecified(&h) && (state == v1alpha1.StateProvisioned || state == v1alpha1.StateProvisioning):
			state = v1alpha1.StateDeprovisioning
		case state == v1alpha1.StateDeprovisioning:
			state = v1alpha1.StateAvailable
		}
		report(b, &h, func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = state })
	}
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

func TestMachineGetsAHostAndGivesItBack(t *testing.T) {
	b := newMachineBench(t, newHost("a", func(h *v1alpha1.BareMetalHost) {
		h.Labels = map[string]string{v1beta2.FailureDomainLabel: "row-a"}
		h.Status.HardwareDetails = &v1alpha1.HardwareDetails{Hostname: "node-a", NICs: []v1alpha1.NIC{{IP: "192.0.2.7"}}}
	}))
	b.passes()
	h := b.held()
	if h == nil || h.Spec.Image == nil || !h.Spec.Online || h.Labels[clusterv1.ClusterNameLabel] != "edge" || h.Spec.UserData.Name != "m-1-bootstrap" {
		t.Fatalf("host is %+v", h)
	}
	if h.Spec.ConsumerRef.UID != "" {
		t.Error("the reference has an UID, which a move changes")
	}
	labels := b.secretLabels("a")
	if _, moves := labels[moveLabel]; labels[clusterv1.ClusterNameLabel] != "edge" || !moves {
		t.Errorf("the Secret has labels %v", labels)
	}
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, v1beta2.AssociateBareMetalHostSuccessReason, "metal/a")
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, `Host a is in state "available"`)
	if m := b.machine(); m.Spec.ProviderID != "" || m.Status.Initialization.Provisioned != nil {
		t.Errorf("the machine is provisioned before its host: %+v", m)
	}

	b.run()
	m := b.machine()
	if m.Spec.ProviderID != "metal3://metal/a/m-1" || m.Status.Initialization.Provisioned == nil || !*m.Status.Initialization.Provisioned ||
		len(m.Status.Addresses) != 3 || m.Status.FailureDomain != "row-a" || m.Status.UserData == nil {
		t.Errorf("machine is %+v", m)
	}
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
	b.wantCondition(v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionTrue, v1beta2.AssociateMetal3MachineMetaDataSuccessReason, "")

	b.remove()
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, `host metal/a, which is in state "provisioned"`)
	if h := b.held(); h == nil || h.Spec.Image != nil || h.Spec.UserData != nil || h.Spec.Online {
		t.Fatalf("host is %+v, want one that the machine still holds, with nothing to deploy", h)
	}
	b.run()
	b.isFreed("a")
}

// isFreed checks that a host has nothing left of the machine, which is gone.
func (b *bench) isFreed(name string) {
	b.Helper()
	if m := b.machine(); m != nil {
		b.Errorf("the machine is still there: %+v", m)
	}
	h := b.host(name)
	if h.Spec.ConsumerRef != nil || isSpecified(h) || h.Spec.UserData != nil || len(h.Labels[clusterv1.ClusterNameLabel]) > 0 {
		b.Errorf("host %s is not free: %+v", name, h)
	}
	if labels := b.secretLabels(name); labels[clusterv1.ClusterNameLabel] != "" {
		b.Errorf("the Secret of host %s has labels %v", name, labels)
	}
}

// refusing has the n-th write fail: before it is made or, if late, after. It reports through
// done whether there were so many.
func (b *bench) refusing(n int, late bool) (done *bool) {
	done = new(bool)
	count := 0
	write := func(do func() error) error {
		count++
		if count != n {
			return do()
		}
		*done = true
		if late {
			if err := do(); err != nil {
				return err
			}
		}
		return errTest
	}
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, obj, o...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, o...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			return write(func() error {
				err := c.Patch(ctx, obj, p, o...)
				b.check()
				return err
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, obj, p, o...) })
		},
	})
	return done
}

// check checks what has to be so after each write.
func (b *bench) check() {
	b.Helper()
	h, m := b.held(), b.machine()
	if h == nil {
		return
	}
	if m == nil {
		b.Errorf("host %s has a consumer that is gone", h.Name)
		return
	}
	if key, chosen := related.HostName(m); !chosen || key.Name != h.Name || len(m.Finalizers) == 0 {
		b.Errorf("host %s has a consumer that does not know it: annotations %v, finalizers %v", h.Name, m.Annotations, m.Finalizers)
	}
	if _, blocked := m.Annotations[blockMoveAnnotation]; !blocked && !isAnnotated(h, v1alpha1.PausedAnnotation) {
		b.Error("clusterctl could move the machine before its host is paused")
	}
	for _, other := range b.hosts() {
		if other.Name != h.Name && isSpecified(&other) {
			b.Errorf("host %s is deployed, and host %s belongs to the machine", other.Name, h.Name)
		}
	}
}

func TestLifeGoesOnAfterAFailureAtEachWrite(t *testing.T) {
	for _, late := range []bool{false, true} {
		missed := 0
		for n := 1; missed == 0; n++ {
			t.Run(fmt.Sprintf("write %d, late %v", n, late), func(t *testing.T) {
				b := newMachineBench(t, newHost("a"), newHost("b"), newHost("c"))
				edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
				done := b.refusing(n, late)
				b.passes()
				b.rendered("m-1")
				b.run()
				b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
				h := b.held()
				if h == nil || h.Spec.MetaData == nil || h.Spec.MetaData.Name != "m-1-metadata" {
					t.Fatalf("host %+v, want one with the rendered metadata", h)
				}
				b.pause(true)
				b.passes()
				if h := b.held(); h.Annotations[v1alpha1.PausedAnnotation] != v1alpha1.PausedByClusterAPI || h.Annotations[v1alpha1.StatusAnnotation] == "" {
					t.Errorf("host has annotations %v, want it paused", h.Annotations)
				}
				b.pause(false)
				b.passes()
				if isAnnotated(b.held(), v1alpha1.PausedAnnotation) {
					t.Error("the host is still paused")
				}
				b.remove()
				b.run()
				b.isFreed(h.Name)
				for _, h := range b.hosts() {
					if isConsumed(&h) || isSpecified(&h) {
						t.Errorf("host %s is in use: %+v", h.Name, h.Spec)
					}
				}
				if !*done {
					missed = n
				}
			})
			if t.Failed() {
				return
			}
		}
		if missed < 12 {
			t.Errorf("a life has %d writes, want more", missed-1)
		}
	}
}

// pause pauses the Cluster, or ends that.
func (b *bench) pause(paused bool) {
	b.Helper()
	edit(b, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge"}}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(paused) })
}

// rendered answers the claim for data of a machine.
func (b *bench) rendered(name string) {
	b.Helper()
	data := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-0"}}
	data.Spec.MetaData = &corev1.SecretReference{Name: name + "-metadata"}
	if err := b.api.Create(b.Context(), data); err != nil {
		b.Fatal(err)
	}
	report(b, data, func(d *v1beta2.Metal3Data) { d.Status.Ready = true })
	b.passes()
	report(b, &v1beta2.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, func(c *v1beta2.Metal3DataClaim) {
		c.Status.RenderedData = &corev1.ObjectReference{Name: "data-0"}
	})
}

func TestMachineWaitsForItsData(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
	b.passes()
	b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionFalse, v1beta2.WaitingForMetal3DataReason, "Metal3DataClaim m-1")
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "Metal3DataClaim m-1")
	if isSpecified(b.held()) {
		t.Error("the host is deployed without its data")
	}
	var claim v1beta2.Metal3DataClaim
	if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "m-1"}, &claim); err != nil {
		t.Fatal(err)
	}
	if claim.Spec.Template.Name != "data" || !metav1.IsControlledBy(&claim, b.machine()) || claim.Labels[clusterv1.ClusterNameLabel] != "edge" {
		t.Errorf("claim is %+v", claim)
	}
	b.rendered("m-1")
	b.passes()
	b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionTrue, v1beta2.Metal3DataSecretsReadyReason, "")
	if m := b.machine(); m.Status.RenderedData == nil || m.Status.RenderedData.Name != "data-0" || m.Status.MetaData.Name != "m-1-metadata" {
		t.Errorf("status is %+v", m.Status)
	}
	b.remove()
	b.run()
	if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "m-1"}, &claim); !apierrors.IsNotFound(err) {
		t.Errorf("the claim is not deleted: %v", err)
	}
}

// takenMeanwhile has somebody else take each host that the machine is about to claim, so many
// times.
func (b *bench) takenMeanwhile(times int) {
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if h, ok := obj.(*v1alpha1.BareMetalHost); ok && h.Spec.ConsumerRef != nil && times > 0 {
				times--
				edit(b, &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: h.Name}}, consumedBy("Metal3Machine", "other"))
			}
			return c.Patch(ctx, obj, p, o...)
		},
	})
}

func TestLoserDropsItsChoiceAndChoosesAgain(t *testing.T) {
	b := newMachineBench(t, newHost("a"), newHost("b"), newHost("c"))
	b.takenMeanwhile(2)
	if _, err := b.pass(); err != nil {
		t.Fatal(err)
	}
	if m := b.machine(); m.Annotations[v1beta2.HostAnnotation] != "" {
		t.Errorf("the machine names host %s, which it lost", m.Annotations[v1beta2.HostAnnotation])
	}
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.ClaimConflictReason, "has the consumer Metal3Machine other")
	b.passes()
	if b.held() == nil {
		t.Error("the machine has no host")
	}
	others := 0
	for _, h := range b.hosts() {
		if h.Spec.ConsumerRef != nil && h.Spec.ConsumerRef.Name == "other" {
			others++
		}
	}
	if others != 2 {
		t.Errorf("the other machine has %d hosts, want those 2 that it was given", others)
	}
}

func TestClaimIsRepeatedWhenSomethingElseOfTheHostWasWritten(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	written := false
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if h, ok := obj.(*v1alpha1.BareMetalHost); ok && !written {
				written = true
				edit(b, &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: h.Name}}, annotated("note"))
			}
			return c.Patch(ctx, obj, p, o...)
		},
	})
	if _, err := b.pass(); err != nil || b.held() == nil || !written {
		t.Errorf("host %+v, error %v, want it claimed in one pass", b.held(), err)
	}
}

func TestHostOfAnotherConsumerIsNeverChanged(t *testing.T) {
	for name, ran := range map[string]bool{"before it ran": false, "after it ran": true} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.passes()
			if ran {
				b.run()
			}
			edit(b, b.host("a"), consumedBy("Metal3Machine", "thief"))
			before := b.host("a")
			b.passes()
			if ran {
				b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.HostLostReason, "has the consumer Metal3Machine thief")
				if m := b.machine(); !*m.Status.Initialization.Provisioned || m.Spec.ProviderID == "" {
					t.Error("the machine is not provisioned any more")
				}
			} else {
				b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.NoMatchingHostReason, "1 with another consumer")
			}
			if !b.told(eventHostLost) {
				t.Error("there is no event about it")
			}
			b.remove()
			b.run()
			if b.machine() != nil || b.host("a").ResourceVersion == "" || b.host("a").Spec.ConsumerRef.Name != "thief" {
				t.Errorf("the machine is there (%v), or the host changed from %+v to %+v", b.machine() != nil, before.Spec, b.host("a").Spec)
			}
		})
	}
}

func TestHostThatIsGoneIsReplacedBeforeTheMachineRanAndNotAfterwards(t *testing.T) {
	for name, ran := range map[string]bool{"before it ran": false, "after it ran": true} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.passes()
			if ran {
				b.run()
			}
			if err := b.api.Delete(t.Context(), b.host("a")); err != nil {
				t.Fatal(err)
			}
			if err := b.api.Create(t.Context(), newHost("b")); err != nil {
				t.Fatal(err)
			}
			b.passes()
			if got := b.held() != nil; got == ran {
				t.Errorf("the machine has host b: %v", got)
			}
			if ran {
				b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.HostLostReason, "metal/a of the machine does not exist")
				b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "delete its Machine")
			}
			b.remove()
			b.run()
			if b.machine() != nil {
				t.Error("the machine is not gone")
			}
		})
	}
}

func TestHostIsDeployedOnlyOnce(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	edit(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	b.run()
	if isSpecified(b.host("a")) {
		t.Error("the host is deployed again with the data of its first start")
	}
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, `in state "available"`)
	if m := b.machine(); !*m.Status.Initialization.Provisioned {
		t.Error("provisioned became false")
	}
}

func TestPauseOfOthersStays(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	edit(b, b.host("a"), pausedAs("a person"))
	b.pause(true)
	b.passes()
	if m := b.machine(); m.Annotations[blockMoveAnnotation] != "" || !meta.IsStatusConditionTrue(m.Status.Conditions, v1beta2.PausedCondition) {
		t.Errorf("machine is %+v, want a paused one that can be moved", m)
	}
	b.pause(false)
	b.passes()
	if got := b.host("a").Annotations[v1alpha1.PausedAnnotation]; got != "a person" {
		t.Errorf("the pause of a person became %q", got)
	}
	b.remove()
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, "paused: remove its annotation")
}

func TestMachineCanBeMovedOnlyWhenItsHostIsPaused(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.passes()
	b.hostsWork() // provisioning
	b.pause(true)
	b.passes()
	if _, blocked := b.machine().Annotations[blockMoveAnnotation]; !blocked || isAnnotated(b.host("a"), v1alpha1.PausedAnnotation) {
		t.Errorf("a host in state %q was paused", b.host("a").Status.Provisioning.State)
	}
	b.hostsWork() // provisioned
	b.passes()
	if _, blocked := b.machine().Annotations[blockMoveAnnotation]; blocked || !isAnnotated(b.host("a"), v1alpha1.StatusAnnotation) {
		t.Errorf("the machine cannot be moved; its host has annotations %v", b.host("a").Annotations)
	}
}

// TestMovedMachineGoesOn creates the objects of a machine as clusterctl does in another cluster: with other
// UIDs and without status.
func TestMovedMachineGoesOn(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.pause(true)
	b.passes()
	m, h := b.machine(), b.host("a")
	target := newMachineBench(t)
	target.pause(true)
	if err := target.api.Delete(t.Context(), target.machine()); err != nil {
		t.Fatal(err)
	}
	status := h.Status
	m.UID, m.ResourceVersion, m.Status = "moved", "", v1beta2.Metal3MachineStatus{}
	h.UID, h.ResourceVersion, h.Status = "moved-host", "", v1alpha1.BareMetalHostStatus{}
	for _, obj := range []client.Object{m, h} {
		if err := target.api.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	target.passes()
	target.pause(false)
	target.passes()
	if h := target.held(); h == nil || isAnnotated(h, v1alpha1.PausedAnnotation) || !isAnnotated(h, v1alpha1.StatusAnnotation) {
		t.Fatalf("host %+v, want the same one without its pause and with its status", h)
	}
	target.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "in state")
	report(target, target.host("a"), func(h *v1alpha1.BareMetalHost) { h.Status = status })
	target.passes()
	target.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
	if m := target.machine(); m.Spec.ProviderID != "metal3://metal/a/m-1" || m.Status.UserData == nil {
		t.Errorf("machine is %+v", m)
	}
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, deletedForMoveAnnotation, "")
	})
	b.remove()
	b.pause(false)
	b.passes()
	if h := b.held(); h == nil || !isSpecified(h) {
		t.Error("the object that was moved released its host")
	}
}

func TestReservedHostsAreTakenFirstAndWaitedFor(t *testing.T) {
	b := newMachineBench(t, newHost("a"), newHost("b"), newHost("kept", reservedFor(owner, began), inState(v1alpha1.StateDeprovisioning)))
	b.keeping.preference = reuse.Preference{Owner: &owner, Wanted: true, Waiting: true, WaitingFor: "Host kept is deprovisioning."}
	b.passes()
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.WaitingForReservedHostReason, "Host kept is deprovisioning.")
	report(b, b.host("kept"), inState(v1alpha1.StateAvailable))
	b.passes()
	h := b.held()
	if h == nil || h.Name != "kept" || h.Labels[v1beta2.NodeReuseLabel] != "" || h.Annotations[v1beta2.ReservedAtAnnotation] != "" {
		t.Fatalf("host %+v, want the reserved one without its reservation", h)
	}
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, v1beta2.AssociateBareMetalHostViaNodeReuseSuccessReason, "")
}

func TestReservedHostIsNotTakenWithoutReuse(t *testing.T) {
	b := newMachineBench(t, newHost("kept", reservedFor(owner, began)))
	b.keeping.preference = reuse.Preference{Owner: &owner}
	b.passes()
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.NoMatchingHostReason, "1 reserved for other owners")
}

func TestSkippedReuseIsTold(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.keeping.preference = reuse.Preference{Skipped: "Machine m-1 has no owner."}
	b.passes()
	if b.held() == nil || !b.told(eventNodeReuseSkipped) {
		t.Error("the machine has no host, or there is no event")
	}
}

func TestHostIsReservedTogetherWithTheRemovalOfItsImage(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.keeping.reservation = reuse.Reservation{Owner: owner, At: began}
	b.remove()
	b.passes()
	h := b.host("a")
	if !reuse.ReservedFor(&owner, h) || isSpecified(h) || h.Labels[clusterv1.ClusterNameLabel] != "edge" {
		t.Fatalf("host %+v, want it reserved and without image", h)
	}
	if b.machine() == nil {
		t.Fatal("the machine went before its host was deprovisioned")
	}
	b.run()
	if h := b.host("a"); b.machine() != nil || !reuse.ReservedFor(&owner, h) {
		t.Errorf("machine is there: %v; host %+v", b.machine() != nil, h)
	}
	if !b.told(eventHostReserved) {
		t.Error("there is no event")
	}
}

func TestCleaningModeOfTheTemplateReachesMachineAndHost(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	template := &v1beta2.Metal3MachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "workers"}}
	if err := b.api.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.TemplateClonedFromNameAnnotation, "workers")
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.TemplateClonedFromGroupKindAnnotation, "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io")
	})
	b.run()
	if mode := b.host("a").Spec.AutomatedCleaningMode; mode != v1alpha1.CleaningModeMetadata {
		t.Errorf("mode %q without one in the template", mode)
	}
	for _, deleted := range []bool{false, true} {
		mode := map[bool]string{false: v1beta2.CleaningModeDisabled, true: v1beta2.CleaningModeMetadata}[deleted]
		edit(b, template, func(template *v1beta2.Metal3MachineTemplate) {
			template.Spec.Template.Spec.AutomatedCleaningMode = mode
		})
		if deleted {
			b.remove()
		}
		b.passes()
		if got := b.host("a").Spec.AutomatedCleaningMode; string(got) != mode || b.machine().Spec.AutomatedCleaningMode != mode {
			t.Errorf("mode of the host %q, of the machine %q, want %q (deleted: %v)", got, b.machine().Spec.AutomatedCleaningMode, mode, deleted)
		}
	}
}

func TestSelectorThatCannotMatchIsExplained(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) {
		m.Spec.HostSelector = &v1beta2.HostSelector{MatchExpressions: []v1beta2.HostSelectorRequirement{{Key: "rack", Operator: "Near"}}}
	})
	b.passes()
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.AssociateBareMetalHostFailedReason, "spec.hostSelector cannot be used")
}

func TestLostAnnotationIsWrittenAgain(t *testing.T) {
	b := newMachineBench(t, newHost("a"), newHost("b"))
	b.run()
	name := b.held().Name
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { delete(m.Annotations, v1beta2.HostAnnotation) })
	b.passes()
	if got := b.machine().Annotations[v1beta2.HostAnnotation]; got != namespace+"/"+name {
		t.Errorf("the machine names host %q, want %q", got, name)
	}
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { delete(m.Annotations, v1beta2.HostAnnotation) })
	b.remove()
	b.run()
	b.isFreed(name)
}

func TestIdleMachineIsNotWritten(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	machine, host := b.machine().ResourceVersion, b.host("a").ResourceVersion
	b.passes()
	if b.machine().ResourceVersion != machine || b.host("a").ResourceVersion != host {
		t.Error("a pass without a reason wrote something")
	}
}

func TestNodeWithAnotherProviderIDGivesItToTheMachine(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.r.Nodes = nodes{workload.Result{Reason: v1beta2.AssociateMetal3MachineMetaDataSuccessReason, ProviderID: "metal3://metal/a/m-1-old"}}
	b.run()
	if got := b.machine().Spec.ProviderID; got != "metal3://metal/a/m-1-old" {
		t.Errorf("provider ID %q, want that of the Node", got)
	}
}

func TestRequestsNameTheMachinesThatAHostMattersTo(t *testing.T) {
	holder, chooser, waiter := newMachine("holder"), newMachine("chooser"), newMachine("waiter")
	chooser.Annotations = map[string]string{v1beta2.HostAnnotation: "metal/h"}
	b := newBench(t, holder, chooser, waiter)
	holder.Annotations = map[string]string{v1beta2.HostAnnotation: "metal/other"}
	if err := b.api.Update(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		host *v1alpha1.BareMetalHost
		want []string
	}{
		"free":             {newHost("h"), []string{"chooser", "waiter"}},
		"not free":         {newHost("h", inState(v1alpha1.StateInspecting)), []string{"chooser"}},
		"reserved":         {newHost("h", reservedFor(owner, began), inState(v1alpha1.StateDeprovisioning)), []string{"chooser", "waiter"}},
		"held":             {newHost("other", consumedBy("Metal3Machine", "holder")), []string{"holder"}},
		"of another kind ": {newHost("other", consumedBy("Server", "holder")), []string{"holder", "waiter"}},
	} {
		queue := &recording{}
		b.r.enqueueAround(t.Context(), tt.host, queue)
		slices.Sort(queue.names)
		if !slices.Equal(queue.names, tt.want) {
			t.Errorf("%s: requests for %v, want %v", name, queue.names, tt.want)
		}
	}
}

// recording is a queue that keeps the names of requests.
type recording struct {
	requests

	names []string
}

func (q *recording) Add(r ctrl.Request) { q.names = append(q.names, r.Name) }
