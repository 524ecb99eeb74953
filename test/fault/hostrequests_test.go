//go:build fault

package fault_test

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// Annotations of two owners that keep a host powered off.
const (
	fence  = v1alpha1.RebootAnnotationPrefix + "fence"
	repair = v1alpha1.RebootAnnotationPrefix + "repair"
)

// hostSettings are the BIOS settings that a host gets: the first in its preparation, the second
// while it is in use.
func hostSettings(s shape) []biosSetting { return changeableSettings(s.vendor)[1:3] }

// settingsOf returns an object that asks for settings of the host's BIOS.
func (l *hostLife) settingsOf(settings []biosSetting) *v1alpha1.HostFirmwareSettings {
	o := &v1alpha1.HostFirmwareSettings{ObjectMeta: l.meta()}
	o.Spec.Settings = map[string]intstr.IntOrString{}
	for _, s := range settings {
		o.Spec.Settings[s.Name] = intstr.FromString(s.Value)
	}
	return o
}

// volumes returns the volumes that the host asks for, or nil for none.
func (l *hostLife) volumes() *v1alpha1.RAIDConfig {
	if !l.shape.volumes {
		return nil
	}
	return &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1", Name: "data"}}}
}

func (l *hostLife) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.host.Namespace, Name: l.host.Name}
}

// checkPrepared checks that the machine has the setting of the preparation.
func (l *hostLife) checkPrepared() {
	l.t.Helper()
	if l.shape.updates == nil {
		return
	}
	if s := hostSettings(l.shape)[0]; l.machine.observe().BIOS[s.Name] != s.Value {
		l.t.Errorf("the prepared machine has %v, want %s as %s", l.machine.observe().BIOS, s.Name, s.Value)
	}
}

// updateInUse asks for another BIOS setting and for other firmware of the BMC. It lets both be
// applied to the machine in use, and restarts the machine.
func (l *hostLife) updateInUse() {
	l.t.Helper()
	component := l.shape.updates[0]
	policy := &v1alpha1.HostUpdatePolicy{ObjectMeta: l.meta(), Spec: v1alpha1.HostUpdatePolicySpec{
		FirmwareSettings: v1alpha1.UpdateOnReboot, FirmwareUpdates: v1alpha1.UpdateOnReboot,
	}}
	if err := l.kube.Create(l.t.Context(), policy); err != nil {
		l.t.Fatal(err)
	}
	settings, components := &v1alpha1.HostFirmwareSettings{}, &v1alpha1.HostFirmwareComponents{}
	l.edit(settings, func() { settings.Spec = l.settingsOf(hostSettings(l.shape)).Spec })
	l.edit(components, func() {
		components.Spec.Updates = []v1alpha1.FirmwareUpdate{{Component: component, URL: l.files[component]}}
	})
	// Each of them is compared with the machine separately.
	l.becomes("waiting for its restart with both", func(h *v1alpha1.BareMetalHost) bool {
		pending := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.UpdatePendingCondition)
		return pending != nil && pending.Reason == v1alpha1.UpdateWaitingForRebootReason && l.compared(settings, components)
	})
	l.annotate(v1alpha1.RebootAnnotation)
	l.becomes("updated", func(h *v1alpha1.BareMetalHost) bool {
		u, status := h.Status.Updates, h.Status
		return u.Settings.Applied == settings.Generation && u.Components.Applied == components.Generation &&
			status.OperationalStatus == v1alpha1.OperationalStatusOK && status.ErrorType == "" && status.PoweredOn && !l.annotated(h)
	})
	l.runs()
	now := l.machine.observe()
	for _, s := range hostSettings(l.shape) {
		if now.BIOS[s.Name] != s.Value {
			l.t.Errorf("the setting %s is %v, want %s", s.Name, now.BIOS[s.Name], s.Value)
		}
	}
	if got := now.version(component); got != wantedVersion(0) {
		l.t.Errorf("the version of %s is %s, want %s", component, got, wantedVersion(0))
	}
}

