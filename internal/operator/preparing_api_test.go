package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// TestHostIsPreparedWithItsSettingsAndFirmwareOnce leaves the objects as they are: they go on to
// say that the settings and firmware differ, as happens when they are read late.
func TestHostIsPreparedWithItsSettingsAndFirmwareOnce(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	s := b.settings("web", 9)
	c := b.firmware("web", "https://images/fw-9.bin")
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{}}
	})
	h := b.inState("web", v1alpha1.StateAvailable)
	want := []string{"raid.delete_configuration", "bios.apply_configuration", "firmware.update"}
	if got := b.stepsOf("web", demo.VerbClean); !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
	if u := h.Status.Updates; u.Settings.Applied != s.Generation || u.Components.Applied != c.Generation || u.Settings.Requested+u.Components.Requested != 0 {
		t.Errorf("record %+v, want both objects applied", u)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil || !slices.Equal(c.Status.Updates, c.Spec.Updates) {
		t.Errorf("begun updates %v, %v; want those of the spec", c.Status.Updates, err)
	}
	b.hasCondition("web", v1alpha1.UpdatePendingCondition, metav1.ConditionFalse, v1alpha1.UpToDateReason)
	b.poweredOn("web")
	b.forAWhile("no second cleaning", func() string {
		if n := b.count("web", "clean"); n != 1 {
			return fmt.Sprintf("%d cleanings", n)
		}
		return ""
	})

	b.update(s, func() { s.Spec.Settings["BootTimeout"] = intstr.FromInt32(7) })
	b.compare(s, true)
	b.eventually("prepared again", func() string {
		if h = b.host("web"); h.Status.Updates.Settings.Applied == s.Generation && h.Status.Provisioning.State == v1alpha1.StateAvailable {
			return ""
		}
		return fmt.Sprintf("state %q, record %+v", h.Status.Provisioning.State, h.Status.Updates)
	})
	if got := b.stepsOf("web", demo.VerbClean); len(got) != 4 || got[3] != "bios.apply_configuration" {
		t.Errorf("steps %q, want only the settings at the end", got)
	}
}

func TestInvalidSettingsKeepAHostFromBeingPrepared(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	s := b.settings("web", 999)
	b.judge(s, false, true)
	b.bmcHost("web", nil)
	c := b.pending("web", v1alpha1.UpdateFailedReason)
	if !strings.Contains(c.Message, "BootTimeout is too long") {
		t.Errorf("message %q, want what is wrong", c.Message)
	}
	b.hasCondition("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason)
	if h := b.host("web"); h.Status.Provisioning.State != v1alpha1.StatePreparing || h.Status.ErrorType != "" {
		t.Errorf("state %q, error %q; want preparing without an error", h.Status.Provisioning.State, h.Status.ErrorType)
	}
	b.update(s, func() { s.Spec.Settings["BootTimeout"] = intstr.FromInt32(9) })
	b.compare(s, true)
	b.inState("web", v1alpha1.StateAvailable)
	if n := b.count("web", "clean"); n != 1 {
		t.Errorf("%d cleanings, want one", n)
	}
}

func TestStepsThatAreNotWantedAnyMoreAreAborted(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	const name = "demo-preparing-bios"
	s := b.settings(name, 9)
	h := b.bmcHost(name, nil)
	cleaning := func(cleanings int) {
		t.Helper()
		b.eventually(fmt.Sprintf("cleaning %d", cleanings), func() string {
			id := b.host(name).Status.Provisioning.ID
			if n, err := b.engine.Node(t.Context(), id); err != nil || n.State != node.CleanWait || b.count(name, "clean") != cleanings {
				return fmt.Sprintf("node in %q, %v, asked %q", n.State, err, b.asked(name))
			}
			return ""
		})
	}
	cleaning(1)
	b.update(s, func() { s.Spec.Settings["BootTimeout"] = intstr.FromInt32(7) })
	b.compare(s, true)
	cleaning(2)
	b.update(s, func() { s.Spec.Settings = map[string]intstr.IntOrString{} })
	b.eventually("automated cleaning only", func() string {
		asked := b.asked(h.Name)
		if asked[len(asked)-1] == "provide" && b.count(name, "clean") == 2 && b.count(name, "abort") == 2 {
			return ""
		}
		return fmt.Sprintf("asked %q", asked)
	})
}

func TestHostWithoutABMCIsNotKeptFromUseBySettings(t *testing.T) {
	t.Parallel()
	b := newUpdateBench(t, nil)
	b.settings("demo-host", 9)
	b.create(&v1alpha1.BareMetalHost{ObjectMeta: b.meta("demo-host"), Spec: v1alpha1.BareMetalHostSpec{Online: true}})
	b.inState("demo-host", v1alpha1.StateAvailable)
	b.hasCondition("demo-host", v1alpha1.UpdatePendingCondition, metav1.ConditionFalse, v1alpha1.NoBMCReason)
}

// TestHostThatIsCreatedWithItsSettingsAndAnImageIsDeployedWithThem runs the firmware controllers,
// too, which compare the settings themselves.
func TestHostThatIsCreatedWithItsSettingsAndAnImageIsDeployedWithThem(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	s := &v1alpha1.HostFirmwareSettings{ObjectMeta: b.meta("web")}
	s.Spec.Settings = map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(9)}
	b.create(s)
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	b.inState("web", v1alpha1.StateProvisioned)
	asked := b.asked("web")
	if clean, deploy := slices.Index(asked, "clean"), slices.Index(asked, "deploy"); clean < 0 || clean > deploy {
		t.Errorf("asked %q, want a cleaning before the deployment", asked)
	}
	if got, want := b.stepsOf("web", demo.VerbClean), []string{"bios.apply_configuration"}; !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
}
