package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// otherAddress is the BMC of the machine "db", which only the engine knows.
const otherAddress = "redfish-virtualmedia://192.0.2.77/redfish/v1/Systems/db"

func (l *life) loses(name string) {
	l.Helper()
	n := l.nodeOf(name)
	if err := l.engine.Delete(l.Context(), n.ID, n.Mark); err != nil {
		l.Fatal(err)
	}
}

func (l *life) detach(name string) {
	l.Helper()
	l.annotate(name, v1alpha1.DetachedAnnotation, "")
	l.until(name, "detached", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
	})
}

// status changes the status of a host, as an earlier version may have left it.
func (l *life) status(name string, change func(*v1alpha1.BareMetalHostStatus)) {
	l.Helper()
	h := l.host(name)
	before := h.DeepCopy()
	change(&h.Status)
	if err := l.api.Status().Patch(l.Context(), h, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
}

// TestHostDoesNotGetADiscoveredMachineForItsOwn changes the BMC address of a host to that of a
// discovered machine without a host. The new BMC belongs to the machine of that node, but not to
// the host's.
func TestHostDoesNotGetADiscoveredMachineForItsOwn(t *testing.T) {
	for name, change := range map[string]func(l *life, other string){
		"found by the BMC": func(l *life, _ string) { l.detach("web") },
		"of a host without record of its BMC": func(l *life, _ string) {
			l.detach("web")
			l.status("web", func(s *v1alpha1.BareMetalHostStatus) { s.GoodBMC = "" })
		},
		"of such a host, after the engine lost the node": func(l *life, _ string) {
			l.loses("web")
			l.status("web", func(s *v1alpha1.BareMetalHostStatus) { s.GoodBMC = "" })
		},
		"found by a MAC address": func(l *life, _ string) {
			l.detach("web")
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				h.Spec.BootMACAddress = demo.SampleInventory("db").Hardware.Interfaces[0].MACAddress
			})
		},
		"after the engine lost the node": func(l *life, _ string) { l.loses("web") },
		"linked already": func(l *life, other string) {
			l.loses("web")
			l.status("web", func(s *v1alpha1.BareMetalHostStatus) { s.Provisioning.ID = other })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			other := l.discovers("db", "192.0.2.77", "", nil)
			change(l, other)
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				delete(h.Annotations, v1alpha1.DetachedAnnotation)
				h.Spec.BMC.Address = otherAddress
			})
			l.fails("web", v1alpha1.ErrorRegistration)
			for range 5 {
				l.now = l.now.Add(l.pass("web"))
			}
			l.says("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason)
			n, err := l.engine.Node(t.Context(), other)
			if err != nil || n.Driver != "demo" || n.Mark != "" && name != "linked already" {
				t.Errorf("the node of the other machine is %+v, %v; want it without the BMC and untouched", n, err)
			}
			if got := l.bmcOf("web"); got == otherAddress {
				t.Error("a node of the host has the BMC of the other machine")
			}
		})
	}
}

// TestCredentialsWorkOnlyForABMCThatTheNodeHas ends a registration in a pass that could not update
// the node.
func TestCredentialsWorkOnlyForABMCThatTheNodeHas(t *testing.T) {
	l := newLife(t, nil)
	s := newScope(testHost(nil), testNow, 0)
	s.credentials = &secretContents{status: v1alpha1.CredentialsStatus{Reference: &corev1.SecretReference{Name: "web-bmc"}, Version: "1"}}
	p := registration{metrics: l.r.Metrics}
	p.accept(s)
	if good := s.host.Status.GoodCredentials.Reference; good != nil || s.host.Status.GoodBMC != "" {
		t.Errorf("good credentials %v for BMC %q, want none", good, s.host.Status.GoodBMC)
	}
	s.bmc = "192.0.2.9"
	p.accept(s)
	if good := s.host.Status.GoodCredentials.Reference; good == nil || s.host.Status.GoodBMC != s.bmc {
		t.Errorf("good credentials %v for BMC %q, want both", good, s.host.Status.GoodBMC)
	}
}

// TestDefinitionWithoutTheRecordOfTheBMCIsReported has an API server that drops status.goodBMC.
func TestDefinitionWithoutTheRecordOfTheBMCIsReported(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	old := interceptor.NewClient(l.api, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := c.SubResource(sub).Patch(ctx, obj, patch, options...); err != nil {
				return err
			}
			if h, ok := obj.(*v1alpha1.BareMetalHost); ok && h.Status.GoodBMC != "" {
				h.Status.GoodBMC = ""
				return c.Status().Update(ctx, h)
			}
			return nil
		},
	})
	l.r = newTestReconciler(t, old, l.engine, func() time.Time { return l.now }, nil)
	for range passes {
		res, err := l.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "metal", Name: "web"}})
		if errors.Is(err, errOldDefinition) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		l.now = l.now.Add(max(res.RequeueAfter, time.Second))
	}
	t.Errorf("status %+v, and nobody was told that goodBMC is not kept", l.host("web").Status)
}

