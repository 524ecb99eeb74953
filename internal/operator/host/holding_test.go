package host

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestOnlyAHostInASteadyStateIsPoweredOffByAPassThatDidNotSteerIt(t *testing.T) {
	held := powerRequests{online: true, holds: map[string]string{testHold: "1"}}
	for name, tt := range map[string]struct {
		requests powerRequests
		before   func(*v1alpha1.BareMetalHost)
		then     func(*scope)
		want     bool
	}{
		"held":                           {requests: held, want: true},
		"not online":                     {want: true},
		"to be on":                       {requests: powerRequests{online: true}},
		"one cycle":                      {requests: powerRequests{online: true, cycle: true}},
		"never to be off":                {requests: powerRequests{online: true, neverOff: true, holds: held.holds}},
		"available":                      {requests: held, before: in(v1alpha1.StateAvailable), want: true},
		"ready, as older versions say":   {requests: held, before: in(v1alpha1.StateReady), want: true},
		"externally provisioned":         {requests: held, before: in(v1alpha1.StateExternallyProvisioned), want: true},
		"being registered":               {requests: held, before: in(v1alpha1.StateRegistering)},
		"being inspected":                {requests: held, before: in(v1alpha1.StateInspecting)},
		"being prepared":                 {requests: held, before: in(v1alpha1.StatePreparing)},
		"being deployed":                 {requests: held, before: in(v1alpha1.StateProvisioning)},
		"being cleaned":                  {requests: held, before: in(v1alpha1.StateDeprovisioning)},
		"about to be powered off anyway": {requests: held, before: in(v1alpha1.StatePoweringOffBeforeDelete)},
		"without a BMC":                  {requests: held, before: func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }},
		"with credentials that never worked": {requests: held, before: func(h *v1alpha1.BareMetalHost) {
			h.Status.GoodCredentials = v1alpha1.CredentialsStatus{}
		}},
		"without a node":                  {requests: held, before: func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.ID = "" }},
		"to be detached":                  {requests: held, before: func(h *v1alpha1.BareMetalHost) { detached("")(h) }},
		"whose power the pass steered":    {requests: held, then: func(s *scope) { s.steered = true }},
		"that the pass only claimed":      {requests: held, then: func(s *scope) { s.claimed = true }},
		"that the pass moved":             {requests: held, then: func(s *scope) { s.moveTo(v1alpha1.StateExternallyProvisioned) }},
		"that the pass gave a node":       {requests: held, then: func(s *scope) { s.host.Status.Provisioning.ID = "n2" }},
		"with a live update":              {requests: held, before: serviced, then: func(s *scope) { s.node = &provisioner.Node{} }},
		"with one that was not looked at": {requests: held, before: serviced, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
				h.Spec.BMC.Address = testAddress
				h.Status.Provisioning = v1alpha1.ProvisionStatus{ID: "n1", State: v1alpha1.StateProvisioned}
				h.Status.GoodCredentials.Reference = &corev1.SecretReference{Name: "web-bmc"}
				if tt.before != nil {
					tt.before(h)
				}
			}), testNow, 0)
			if tt.then != nil {
				tt.then(s)
			}
			if got := decideHolding(s, tt.requests); got != tt.want {
				t.Errorf("powered off: %t, want %t", got, tt.want)
			}
		})
	}
}

func in(state v1alpha1.ProvisioningState) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = state }
}

func serviced(h *v1alpha1.BareMetalHost) {
	h.Status.Updates.Service = v1alpha1.OperationStatus{Name: v1alpha1.OperationService, Request: askService}
}

// heldOff waits until the hold of a host is confirmed.
func (l *life) heldOff(name string) *v1alpha1.BareMetalHost {
	l.Helper()
	return l.until(name, "held off", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Status.PowerOffHolds) == 1 && h.Status.PowerOffHolds[0].ConfirmedAt != nil
	})
}

// spoiled are hosts whose registration cannot be kept up any more, because they have no usable
// Secret.
var spoiled = map[string]func(*v1alpha1.BareMetalHost){
	"no Secret":                 func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "none" },
	"a Secret without password": func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "half" },
	"no Secret named":           func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.CredentialsName = "" },
}

