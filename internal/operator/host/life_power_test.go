package host

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// powered waits until a host shows a power state and nothing changes any more.
func (l *life) powered(name string, on bool) *v1alpha1.BareMetalHost {
	l.Helper()
	l.until(name, "with the wanted power", func(h *v1alpha1.BareMetalHost) bool { return h.Status.PoweredOn == on })
	return l.rests(name, l.host(name).Status.Provisioning.State)
}

func TestPowerFollowsOnline(t *testing.T) {
	for name, off := range map[string][]string{
		"web": {"soft power off"}, "demo-no-soft-power": {"power off"},
	} {
		l := newLife(t, nil)
		l.add(name, withImage)
		l.rests(name, v1alpha1.StateProvisioned)
		before := len(l.effects(name))
		l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
		l.powered(name, false)
		l.does(name, before, off...)
		l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = true })
		l.powered(name, true)
		l.does(name, before, append(off, "power on")...)
		l.tells("PowerOff")
		l.tells("PowerOn")
	}
}

func TestSoftPowerOffHasADeadline(t *testing.T) {
	change, _ := powerChange(powerOff, false)
	want := provisioner.PowerChange{Action: provisioner.PowerActionSoftOff, Timeout: 3 * time.Minute}
	if change != want {
		t.Errorf("request %+v, want %+v", change, want)
	}
}

func TestFailedPowerOffIsShownAndTriedAgainHard(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-power-error"
	l.add(name, func(h *v1alpha1.BareMetalHost) {
		withImage(h)
	})
	l.rests(name, v1alpha1.StateProvisioned)
	before := len(l.effects(name))
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	h := l.until(name, "failed twice", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 2 })
	if h.Status.ErrorType != v1alpha1.ErrorPowerManagement || !h.Status.PoweredOn {
		t.Errorf("error %q, powered on %t", h.Status.ErrorType, h.Status.PoweredOn)
	}
	l.says(name, v1alpha1.ManageableCondition, metav1.ConditionFalse, v1alpha1.PowerFailureReason)
	l.does(name, before, "soft power off", "power off")
	l.node(name, func(n *provisioner.Node) { n.Power, n.LastError = node.PowerOff, "" })
	if h := l.powered(name, false); h.Status.ErrorType != "" || h.Status.ErrorCount != 0 {
		t.Errorf("error %q after the machine is off", h.Status.ErrorType)
	}
}

func TestRebootOfAMachineThatIsToBeOffIsDoneWhenItIsOff(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	l.rests("web", v1alpha1.StateAvailable)
	before := len(l.effects("web"))
	l.annotate("web", v1alpha1.RebootAnnotation, "")
	if h := l.rests("web", v1alpha1.StateAvailable); len(h.Annotations) != 0 {
		t.Errorf("annotations %v", h.Annotations)
	}
	l.does("web", before)
}

func TestModeOfARebootIsHardWhenAnyoneAsksForThat(t *testing.T) {
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        []string
		warned      bool
	}{
		"soft":              {map[string]string{"reboot.metal3.io": ""}, []string{"soft power off", "power on"}, false},
		"hard":              {map[string]string{"reboot.metal3.io": `{"mode":"hard"}`}, []string{"power off", "power on"}, false},
		"no JSON":           {map[string]string{"reboot.metal3.io": "now"}, []string{"soft power off", "power on"}, true},
		"a hold and a mode": {map[string]string{"reboot.metal3.io/a": "", "reboot.metal3.io/b": `{"mode":"hard"}`}, []string{"power off"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			before := len(l.effects("web"))
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = tt.annotations })
			l.until("web", "rebooted", func(*v1alpha1.BareMetalHost) bool { return len(l.effects("web")) == before+len(tt.want) })
			l.rests("web", v1alpha1.StateProvisioned)
			l.does("web", before, tt.want...)
			if slices.Contains(l.events.reasons, "InvalidAnnotationValue") != tt.warned {
				t.Errorf("events %q", l.events.reasons)
			}
		})
	}
}

