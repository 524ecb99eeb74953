package host

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// addBMC gives a BMC to a host that has none.
func (l *life) addBMC(name string) {
	l.Helper()
	l.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name + "-bmc"},
		Data:       map[string][]byte{"username": []byte("root"), "password": []byte("calvin")},
	})
	l.edit(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC = v1alpha1.BMCDetails{Address: testAddress + name, CredentialsName: name + "-bmc"}
	})
}

// TestBMCThatIsAddedKeepsTheNodeOfTheHostAndWhatGoesOn adds a BMC to a host in several situations:
// nothing is known of its machine, or the machine is inspected again, prepared, deployed, used by
// others, or waits to be booted for the removal of its deployment.
func TestBMCThatIsAddedKeepsTheNodeOfTheHostAndWhatGoesOn(t *testing.T) {
	external := func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	inspectAgain := func(l *life, name string) {
		l.rests(name, v1alpha1.StateAvailable)
		l.annotate(name, v1alpha1.InspectAnnotation, "")
	}
	waitsForBoot := func(l *life, name string) {
		l.rests(name, v1alpha1.StateProvisioned)
		l.silent(name, true)
		l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	}
	for from, tt := range map[v1alpha1.ProvisioningState]struct {
		host   string // its name, by which the demo engine behaves
		change func(*v1alpha1.BareMetalHost)
		reach  func(l *life, name string) // nil: the host comes into the state by itself
		end    node.State                 // of what never ends by itself in the demo engine; "" for no such work
		to     v1alpha1.ProvisioningState
		want   []demo.Verb // sent since the BMC was added
	}{
		v1alpha1.StateImporting: {
			"demo-importing", nil, nil, "", v1alpha1.StateAvailable, []demo.Verb{demo.VerbManage, demo.VerbInspect, demo.VerbProvide, demo.VerbPower},
		},
		v1alpha1.StateInspecting: {
			"demo-inspecting", nil, inspectAgain, node.Manageable, v1alpha1.StateAvailable, []demo.Verb{demo.VerbProvide, demo.VerbPower},
		},
		v1alpha1.StatePreparing:             {"demo-preparing", nil, nil, node.Available, v1alpha1.StateAvailable, nil},
		v1alpha1.StateProvisioning:          {"demo-provisioning", withImage, nil, node.Active, v1alpha1.StateProvisioned, nil},
		v1alpha1.StateExternallyProvisioned: {"web", external, nil, "", v1alpha1.StateExternallyProvisioned, []demo.Verb{demo.VerbManage, demo.VerbAdopt}},
		// The engine can boot the machine now.
		v1alpha1.StateDeprovisioning: {
			"web", withImage, waitsForBoot, "", v1alpha1.StateAvailable, []demo.Verb{demo.VerbAbort, demo.VerbManage, demo.VerbProvide, demo.VerbPower},
		},
	} {
		t.Run(stateNameOf(from), func(t *testing.T) {
			l := newLife(t, nil)
			if tt.host != "demo-preparing" && tt.host != "demo-importing" { // which the demo engine knows by their names
				l.boot(tt.host)
			}
			l.addPlain(tt.host, func(h *v1alpha1.BareMetalHost) {
				h.Spec.BootMACAddress = demo.SampleInventory(tt.host).Hardware.Interfaces[0].MACAddress
				if tt.change != nil {
					tt.change(h)
				}
			})
			if tt.reach != nil {
				tt.reach(l, tt.host)
			}
			before, sent := l.rests(tt.host, from), len(l.engine.Verbs(""))
			l.addBMC(tt.host)
			for range 5 {
				l.now = l.now.Add(l.pass(tt.host))
			}
			if tt.end != "" {
				if now := l.host(tt.host).Status.Provisioning.State; now != from {
					t.Errorf("the host is in state %q while the engine still works", now)
				}
				l.node(tt.host, func(n *provisioner.Node) { n.State, n.StateChangedAt = tt.end, l.now })
			}
			after := l.rests(tt.host, tt.to)
			known := before.Status.HardwareDetails
			if after.Status.ErrorType != "" || after.Status.Provisioning.ID != before.Status.Provisioning.ID || after.Status.HardwareDetails == nil ||
				known != nil && !equality.Semantic.DeepEqual(after.Status.HardwareDetails, known) {
				t.Errorf("the host became %+v, want the node and the hardware of %+v", after.Status, before.Status)
			}
			got := slices.DeleteFunc(l.verbs(sent), func(v demo.Verb) bool { return v == demo.VerbUpdate })
			if !slices.Equal(got, tt.want) {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
			if n, err := l.engine.Node(t.Context(), before.Status.Provisioning.ID); err != nil || n.Driver != "redfish" {
				t.Errorf("the node has the driver %q, %v; want that of the BMC", n.Driver, err)
			}
		})
	}
}

// TestHostWhoseNodeNeverGotItsBMCIsDeletedAsOneWithoutBMC adds a BMC without its Secret. Then it
// deletes the host in the states in which the engine would be asked to work on its machine.
func TestHostWhoseNodeNeverGotItsBMCIsDeletedAsOneWithoutBMC(t *testing.T) {
	for state, tt := range map[v1alpha1.ProvisioningState]struct {
		change func(*v1alpha1.BareMetalHost)
		reach  func(l *life)
		event  string // "" for a machine without data
	}{
		v1alpha1.StateAvailable:   {nil, nil, ""},
		v1alpha1.StateProvisioned: {withImage, nil, eventDeletedWithoutCleaning},
		v1alpha1.StateDeprovisioning: {withImage, func(l *life) {
			l.rests("web", v1alpha1.StateProvisioned)
			l.silent("web", true)
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
		}, eventDeletedWithoutCleaning},
	} {
		t.Run(stateNameOf(state), func(t *testing.T) {
			l := newLife(t, nil)
			l.boot("web")
			l.addPlain("web", func(h *v1alpha1.BareMetalHost) {
				h.Spec.BootMACAddress = demo.SampleInventory("web").Hardware.Interfaces[0].MACAddress
				if tt.change != nil {
					tt.change(h)
				}
			})
			if tt.reach != nil {
				tt.reach(l)
			}
			l.rests("web", state)
			l.silent("web", true)
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				h.Spec.BMC = v1alpha1.BMCDetails{Address: testAddress + "web", CredentialsName: "none"}
			})
			l.fails("web", v1alpha1.ErrorRegistration)
			before := len(l.engine.Verbs(""))
			l.remove(l.host("web"))
			l.gone("web")
			if got := l.verbs(before); !slices.Equal(got, []demo.Verb{demo.VerbDelete}) {
				t.Errorf("sent %q, want only that the node is deleted", got)
			}
			if tt.event != "" {
				l.tells(tt.event)
			}
		})
	}
}

func TestBMCThatIsAddedToADeletedHostKeepsNothingFromGoing(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-delete-error"
	l.addPlain(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress = demo.SampleInventory(name).Hardware.Interfaces[0].MACAddress
	})
	l.rests(name, v1alpha1.StateAvailable)
	before := len(l.effects(name))
	l.remove(l.host(name))
	l.fails(name, v1alpha1.ErrorRegistration)
	l.addBMC(name)
	l.gone(name)
	l.does(name, before)
	l.tells(eventDeleteGaveUp)
}
