package host

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// movedAddress is another address of the machine of the host "web".
const movedAddress = "redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/web"

// bmcOf is the address of the BMC that the node of a host was given last.
func (l *life) bmcOf(name string) string {
	l.Helper()
	for _, e := range slices.Backward(l.engine.Effects(provisioner.NodeName("metal", name))) {
		if r, ok := e.Request.(provisioner.Registration); ok && r.Access != nil {
			return r.Access.Address
		}
	}
	return ""
}

func (l *life) address(name, address string) {
	l.Helper()
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = address })
}

// TestHostDoesNotGetTheBMCOfAnotherMachine changes the BMC address of a host where no webhook
// refuses that. Meanwhile somebody asks for what would switch the other machine off, or wipe it.
func TestHostDoesNotGetTheBMCOfAnotherMachine(t *testing.T) {
	for state, add := range map[v1alpha1.ProvisioningState]func(*v1alpha1.BareMetalHost){
		v1alpha1.StateAvailable: nil, v1alpha1.StateProvisioned: withImage,
	} {
		for how, change := range map[string]func(*life){
			"in place": func(l *life) { l.address("web", testAddress+"db") },
			"after the operator was restarted": func(l *life) {
				l.address("web", testAddress+"db")
				l.restart()
			},
			"while it is detached": func(l *life) {
				l.annotate("web", v1alpha1.DetachedAnnotation, "")
				l.until("web", "detached", func(h *v1alpha1.BareMetalHost) bool {
					return h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
				})
				l.edit("web", func(h *v1alpha1.BareMetalHost) {
					delete(h.Annotations, v1alpha1.DetachedAnnotation)
					h.Spec.BMC.Address = testAddress + "db"
				})
			},
			"while the engine has no node": func(l *life) {
				n := l.nodeOf("web")
				if err := l.engine.Delete(l.Context(), n.ID, n.Mark); err != nil {
					l.Fatal(err)
				}
				l.address("web", testAddress+"db")
			},
		} {
			t.Run(stateNameOf(state)+" "+how, func(t *testing.T) {
				l := newLife(t, nil)
				l.add("web", add)
				l.rests("web", state)
				change(l)
				done := len(l.effects("web"))
				l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online, h.Spec.Image = false, nil })
				h := l.fails("web", v1alpha1.ErrorRegistration)
				for range 5 {
					l.now = l.now.Add(l.pass("web"))
				}
				if c := l.says("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason); !strings.Contains(c.Message, "serial number") {
					t.Errorf("%q does not tell what differs", c.Message)
				}
				if got := l.bmcOf("web"); got == testAddress+"db" || h.Status.Provisioning.State != state {
					t.Errorf("the node has the BMC %s and the host is %s; want its own, and %s", got, h.Status.Provisioning.State, state)
				}
				for _, effect := range l.effects("web")[done:] { // through the BMC that the node has, its own
					if effect != "soft power off" {
						t.Errorf("%s was asked for", effect)
					}
				}

				l.address("web", testAddress+"web")
				l.until("web", "without error", func(h *v1alpha1.BareMetalHost) bool {
					return h.Status.ErrorType == v1alpha1.ErrorNone && h.SupportsPowerControl()
				})
				l.until("web", "off", func(h *v1alpha1.BareMetalHost) bool { return !h.Status.PoweredOn })
			})
		}
	}
}

func TestHostGetsAnotherAddressOfItsOwnMachine(t *testing.T) {
	external := func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	for name, tt := range map[string]struct {
		add     func(*v1alpha1.BareMetalHost)
		address string
		state   v1alpha1.ProvisioningState
		status  metav1.ConditionStatus
		reason  string
	}{
		"the same machine":         {withImage, movedAddress, v1alpha1.StateProvisioned, metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason},
		"a BMC that tells nothing": {withImage, "ipmi://192.0.2.10", v1alpha1.StateProvisioned, metav1.ConditionUnknown, v1alpha1.IdentityUnverifiedReason},
		"nothing was ever found":   {external, movedAddress, v1alpha1.StateExternallyProvisioned, metav1.ConditionUnknown, v1alpha1.IdentityUnverifiedReason},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", tt.add)
			l.rests("web", tt.state)
			before := len(l.effects("web"))
			l.address("web", tt.address)
			l.until("web", "known at the new address", func(*v1alpha1.BareMetalHost) bool { return l.bmcOf("web") == tt.address })
			l.rests("web", tt.state)
			l.says("web", v1alpha1.IdentityVerifiedCondition, tt.status, tt.reason)
			l.does("web", before)
		})
	}
}

func TestAnotherSpellingOfAnAddressIsNotCompared(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.r = newTestReconciler(t, l.api, observer{l.engine, func(verb string) {
		if verb == "identify" {
			t.Error("the BMC was asked which machine it belongs to")
		}
	}}, l.r.Now, func(c *Config) { c.Recorder = l.events })
	l.address("web", strings.Replace(testAddress, "192.0.2.9", "192.0.2.9:443", 1)+"web")
	l.rests("web", v1alpha1.StateProvisioned)
	if updated := slices.Contains(l.engine.Verbs(""), demo.VerbUpdate); !updated {
		t.Error("the node was not updated")
	}
}
