package host

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// withoutNetwork brings a host that has a network configuration for its ramdisk into a state, and
// then deletes the Secret with that configuration.
func (l *life) withoutNetwork(state v1alpha1.ProvisioningState, change func(*v1alpha1.BareMetalHost)) {
	l.Helper()
	l.create(dataSecret("net", "networkData", "links: []"))
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.PreprovisioningNetworkDataName = "net"
		change(h)
	})
	l.rests("web", state)
	l.remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "net"}})
}

func TestHostInUseNeedsNoNetworkOfItsRamdisk(t *testing.T) {
	for state, change := range map[v1alpha1.ProvisioningState]func(*v1alpha1.BareMetalHost){
		v1alpha1.StateProvisioned:           withImage,
		v1alpha1.StateExternallyProvisioned: func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true },
	} {
		t.Run(string(state), func(t *testing.T) {
			l := newLife(t, nil)
			l.withoutNetwork(state, change)
			before := len(l.effects("web"))
			l.annotate("web", v1alpha1.RebootAnnotation, "")
			l.until("web", "restarted", func(h *v1alpha1.BareMetalHost) bool {
				_, asks := h.Annotations[v1alpha1.RebootAnnotation]
				return !asks && h.Status.PoweredOn
			})
			if h := l.rests("web", state); h.Status.ErrorType != "" {
				t.Errorf("error %q %s, want none", h.Status.ErrorType, h.Status.ErrorMessage)
			}
			l.does("web", before, "soft power off", "power on")
		})
	}
}

func TestOtherImageIsDeployedWhenTheNetworkOfTheRamdiskIsThere(t *testing.T) {
	l := newLife(t, nil)
	l.withoutNetwork(v1alpha1.StateProvisioned, func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeDisabled
	})
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("b") })
	l.rests("web", v1alpha1.StateProvisioning)
	l.does("web", before, "undeploy") // without cleaning, which nothing boots the ramdisk for
	says := l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason).Message
	if !strings.Contains(says, "Secret net does not exist") {
		t.Errorf("the host says %q, want what is missing", says)
	}
	for _, e := range l.engine.Effects(provisioner.NodeName("metal", "web")) {
		if r, ok := e.Request.(provisioner.Registration); ok && e.Verb == demo.VerbUpdate && string(r.NetworkData) != `{"links":[]}` {
			t.Errorf("the node was given the network %q, want that of before kept", r.NetworkData)
		}
	}
	l.create(dataSecret("net", "networkData", "links: []"))
	l.rests("web", v1alpha1.StateProvisioned)
}
