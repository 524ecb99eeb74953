package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// read reads an object by name and reports whether it exists.
func (b *bench) read(obj client.Object, name string) bool {
	b.Helper()
	err := b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: name}, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	return err == nil
}

// hfs waits until wrong finds no fault with the settings of a host, and returns them.
func (b *bench) hfs(name string, wrong func(*v1alpha1.HostFirmwareSettings) string) *v1alpha1.HostFirmwareSettings {
	b.Helper()
	var h *v1alpha1.HostFirmwareSettings
	b.eventually("settings of host "+name, func() string {
		h = &v1alpha1.HostFirmwareSettings{}
		if !b.read(h, name) {
			return "there are none"
		}
		if problem := stale(h.Status.Conditions, h.Generation); problem != "" {
			return problem
		}
		return wrong(h)
	})
	return h
}

// hfc is hfs for the firmware components of a host.
func (b *bench) hfc(name string, wrong func(*v1alpha1.HostFirmwareComponents) string) *v1alpha1.HostFirmwareComponents {
	b.Helper()
	var c *v1alpha1.HostFirmwareComponents
	b.eventually("firmware of host "+name, func() string {
		c = &v1alpha1.HostFirmwareComponents{}
		if !b.read(c, name) {
			return "there is none"
		}
		if problem := stale(c.Status.Conditions, c.Generation); problem != "" {
			return problem
		}
		return wrong(c)
	})
	return c
}

// stale names the first condition that is not about the given generation, or returns "".
func stale(conditions []metav1.Condition, generation int64) string {
	for _, kind := range []string{v1alpha1.ChangeDetectedCondition, v1alpha1.ValidCondition} {
		if c := meta.FindStatusCondition(conditions, kind); c == nil || c.ObservedGeneration != generation {
			return fmt.Sprintf("%s is not about generation %d: %s", kind, generation, conditionText(conditions))
		}
	}
	return ""
}

// saying checks the statuses of ChangeDetected and Valid, and that the message of Valid contains a
// text.
func saying[T client.Object](changing, valid bool, message string) func(T) string {
	return func(obj T) string {
		var conditions []metav1.Condition
		switch o := any(obj).(type) {
		case *v1alpha1.HostFirmwareSettings:
			conditions = o.Status.Conditions
		case *v1alpha1.HostFirmwareComponents:
			conditions = o.Status.Conditions
		}
		found := meta.FindStatusCondition(conditions, v1alpha1.ValidCondition)
		if meta.IsStatusConditionTrue(conditions, v1alpha1.ChangeDetectedCondition) != changing ||
			(found.Status == metav1.ConditionTrue) != valid || !strings.Contains(found.Message, message) {
			return conditionText(conditions)
		}
		return ""
	}
}

var (
	settingsSay   = saying[*v1alpha1.HostFirmwareSettings]
	componentsSay = saying[*v1alpha1.HostFirmwareComponents]
)

func (b *bench) ownedByHost(obj client.Object, host *v1alpha1.BareMetalHost) {
	b.Helper()
	owner := metav1.GetControllerOf(obj)
	if owner == nil || owner.UID != host.UID {
		b.Errorf("owners of %T = %+v, want host %s", obj, obj.GetOwnerReferences(), host.Name)
	}
}

