package host

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestSecretThatTheAPIServerDoesNotTellIsNoFailureOfItsHost(t *testing.T) {
	pull := "data"
	for name, change := range map[string]func(*v1alpha1.BareMetalHost){
		"user data":              func(h *v1alpha1.BareMetalHost) { h.Spec.UserData = secretNamed("data") },
		"network of the ramdisk": func(h *v1alpha1.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "data" },
		"login of a registry": func(h *v1alpha1.BareMetalHost) {
			h.Spec.Image.URL, h.Spec.Image.OCIAuthSecretName = "oci://registry/os", &pull
		},
	} {
		t.Run(name, func(t *testing.T) {
			down := false
			l := newLife(t, func(c *Config) {
				c.Live = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
					Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
						if _, isSecret := obj.(*corev1.Secret); isSecret && down && key.Name == "data" {
							return apierrors.NewInternalError(errors.New("etcd has no leader"))
						}
						return api.Get(ctx, key, obj, opts...)
					},
				})
			})
			secret := dataSecret("data", corev1.DockerConfigJsonKey, `{"auths":{"registry":{"auth":"dTpw"}}}`)
			secret.Type, secret.Data["value"] = corev1.SecretTypeDockerConfigJson, []byte("links: []")
			l.create(secret)
			l.add("web", nil)
			l.rests("web", v1alpha1.StateAvailable)
			l.edit("web", func(h *v1alpha1.BareMetalHost) { withImage(h); change(h) })
			down = true
			var err error
			for range 5 {
				var res ctrl.Result
				res, err = l.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal", Name: "web"}})
				l.now = l.now.Add(res.RequeueAfter)
			}
			if h := l.host("web"); err == nil || h.Status.ErrorType != "" || h.Status.Operation.Failures != 0 {
				t.Errorf("pass ended with %v; error %q %s, record %+v; want the error of the API server, and none of the host",
					err, h.Status.ErrorType, h.Status.ErrorMessage, h.Status.Operation)
			}
			down = false
			l.rests("web", v1alpha1.StateProvisioned)
		})
	}
}
