package operator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// newUpdateBench starts an operator that manages hosts, retries soon and gives up a live update
// after two failures.
func newUpdateBench(t *testing.T, change func(*operator.Options)) *bench {
	t.Helper()
	return newBench(t, func(o *operator.Options) { updateOptions(o, change) })
}

func updateOptions(o *operator.Options, change func(*operator.Options)) {
	o.Controllers = []string{operator.GroupHost}
	o.MaxBackoff, o.MaxServicingAttempts = 200*time.Millisecond, 2
	if change != nil {
		change(o)
	}
}

// inUse creates a host that runs an image.
func (b *bench) inUse(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	b.bmcHost(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	b.inState(name, v1alpha1.StateProvisioned)
	return b.poweredOn(name)
}

// settings creates HostFirmwareSettings that ask for a boot timeout.
func (b *bench) settings(name string, timeout int32) *v1alpha1.HostFirmwareSettings {
	b.Helper()
	o := &v1alpha1.HostFirmwareSettings{ObjectMeta: b.meta(name)}
	o.Spec.Settings = map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(timeout)}
	o.Status.Settings = map[string]string{}
	b.create(o)
	b.compare(o, true)
	return o
}

// firmware creates HostFirmwareComponents that ask for firmware of the BMC.
func (b *bench) firmware(name, url string) *v1alpha1.HostFirmwareComponents {
	b.Helper()
	o := &v1alpha1.HostFirmwareComponents{ObjectMeta: b.meta(name)}
	o.Spec.Updates = []v1alpha1.FirmwareUpdate{{Component: "bmc", URL: url}}
	b.create(o)
	b.compare(o, true)
	return o
}

func (b *bench) policy(name string, spec v1alpha1.HostUpdatePolicySpec) *v1alpha1.HostUpdatePolicy {
	b.Helper()
	o := &v1alpha1.HostUpdatePolicy{ObjectMeta: b.meta(name), Spec: spec}
	b.create(o)
	return o
}

// onReboot allows all updates.
var onReboot = v1alpha1.HostUpdatePolicySpec{FirmwareSettings: v1alpha1.UpdateOnReboot, FirmwareUpdates: v1alpha1.UpdateOnReboot}

// compare writes the conditions of an object for its newest version, as its controller does.
func (b *bench) compare(obj client.Object, changed bool) { b.judge(obj, true, changed) }

func (b *bench) judge(obj client.Object, valid, changed bool) {
	b.Helper()
	if err := b.client.Get(b.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		b.Fatal(err)
	}
	before, _ := obj.DeepCopyObject().(client.Object)
	var conditions *[]metav1.Condition
	switch o := obj.(type) {
	case *v1alpha1.HostFirmwareSettings:
		conditions = &o.Status.Conditions
		if o.Status.Settings == nil {
			o.Status.Settings = map[string]string{}
		}
	case *v1alpha1.HostFirmwareComponents:
		conditions = &o.Status.Conditions
	}
	for kind, is := range map[string]bool{v1alpha1.ValidCondition: valid, v1alpha1.ChangeDetectedCondition: changed} {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: kind, Status: status, Reason: v1alpha1.SettingsSuccessReason, Message: "BootTimeout is too long", ObservedGeneration: obj.GetGeneration(),
		})
	}
	if err := b.client.Status().Patch(b.Context(), obj, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// reboot asks for one power cycle.
func (b *bench) reboot(h *v1alpha1.BareMetalHost) {
	b.Helper()
	b.annotate(h, v1alpha1.RebootAnnotation, "")
}

func (b *bench) annotate(h *v1alpha1.BareMetalHost, key, value string) {
	b.Helper()
	b.update(h, func() {
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[key] = value
	})
}

// did waits until exactly these verbs were asked of the machine after the first since ones.
func (b *bench) did(name string, since int, want ...string) {
	b.Helper()
	b.eventually(fmt.Sprintf("%q", want), func() string {
		got := b.without(b.asked(name)[since:], "claim", "update", "validate")
		if slices.Equal(got, want) {
			return ""
		}
		h := b.host(name)
		return fmt.Sprintf("asked %q; operational status %q, error %q; %s", got, h.Status.OperationalStatus, h.Status.ErrorMessage, conditionText(h.Status.Conditions))
	})
}

// stepsOf returns the steps of all requests with that verb.
func (b *bench) stepsOf(name string, verb demo.Verb) []string {
	var names []string
	for _, e := range b.engine.Effects(provisioner.NodeName(b.namespace, name)) {
		if s, ok := e.Request.(demo.Steps); ok && e.Verb == verb {
			for _, step := range s {
				names = append(names, step.Name())
			}
		}
	}
	return names
}

// isOK waits until a host is powered on and nothing is wrong with it.
func (b *bench) isOK(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	var h *v1alpha1.BareMetalHost
	b.eventually("host "+name+" powered on and OK", func() string {
		h = b.host(name)
		if h.Status.OperationalStatus == v1alpha1.OperationalStatusOK && h.Status.PoweredOn && len(h.Annotations) == 0 {
			return ""
		}
		return fmt.Sprintf("operational status %q, powered on %t, annotations %v, error %q", h.Status.OperationalStatus, h.Status.PoweredOn, h.Annotations, h.Status.ErrorMessage)
	})
	return h
}

func (b *bench) pending(name, reason string) metav1.Condition {
	b.Helper()
	return b.hasCondition(name, v1alpha1.UpdatePendingCondition, metav1.ConditionTrue, reason)
}

// with returns the bench for a subtest.
func (b *bench) with(t *testing.T) *bench {
	t.Helper()
	return &bench{TB: t, client: b.client, engine: b.engine, namespace: b.namespace}
}