func TestFirmwareOfAHostIsShownAndItsSchemaShared(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("web", nil)
	b.bmcHost("db", nil)
	host := b.inState("web", v1alpha1.StateAvailable)
	first := b.hfs("web", settingsSay(false, true, ""))
	second := b.hfs("db", settingsSay(false, true, ""))
	b.ownedByHost(first, host)
	if first.Status.Settings["BootTimeout"] != "5" || first.Status.Settings["ProcVirtualization"] != "Enabled" {
		t.Errorf("settings = %v, want those of the machine", first.Status.Settings)
	}
	if _, shown := first.Status.Settings["SetupPassword"]; shown {
		t.Error("a password is shown")
	}
	if first.Status.FirmwareSchema == nil || second.Status.FirmwareSchema == nil || *first.Status.FirmwareSchema != *second.Status.FirmwareSchema {
		t.Fatalf("schemas = %+v and %+v, want the same", first.Status.FirmwareSchema, second.Status.FirmwareSchema)
	}
	var schema v1alpha1.FirmwareSchema
	b.eventually("a schema with both owners", func() string {
		schema = v1alpha1.FirmwareSchema{}
		if !b.read(&schema, first.Status.FirmwareSchema.Name) {
			return "there is none"
		}
		if len(schema.OwnerReferences) != 2 {
			return fmt.Sprintf("owners %+v", schema.OwnerReferences)
		}
		return ""
	})
	if got := schema.Spec.Schema["BootTimeout"]; got.AttributeType != v1alpha1.AttributeInteger || *got.UpperBound != 300 {
		t.Errorf("schema of BootTimeout = %+v", got)
	}
	c := b.hfc("web", componentsSay(false, true, ""))
	b.ownedByHost(c, host)
	if len(c.Status.Components) != 3 || c.Status.Components[0].Component != "bios" || c.Status.Components[0].CurrentVersion != "1.2.3" {
		t.Errorf("components = %+v, want those of the machine", c.Status.Components)
	}
	for kind, want := range map[string]string{"HostFirmwareSettings": "map[settings:map[]]", "HostFirmwareComponents": "map[updates:[]]"} {
		raw := &unstructured.Unstructured{}
		raw.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		if !b.read(raw, "web") || fmt.Sprint(raw.Object["spec"]) != want {
			t.Errorf("spec of %s = %v, want %s", kind, raw.Object["spec"], want)
		}
	}
}

func TestWrongSettingIsRefusedWithASentenceAndAnEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	h := b.hfs("web", settingsSay(false, true, ""))
	set := func(name string, value intstr.IntOrString) {
		b.update(h, func() { h.Spec.Settings = map[string]intstr.IntOrString{name: value} })
	}
	set("BootTimeout", intstr.FromInt32(301))
	b.hfs("web", settingsSay(true, false, `setting "BootTimeout" cannot be "301": the most is 300`))
	b.hasEvent("web", "ValidationFailed")
	set("NoSuchThing", intstr.FromString("x"))
	b.hfs("web", settingsSay(true, false, `setting "NoSuchThing" does not exist on this machine`))
	set("BootTimeout", intstr.FromInt32(30))
	b.hfs("web", settingsSay(true, true, ""))
	set("BootTimeout", intstr.FromInt32(5))
	before := b.hfs("web", settingsSay(false, true, ""))

	// Asking for a value that the machine already has changes nothing but the generation.
	b.update(h, func() { h.Spec.Settings["ProcVirtualization"] = intstr.FromString("Enabled") })
	after := b.hfs("web", settingsSay(false, true, ""))
	if after.Generation == before.Generation {
		t.Fatal("the generation did not change")
	}
	for i, c := range after.Status.Conditions {
		if !c.LastTransitionTime.Equal(&before.Status.Conditions[i].LastTransitionTime) {
			t.Errorf("%s changed from %s to %s without a flip", c.Type, before.Status.Conditions[i].LastTransitionTime, c.LastTransitionTime)
		}
	}
}

func TestMachineIsReadAgainWhenAServiceEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Controllers = []string{operator.GroupHost, operator.GroupFirmware} })
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	id := b.inState("web", v1alpha1.StateProvisioned).Status.Provisioning.ID
	h := b.hfs("web", settingsSay(false, true, ""))
	c := b.hfc("web", componentsSay(false, true, ""))
	b.update(h, func() { h.Spec.Settings["BootTimeout"] = intstr.FromInt32(30) })
	b.update(c, func() {
		c.Spec.Updates = []v1alpha1.FirmwareUpdate{{Component: "bmc", URL: "https://images/9.9.bin"}}
	})
	b.hfs("web", settingsSay(true, true, ""))
	c = b.hfc("web", componentsSay(true, true, ""))

	// The test takes the part of the host controller, which alone records the updates that it
	// begins.
	begun := c.DeepCopy()
	begun.Status.Updates = c.Spec.Updates
	if err := b.client.Status().Patch(t.Context(), begun, client.MergeFrom(c)); err != nil {
		t.Fatal(err)
	}
	b.hfc("web", componentsSay(false, true, ""))
	settings, err := b.engine.Settings(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	steps := append(provisioner.SettingSteps(settings, map[string]string{"BootTimeout": "30"}),
		provisioner.FirmwareSteps([]provisioner.FirmwareUpdate{{Component: "bmc", URL: "https://images/9.9.bin"}})...)
	if err := b.engine.Service(t.Context(), id, steps); err != nil {
		t.Fatal(err)
	}
	b.hfs("web", func(h *v1alpha1.HostFirmwareSettings) string {
		if h.Status.Settings["BootTimeout"] != "30" {
			return fmt.Sprintf("settings %v", h.Status.Settings)
		}
		return settingsSay(false, true, "")(h)
	})
	c = b.hfc("web", func(c *v1alpha1.HostFirmwareComponents) string {
		i := slices.IndexFunc(c.Status.Components, func(s v1alpha1.FirmwareComponentStatus) bool { return s.Component == "bmc" })
		if c.Status.Components[i].CurrentVersion != "9.9" || c.Status.Components[i].LastVersionFlashed != "9.9" {
			return fmt.Sprintf("components %+v", c.Status.Components)
		}
		return ""
	})
	if !slices.Equal(c.Status.Updates, c.Spec.Updates) {
		t.Errorf("status.updates = %v, want what the host controller wrote", c.Status.Updates)
	}
	n, err := b.engine.Node(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if c.Status.Reading == nil || c.Status.Reading.NodeID != id || c.Status.Reading.StateChangedAt.Before(&metav1.MicroTime{Time: n.StateChangedAt.Truncate(1000)}) {
		t.Errorf("reading = %+v, want one after %s", c.Status.Reading, n.StateChangedAt)
	}
}

func TestUnknownComponentIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("web", nil)
	c := b.hfc("web", componentsSay(false, true, ""))
	b.update(c, func() {
		c.Spec.Updates = []v1alpha1.FirmwareUpdate{{Component: "nic:eno7", URL: "https://images/nic.bin"}}
	})
	got := b.hfc("web", componentsSay(true, false, `component "nic:eno7" does not exist on this machine: it has bios, bmc, nic:eno1`))
	if valid := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ValidCondition); valid.Reason != v1alpha1.InvalidComponentReason {
		t.Errorf("reason = %s, want %s", valid.Reason, v1alpha1.InvalidComponentReason)
	}
	b.hasEvent("web", "ValidationFailed")
}

func TestObjectsOfUsersAndPoliciesBelongToTheirHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.create(&v1alpha1.HostFirmwareSettings{ObjectMeta: b.meta("web"), Spec: v1alpha1.HostFirmwareSettingsSpec{
		Settings: map[string]intstr.IntOrString{"ProcVirtualization": intstr.FromString("Enabled")},
	}})
	b.create(&v1alpha1.HostUpdatePolicy{ObjectMeta: b.meta("web")})
	b.create(&v1alpha1.HostUpdatePolicy{ObjectMeta: b.meta("discovered")})
	b.bmcHost("web", nil)
	b.create(&v1alpha1.BareMetalHost{ObjectMeta: b.meta("discovered"), Spec: v1alpha1.BareMetalHostSpec{Online: true}})
	host := b.inState("web", v1alpha1.StateAvailable)
	h := b.hfs("web", settingsSay(false, true, ""))
	b.ownedByHost(h, host)
	if len(h.Spec.Settings) != 1 {
		t.Errorf("spec = %v, want what the user wrote", h.Spec.Settings)
	}
	for _, name := range []string{"web", "discovered"} {
		var policy v1alpha1.HostUpdatePolicy
		b.eventually("an owner of policy "+name, func() string {
			if policy = (v1alpha1.HostUpdatePolicy{}); !b.read(&policy, name) || len(policy.OwnerReferences) == 0 {
				return "there is none"
			}
			return ""
		})
		b.ownedByHost(&policy, b.host(name))
	}
}