func TestHostIsHeldOffWithoutItsSecret(t *testing.T) {
	for name, spoil := range spoiled {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.withSecret("half", "")
			l.add("web", withImage)
			sound := l.rests("web", v1alpha1.StateProvisioned).Spec
			before := len(l.effects("web"))
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				spoil(h)
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, testHold, "1")
			})
			l.heldOff("web")
			h := l.fails("web", v1alpha1.ErrorRegistration)
			if h.Status.PoweredOn || h.Status.ErrorCount != 1 {
				t.Errorf("powered on %t after %d failures, want it off after one", h.Status.PoweredOn, h.Status.ErrorCount)
			}
			l.does("web", before, "soft power off")

			// The annotation goes and comes back, which is another hold.
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			l.until("web", "without a record", func(h *v1alpha1.BareMetalHost) bool { return len(h.Status.PowerOffHolds) == 0 })
			l.annotate("web", testHold, "1")
			l.heldOff("web")
			l.does("web", before, "soft power off", "soft power off")

			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec, h.Annotations = sound, nil })
			if h := l.powered("web", true); h.Status.ErrorType != "" {
				t.Errorf("error %q after its Secret is there", h.Status.ErrorMessage)
			}
			l.does("web", before, "soft power off", "soft power off", "power on")
		})
	}
}

func TestHostThatIsNotToBeOnlineIsPoweredOffWithoutItsSecret(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	before := len(l.effects("web"))
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online, h.Spec.BMC.CredentialsName = false, "none" })
	l.until("web", "off", func(h *v1alpha1.BareMetalHost) bool { return !h.Status.PoweredOn })
	l.fails("web", v1alpha1.ErrorRegistration)
	l.does("web", before, "soft power off")
}

func TestPowerOffThatFailsWithoutTheSecretIsTriedAgainAfterGrowingWaits(t *testing.T) {
	const name = "demo-power-error"
	l := newLife(t, nil)
	l.add(name, withImage)
	l.rests(name, v1alpha1.StateProvisioned)
	before := len(l.effects(name))
	l.edit(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.CredentialsName = "none"
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, testHold, "1")
	})
	h := l.until(name, "failed three times", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 3 })
	for _, part := range []string{"the power does not change", "Secret none"} {
		if !strings.Contains(h.Status.ErrorMessage, part) {
			t.Errorf("error %q, want one with %q", h.Status.ErrorMessage, part)
		}
	}
	if h.Status.ErrorType != v1alpha1.ErrorPowerManagement || h.Status.PowerOffHolds[0].ConfirmedAt != nil {
		t.Errorf("error %q, holds %+v; want the hold unconfirmed", h.Status.ErrorType, h.Status.PowerOffHolds)
	}
	l.does(name, before, "soft power off", "power off", "power off")
}

