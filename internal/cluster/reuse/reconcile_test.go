package reuse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// recordedEvents are events, each with the object that it is about.
type recordedEvents []string

func (h *recordedEvents) Eventf(regarding, related runtime.Object, _, reason, _, note string, args ...any) {
	name := func(obj runtime.Object) string {
		switch o := obj.(type) {
		case *v1alpha1.BareMetalHost:
			return "host " + o.Name
		case *corev1.ObjectReference:
			return o.Kind + " " + o.Name
		}
		return "nothing"
	}
	*h = append(*h, fmt.Sprintf("%s, %s: %s: %s", name(regarding), name(related), reason, fmt.Sprintf(note, args...)))
}

// controllerTest is a reconciler over a cache and an API server.
type controllerTest struct {
	*Reconciler
	events   recordedEvents
	registry *prometheus.Registry
}

func newController(tb testing.TB, cache client.Client, live client.Reader, wait time.Duration) *controllerTest {
	tb.Helper()
	c := &controllerTest{registry: prometheus.NewRegistry()}
	m, err := NewMetrics(c.registry)
	if err != nil {
		tb.Fatal(err)
	}
	c.Reconciler = New(Config{Client: cache, Live: live, Recorder: &c.events, Metrics: m, Now: clock, Wait: wait})
	return c
}

// reconcile makes a pass over a host.
func (c *controllerTest) reconcile(tb testing.TB, name string) ctrl.Result {
	tb.Helper()
	result, err := c.Reconcile(tb.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "edge", Name: name}})
	if err != nil {
		tb.Fatalf("reconcile host %s: %v", name, err)
	}
	return result
}