func TestHostsWithoutFirmwareGetNoMoreThanTheirDriverHas(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("old", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "ipmi://192.0.2.8" })
	b.create(&v1alpha1.BareMetalHost{ObjectMeta: b.meta("demo-available-1"), Spec: v1alpha1.BareMetalHostSpec{Online: true}})
	b.boot("demo-importing")
	b.inState("old", v1alpha1.StateAvailable)
	h := b.hfs("old", settingsSay(false, true, ""))
	if h.Status.FirmwareSchema != nil || len(h.Status.Settings) != 0 {
		t.Errorf("status = %+v, want no settings", h.Status)
	}
	b.update(h, func() { h.Spec.Settings["BootTimeout"] = intstr.FromInt32(1) })
	b.hfs("old", settingsSay(true, false, "the driver of this machine has no BIOS settings"))
	b.forAWhile("no firmware without components or BMC", func() string {
		var all v1alpha1.HostFirmwareComponentsList
		if err := b.client.List(t.Context(), &all, client.InNamespace(b.namespace)); err != nil || len(all.Items) > 0 {
			return fmt.Sprintf("%d objects, %v", len(all.Items), err)
		}
		if b.read(&v1alpha1.HostFirmwareSettings{}, "demo-available-1") {
			return "a host without a BMC has settings"
		}
		return ""
	})
}

func TestDeletedFirmwareObjectsComeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	h := b.hfs("web", settingsSay(false, true, ""))
	c := b.hfc("web", componentsSay(false, true, ""))
	schema := &v1alpha1.FirmwareSchema{ObjectMeta: b.meta(h.Status.FirmwareSchema.Name)}
	for _, obj := range []client.Object{schema, h, c} {
		old := obj.GetUID()
		b.remove(obj)
		b.eventually(fmt.Sprintf("a new %T", obj), func() string {
			if !b.read(obj, obj.GetName()) || obj.GetUID() == old {
				return "there is none"
			}
			return ""
		})
	}
	b.hfs("web", settingsSay(false, true, ""))
	b.hfc("web", componentsSay(false, true, ""))
}

// readingsCounter counts readings of firmware.
type readingsCounter struct {
	*demo.Engine
	settings, components atomic.Int32
}

func (e *readingsCounter) Settings(ctx context.Context, id string) ([]provisioner.Setting, error) {
	e.settings.Add(1)
	return e.Engine.Settings(ctx, id)
}

func (e *readingsCounter) Components(ctx context.Context, id string) ([]provisioner.Component, error) {
	e.components.Add(1)
	return e.Engine.Components(ctx, id)
}

func TestIdleHostCostsNoReadingsAndNoWrites(t *testing.T) {
	t.Parallel()
	b := newIdleBenchOn(t, plane.Config(t))
	engine := &readingsCounter{Engine: b.engine}
	b.startWith(plane.Config(t), func(o *operator.Options) { o.Engine = engine })
	b.bmcHost("web", nil)
	b.poweredOn("web")
	h := b.hfs("web", settingsSay(false, true, ""))
	c := b.hfc("web", componentsSay(false, true, ""))
	settings, components := engine.settings.Load(), engine.components.Load()
	host := b.host("web")
	b.update(host, func() { host.Labels = map[string]string{"rack": "1"} })
	b.forAWhile("nothing is read or written", func() string {
		nowH, nowC := &v1alpha1.HostFirmwareSettings{}, &v1alpha1.HostFirmwareComponents{}
		b.read(nowH, "web")
		b.read(nowC, "web")
		if nowH.ResourceVersion != h.ResourceVersion || nowC.ResourceVersion != c.ResourceVersion {
			return "an object was written"
		}
		if s, c := engine.settings.Load(), engine.components.Load(); s != settings || c != components {
			return fmt.Sprintf("%d settings and %d components were read, after %d and %d", s, c, settings, components)
		}
		return ""
	})
	b.stop()
	b.startWith(plane.Config(t), func(o *operator.Options) { o.Engine = engine })
	b.bmcHost("db", nil) // shows that the new operator works
	b.hfs("db", settingsSay(false, true, ""))
	nowH := &v1alpha1.HostFirmwareSettings{}
	if b.read(nowH, "web"); nowH.ResourceVersion != h.ResourceVersion {
		t.Error("a restart wrote the settings of an idle host")
	}
}

func TestPausedHostGetsNoFirmwareObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Controllers = []string{operator.GroupHost} })
	h := b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
	b.stop()
	b.startWith(plane.Config(t), func(o *operator.Options) { o.Controllers = []string{operator.GroupFirmware} })
	b.forAWhile("a paused host is left alone", func() string {
		if b.read(&v1alpha1.HostFirmwareSettings{}, "web") {
			return "it has settings"
		}
		return ""
	})
	b.update(h, func() { h.Annotations = nil })
	b.hfs("web", settingsSay(false, true, ""))
}