// compared reports whether the operator has compared these versions with the machine, and found
// that they differ.
func (l *hostLife) compared(settings *v1alpha1.HostFirmwareSettings, components *v1alpha1.HostFirmwareComponents) bool {
	for _, o := range []client.Object{settings, components} {
		if err := l.kube.Get(l.t.Context(), l.host, o); err != nil {
			return false
		}
	}
	return !slices.ContainsFunc([]*metav1.Condition{
		meta.FindStatusCondition(settings.Status.Conditions, v1alpha1.ChangeDetectedCondition),
		meta.FindStatusCondition(components.Status.Conditions, v1alpha1.ChangeDetectedCondition),
	}, func(c *metav1.Condition) bool { return c == nil || c.Status != metav1.ConditionTrue })
}

// hold lets two owners keep the host powered off, one after the other, and release it.
func (l *hostLife) hold() {
	l.t.Helper()
	_, since := l.machine.effects(0)
	for _, step := range []struct {
		change func(annotations map[string]string)
		owners []string // then
	}{
		{func(a map[string]string) { a[fence] = `{"mode": "hard"}` }, []string{fence}},
		{func(a map[string]string) { a[repair] = "" }, []string{fence, repair}},
		{func(a map[string]string) { delete(a, fence) }, []string{repair}},
	} {
		l.change(func(h *v1alpha1.BareMetalHost) {
			if h.Annotations == nil {
				h.Annotations = map[string]string{}
			}
			step.change(h.Annotations)
		})
		l.becomes(fmt.Sprintf("held by %q", step.owners), func(h *v1alpha1.BareMetalHost) bool { return !h.Status.PoweredOn && holds(h, step.owners) })
		if now := l.machine.observe(); now.PowerState != string(bmc.Off) {
			l.t.Errorf("the machine of a host that %q hold powered off is %s", step.owners, now.PowerState)
		}
		l.staysOff(since)
	}
	l.change(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, repair) })
	l.becomes("released", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Status.PowerOffHolds) == 0 && h.Status.PoweredOn && h.Status.ErrorType == ""
	})
	l.runs()
}

// holds reports whether the host has confirmed to exactly these owners that it is off.
func holds(h *v1alpha1.BareMetalHost, owners []string) bool {
	return slices.EqualFunc(h.Status.PowerOffHolds, owners, func(hold v1alpha1.PowerOffHold, key string) bool {
		return hold.Key == key && hold.ConfirmedAt != nil
	})
}

// staysOff checks that the machine was not powered on after a sequence number of effects.
func (l *hostLife) staysOff(since int64) {
	l.t.Helper()
	effects, _ := l.machine.effects(since)
	for _, e := range effects {
		if slices.Contains(poweringOn, e.Kind) {
			l.t.Errorf("effect %d: %s of a machine that is held powered off", e.Sequence, e.Kind)
		}
	}
}

func (l *hostLife) annotate(key string) {
	l.t.Helper()
	l.change(func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, "") })
}

func (l *hostLife) annotated(h *v1alpha1.BareMetalHost) bool {
	_, asked := h.Annotations[v1alpha1.RebootAnnotation]
	return asked
}

// poweringOn are the effects after which a machine is on.
var poweringOn = []string{string(bmc.PowerOn), string(bmc.Reboot), string(bmc.SoftReboot), string(bmc.PowerCycle), string(bmc.PowerButton)}

// checkHolds checks that the machine was never powered on while the host said that it is off.
func (l *hostLife) checkHolds() {
	l.t.Helper()
	effects, _ := l.machine.effects(0)
	proofs := l.proofs.until(time.Now())
	if len(proofs) == 0 && !l.shape.volumes {
		l.t.Error("no hold was ever confirmed")
	}
	for _, e := range effects {
		proven := slices.ContainsFunc(proofs, func(p proof) bool { return e.Time.After(p.from) && e.Time.Before(p.to) })
		if proven && slices.Contains(poweringOn, e.Kind) {
			l.t.Errorf("effect %d: %s while the host had a confirmed record that its machine is off: %v", e.Sequence, e.Kind, proofs)
		}
	}
}