// metrics are the metrics by their names and the values of their labels.
func (c *controllerTest) metrics(tb testing.TB) map[string]float64 {
	tb.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// stored is a host as the API server has it.
func stored(tb testing.TB, c client.Reader, name string) *v1alpha1.BareMetalHost {
	tb.Helper()
	var h v1alpha1.BareMetalHost
	if err := c.Get(tb.Context(), client.ObjectKey{Namespace: "edge", Name: name}, &h); err != nil {
		tb.Fatal(err)
	}
	return &h
}

func TestReservedHostIsFreedWhenNobodyWillTakeIt(t *testing.T) {
	carried := func(w *world) {
		reserve(w.hosts[0], withUID(w.ownerName(), "elsewhere"), start)
		moved(start.Add(30 * time.Minute))(w.hosts[0])
	}
	fresh := func(w *world) { moved(clock().Add(-appearance + time.Second))(w.hosts[0]) }
	stale := func(w *world) { moved(clock().Add(-appearance))(w.hosts[0]) }
	for name, tt := range map[string]struct {
		change func(*world)
		wait   time.Duration
		want   Reason // empty when it is kept
	}{
		"machine to come":                  {change: func(*world) {}},
		"scaled down":                      {change: func(w *world) { w.scale(2) }, want: reasonNotNeeded},
		"scaled down, another is deleted":  {change: func(w *world) { w.scale(2); w.delete(w.machines[1]) }},
		"another machine took a free host": {change: func(w *world) { w.addMachine(3) }, want: reasonNotNeeded},
		"older reservation is enough":      {change: func(w *world) { w.scale(2); w.reserve(1, reservedFor(w.ownerName(), start.Add(-time.Second))) }, want: reasonNotNeeded},
		"newer reservation is too much":    {change: func(w *world) { w.scale(2); w.reserve(1, reservedFor(w.ownerName(), start.Add(time.Second))) }},
		"older one is unhealthy": {change: func(w *world) {
			w.scale(2)
			w.reserve(1, reservedFor(w.ownerName(), start.Add(-time.Second)), annotated(v1alpha1.UnhealthyAnnotation, ""))
		}},
		"template edited to false":             {change: func(w *world) { w.templates["old"].Spec.NodeReuse = new(false) }, want: reasonReuseDisabled},
		"owner switched to one without reuse":  {change: func(w *world) { w.points("off") }, want: reasonReuseDisabled},
		"owner switched to another with reuse": {change: func(w *world) { w.points("new"); w.templates["old"].Spec.NodeReuse = nil }},
		"template vanished":                    {change: func(w *world) { w.points("gone") }},
		"selector changed": {change: func(w *world) {
			w.templates["old"].Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchLabels: map[string]string{"row": "b"}}
		}, want: reasonSelectorMismatch},
		"selector that cannot be read": {change: func(w *world) {
			w.templates["old"].Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchLabels: map[string]string{"not a key": ""}}
		}},
		"owner gone":                            {change: func(w *world) { w.owner = nil }, want: reasonOwnerMissing},
		"owner not there yet":                   {change: func(w *world) { w.owner = nil; fresh(w) }},
		"owner did not come":                    {change: func(w *world) { w.owner = nil; stale(w) }, want: reasonOwnerMissing},
		"Cluster did not come":                  {change: func(w *world) { w.cluster = nil; stale(w) }, want: reasonClusterMissing},
		"owner gone, host is new":               {change: func(w *world) { w.owner = nil; w.hosts[0].CreationTimestamp = metav1.NewTime(start) }, want: reasonOwnerMissing},
		"Cluster gone":                          {change: func(w *world) { w.cluster = nil }, want: reasonClusterMissing},
		"owner and Cluster not there yet":       {change: func(w *world) { w.owner, w.cluster = nil, nil; fresh(w) }},
		"owner in deletion":                     {change: func(w *world) { w.delete(w.owner) }, want: reasonOwnerDeleting},
		"Cluster in deletion":                   {change: func(w *world) { w.delete(w.cluster) }, want: reasonClusterDeleting},
		"owner made again":                      {change: func(w *world) { reserve(w.hosts[0], withUID(w.ownerName(), "earlier"), start) }, want: reasonOwnerReplaced},
		"moved with its owner":                  {change: carried},
		"moved, owner wants no reuse":           {change: func(w *world) { carried(w); w.points("off") }, want: reasonReuseDisabled},
		"owner in another namespace":            {change: func(w *world) { reserve(w.hosts[0], inNamespace(w.ownerName(), "core"), start) }, want: reasonOwnerMissing},
		"host unhealthy":                        {change: func(w *world) { annotated(v1alpha1.UnhealthyAnnotation, "")(w.hosts[0]) }, want: reasonHostUnhealthy},
		"host detached":                         {change: func(w *world) { annotated(v1alpha1.DetachedAnnotation, "")(w.hosts[0]) }, want: reasonHostDetached},
		"host provisioned externally":           {change: func(w *world) { w.hosts[0].Spec.ExternallyProvisioned = true }, want: reasonHostExternallyProvisioned},
		"host given an image":                   {change: func(w *world) { withImage(w.hosts[0]) }, want: reasonHostDeployed},
		"host in deletion":                      {change: func(w *world) { w.delete(w.hosts[0]) }, want: reasonHostDeleting},
		"host with an error":                    {change: func(w *world) { w.hosts[0].Status.ErrorType = v1alpha1.ErrorRegistration }},
		"limit passed":                          {change: func(*world) {}, wait: time.Hour, want: reasonWaitedTooLong},
		"limit not passed":                      {change: func(*world) {}, wait: time.Hour + time.Minute},
		"limit, Cluster was paused until later": {change: func(w *world) { w.cluster.Status.Conditions = resumedAt(start.Add(time.Minute)) }, wait: time.Hour},
		"Cluster paused, everything else gone":  {change: func(w *world) { w.owner = nil; w.cluster.Spec.Paused = new(true) }},
		"owner paused, scaled down": {change: func(w *world) {
			w.scale(0)
			w.owner.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
		}},
		"host paused, scaled down":       {change: func(w *world) { w.scale(0); annotated(v1alpha1.PausedAnnotation, "x")(w.hosts[0]) }},
		"label and Cluster":              {change: func(w *world) { legacyConsumer(w.hosts[0], true) }},
		"label and Cluster, scaled down": {change: func(w *world) { legacyConsumer(w.hosts[0], true); w.scale(2) }, want: reasonNotNeeded},
		"label alone":                    {change: func(w *world) { legacyConsumer(w.hosts[0], false) }},
		"label alone, owner gone": {change: func(w *world) {
			legacyConsumer(w.hosts[0], false)
			w.owner, w.cluster.Spec.ControlPlaneRef.Name = nil, ""
		}, want: reasonOwnerMissing},
		"label alone, owner may yet come": {change: func(w *world) { legacyConsumer(w.hosts[0], false); w.owner = nil; fresh(w) }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, owner := range eachOwner {
				t.Run(owner.Kind, func(t *testing.T) {
					w := newWorld(owner)
					w.reserve(0)
					tt.change(w)
					api := w.client(t, interceptor.Funcs{})
					c := newController(t, api, api, tt.wait)
					before := stored(t, api, "h0")
					result := c.reconcile(t, "h0")
					after := stored(t, api, "h0")
					if tt.want == "" {
						if !IsReserved(after) || len(c.events) > 0 {
							t.Errorf("host is freed, events %q", c.events)
						}
						if result.RequeueAfter <= 0 || result.RequeueAfter > recheck {
							t.Errorf("looks again after %s, want within %s", result.RequeueAfter, recheck)
						}
						return
					}
					if after.Spec.ConsumerRef != nil || IsReserved(after) {
						t.Errorf("consumer %v, want none", after.Spec.ConsumerRef)
					}
					if diff := cmp.Diff(map[string]string{"row": "a"}, after.Labels); diff != "" {
						t.Errorf("labels (-want +got):\n%s", diff)
					}
					for _, key := range []string{v1beta2.ReservedAtAnnotation, v1beta2.ConsumerHostUIDAnnotation} {
						if has(after, key) {
							t.Errorf("annotations %v, want none of a reservation", after.Annotations)
						}
					}
					if got := c.metrics(t)["ingot_host_reservations_released_total "+string(tt.want)]; got != 1 {
						t.Errorf("%v hosts freed for %s, want 1", got, tt.want)
					}
					if len(c.events) == 0 || !strings.HasPrefix(c.events[0], "host h0, ") || !strings.Contains(c.events[0], eventReleased) {
						t.Errorf("events %q, want one about the host", c.events)
					}
					if before.Spec.ConsumerRef != nil && before.Spec.ConsumerRef.Kind == owner.Kind &&
						(len(c.events) != 2 || !strings.HasPrefix(c.events[1], owner.Kind+" one, host h0: "+eventReleased)) {
						t.Errorf("events %q, want one about the owner, too", c.events)
					}
				})
			}
		})
	}
}

