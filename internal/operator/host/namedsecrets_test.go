package host

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// changeData writes a Secret with user data.
func (l *life) changeData(name, text string) {
	l.Helper()
	s := dataSecret(name, "userData", text)
	if err := l.api.Update(l.Context(), s); client.IgnoreNotFound(err) != nil {
		l.Fatal(err)
	} else if err != nil {
		l.create(dataSecret(name, "userData", text))
	}
}

func TestEverySecretThatAHostNamesWakesIt(t *testing.T) {
	api := newAPI(t)
	r := newTestReconciler(t, api, newLife(t, nil).engine, nil, nil)
	pull := "pull"
	for _, h := range []*v1alpha1.BareMetalHost{
		testHost(func(h *v1alpha1.BareMetalHost) {
			h.Spec.BMC.CredentialsName, h.Spec.PreprovisioningNetworkDataName = "bmc", "ramdisk"
			h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = secretNamed("user"), secretNamed("meta"), secretNamed("net")
			h.Spec.Image = &v1alpha1.Image{URL: "oci://registry/os", OCIAuthSecretName: &pull}
		}),
		testHost(func(h *v1alpha1.BareMetalHost) { h.Name, h.Spec.UserData = "other", secretNamed("other") }),
	} {
		if err := api.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bmc", "ramdisk", "user", "meta", "net", pull} {
		secret := watch.SecretMetadata()
		secret.Namespace, secret.Name = "metal", name
		if woken := r.hostsNaming(t.Context(), secret); len(woken) != 1 || woken[0].Name != "web" {
			t.Errorf("Secret %s wakes %v, want host web", name, woken)
		}
		secret.Namespace = "elsewhere"
		if woken := r.hostsNaming(t.Context(), secret); len(woken) != 0 {
			t.Errorf("Secret %s of another namespace wakes %v", name, woken)
		}
	}
	shared, err := r.secrets.isShared(t.Context(), &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", UID: "u2"}}, "user")
	if shared || err != nil {
		t.Errorf("a Secret with user data counts as credentials: %t, %v", shared, err)
	}
}

func TestSecretOfADeploymentEndsTheWaitAfterItsFailure(t *testing.T) {
	pull := "late"
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		secret *corev1.Secret
	}{
		"user data":    {func(h *v1alpha1.BareMetalHost) { h.Spec.UserData = secretNamed("late") }, dataSecret("late", "userData", "x")},
		"metadata":     {func(h *v1alpha1.BareMetalHost) { h.Spec.MetaData = secretNamed("late") }, dataSecret("late", "metaData", "a: b")},
		"network data": {func(h *v1alpha1.BareMetalHost) { h.Spec.NetworkData = secretNamed("late") }, dataSecret("late", "networkData", "links: []")},
		"login of a registry": {func(h *v1alpha1.BareMetalHost) {
			h.Spec.Image.URL, h.Spec.Image.OCIAuthSecretName = "oci://registry/os", &pull
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", func(h *v1alpha1.BareMetalHost) { withImage(h); tt.change(h) })
			l.fails("web", v1alpha1.ErrorProvisioning) // which lets the pause after that pass
			l.pass("web")
			l.pass("web")
			if n := l.host("web").Status.ErrorCount; n != 2 {
				t.Errorf("%d failures after one more pass in the pause, want 2", n)
			}
			if tt.secret == nil {
				tt.secret = dataSecret("late", corev1.DockerConfigJsonKey, `{"auths":{"registry":{"auth":"dTpw"}}}`)
				tt.secret.Type = corev1.SecretTypeDockerConfigJson
			}
			broken := tt.secret.DeepCopy()
			broken.Data = map[string][]byte{"other": nil}
			l.create(broken)
			l.pass("web")
			if h := l.host("web"); h.Status.ErrorCount != 3 {
				t.Errorf("%d failures with the Secret incomplete, want 3: %s", h.Status.ErrorCount, h.Status.ErrorMessage)
			}
			tt.secret.ResourceVersion = broken.ResourceVersion
			if err := l.api.Update(t.Context(), tt.secret); err != nil {
				t.Fatal(err)
			}
			l.pass("web")
			if asked := l.effects("web"); asked[len(asked)-1] != "deploy" {
				t.Errorf("asked of the machine: %q, want a deployment at last", asked)
			}
			l.rests("web", v1alpha1.StateProvisioned)
		})
	}
}

func TestOtherUserDataDoesNothingToAHostInUse(t *testing.T) {
	l := newLife(t, nil)
	l.changeData("user", "first")
	l.add("web", func(h *v1alpha1.BareMetalHost) { withImage(h); h.Spec.UserData = secretNamed("user") })
	h := l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))
	l.changeData("user", "second")
	l.pass("web")
	l.does("web", before)
	if now := l.host("web"); now.ResourceVersion != h.ResourceVersion {
		t.Errorf("the host was written: %+v", now.Status)
	}
}

func TestRecordsOfEarlierVersionsAreThoseOfHostsWithoutSecrets(t *testing.T) {
	s := newScope(testHost(nil), testNow, 0)
	s.credentialsVersion = "7"
	for name := range errorOf {
		record := v1alpha1.OperationStatus{Name: name, Generation: s.host.Generation, Inputs: fingerprint(map[string]string(nil), "7")}
		if s.hasOtherInputs(record) {
			t.Errorf("%s: the record of an earlier version counts as one with other inputs", name)
		}
	}
	plain := s.inputs(v1alpha1.OperationRegister)
	s.dataVersions = map[string]string{"user": "0"}
	if s.inputs(v1alpha1.OperationRegister) != plain || s.inputs(v1alpha1.OperationProvision) == plain {
		t.Error("Secrets with what is deployed matter to a deployment alone")
	}
}
