package operator_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// pullSecret creates the login of a registry.
func (b *bench) pullSecret(name, config string) *corev1.Secret {
	b.Helper()
	s := &corev1.Secret{
		ObjectMeta: b.meta(name), Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: config},
	}
	b.create(s)
	return s
}

// pulls gives a host an image of a registry that needs a login.
func pulls(secret string) func(h *v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.Image = &v1alpha1.Image{URL: "oci://registry.example.org/team/os:1", OCIAuthSecretName: &secret}
	}
}

func TestImageOfARegistryIsDeployedWithTheLoginOfItsSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.pullSecret("pull", `{"auths":{"registry.example.org":{"auth":"dTpw"}}}`)
	b.bmcHost("web", pulls("pull"))
	b.inState("web", v1alpha1.StateProvisioned)
	for _, e := range b.engine.Effects(provisioner.NodeName(b.namespace, "web")) {
		if d, ok := e.Request.(provisioner.Deployment); ok {
			if d.ImagePullSecret != "dTpw" {
				t.Errorf("the engine got the login %q, want dTpw", d.ImagePullSecret)
			}
			return
		}
	}
	t.Error("nothing was deployed")
}

func TestSecretWithoutALoginForTheRegistryStopsTheDeploymentUntilItIsMended(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	secret := b.pullSecret("pull", `{"auths":{"other.example.org":{"auth":"dTpw"}}}`)
	h := b.bmcHost("web", pulls("pull"))
	b.hasEvent("web", "ImageAuthParseError")
	b.eventually("error that names the Secret", func() string {
		got := b.host("web").Status
		if got.ErrorType != v1alpha1.ErrorProvisioning || !strings.Contains(got.ErrorMessage, "Secret pull has no entry for the registry registry.example.org") {
			return string(got.ErrorType) + ": " + got.ErrorMessage
		}
		return ""
	})
	if n := b.count("web", "deploy"); n != 0 {
		t.Errorf("%d deployments without the login", n)
	}
	b.update(secret, func() {
		secret.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{"registry.example.org":{"auth":"dTpw"}}}`)
	})
	b.update(h, func() { h.Annotations = map[string]string{"note": "mended"} })
	b.inState("web", v1alpha1.StateProvisioned)
}

func TestRebuildDeploysTheSameImageAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	b.inState("web", v1alpha1.StateProvisioned)
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.RebuildAnnotation: ""} })
	b.eventually("second deployment", func() string {
		h := b.host("web")
		if b.count("web", "deploy") != 2 || h.Status.Provisioning.State != v1alpha1.StateProvisioned {
			return string(h.Status.Provisioning.State)
		}
		return ""
	})
	if _, there := b.host("web").Annotations[v1alpha1.RebuildAnnotation]; there || b.count("web", "undeploy") != 1 {
		t.Errorf("asked of the machine: %q, annotations %v", b.asked("web"), b.host("web").Annotations)
	}
	b.hasEvent("web", "RebuildStarted")
}

func TestHealthOfTheHardwareIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", nil)
	id := b.poweredOn("web").Status.Provisioning.ID
	b.engine.Change(id, func(n *provisioner.Node) { n.Health = "Critical" })
	b.update(h, func() { h.Annotations = map[string]string{"note": "look"} })
	b.hasCondition("web", v1alpha1.HealthyCondition, metav1.ConditionFalse, v1alpha1.HealthCriticalReason)
}

func TestImageOfTheEnginesOwnMachineIsNotDeployed(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("metadata", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("http://169.254.169.254/latest/meta-data") })
	b.eventually("the reason why nothing is deployed", func() string {
		h := b.host("metadata")
		if h.Status.ErrorType == v1alpha1.ErrorProvisioning && strings.Contains(h.Status.ErrorMessage, "169.254.169.254 may be the engine's own machine") {
			return ""
		}
		return fmt.Sprintf("state %q, error %q %s", h.Status.Provisioning.State, h.Status.ErrorType, h.Status.ErrorMessage)
	})
	if n := b.count("metadata", "deploy"); n != 0 {
		t.Errorf("the engine was asked for %d deployments, want none", n)
	}
}
