package subscription

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
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
		calls        []string // in two passes
		id           string   // of the subscription in the end
		asked        bool     // whether it may have one of unknown ID in the end
		wait         time.Duration
	}{
		"it refuses":                 {failed, nil, nil, []string{"subscribe", "list", "subscribe"}, "", true, refusedWait},
		"it made the subscription":   {failed, nil, []provisioner.ActiveSubscription{{ID: "7", Destination: destination}}, []string{"subscribe", "list"}, "7", false, 0},
		"it does not list them":      {failed, failed, nil, []string{"subscribe", "list"}, "", true, refusedWait},
		"the engine refuses":         {invalid, nil, nil, []string{"subscribe", "subscribe"}, "", false, refusedWait},
		"the engine does not answer": {provisioner.ErrUnreachable, provisioner.ErrUnreachable, nil, []string{"subscribe", "list"}, "", true, busyWait},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "events"}}
			s.Spec.HostName, s.Spec.Destination = "web", destination
			bmc := &fakeBMC{subscribeErr: tt.err, listErr: tt.listErr, has: tt.has}
			r := reconcilerOf(t, bmc, newHost(), s)

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

func (b *fakeBMC) Unsubscribe(context.Context, string, string) error {
	b.calls = append(b.calls, "unsubscribe")
	return b.listErr // engines check that it still exists
}

func TestDeletedSubscriptionGoesWhenItsBMCCannotBeAskedForIt(t *testing.T) {
	failed := fmt.Errorf("%w: there is no EventService", provisioner.ErrFailed)
	unsupported := fmt.Errorf("%w: subscriptions", provisioner.ErrUnsupported)
	requested := metav1.NewTime(deleted)
	made, unknown := v1alpha1.BMCEventSubscriptionStatus{SubscriptionID: "1"}, v1alpha1.BMCEventSubscriptionStatus{RequestedAt: &requested}
	for name, tt := range map[string]struct {
		status v1alpha1.BMCEventSubscriptionStatus
		err    error
		after  time.Duration // since the deletion
		goes   bool
	}{
		"the BMC is another one, without subscriptions":   {made, unsupported, 0, true},
		"the same before its answer was seen":             {unknown, unsupported, 0, true},
		"the BMC fails, and has the subscription":         {made, failed, releaseAfter, false},
		"the BMC fails, and may have the subscription":    {unknown, failed, releaseAfter - time.Second, false},
		"the BMC fails for long, and may have it":         {unknown, failed, releaseAfter, true},
		"the engine is away, and the BMC may have it":     {unknown, provisioner.ErrUnreachable, releaseAfter, false},
		"the engine refuses for a reason that may end":    {made, provisioner.ErrConflict, releaseAfter, false},
		"the engine does not know the node at the moment": {unknown, provisioner.ErrNotFound, releaseAfter, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewTime(deleted)
			s := &v1alpha1.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{
				Namespace: "metal", Name: "events", DeletionTimestamp: &at, Finalizers: []string{v1alpha1.BMCEventSubscriptionFinalizer},
			}, Status: tt.status}
			s.Spec.HostName, s.Spec.Destination = "web", "https://events.example.com/"
			r := reconcilerOf(t, &fakeBMC{listErr: tt.err}, newHost(), s)
			recorder := events.NewFakeRecorder(1)
			r.Recorder, r.Now = recorder, func() time.Time { return deleted.Add(tt.after) }
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}); err != nil {
				t.Fatal(err)
			}
			err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s)
			if gone := apierrors.IsNotFound(err); gone != tt.goes || len(recorder.Events) != map[bool]int{true: 1}[gone] {
				t.Errorf("gone: %t (%v) with %d events, want %t", gone, err, len(recorder.Events), tt.goes)
			}
		})
	}
}

// deleted is when the objects of a test were deleted.
var deleted = time.Date(2030, time.January, 2, 3, 4, 5, 0, time.UTC)

// newHost is a host with a BMC and a node.
func newHost() *v1alpha1.BareMetalHost {
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web"}}
	host.Spec.BMC.Address = "redfish://192.0.2.1"
	host.Status.Provisioning.ID, host.Status.Provisioning.State = "node", v1alpha1.StateAvailable
	return host
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
