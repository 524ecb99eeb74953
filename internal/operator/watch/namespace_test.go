package watch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// delays are the requests that were added to a queue after a wait.
type delays struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	requests map[ctrl.Request][]time.Duration
}

func (d delays) AddAfter(request ctrl.Request, wait time.Duration) {
	d.requests[request] = append(d.requests[request], wait)
}

func TestChangesOfANamespaceAskForTheSamePassAfterAWait(t *testing.T) {
	object := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name}}
	}
	queue := delays{requests: map[ctrl.Request][]time.Duration{}}
	asks := Namespace[*corev1.ConfigMap](time.Second)
	asks.Create(t.Context(), event.TypedCreateEvent[*corev1.ConfigMap]{Object: object("a")}, queue)
	asks.Update(t.Context(), event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: object("b"), ObjectNew: object("b")}, queue)
	asks.Delete(t.Context(), event.TypedDeleteEvent[*corev1.ConfigMap]{Object: object("c")}, queue)
	waits := queue.requests[ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal"}}]
	if len(queue.requests) != 1 || len(waits) != 3 || waits[0] != time.Second || waits[1] != time.Second || waits[2] != time.Second {
		t.Errorf("asked for %v, want three times for the namespace after a second", queue.requests)
	}
}