func TestHostThatWaitsForASlotIsHeldOffAndKeepsItsPlace(t *testing.T) {
	const other, second = "demo-inspecting-other", "demo-second"
	for name, tt := range map[string]struct {
		before  func(*v1alpha1.BareMetalHost)
		state   v1alpha1.ProvisioningState
		begin   func(*v1alpha1.BareMetalHost)
		request string
	}{
		"for its deployment": {nil, v1alpha1.StateAvailable, withImage, "deploy"},
		"for another image":  {withImage, v1alpha1.StateProvisioned, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("b") }, "undeploy"},
		"for a new inspection": {nil, v1alpha1.StateAvailable, func(h *v1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.InspectAnnotation, "")
		}, "inspect"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, func(c *Config) { c.Capacity = 1 })
			for i, host := range []string{"web", second} {
				l.add(host, overIPMI(i+1, tt.before))
				l.rests(host, tt.state)
			}
			l.inspects(other, 3)
			for _, host := range []string{"web", second} {
				l.edit(host, tt.begin)
				l.rests(host, tt.state)
			}
			since := l.host("web").Status.Operation.QueuedAt
			effects, asked := len(l.effects("web")), l.count("web", tt.request)
			l.annotate("web", testHold, "1")
			l.heldOff("web")
			h := l.rests("web", tt.state)
			if got := h.Status.Operation.QueuedAt; h.Status.PoweredOn || !got.Equal(since) {
				t.Errorf("powered on %t, queued at %v; want it off, and queued at %v still", h.Status.PoweredOn, got, since)
			}
			l.does("web", effects, "soft power off")

			l.free(other)
			if tt.state == v1alpha1.StateProvisioned {
				l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.QueuedReason)
				l.pass(second) // it asks first, but it came later
				if got := l.host(second).Status.Provisioning.State; got != tt.state {
					t.Errorf("%s went first, to state %q", second, got)
				}
				l.until("web", "at work", func(*v1alpha1.BareMetalHost) bool { return l.count("web", tt.request) == asked+1 })
				return
			}
			// Nothing begins on a free host that is held, and it keeps nobody from the slot.
			before := l.count(second, tt.request)
			l.rests("web", tt.state)
			l.until(second, "at work", func(*v1alpha1.BareMetalHost) bool { return l.count(second, tt.request) == before+1 })
			l.does("web", effects, "soft power off")
			l.until(second, "at rest without its slot", func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.Provisioning.State == v1alpha1.StateProvisioned || h.Status.Provisioning.State == v1alpha1.StateAvailable
			})
			l.edit("web", func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, testHold) })
			l.until("web", "at work", func(*v1alpha1.BareMetalHost) bool { return l.count("web", tt.request) == asked+1 })
		})
	}
}

func TestNothingBeginsOnAFreeHostThatIsHeldOff(t *testing.T) {
	for name, tt := range map[string]struct {
		begin   func(*v1alpha1.BareMetalHost)
		request string
	}{
		"a deployment": {withImage, "deploy"},
		"another inspection": {func(h *v1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.InspectAnnotation, "")
		}, "inspect"},
		"volumes": {func(h *v1alpha1.BareMetalHost) {
			h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
		}, "clean"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", nil)
			l.powered("web", true)
			l.rests("web", v1alpha1.StateAvailable)
			effects, asked := len(l.effects("web")), l.count("web", tt.request)
			l.edit("web", func(h *v1alpha1.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, testHold, "1")
				tt.begin(h)
			})
			l.heldOff("web")
			l.rests("web", v1alpha1.StateAvailable)
			l.does("web", effects, "soft power off")
			h := l.host("web")
			if got := conditionOf(h.Status.Conditions, v1alpha1.ProgressingCondition).Message; !strings.Contains(got, testHold) || !strings.Contains(got, "begins when") {
				t.Errorf("Progressing says %q, want who holds the host, and that what is asked for waits", got)
			}
			l.edit("web", func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, testHold) })
			l.until("web", "at work", func(*v1alpha1.BareMetalHost) bool { return l.count("web", tt.request) == asked+1 })
		})
	}
}

func TestHostWhoseImageWasGivenUpIsHeldOff(t *testing.T) {
	const name = "demo-provisioning-error"
	l := newLife(t, func(c *Config) { c.MaxProvisioningFailures = 1 })
	l.add(name, withImage)
	given := func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateAvailable && strings.Contains(h.Status.ErrorMessage, "given up")
	}
	l.until(name, "given up", given)
	l.annotate(name, testHold, "1")
	l.heldOff(name)
	if h := l.rests(name, v1alpha1.StateAvailable); !given(h) {
		t.Errorf("error %q, want the one of the image", h.Status.ErrorMessage)
	}
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	if h := l.powered(name, true); !given(h) {
		t.Errorf("error %q, want the one of the image", h.Status.ErrorMessage)
	}
}

func TestNodeThatIsNotTheHostsIsNotPoweredOffWithoutTheSecret(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))
	l.node("web", func(n *provisioner.Node) { n.Mark, n.State = provisioner.MarkOf("c2", "metal", "web"), node.Active })
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.CredentialsName = "none"
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, testHold, "1")
	})
	l.fails("web", v1alpha1.ErrorRegistration)
	l.does("web", before)
}