// legacyConsumer changes a reservation to what Metal3's provider writes.
func legacyConsumer(h *v1alpha1.BareMetalHost, withCluster bool) {
	delete(h.Annotations, v1beta2.ReservedAtAnnotation)
	delete(h.Annotations, v1beta2.ConsumerHostUIDAnnotation)
	h.Spec.ConsumerRef = nil
	if withCluster {
		consumedBy("cluster.x-k8s.io/v1beta1", "Cluster", "one", "cluster")(h)
	}
}

func TestReservationFromElsewhereIsWrittenAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*world)
		at     time.Time
	}{
		"label and Cluster": {func(w *world) { legacyConsumer(w.hosts[0], true) }, clock()},
		"label alone":       {func(w *world) { legacyConsumer(w.hosts[0], false) }, clock()},
		"label alone, without that of the Cluster": {func(w *world) {
			legacyConsumer(w.hosts[0], false)
			delete(w.hosts[0].Labels, clusterv1.ClusterNameLabel)
		}, clock()},
		"with the label of another Cluster": {func(w *world) { w.hosts[0].Labels[clusterv1.ClusterNameLabel] = "two" }, start},
		"without label":                     {func(w *world) { delete(w.hosts[0].Labels, v1beta2.NodeReuseLabel) }, start},
		"moved": {func(w *world) {
			w.hosts[0].Spec.ConsumerRef.UID = "elsewhere"
			delete(w.hosts[0].Annotations, v1beta2.ConsumerHostUIDAnnotation)
		}, start},
		"nothing to be done":  {func(*world) {}, start},
		"UID was never there": {func(w *world) { w.hosts[0].Spec.ConsumerRef.UID = "" }, start},
	} {
		t.Run(name, func(t *testing.T) {
			for _, owner := range eachOwner {
				t.Run(owner.Kind, func(t *testing.T) {
					w := newWorld(owner)
					w.reserve(0)
					want := w.hosts[0].DeepCopy()
					reserve(want, owner, tt.at)
					tt.change(w)
					api := w.client(t, interceptor.Funcs{})
					c := newController(t, api, api, 0)
					c.reconcile(t, "h0")
					got := stored(t, api, "h0")
					if diff := cmp.Diff(want.Spec.ConsumerRef, got.Spec.ConsumerRef); diff != "" {
						t.Errorf("consumer (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff([]map[string]string{want.Labels, want.Annotations}, []map[string]string{got.Labels, got.Annotations}); diff != "" {
						t.Errorf("labels and annotations (-want +got):\n%s", diff)
					}
					version := got.ResourceVersion
					c.reconcile(t, "h0")
					if again := stored(t, api, "h0"); again.ResourceVersion != version {
						t.Error("the second pass writes again")
					}
				})
			}
		})
	}
}