func TestInvalidHoldIsToldOfOnceForEachValue(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	told := func(want int) {
		t.Helper()
		l.rests("web", v1alpha1.StateProvisioned)
		got := 0
		for _, reason := range l.events.reasons {
			if reason == eventInvalidAnnotationValue {
				got++
			}
		}
		if got != want {
			t.Errorf("%d events, want %d", got, want)
		}
	}
	l.annotate("web", testHold, "now")
	told(1)
	for range 10 {
		l.now = l.now.Add(time.Hour)
		l.pass("web")
	}
	l.restart()
	l.engine.SetDown("no route")
	l.pass("web")
	l.engine.SetDown("")
	told(1)
	l.annotate("web", v1alpha1.RebootAnnotationPrefix+"other", "http://root:secret@192.0.2.1/\n"+strings.Repeat("x", 1000))
	told(2)
	l.annotate("web", testHold, "at once")
	told(3)
	if c := l.says("web", v1alpha1.PowerManagementSupportedCondition, metav1.ConditionTrue, v1alpha1.PowerSupportedReason); !strings.Contains(c.Message, testHold) {
		t.Errorf("the condition says %q, and not which annotation is invalid", c.Message)
	}
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	l.rests("web", v1alpha1.StateProvisioned)
	l.annotate("web", testHold, "at once")
	told(4)
}

func TestMachineThatMustNotBeOffIsRestartedAndNeverHeld(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.DisablePowerOff = true
	})
	l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))
	l.annotate("web", v1alpha1.RebootAnnotation, "")
	l.until("web", "restarted", func(h *v1alpha1.BareMetalHost) bool { return len(h.Annotations) == 0 })
	l.does("web", before, "soft rebooting")

	const hold = v1alpha1.RebootAnnotationPrefix + "fence"
	l.annotate("web", hold, `{"mode":"hard"}`)
	h := l.rests("web", v1alpha1.StateProvisioned)
	l.does("web", before, "soft rebooting")
	if _, there := h.Annotations[hold]; !there || len(h.Status.PowerOffHolds) > 0 || !h.Status.PoweredOn {
		t.Errorf("annotations %v, holds %v; want the hold of somebody else without effect", h.Annotations, h.Status.PowerOffHolds)
	}
	c := l.says("web", v1alpha1.PowerManagementSupportedCondition, metav1.ConditionFalse, v1alpha1.PowerOffDisabledReason)
	if !strings.Contains(c.Message, hold) {
		t.Errorf("message %q, want one that names %s", c.Message, hold)
	}
	told := 0
	for _, reason := range l.events.reasons {
		if reason == "RebootHoldUnsupported" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the hold was told of %d times", told)
	}

	before = len(l.effects("web"))
	l.remove(l.host("web"))
	l.gone("web")
	l.does("web", before, "undeploy", "delete")
}

func TestRequestToRebootIsFulfilledByWorkThatRestartsTheMachine(t *testing.T) {
	l := newLife(t, nil)
	const hold = v1alpha1.RebootAnnotationPrefix + "fence"
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		from   v1alpha1.ProvisioningState
		start  func(*v1alpha1.BareMetalHost)
		to     v1alpha1.ProvisioningState
	}{
		"demo-provisioning":   {nil, v1alpha1.StateAvailable, withImage, v1alpha1.StateProvisioning},
		"demo-deprovisioning": {withImage, v1alpha1.StateProvisioned, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }, v1alpha1.StateDeprovisioning},
		"demo-inspecting": {
			func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = v1alpha1.InspectionModeDisabled }, v1alpha1.StateAvailable,
			func(h *v1alpha1.BareMetalHost) {
				h.Spec.InspectionMode = v1alpha1.InspectionModeAgent
				h.Annotations[v1alpha1.InspectAnnotation] = ""
			}, v1alpha1.StateInspecting,
		},
	} {
		l.add(name, tt.change)
		l.rests(name, tt.from)
		l.edit(name, func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.RebootAnnotation: ""}
			if tt.from == v1alpha1.StateProvisioned { // nothing begins on a free host that is held
				h.Annotations[hold] = ""
			}
			tt.start(h)
		})
		h := l.rests(name, tt.to)
		if _, there := h.Annotations[v1alpha1.RebootAnnotation]; there {
			t.Errorf("%s: the request for one cycle is still there", name)
		}
		if _, there := h.Annotations[hold]; !there && tt.from == v1alpha1.StateProvisioned {
			t.Errorf("%s: the hold of somebody else was removed", name)
		}
	}
}