// TestHostDoesNotGetTheBMCOfAnotherRegisteredHost has a BMC that does not tell which machine it
// belongs to.
func TestHostDoesNotGetTheBMCOfAnotherRegisteredHost(t *testing.T) {
	const address = "ipmi://192.0.2.20"
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.now = l.now.Add(time.Minute)
	l.add("db", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = address })
	l.rests("db", v1alpha1.StateAvailable)
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address, h.Spec.Image = address, nil })
	if h := l.fails("web", v1alpha1.ErrorRegistration); !strings.Contains(h.Status.ErrorMessage, "host metal/db has the same") {
		t.Errorf("error %q, want one that names the other host", h.Status.ErrorMessage)
	}
	if l.bmcOf("web") == address {
		t.Error("the node has the BMC of the other host")
	}
	l.does("web", before)
}

func TestDeletedHostIsCleanedAndPoweredOffThroughItsFormerBMC(t *testing.T) {
	for name, tt := range map[string]struct {
		add   func(*v1alpha1.BareMetalHost)
		state v1alpha1.ProvisioningState
		then  func(*life)
		want  []string
	}{
		"in use":                         {withImage, v1alpha1.StateProvisioned, func(*life) {}, []string{"undeploy", "delete"}},
		"free":                           {nil, v1alpha1.StateAvailable, func(*life) {}, []string{"power off", "delete"}},
		"in use, and lost by the engine": {withImage, v1alpha1.StateProvisioned, func(l *life) { l.loses("web") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", tt.add)
			l.rests("web", tt.state)
			l.address("web", testAddress+"db")
			l.fails("web", v1alpha1.ErrorRegistration)
			tt.then(l)
			before := len(l.effects("web"))
			l.remove(l.host("web"))
			l.gone("web")
			l.does("web", before, tt.want...)
			if l.bmcOf("web") == testAddress+"db" {
				t.Error("the node got the BMC of the other machine")
			}
		})
	}
}

func TestHostThatIsHeldOffIsPoweredOffAnewThroughAnotherBMC(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.annotate("web", testHold, "1")
	was := l.heldOff("web").Status.PowerOffHolds[0]
	l.rests("web", v1alpha1.StateProvisioned)
	l.now = l.now.Add(time.Minute)
	before := len(l.effects("web"))
	l.address("web", movedAddress)
	l.until("web", "known at the new address", func(*v1alpha1.BareMetalHost) bool { return l.bmcOf("web") == movedAddress })
	if now := l.heldOff("web").Status.PowerOffHolds[0]; !was.ConfirmedAt.Before(&now.RequestedAt) {
		t.Errorf("hold %+v is that from before the BMC changed: %+v", now, was)
	}
	l.does("web", before, "soft power off")
}

func TestBusyNodeDoesNotHideThatTheBMCIsAnotherMachines(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))
	l.node("web", func(n *provisioner.Node) { n.Busy = true })
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address, h.Spec.Image = testAddress+"db", nil })
	for range 3 {
		l.now = l.now.Add(l.pass("web"))
	}
	if state := l.host("web").Status.Provisioning.State; state != v1alpha1.StateProvisioned {
		t.Errorf("the host is %s before its BMC was looked at", state)
	}
	l.node("web", func(n *provisioner.Node) { n.Busy = false })
	l.fails("web", v1alpha1.ErrorRegistration)
	l.says("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason)
	l.does("web", before)
}

func TestBMCOfAnotherMachineIsNotAskedAgainWhileTheHostsOwnIsPoweredOff(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	asked := 0
	l.r = newTestReconciler(t, l.api, observer{l.engine, func(verb string) {
		if verb == "identify" {
			asked++
		}
	}}, func() time.Time { return l.now }, nil)
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, testHold, "1")
		h.Spec.BMC.Address = testAddress + "db"
	})
	l.heldOff("web")
	if h := l.fails("web", v1alpha1.ErrorRegistration); asked != 1 {
		t.Errorf("the BMC was asked %d times until %s, want once", asked, h.Status.ErrorMessage)
	}
	l.says("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason)
}

func TestHostIsHeldOffWhileItsOtherBMCWaitsForATurnToBeAsked(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	for _, guard := range l.r.guards {
		if register, ok := guard.(registration); ok {
			register.identity.turns.all = identifyAll
		}
	}
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, testHold, "1")
		h.Spec.BMC.Address = movedAddress
	})
	l.heldOff("web")
	l.does("web", before, "soft power off")
	if l.bmcOf("web") == movedAddress {
		t.Error("the node has a BMC that was not asked")
	}
}

func TestHostInUseGetsReplacedHardwareWhenInspectionIsDisabled(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.detach("web")
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.Address, h.Spec.InspectionMode = otherAddress, v1alpha1.InspectionModeDisabled
	})
	l.edit("web", func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.DetachedAnnotation) })
	l.until("web", "registered", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.ID != "" })
	l.rests("web", v1alpha1.StateProvisioned)
	l.says("web", v1alpha1.IdentityVerifiedCondition, metav1.ConditionUnknown, v1alpha1.IdentityUnverifiedReason)
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "" })
	if h := l.rests("web", v1alpha1.StateProvisioned); h.Status.ErrorType != "" || l.bmcOf("web") != otherAddress {
		t.Errorf("error %q with the BMC %s, want none and the new one", h.Status.ErrorMessage, l.bmcOf("web"))
	}
	l.does("web", before, "create", "manage", "adopt")
}
