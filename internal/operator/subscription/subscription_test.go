package subscription

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// fakeBMC is a BMC behind the node of a host.
type fakeBMC struct {
	provisioner.Subscriber

	subscribeErr, listErr error
	has                   []provisioner.ActiveSubscription
	calls                 []string
}

func (b *fakeBMC) Fetch(context.Context, string) (provisioner.Node, error) {
	return provisioner.Node{ID: "node", Mark: provisioner.MarkOf("c1", "metal", "web")}, nil
}

func (b *fakeBMC) Subscribe(context.Context, string, provisioner.Subscription) (string, error) {
	b.calls = append(b.calls, "subscribe")
	return "1", b.subscribeErr
}

func (b *fakeBMC) Subscriptions(context.Context, string) ([]provisioner.ActiveSubscription, error) {
	b.calls = append(b.calls, "list")
	return b.has, b.listErr
}

func TestBMCThatFailedIsAskedAgainLaterUnlessItHasTheSubscription(t *testing.T) {
	const destination = "https://events.example.com/"
	failed := fmt.Errorf("%w: too many subscriptions", provisioner.ErrFailed)
	invalid := fmt.Errorf("%w: no such type", provisioner.ErrInvalid)
	for name, tt := range map[string]struct {
		err, listErr error
		has          []provisioner.ActiveSubscription
		calls        []string // of two passes
		id           string   // of the subscription in the end
		asked        bool     // whether it may have one whose ID is not known in the end
		wait         time.Duration
	}{
		"it refuses":                 {failed, nil, nil, []string{"subscribe", "list", "subscribe"}, "", true, refusedWait},
		"it made the subscription":   {failed, nil, []provisioner.ActiveSubscription{{ID: "7", Destination: destination}}, []string{"subscribe", "list"}, "7", false, 0},
		"it does not list them":      {failed, failed, nil, []string{"subscribe", "list"}, "", true, refusedWait},
		"the engine refuses":         {invalid, nil, nil, []string{"subscribe", "subscribe"}, "", false, refusedWait},
		"the engine does not answer": {provisioner.ErrUnreachable, provisioner.ErrUnreachable, nil, []string{"subscribe", "list"}, "", true, busyWait},
	} {
		t.Run(name, func(t *testing.T) {
			host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web"}}
			host.Spec.BMC.Address = "redfish://192.0.2.1"
			host.Status.Provisioning.ID, host.Status.Provisioning.State = "node", v1alpha1.StateAvailable
			s := &v1alpha1.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "events"}}
			s.Spec.HostName, s.Spec.Destination = "web", destination
			bmc := &fakeBMC{subscribeErr: tt.err, listErr: tt.listErr, has: tt.has}
			r := reconcilerOf(t, bmc, host, s)

			var last ctrl.Result
			for range 2 {
				var err error
				if last, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
				t.Fatal(err)
			}
			got := s.Status
			if fmt.Sprint(bmc.calls) != fmt.Sprint(tt.calls) || last.RequeueAfter != tt.wait {
				t.Errorf("calls %v, then a wait of %s; want %v, %s", bmc.calls, last.RequeueAfter, tt.calls, tt.wait)
			}
			if got.SubscriptionID != tt.id || (got.RequestedAt != nil) != tt.asked || (got.Error == "") != (tt.id != "") {
				t.Errorf("status %+v, want the ID %q, and that it is asked for: %v", got, tt.id, tt.asked)
			}
		})
	}
}

// indexer indexes a fake client as the operator indexes its cache.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, value client.IndexerFunc) error {
	i.WithIndex(obj, field, value)
	return nil
}

func reconcilerOf(t *testing.T, bmc *fakeBMC, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := indexer{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.BMCEventSubscription{})}
	if err := IndexFields(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	api := b.Build()
	return New(Config{Client: api, Live: api, Nodes: bmc, Engine: bmc, Cluster: "c1", Now: time.Now})
}
