package data

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func TestOnlyTheEndOfAClaimForAnAddressConcernsDataThatWaitsForIt(t *testing.T) {
	t.Parallel()
	owner := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "owner", UID: "owner"}}
	waiting := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{
		Namespace: "metal", Name: "waiting", UID: "waiting", Annotations: map[string]string{v1beta2.HostAnnotation: "metal/node-7"},
	}}
	claim := newClaim(owner, newPool("", "", "main"), "node-7-main")
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	for name, tt := range map[string]struct {
		tell   func(context.Context, *reconciler, queue)
		byHost bool
		want   []string
		lists  int
	}{
		"it comes": {func(ctx context.Context, r *reconciler, q queue) {
			r.addressChanges().Create(ctx, event.TypedCreateEvent[*ipamv1.IPAddressClaim]{Object: claim}, q)
		}, true, []string{"owner"}, 0},
		"it changes": {func(ctx context.Context, r *reconciler, q queue) {
			r.addressChanges().Update(ctx, event.TypedUpdateEvent[*ipamv1.IPAddressClaim]{ObjectOld: claim, ObjectNew: claim}, q)
		}, true, []string{"owner"}, 0},
		"it ends": {func(ctx context.Context, r *reconciler, q queue) {
			r.addressChanges().Delete(ctx, event.TypedDeleteEvent[*ipamv1.IPAddressClaim]{Object: claim}, q)
		}, true, []string{"owner", "waiting"}, 1},
		"it ends, named after data": {func(ctx context.Context, r *reconciler, q queue) {
			r.addressChanges().Delete(ctx, event.TypedDeleteEvent[*ipamv1.IPAddressClaim]{Object: claim}, q)
		}, false, []string{"owner"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := 0
			api, _ := newFake(t, owner, waiting).(client.WithWatch)
			counted := interceptor.NewClient(api, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				lists++
				return c.List(ctx, list, options...)
			}})
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer q.ShutDown()
			tt.tell(t.Context(), newReconciler(Config{Client: counted, ClaimsByHost: tt.byHost}), q)
			var got []string
			for q.Len() > 0 {
				request, _ := q.Get()
				got = append(got, request.Name)
				q.Done(request)
			}
			if slices.Sort(got); !slices.Equal(got, tt.want) || lists != tt.lists {
				t.Errorf("passes over %v after %d lists, want %v after %d", got, lists, tt.want, tt.lists)
			}
		})
	}
}
