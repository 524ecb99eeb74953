package story

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestFirmwareOfAMachineIsShownCheckedAndReadAgain compares what users see of the firmware
// of a host with its machine, before and after the engine changes it.
func TestFirmwareOfAMachineIsShownCheckedAndReadAgain(t *testing.T) {
	t.Parallel()
	r, _ := startBootService(t, redfish.Vendors[0])
	m := startHost(t, r, operator.GroupFirmware)
	m.register(t, "redfish", func(h *metal3v1alpha1.BareMetalHost) {
		h.Spec.ExternallyProvisioned, h.Spec.Online = true, false // no operating system could shut down
	})
	host := m.inState(t, metal3v1alpha1.StateExternallyProvisioned)
	machine := r.Machine(0).BMC()

	h := m.settings(t, "those of the machine", func(h *metal3v1alpha1.HostFirmwareSettings) bool { return settingsOf(machine.BIOS(), h) })
	schema := &metal3v1alpha1.FirmwareSchema{}
	if ref := h.Status.FirmwareSchema; ref == nil {
		t.Fatal("the settings have no schema")
	} else if err := m.kube.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, schema); err != nil {
		t.Fatal(err)
	}
	attribute, value := changeableAttribute(t, machine)
	if got := schema.Spec.Schema[attribute]; got.AttributeType != metal3v1alpha1.AttributeEnumeration || !slices.Contains(got.AllowableValues, value) {
		t.Errorf("schema of %s = %+v, want an enumeration with %s", attribute, got, value)
	}
	m.components(t, "the machine's firmware", func(c *metal3v1alpha1.HostFirmwareComponents) bool {
		return versionOf(c, "bmc") != "" && versionOf(c, "bios") != "" && len(c.Status.Components) == len(machine.Components())
	})

	m.set(t, attribute, "Nonsense")
	refused := fmt.Sprintf("setting %q cannot be %q: allowed are ", attribute, "Nonsense")
	m.settings(t, "refused with a sentence", func(h *metal3v1alpha1.HostFirmwareSettings) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, metal3v1alpha1.ValidCondition)
		return c.Status == metav1.ConditionFalse && strings.HasPrefix(c.Message, refused) && strings.Contains(c.Message, value)
	})
	m.serviced(t, host.Status.Provisioning.ID, attribute, value)
}

// serviced lets the engine change a setting and the firmware of the BMC of a host in use.
func (m *managed) serviced(t *testing.T, id, attribute, value string) {
	t.Helper()
	m.awaitState(t, id, "active")
	m.set(t, attribute, value)
	m.settings(t, "waiting for a change", func(h *metal3v1alpha1.HostFirmwareSettings) bool {
		return meta.IsStatusConditionTrue(h.Status.Conditions, metal3v1alpha1.ChangeDetectedCondition) &&
			meta.IsStatusConditionTrue(h.Status.Conditions, metal3v1alpha1.ValidCondition)
	})
	file := redfishtest.Serve(t, "ingot-firmware component=bmc version=99.1")
	steps, err := json.Marshal(map[string]any{"target": "service", "service_steps": []map[string]any{
		{"interface": "bios", "step": "apply_configuration", "args": map[string]any{"settings": []map[string]string{{"name": attribute, "value": value}}}},
		{"interface": "firmware", "step": "update", "args": map[string]any{"settings": []map[string]string{{"component": "bmc", "url": file}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m.request(t, http.MethodPut, "/v1/nodes/"+id+"/states/provision", string(steps), http.StatusAccepted)
	m.awaitState(t, id, "active")
	h := m.settings(t, "changed", func(h *metal3v1alpha1.HostFirmwareSettings) bool {
		return h.Status.Settings[attribute] == value && meta.IsStatusConditionFalse(h.Status.Conditions, metal3v1alpha1.ChangeDetectedCondition)
	})
	if h.Status.Reading == nil || h.Status.Reading.NodeID != id {
		t.Errorf("reading = %+v, want one of node %s", h.Status.Reading, id)
	}
	m.components(t, "updated", func(c *metal3v1alpha1.HostFirmwareComponents) bool { return versionOf(c, "bmc") == "99.1" })
}

// settingsOf reports whether settings show the BIOS of a machine.
func settingsOf(bios map[string]any, h *metal3v1alpha1.HostFirmwareSettings) bool {
	for name, value := range bios {
		if h.Status.Settings[name] != fmt.Sprint(value) {
			return false
		}
	}
	return len(h.Status.Settings) == len(bios)
}

// versionOf is the version of a component that runs, "" for none.
func versionOf(c *metal3v1alpha1.HostFirmwareComponents, name string) string {
	for _, component := range c.Status.Components {
		if component.Component == name {
			return component.CurrentVersion
		}
	}
	return ""
}

// set makes a setting the only one that is asked for.
func (m *managed) set(t *testing.T, name, value string) {
	t.Helper()
	var h metal3v1alpha1.HostFirmwareSettings
	if err := m.kube.Get(t.Context(), m.host, &h); err != nil {
		t.Fatal(err)
	}
	before := h.DeepCopy()
	h.Spec.Settings = map[string]intstr.IntOrString{name: intstr.FromString(value)}
	if err := m.kube.Patch(t.Context(), &h, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// settings waits until the host's settings show what is wanted for their newest spec.
func (m *managed) settings(t *testing.T, what string, is func(*metal3v1alpha1.HostFirmwareSettings) bool) *metal3v1alpha1.HostFirmwareSettings {
	t.Helper()
	var h *metal3v1alpha1.HostFirmwareSettings
	eventually(t, func(ctx context.Context) error {
		h = &metal3v1alpha1.HostFirmwareSettings{}
		if err := m.kube.Get(ctx, m.host, h); err != nil {
			return err
		}
		c := meta.FindStatusCondition(h.Status.Conditions, metal3v1alpha1.ValidCondition)
		if c == nil || c.ObservedGeneration != h.Generation || !is(h) {
			return fmt.Errorf("settings are not %s: %v, conditions %v", what, h.Status.Settings, h.Status.Conditions)
		}
		return nil
	})
	return h
}

// components waits until the host's firmware shows what is wanted.
func (m *managed) components(t *testing.T, what string, is func(*metal3v1alpha1.HostFirmwareComponents) bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var c metal3v1alpha1.HostFirmwareComponents
		if err := m.kube.Get(ctx, m.host, &c); err != nil {
			return err
		}
		if !is(&c) {
			return fmt.Errorf("firmware is not %s: %+v, conditions %v", what, c.Status.Components, c.Status.Conditions)
		}
		return nil
	})
}
