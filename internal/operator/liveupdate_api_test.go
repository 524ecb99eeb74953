package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func TestRebootAppliesWhatThePolicyAllows(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	const bios, flash = "bios.apply_configuration", "firmware.update"
	for name, tt := range map[string]struct {
		policy v1alpha1.HostUpdatePolicySpec
		want   []string
	}{
		"both":       {onReboot, []string{bios, flash}},
		"settings":   {v1alpha1.HostUpdatePolicySpec{FirmwareSettings: v1alpha1.UpdateOnReboot, FirmwareUpdates: v1alpha1.UpdateOnPreparing}, []string{bios}},
		"components": {v1alpha1.HostUpdatePolicySpec{FirmwareUpdates: v1alpha1.UpdateOnReboot}, []string{flash}},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.with(t)
			h := b.inUse(name)
			b.policy(name, tt.policy)
			settings := b.settings(name, 9)
			components := b.firmware(name, "https://images/fw-9.bin")
			b.pending(name, v1alpha1.UpdateWaitingForRebootReason)
			before := len(b.asked(name))
			b.reboot(h)
			// The objects still say that the settings differ, as happens when they are read late.
			b.did(name, before, "soft power off", "service")
			if got := b.stepsOf(name, demo.VerbService); !slices.Equal(got, tt.want) {
				t.Errorf("steps %q, want %q", got, tt.want)
			}
			b.hasEvent(name, "ServicingStarted")
			b.hasEvent(name, "ServicingComplete")
			b.compare(settings, false)
			if slices.Contains(tt.want, flash) {
				if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(components), components); err != nil || !slices.Equal(components.Status.Updates, components.Spec.Updates) {
					t.Errorf("begun updates %v, %v; want those of the spec", components.Status.Updates, err)
				}
				b.compare(components, false)
			}
			b.isOK(name)
			b.reboot(h)
			b.did(name, before, "soft power off", "service", "soft power off", "power on")
		})
	}
}

func TestWithoutAPolicyAHostInUseIsOnlyRebooted(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	for name, prepare := range map[string]func(*bench){
		"no-objects": func(*bench) {},
		"no-policy":  func(b *bench) { b.settings("no-policy", 9) },
		"empty":      func(b *bench) { b.settings("empty", 9); b.policy("empty", v1alpha1.HostUpdatePolicySpec{}) },
		"onpreparing": func(b *bench) {
			b.firmware("onpreparing", "https://images/fw.bin")
			b.policy("onpreparing", v1alpha1.HostUpdatePolicySpec{FirmwareUpdates: v1alpha1.UpdateOnPreparing})
		},
		"no-change": func(b *bench) { b.compare(b.settings("no-change", 5), false); b.policy("no-change", onReboot) },
		"invalid":   func(b *bench) { b.judge(b.settings("invalid", 9), false, true); b.policy("invalid", onReboot) },
	} {
		t.Run(name, func(t *testing.T) {
			b := b.with(t)
			h := b.inUse(name)
			prepare(b)
			switch name {
			case "no-policy", "empty", "onpreparing":
				if c := b.pending(name, v1alpha1.UpdateBlockedByPolicyReason); !strings.Contains(c.Message, "HostUpdatePolicy "+name) {
					t.Errorf("message %q, want one that names the policy", c.Message)
				}
			case "invalid":
				if c := b.pending(name, v1alpha1.UpdateFailedReason); !strings.Contains(c.Message, "BootTimeout is too long") {
					t.Errorf("message %q, want one that says what is wrong", c.Message)
				}
			}
			before := len(b.asked(name))
			b.reboot(h)
			b.did(name, before, "soft power off", "power on")
			b.isOK(name)
		})
	}
}

// TestLiveUpdateOfAnExternallyProvisionedHost triggers the update with spec.online.
func TestLiveUpdateOfAnExternallyProvisionedHost(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	h := b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	b.inState("web", v1alpha1.StateExternallyProvisioned)
	b.poweredOn("web")
	b.policy("web", onReboot)
	b.settings("web", 9)
	before := len(b.asked("web"))
	b.update(h, func() { h.Spec.Online = false })
	b.did("web", before, "soft power off")
	b.update(h, func() { h.Spec.Online = true })
	b.did("web", before, "soft power off", "service")
}

