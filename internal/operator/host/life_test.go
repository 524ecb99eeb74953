package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// indexer indexes a fake client as the operator indexes its cache.
type indexer struct{ *fake.ClientBuilder }

func (b indexer) IndexField(_ context.Context, obj client.Object, name string, values client.IndexerFunc) error {
	b.WithIndex(obj, name, values)
	return nil
}

// newAPI returns an API server in memory with the indexes of hosts.
func newAPI(tb testing.TB, objects ...client.Object) client.WithWatch {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	b := indexer{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.BareMetalHost{}, &v1alpha1.DataImage{}, &v1alpha1.HostFirmwareComponents{})}
	for _, index := range []func(context.Context, client.FieldIndexer) error{IndexFields, duplicate.IndexFields} {
		if err := index(tb.Context(), b); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Build()
}

// testEngine is what a reconciler and its cache need of an engine.
type testEngine interface {
	engine
	provisioner.Reader
}

// newTestReconciler returns a reconciler of the API server in memory.
func newTestReconciler(tb testing.TB, api client.Client, engine testEngine, now func() time.Time, change func(*Config)) *Reconciler {
	tb.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		tb.Fatal(err)
	}
	config := Config{
		Client: api, Live: api, Engine: engine, Cluster: "c1",
		NodeCache: polled{nodecache.New(engine, nodecache.Options{Now: now, Logger: slog.New(slog.DiscardHandler)})},
		Recorder:  &recordedEvents{}, Metrics: metrics, MaxBackoff: 30 * time.Minute, MaxProvisioningFailures: 5, Now: now,
	}
	if change != nil {
		change(&config)
	}
	return New(config)
}

// polled is a cache that shows each change at once, as if it had just read the engine's list.
type polled struct{ *nodecache.Cache }

func (p polled) Node(id string) (provisioner.Node, bool) {
	n, err := p.Fetch(context.Background(), id)
	return n, err == nil
}

// recordedEvents keeps the reasons and the notes of events.
type recordedEvents struct{ reasons, notes []string }

func (h *recordedEvents) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	h.reasons, h.notes = append(h.reasons, reason), append(h.notes, fmt.Sprintf(note, args...))
}

// life is hosts on an API server in memory, under a reconciler and an engine in memory. Its
// clock moves as long as the hosts ask to wait, and by nothing else.
type life struct {
	testing.TB

	api    client.WithWatch
	engine *demo.Engine
	events *recordedEvents
	r      *Reconciler
	now    time.Time
	change func(*Config)
}

func newLife(tb testing.TB, change func(*Config)) *life {
	tb.Helper()
	l := &life{TB: tb, api: newAPI(tb), events: &recordedEvents{}, now: testNow, change: change}
	l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }})
	l.restart()
	return l
}

// restart replaces the reconciler by one that remembers nothing.
func (l *life) restart() {
	l.r = newTestReconciler(l, l.api, l.engine, func() time.Time { return l.now }, func(c *Config) {
		c.Recorder = l.events
		if l.change != nil {
			l.change(c)
		}
	})
}

const testAddress = "redfish-virtualmedia://192.0.2.9/redfish/v1/Systems/"

// add creates a host with a BMC and its Secret.
func (l *life) add(name string, change func(*v1alpha1.BareMetalHost)) {
	l.Helper()
	l.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name + "-bmc"},
		Data:       map[string][]byte{"username": []byte("root"), "password": []byte("calvin")},
	})
	l.addPlain(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC = v1alpha1.BMCDetails{Address: testAddress + name, CredentialsName: name + "-bmc"}
		h.Spec.BootMACAddress = demo.SampleInventory(name).Hardware.Interfaces[0].MACAddress
		if change != nil {
			change(h)
		}
	})
}

// addPlain creates a host without a BMC.
func (l *life) addPlain(name string, change func(*v1alpha1.BareMetalHost)) {
	l.Helper()
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: "metal", Name: name, UID: types.UID("uid of " + name), Generation: 1, CreationTimestamp: metav1.NewTime(l.now),
	}}
	h.Spec.Online = true
	if change != nil {
		change(h)
	}
	status := h.Status.DeepCopy()
	l.create(h)
	if status.Provisioning.State != v1alpha1.StateNone {
		h.Status = *status
		if err := l.api.Status().Update(l.Context(), h); err != nil {
			l.Fatal(err)
		}
	}
}

func (l *life) create(obj client.Object) {
	l.Helper()
	if err := l.api.Create(l.Context(), obj); err != nil {
		l.Fatal(err)
	}
}

// host reads a host; nil is one that is gone.
func (l *life) host(name string) *v1alpha1.BareMetalHost {
	l.Helper()
	var h v1alpha1.BareMetalHost
	err := l.api.Get(l.Context(), client.ObjectKey{Namespace: "metal", Name: name}, &h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		l.Fatal(err)
	}
	return &h
}

// edit changes a host as a person does.
func (l *life) edit(name string, change func(*v1alpha1.BareMetalHost)) {
	l.Helper()
	h := l.host(name)
	before := h.DeepCopy()
	change(h)
	h.Generation++
	if err := l.api.Patch(l.Context(), h, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
}

func (l *life) annotate(name, key, value string) {
	l.Helper()
	l.edit(name, func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) })
}

// secret changes the password in the Secret of a host.
func (l *life) secret(name, password string) {
	l.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name + "-bmc"}}
	if err := l.api.Get(l.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		l.Fatal(err)
	}
	s.Data["password"] = []byte(password)
	if err := l.api.Update(l.Context(), s); err != nil {
		l.Fatal(err)
	}
}