func TestHostsThatAreNotReservedAreLeftAlone(t *testing.T) {
	w := newWorld(deployment)
	w.hosts = append(w.hosts, host("free"), host("robot", consumedBy("example.com/v1", "Robot", "one", "")), host("cluster", consumedBy("cluster.x-k8s.io/v1beta2", "Cluster", "one", "")))
	api := w.client(t, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
		t.Errorf("host %s is written", obj.GetName())
		return nil
	}})
	c := newController(t, api, unused(t, w), time.Second)
	for _, name := range []string{"h0", "free", "robot", "cluster", "gone"} {
		if result := c.reconcile(t, name); result.RequeueAfter != 0 {
			t.Errorf("host %s is looked at again after %s", name, result.RequeueAfter)
		}
	}
}

func TestHostIsFreedOnlyWhenTheAPIServerSaysSo(t *testing.T) {
	for name, stale := range map[string]func(*world){
		"owner not in the cache":    func(w *world) { w.owner = nil },
		"Cluster not in the cache":  func(w *world) { w.cluster = nil },
		"scaled up since then":      func(w *world) { w.scale(2) },
		"template edited since":     func(w *world) { w.templates["old"].Spec.NodeReuse = nil },
		"machine deleted since":     func(w *world) { w.addMachine(3) },
		"reservation of another":    func(w *world) { w.hosts[0].Spec.ConsumerRef.UID = "earlier" },
		"unhealthy no more":         func(w *world) { annotated(v1alpha1.UnhealthyAnnotation, "")(w.hosts[0]) },
		"pause not in the cache":    func(w *world) { w.scale(0) },
		"claimed, not in the cache": func(w *world) { w.scale(0) },
	} {
		t.Run(name, func(t *testing.T) {
			before, now := newWorld(deployment), newWorld(deployment)
			before.reserve(0)
			now.reserve(0)
			stale(before)
			switch name {
			case "pause not in the cache":
				now.scale(0)
				now.cluster.Spec.Paused = new(true)
			case "claimed, not in the cache":
				now.scale(0)
				consumedBy(v1beta2.GroupVersion.String(), "Metal3Machine", "m9", "")(now.hosts[0])
			}
			api := now.client(t, interceptor.Funcs{})
			c := newController(t, split{before.client(t, interceptor.Funcs{}), api}, api, 0)
			version := stored(t, api, "h0").ResourceVersion
			c.reconcile(t, "h0")
			if after := stored(t, api, "h0"); after.ResourceVersion != version || len(c.events) > 0 {
				t.Errorf("host is written, events %q", c.events)
			}
		})
	}
}

// split reads from one client and writes to another.
type split struct {
	client.Client
	to client.Client
}

func (s split) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return s.to.Patch(ctx, obj, patch, opts...)
}

func TestHostThatIsClaimedMeanwhileIsNotFreed(t *testing.T) {
	w := newWorld(deployment)
	w.reserve(0)
	w.scale(2)
	claimed := false
	api := w.client(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if !claimed {
			claimed = true
			h := stored(t, c, "h0")
			consumedBy(v1beta2.GroupVersion.String(), "Metal3Machine", "m3", "")(h)
			Clear(h)
			if err := c.Update(ctx, h); err != nil {
				return err
			}
		}
		return c.Patch(ctx, obj, patch, opts...)
	}})
	c := newController(t, api, api, 0)
	if result := c.reconcile(t, "h0"); result.RequeueAfter != requeue.Soon {
		t.Errorf("looks again after %s, want %s", result.RequeueAfter, requeue.Soon)
	}
	if h := stored(t, api, "h0"); h.Spec.ConsumerRef == nil || h.Spec.ConsumerRef.Name != "m3" {
		t.Errorf("consumer %v, want the machine that claimed it", h.Spec.ConsumerRef)
	}
	if len(c.events) > 0 {
		t.Errorf("events %q about a host that was not freed", c.events)
	}
}