func TestDeploymentIsInterruptedOnlyByAForcedReboot(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-provisioning"
	l.add(name, withImage)
	l.rests(name, v1alpha1.StateProvisioning)
	l.annotate(name, v1alpha1.RebootAnnotation, `{"mode":"hard"}`)
	l.rests(name, v1alpha1.StateProvisioning)
	if got := l.count(name, "deploy"); got != 1 || l.count(name, "undeploy") != 0 {
		t.Errorf("asked of the machine: %q", l.effects(name))
	}
	l.annotate(name, v1alpha1.RebootAnnotation, `{"force":true}`)
	l.until(name, "deployed again", func(*v1alpha1.BareMetalHost) bool { return l.count(name, "deploy") == 2 })
	h := l.rests(name, v1alpha1.StateProvisioning)
	if l.count(name, "undeploy") != 1 || len(h.Annotations) != 0 || h.Status.ProvisioningFailCount != 0 {
		t.Errorf("asked %q, annotations %v, %d failures", l.effects(name), h.Annotations, h.Status.ProvisioningFailCount)
	}
}

func TestPowerIsShownWhileTheEngineWorks(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.BareMetalHost){"demo-inspecting": nil, "demo-preparing": nil, "demo-provisioning": withImage} {
		l := newLife(t, nil)
		l.add(name, change)
		state := map[string]v1alpha1.ProvisioningState{
			"demo-inspecting": v1alpha1.StateInspecting, "demo-preparing": v1alpha1.StatePreparing, "demo-provisioning": v1alpha1.StateProvisioning,
		}[name]
		l.rests(name, state)
		before := len(l.effects(name))
		for _, power := range []node.PowerState{node.PowerOn, node.PowerOff} {
			l.node(name, func(n *provisioner.Node) { n.Power = power })
			l.pass(name)
			if h := l.host(name); h.Status.PoweredOn != (power == node.PowerOn) {
				t.Errorf("%s: powered on %t while the engine reads %q", name, h.Status.PoweredOn, power)
			}
		}
		l.does(name, before) // nobody steers the power meanwhile
	}
}

// testHold keeps a host off.
const testHold = v1alpha1.RebootAnnotationPrefix + "fence"

// behind is a client whose cache has an old version of a host.
func behind(api client.WithWatch, old *v1alpha1.BareMetalHost) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if h, isHost := obj.(*v1alpha1.BareMetalHost); isHost {
				old.DeepCopyInto(h)
				return nil
			}
			return api.Get(ctx, key, obj, opts...)
		},
	})
}

func TestMachineIsNotPoweredOnFromACacheOlderThanItsHold(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	old := l.rests("web", v1alpha1.StateProvisioned)
	l.annotate("web", testHold, "1")
	l.powered("web", false)
	before := len(l.effects("web"))
	l.change = func(c *Config) { c.Client = behind(l.api, old) } // another leader
	l.restart()
	for range 3 {
		l.pass("web")
	}
	l.does("web", before)
	l.change = nil
	l.restart()
	if h := l.rests("web", v1alpha1.StateProvisioned); len(h.Status.PowerOffHolds) != 1 || h.Status.PowerOffHolds[0].ConfirmedAt == nil {
		t.Errorf("holds %+v, want the confirmed one kept", h.Status.PowerOffHolds)
	}
}

func TestHoldIsConfirmedAlsoAfterAPowerOffThatFailedLate(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))
	l.annotate("web", testHold, "1")
	l.until("web", "asked", func(h *v1alpha1.BareMetalHost) bool { return len(h.Status.PowerOffHolds) == 1 })
	l.node("web", func(n *provisioner.Node) {
		n.Power, n.TargetPower, n.Busy, n.LastError = node.PowerOff, "", false, "the machine was not off within 3m0s"
	})
	l.until("web", "confirmed off", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Status.PowerOffHolds) == 1 && h.Status.PowerOffHolds[0].ConfirmedAt != nil
	})
	l.does("web", before, "soft power off", "power off")
}

func TestMachineThatIsOnIsNotConfirmedOffWhateverIsDoneToItsNode(t *testing.T) {
	for _, state := range []node.State{node.Servicing, node.AdoptFailed, node.Rescuing} {
		t.Run(string(state), func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			l.annotate("web", testHold, "1")
			l.powered("web", false)
			l.node("web", func(n *provisioner.Node) {
				n.State, n.Power, n.StateChangedAt = state, node.PowerOn, l.now
				n.Maintenance, n.MaintenanceReason = state == node.AdoptFailed, "a person"
			})
			h := l.until("web", "seen on", func(h *v1alpha1.BareMetalHost) bool { return h.Status.PoweredOn })
			for _, hold := range h.Status.PowerOffHolds {
				if hold.ConfirmedAt != nil {
					t.Errorf("hold %+v, want it not confirmed while the machine is on", hold)
				}
			}
		})
	}
}
