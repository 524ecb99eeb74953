package data

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestDataGivesBackWhatIsForAHostThatItsMachineHasLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cached, live func(*v1beta2.Metal3Machine)
		consumer     string // of the host
		lost         bool
	}{
		"it has none":                     {lost: true},
		"the host has another machine":    {consumer: "other", lost: true},
		"it has lost only the annotation": {consumer: "m-1"},
		"it ran on the host":              {cached: func(m *v1beta2.Metal3Machine) { m.Spec.ProviderID = "metal3://metal/node-7/m-1" }},
		"it has the host, which is gone": {cached: func(m *v1beta2.Metal3Machine) {
			m.Annotations = map[string]string{v1beta2.HostAnnotation: "metal/node-7"}
		}},
		"it has the host; the cache is old": {live: func(m *v1beta2.Metal3Machine) {
			m.Annotations = map[string]string{v1beta2.HostAnnotation: "metal/node-7"}
		}},
		"it is gone; the cache is old": {live: func(m *v1beta2.Metal3Machine) { m.Name = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim, d := newClaimed()
			d.UID, d.Annotations, d.Spec.MetaData = "own", map[string]string{v1beta2.HostAnnotation: "metal/node-7"}, &corev1.SecretReference{Name: "t-0-metadata"}
			owner := []metav1.OwnerReference{ownerReference(d, dataKind)}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "t-0-metadata", OwnerReferences: owner}}
			address := newClaim(d, newPool("", "", "main"), "node-7-main")
			h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "node-7"}}
			if tt.consumer != "" {
				h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: metal3MachineKind, Name: tt.consumer}
			}
			machine := func(change func(*v1beta2.Metal3Machine)) *v1beta2.Metal3Machine {
				m := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m-1", UID: "uid"}}
				if change != nil {
					change(m)
				}
				return m
			}
			api := newFake(t, claim, d, secret, address, machine(tt.cached), h)
			live := &overlay{Client: api, machines: newFake(t, machine(tt.live))}
			r := newReconciler(Config{Client: api, Live: live, Recorder: events.NewFakeRecorder(10), Now: time.Now, ClaimsByHost: true})
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(d)}); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			claimErr, secretErr := api.Get(t.Context(), client.ObjectKeyFromObject(address), address), api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
			_, hosted := d.Annotations[v1beta2.HostAnnotation]
			if apierrors.IsNotFound(claimErr) != tt.lost || apierrors.IsNotFound(secretErr) != tt.lost || d.Status.Ready == tt.lost || hosted == tt.lost {
				t.Errorf("claim %v, Secret %v, ready %v, host %v; want the host to be lost: %v", claimErr, secretErr, d.Status.Ready, d.Annotations, tt.lost)
			}
		})
	}
}

// overlay reads Metal3Machines from another API server than the rest.
type overlay struct {
	client.Client

	machines client.Reader
}

func (o *overlay) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if _, is := obj.(*v1beta2.Metal3Machine); is {
		return o.machines.Get(ctx, key, obj, options...)
	}
	return o.Client.Get(ctx, key, obj, options...)
}