func TestHostWhoseOwnerCannotBeReadIsFreedForWhatIsKnownWithoutIt(t *testing.T) {
	forbidden := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, controlPlane := obj.(*unstructured.Unstructured); controlPlane {
			return apierrors.NewForbidden(schema.GroupResource{Group: foreign.group(), Resource: "othercontrolplanes"}, key.Name, errors.New("no role"))
		}
		return c.Get(ctx, key, obj, opts...)
	}}
	unserved := Owner{Kind: "UnservedControlPlane", APIVersion: "unserved.example.com/v1", Namespace: "edge", Name: "one", UID: "unserved"}
	for owner, hooks := range map[Owner]interceptor.Funcs{unserved: {}, foreign: forbidden} {
		for name, tt := range map[string]struct {
			change func(*world)
			wait   time.Duration
			want   Reason // empty when it is kept
		}{
			"nothing else":                {change: func(*world) {}},
			"limit passed":                {change: func(*world) {}, wait: time.Minute},
			"Cluster in deletion":         {change: func(w *world) { w.delete(w.cluster) }, want: reasonClusterDeleting},
			"Cluster in deletion, paused": {change: func(w *world) { w.delete(w.cluster); w.cluster.Spec.Paused = new(true) }},
			"Cluster gone":                {change: func(w *world) { w.cluster = nil }, want: reasonClusterMissing},
			"host unhealthy":              {change: func(w *world) { annotated(v1alpha1.UnhealthyAnnotation, "")(w.hosts[0]) }, want: reasonHostUnhealthy},
			"label alone": {change: func(w *world) {
				legacyConsumer(w.hosts[0], false)
				w.hosts[0].Labels[v1beta2.NodeReuseLabel] = owner.label()
			}},
			"label and Cluster in deletion": {change: func(w *world) {
				legacyConsumer(w.hosts[0], true)
				w.delete(w.cluster)
			}, want: reasonClusterDeleting},
		} {
			t.Run(owner.Kind+", "+name, func(t *testing.T) {
				w := newWorld(owner)
				w.reserve(0)
				tt.change(w)
				if owner == unserved {
					w.owner = nil // nobody can have one
				}
				api := w.client(t, hooks)
				c := newController(t, api, api, tt.wait)
				result := c.reconcile(t, "h0")
				if kept := IsReserved(stored(t, api, "h0")); kept != (tt.want == "") {
					t.Fatalf("host is kept: %t, want %t; events %q", kept, !kept, c.events)
				}
				if tt.want == "" {
					if result.RequeueAfter <= 0 || result.RequeueAfter > recheck {
						t.Errorf("looks again after %s, want within %s", result.RequeueAfter, recheck)
					}
					return
				}
				if got := c.metrics(t)["ingot_host_reservations_released_total "+string(tt.want)]; got != 1 {
					t.Errorf("%v hosts freed for %s, want 1", got, tt.want)
				}
			})
		}
	}
}

func TestReservationStaysWhileReadingItsOwnerFails(t *testing.T) {
	refused := errors.New("refused")
	w := newWorld(deployment)
	w.reserve(0)
	w.delete(w.cluster)
	api := w.client(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*clusterv1.MachineDeployment); ok {
				return refused
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	c := newController(t, api, api, 0)
	_, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "edge", Name: "h0"}})
	if !errors.Is(err, refused) {
		t.Errorf("error %v, want %v", err, refused)
	}
	if !IsReserved(stored(t, api, "h0")) {
		t.Error("host is freed")
	}
}

func TestReservedHostsAreCountedByCluster(t *testing.T) {
	w := newWorld(deployment)
	w.reserve(0)
	w.reserve(1)
	api := w.client(t, interceptor.Funcs{})
	c := newController(t, api, api, 0)
	count := func(want map[string]float64) {
		t.Helper()
		c.reconcile(t, "h0")
		if diff := cmp.Diff(want, c.metrics(t)); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	}
	count(map[string]float64{"ingot_reservations one edge": 2})
	for _, name := range []string{"h0", "h1"} {
		h := stored(t, api, name)
		consumedBy(v1beta2.GroupVersion.String(), "Metal3Machine", "m", "")(h)
		if err := api.Update(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	count(map[string]float64{})
}
