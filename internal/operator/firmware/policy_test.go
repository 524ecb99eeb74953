package firmware

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

func TestPolicyThatSomebodyElseWroteIsAdoptedInThePassAfter(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := metav1.ObjectMeta{Namespace: "metal", Name: "web"}
	refused := true
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&v1alpha1.BareMetalHost{ObjectMeta: at}, &v1alpha1.HostUpdatePolicy{ObjectMeta: at}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
				if refused {
					return apierrors.NewConflict(schema.GroupResource{Resource: "hostupdatepolicies"}, obj.GetName(), nil)
				}
				return c.Patch(ctx, obj, patch, options...)
			},
		}).Build()
	r := New(Config{Client: api, Live: api, Cluster: "c1", Now: time.Now})
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "metal", Name: "web"}}
	if got, err := r.Reconcile(t.Context(), request); err != nil || got.RequeueAfter != requeue.Soon {
		t.Fatalf("Reconcile = %+v, %v; want another pass after %s", got, err, requeue.Soon)
	}
	refused = false
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var policy v1alpha1.HostUpdatePolicy
	if err := api.Get(t.Context(), request.NamespacedName, &policy); err != nil || len(policy.OwnerReferences) != 1 {
		t.Errorf("policy = %+v, %v; want the host as its owner", policy.ObjectMeta, err)
	}
}
