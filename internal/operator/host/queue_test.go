package host

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// inLine is a host that has waited for a slot since so many seconds after the begin of a test.
func inLine(name string, since int) *v1alpha1.BareMetalHost {
	return testHost(overIPMI(1, func(h *v1alpha1.BareMetalHost) {
		at := metav1.NewTime(testNow.Add(time.Duration(since) * time.Second))
		h.Name, h.UID = name, types.UID(name)
		h.Status.Provisioning = v1alpha1.ProvisionStatus{ID: name, State: v1alpha1.StateRegistering}
		h.Status.Operation = v1alpha1.OperationStatus{Name: v1alpha1.OperationRegister, QueuedAt: &at}
	}))
}

// atItsWork is a host that has a slot.
func atItsWork(name string) *v1alpha1.BareMetalHost {
	h := inLine(name, 0)
	h.Status.Provisioning.State, h.Status.Operation = v1alpha1.StateInspecting, v1alpha1.OperationStatus{}
	return h
}

func TestOnlyTheHostsWhoseTurnItIsAreWoken(t *testing.T) {
	done := atItsWork("a")
	done.Status.Provisioning.State = v1alpha1.StateProvisioned
	moved := atItsWork("a")
	moved.Status.Provisioning.State = v1alpha1.StatePreparing
	paused := inLine("a", 0)
	paused.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
	failed := inLine("first", 1)
	failed.Status.Operation.Failures, failed.Status.Operation.FailedAt = 1, &metav1.Time{Time: testNow}
	line := []client.Object{inLine("third", 3), inLine("second", 2), inLine("fourth", 4)}
	first := inLine("first", 1)
	for name, tt := range map[string]struct {
		before, after *v1alpha1.BareMetalHost // after is nil for a host that is gone
		others        []client.Object
		want          []string
	}{
		"a slot becomes free":                 {atItsWork("a"), done, append(line, first, atItsWork("b")), []string{"first"}},
		"two are free":                        {atItsWork("a"), done, append(line, first), []string{"first", "second"}},
		"more are free than wait":             {atItsWork("a"), done, []client.Object{first}, []string{"first"}},
		"nobody waits":                        {atItsWork("a"), done, nil, nil},
		"none is free after all":              {atItsWork("a"), done, append(line, first, atItsWork("b"), atItsWork("c")), nil},
		"the first one pauses":                {atItsWork("a"), done, append(line, failed, atItsWork("b")), []string{"second"}},
		"a host at work is gone":              {atItsWork("a"), nil, append(line, first, atItsWork("b")), []string{"first"}},
		"a host that waits is gone":           {inLine("a", 0), nil, append(line, first, atItsWork("b")), []string{"first"}},
		"a host that waits is paused":         {inLine("a", 0), paused, append(line, first, atItsWork("b")), []string{"first"}},
		"a host that waits gets the slot":     {inLine("a", 0), atItsWork("a"), append(line, first, atItsWork("b")), nil},
		"a host goes on with its slot":        {atItsWork("a"), moved, append(line, first), nil},
		"a host joins the line":               {done, inLine("a", 9), append(line, first), nil},
		"a host without a slot or place goes": {done, nil, append(line, first), nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := slices.Clone(tt.others)
			if tt.after != nil {
				objects = append(objects, tt.after.DeepCopy())
			}
			c := testCapacity(t, newAPI(t, objects...), 2)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer queue.ShutDown()
			if tt.after == nil {
				c.nextInTurn().Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.BareMetalHost]{Object: tt.before}, queue)
			} else {
				c.nextInTurn().Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.BareMetalHost]{ObjectOld: tt.before, ObjectNew: tt.after}, queue)
			}
			var got []string
			for queue.Len() > 0 {
				request, _ := queue.Get()
				got = append(got, request.Name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("woken: %q, want %q", got, tt.want)
			}
		})
	}
}

// testCapacity are so many slots.
func testCapacity(t *testing.T, api client.Client, limit int) capacity {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return capacity{
		client: api, metrics: metrics, limit: limit, maxBackoff: time.Hour, now: func() time.Time { return testNow },
		granted: &granted{hosts: map[types.UID]time.Time{}},
	}
}

// TestEachHostThatIsWokenGetsItsSlot lets hosts run only when they are woken.
func TestEachHostThatIsWokenGetsItsSlot(t *testing.T) {
	const hosts = 20
	var objects []client.Object
	for i := range hosts {
		objects = append(objects, inLine(fmt.Sprintf("h%02d", i), i))
	}
	api := newAPI(t, append(objects, atItsWork("a"))...)
	c := testCapacity(t, api, 1)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	read := func(name string) *v1alpha1.BareMetalHost {
		h := &v1alpha1.BareMetalHost{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: name}, h); err != nil {
			t.Fatal(err)
		}
		return h
	}
	becomes := func(h *v1alpha1.BareMetalHost, state v1alpha1.ProvisioningState) {
		before := read(h.Name)
		h.Status.Provisioning.State, h.Status.Operation = state, v1alpha1.OperationStatus{}
		if err := api.Status().Update(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		c.nextInTurn().Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.BareMetalHost]{ObjectOld: before, ObjectNew: read(h.Name)}, queue)
	}
	becomes(read("a"), v1alpha1.StateProvisioned)
	for i := range hosts {
		name := fmt.Sprintf("h%02d", i)
		if queue.Len() != 1 {
			t.Fatalf("%d hosts were woken, want %s alone", queue.Len(), name)
		}
		request, _ := queue.Get()
		queue.Done(request)
		s := newScope(read(request.Name), testNow, time.Minute)
		free, _, err := c.take(t.Context(), s, v1alpha1.OperationRegister)
		if err != nil || !free || request.Name != name {
			t.Fatalf("%s was woken and gets a slot: %t, %v; want %s to get it", request.Name, free, err, name)
		}
		becomes(s.host, v1alpha1.StateInspecting)
		becomes(read(name), v1alpha1.StateProvisioned)
	}
}
