package data

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// newSecret returns a Secret of data; host is the host that it was rendered for, or empty.
func newSecret(d *v1beta2.Metal3Data, name, host string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{ownerReference(d, dataKind)}}}
	if host != "" {
		s.Annotations = map[string]string{v1beta2.HostAnnotation: host}
	}
	return s
}

func TestDataWithoutStatusIsReadyAsItWasRenderedForTheHost(t *testing.T) {
	t.Parallel()
	const meta, network = "t-0-metadata", "t-0-networkdata"
	for name, tt := range map[string]struct {
		noted   string            // host of the data
		secrets map[string]string // their hosts
		runs    bool              // the machine is deployed
		ready   bool
	}{
		"all Secrets are there":               {"metal/node-7", map[string]string{meta: "metal/node-7", network: "metal/node-7"}, false, true},
		"they are of Metal3's provider":       {"metal/node-7", map[string]string{meta: "", network: ""}, false, true},
		"one is missing":                      {"metal/node-7", map[string]string{meta: "metal/node-7"}, false, false},
		"one is for another host":             {"metal/node-7", map[string]string{meta: "metal/node-7", network: "metal/node-8"}, false, false},
		"nobody says for which host they are": {"", map[string]string{meta: "", network: ""}, false, false},
		"so it is, and the machine runs":      {"", map[string]string{meta: "", network: ""}, true, true},
		"one is missing, and it runs":         {"", map[string]string{meta: ""}, true, false},
		"the data is for another host":        {"metal/node-8", map[string]string{meta: "", network: ""}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim, d := newClaimed()
			d.UID, d.Status = "own", v1beta2.Metal3DataStatus{}
			d.Spec.MetaData, d.Spec.NetworkData = &corev1.SecretReference{Name: meta}, &corev1.SecretReference{Name: network}
			if tt.noted != "" {
				d.Annotations = map[string]string{v1beta2.HostAnnotation: tt.noted}
			}
			machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m-1", UID: "machine"}}
			m := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "metal", Name: "m-1", UID: "uid", Annotations: map[string]string{v1beta2.HostAnnotation: "metal/node-7"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m-1", UID: "machine"}},
			}}
			if tt.runs {
				m.Spec.ProviderID = "metal3://metal/node-7/m-1"
			}
			h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "node-7"}}
			h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: metal3MachineKind, Name: "m-1"}
			objects := []client.Object{claim, d, machine, m, h}
			for name, host := range tt.secrets {
				objects = append(objects, newSecret(d, name, host))
			}
			api := newFake(t, objects...) // without the template, so that nothing can be rendered
			r := newReconciler(Config{Client: api, Live: api, Recorder: events.NewFakeRecorder(10), Now: time.Now})
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(d)}); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			if d.Status.Ready != tt.ready || (d.Status.ErrorMessage == nil) != tt.ready {
				t.Errorf("ready %v, error %v; want ready %v", d.Status.Ready, d.Status.ErrorMessage, tt.ready)
			}
			if tt.ready && (d.Annotations[v1beta2.HostAnnotation] != "metal/node-7" || d.Spec.MetaData.Name != meta) {
				t.Errorf("annotations %v, Secret %s", d.Annotations, d.Spec.MetaData.Name)
			}
		})
	}
}

func TestSecretsGoBeforeTheAddressesThatAreInThem(t *testing.T) {
	t.Parallel()
	_, d := newClaimed()
	d.UID, d.Spec.MetaData = "own", &corev1.SecretReference{Name: "t-0-metadata"}
	secret, address := newSecret(d, "t-0-metadata", "metal/node-7"), newClaim(d, newPool("", "", "main"), "node-7-main")
	api, _ := newFake(t, d, secret, address).(client.WithWatch)
	watched := interceptor.NewClient(api, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
		if obj.GetName() == address.Name && !apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})) {
			t.Error("the address is given back while its Secret is there")
		}
		return c.Delete(ctx, obj, options...)
	}})
	r := newReconciler(Config{Client: watched, Live: api, Now: time.Now, ClaimsByHost: true})
	if err := r.leave(t.Context(), d, "node-7"); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(address), address); !apierrors.IsNotFound(err) {
		t.Errorf("the address is not given back: %v", err)
	}
}