func (l *life) remove(obj client.Object) {
	l.Helper()
	if err := l.api.Delete(l.Context(), obj); err != nil {
		l.Fatal(err)
	}
}

// pass is one pass over a host. It returns how long the host waits.
func (l *life) pass(name string) time.Duration {
	l.Helper()
	res, err := l.r.Reconcile(l.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal", Name: name}})
	if err != nil {
		l.Fatalf("pass over %s: %v", name, err)
	}
	return res.RequeueAfter
}

// passes are enough for anything that comes to an end.
const passes = 200

// until lets time pass for a host until a check holds; the host is nil when it is gone.
func (l *life) until(name, what string, is func(*v1alpha1.BareMetalHost) bool) *v1alpha1.BareMetalHost {
	l.Helper()
	for range passes {
		if h := l.host(name); is(h) {
			return h
		}
		wait := l.pass(name)
		if wait == 0 {
			wait = time.Minute // somebody changes something else
		}
		l.now = l.now.Add(wait)
	}
	h := l.host(name)
	if h == nil {
		l.Fatalf("host %s is gone and not %s", name, what)
	}
	l.Fatalf("host %s is not %s: state %q, error %q %s, progress %q", name, what, h.Status.Provisioning.State, h.Status.ErrorType,
		h.Status.ErrorMessage, conditionOf(h.Status.Conditions, v1alpha1.ProgressingCondition).Message)
	return nil
}

// rests lets a host run until it is in a state and its passes change nothing any more.
func (l *life) rests(name string, state v1alpha1.ProvisioningState) *v1alpha1.BareMetalHost {
	l.Helper()
	unchanged := 0
	return l.until(name, "at rest in state "+string(state), func(h *v1alpha1.BareMetalHost) bool {
		if h == nil || h.Status.Provisioning.State != state {
			return false
		}
		version := h.ResourceVersion
		l.pass(name)
		if l.host(name).ResourceVersion != version {
			unchanged = 0
			return false
		}
		unchanged++
		return unchanged > 2
	})
}

func (l *life) gone(name string) {
	l.Helper()
	l.until(name, "gone", func(h *v1alpha1.BareMetalHost) bool { return h == nil })
}

// fails lets time pass until a host shows an error of a kind.
func (l *life) fails(name string, kind v1alpha1.ErrorType) *v1alpha1.BareMetalHost {
	l.Helper()
	return l.until(name, "in error "+string(kind), func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorType == kind })
}

// node changes the node of a host.
func (l *life) node(name string, change func(*provisioner.Node)) {
	l.Helper()
	l.engine.Change(l.host(name).Status.Provisioning.ID, change)
}

// effects are the requests to the machine of a host, without those that change only
// records of the engine.
func (l *life) effects(name string) []string {
	var all []string
	for _, e := range l.engine.Effects(provisioner.NodeName("metal", name)) {
		switch change, isPower := e.Request.(provisioner.PowerChange); {
		case e.Verb == demo.VerbClaim, e.Verb == demo.VerbUpdate:
		case isPower:
			all = append(all, string(change.Action))
		default:
			all = append(all, string(e.Verb))
		}
	}
	return all
}

// does fails unless these requests to the machine followed the first so many.
func (l *life) does(name string, after int, want ...string) {
	l.Helper()
	if got := l.effects(name)[after:]; !slices.Equal(got, want) {
		l.Errorf("asked of the machine: %q, want %q", got, want)
	}
}

// last is the last request with a verb for the machine of a host.
func (l *life) last(name string, verb demo.Verb) any {
	l.Helper()
	for _, e := range slices.Backward(l.engine.Effects(provisioner.NodeName("metal", name))) {
		if e.Verb == verb {
			return e.Request
		}
	}
	l.Fatalf("nobody asked for %s", verb)
	return nil
}

// says fails unless a condition has a status and a reason.
func (l *life) says(name, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	l.Helper()
	c := meta.FindStatusCondition(l.host(name).Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason {
		l.Errorf("condition %s: %v, want %s/%s", kind, c, status, reason)
		return metav1.Condition{}
	}
	return *c
}

// tells fails unless there was an event with a reason.
func (l *life) tells(reason string) {
	l.Helper()
	if !slices.Contains(l.events.reasons, reason) {
		l.Errorf("events %q, want %s", l.events.reasons, reason)
	}
}

func testImage(name string) *v1alpha1.Image {
	return &v1alpha1.Image{URL: "https://images/" + name, Checksum: fmt.Sprintf("%064d", 1)}
}

// withImage is a host with something to be deployed.
func withImage(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("a") }

// inNode creates the node of a host in a state, with the power on, and links the host to it.
func (l *life) inNode(h *v1alpha1.BareMetalHost, state node.State) {
	l.Helper()
	access, err := bmc.Parse(h.Spec.BMC)
	if err != nil {
		l.Fatal(err)
	}
	n, err := l.engine.Create(l.Context(), provisioner.Registration{
		Name: provisioner.NodeName("metal", h.Name), Mark: provisioner.MarkOf("c1", "metal", h.Name), BootMAC: h.Spec.BootMACAddress,
		Access: &access, Credentials: bmc.Credentials{Username: "root", Password: "calvin"},
	})
	if err != nil {
		l.Fatal(err)
	}
	l.engine.Change(n.ID, func(n *provisioner.Node) { n.State, n.StateChangedAt, n.Power = state, l.now, node.PowerOn })
	h.Status.Provisioning.ID = n.ID
	if state == node.Enroll || state == node.Verifying {
		return // nothing is known of the BMC yet
	}
	h.Status.GoodCredentials.Reference = &corev1.SecretReference{Namespace: "metal", Name: h.Spec.BMC.CredentialsName}
}