func TestMachineThatMustNotBeOffIsUpdatedByARestartOfTheEngine(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	h := b.bmcHost("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.Image, h.Spec.DisablePowerOff = image("https://images/os.qcow2"), true
	})
	b.inState("web", v1alpha1.StateProvisioned)
	b.policy("web", onReboot)
	b.compare(b.settings("web", 9), true)
	if c := b.pending("web", v1alpha1.UpdateWaitingForRebootReason); !strings.Contains(c.Message, "spec.disablePowerOff") {
		t.Errorf("message %q, want one about spec.disablePowerOff", c.Message)
	}
	before := len(b.asked("web"))
	b.reboot(h)
	b.did("web", before, "service")
}

func TestPolicyCanDemandTheAnnotation(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	h := b.inUse("web")
	p := &v1alpha1.HostUpdatePolicy{ObjectMeta: b.meta("web"), Spec: onReboot}
	p.Annotations = map[string]string{v1alpha1.RequireAnnotationAnnotation: ""}
	b.create(p)
	b.settings("web", 9)
	before := len(b.asked("web"))
	b.update(h, func() { h.Spec.Online = false })
	b.did("web", before, "soft power off")
	b.update(h, func() { h.Spec.Online = true })
	b.did("web", before, "soft power off", "power on")
	b.poweredOn("web")
	b.reboot(h)
	b.did("web", before, "soft power off", "power on", "soft power off", "service")
}

func TestEngineThatCannotServiceOnlyReboots(t *testing.T) {
	t.Parallel()
	engine := demo.New(demo.Options{NoService: true})
	b := newUpdateBench(t, func(o *operator.Options) { o.Engine = engine })
	b.engine = engine
	h := b.inUse("web")
	b.policy("web", onReboot)
	b.settings("web", 9)
	b.pending("web", v1alpha1.UpdateEngineTooOldReason)
	before := len(b.asked("web"))
	b.reboot(h)
	b.did("web", before, "soft power off", "power on")
	b.isOK("web")
}

func TestHostThatIsHeldOffIsNotUpdated(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	h := b.inUse("web")
	b.policy("web", onReboot)
	b.settings("web", 9)
	before := len(b.asked("web"))
	b.annotate(h, "reboot.metal3.io/fence", `{"mode":"hard"}`)
	b.pending("web", v1alpha1.UpdateBlockedByFencingReason)
	b.eventually("off", func() string {
		if holds := b.host("web").Status.PowerOffHolds; len(holds) != 1 || holds[0].ConfirmedAt == nil {
			return fmt.Sprintf("holds %+v", holds)
		}
		return ""
	})
	b.annotate(h, v1alpha1.RebootAnnotation, "")
	b.forAWhile("the machine stays off", func() string {
		if got := b.without(b.asked("web")[before:], "claim", "update", "validate", "power off"); len(got) > 0 {
			return fmt.Sprintf("asked %q", got)
		}
		return ""
	})
	b.update(h, func() { h.Annotations = nil })
	b.did("web", before, "power off", "service")
}

func TestDataImageIsAttachedBeforeTheUpdateThatPowersTheMachineOn(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	h := b.inUse("web")
	b.policy("web", onReboot)
	b.settings("web", 9)
	b.pending("web", v1alpha1.UpdateWaitingForRebootReason)
	b.dataImage("web")
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	before := len(b.asked("web"))
	b.reboot(h)
	b.did("web", before, "soft power off", "attach image", "service")
	b.showsImage("web", v1alpha1.AttachedReason)
}

func TestRestartForAnUpdateWaitsForItsRamdisk(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, withImages(true))
	h := b.inUse("web")
	b.policy("web", onReboot)
	settings := b.settings("web", 9)
	b.pending("web", v1alpha1.UpdateWaitingForRebootReason)
	ramdisk := b.preprovisioningImage("web", "built", func(i *v1alpha1.PreprovisioningImage) bool { return i.Status.ImageURL != "" })
	b.update(ramdisk, func() { ramdisk.Finalizers = append(ramdisk.Finalizers, "example.com/built") })
	b.remove(ramdisk)
	b.pending("web", v1alpha1.UpdateWaitingForRamdiskReason)
	before := len(b.asked("web"))
	b.reboot(h)
	b.waits("web", "The restart waits for the ramdisk")
	b.did("web", before)
	b.update(ramdisk, func() {
		ramdisk.Finalizers = slices.DeleteFunc(ramdisk.Finalizers, func(f string) bool { return f == "example.com/built" })
	})
	b.did("web", before, "soft power off", "service")
	b.compare(settings, false)
	b.isOK("web")
}
