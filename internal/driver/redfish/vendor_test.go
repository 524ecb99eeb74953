package redfish_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// vendorCall runs a vendor method and decodes its answer.
func vendorCall(m *machine, d redfish.Driver, method string, args map[string]any) (answer map[string]any, err error) {
	m.t.Helper()
	vendor := d.Interfaces()[node.VendorInterface].(driver.Vendor)
	text, err := vendor.Call(m.t.Context(), m.node, vendor.Methods()[method].HTTPMethods[0], method, node.ObjectOf(args), driver.Turn{})
	if err == nil && text != nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

func TestSubscriptionsAreMadeShownAndEnded(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		made, err := vendorCall(m, d, "create_subscription", map[string]any{"Destination": "https://192.0.2.9/events", "Context": "ctx", "HttpHeaders": []any{map[string]any{"X-Auth": "s"}}})
		id, _ := made["Id"].(string)
		if err != nil || id == "" || made["Context"] != "ctx" {
			t.Fatalf("made %v, %v", made, err)
		}
		shown, err := vendorCall(m, d, "get_subscription", map[string]any{"id": id})
		if err != nil || shown["Destination"] != "https://192.0.2.9/events" || shown["Id"] != id || shown["Protocol"] != "Redfish" {
			t.Errorf("shown %v, %v", shown, err)
		}
		if all, err := vendorCall(m, d, "get_all_subscriptions", nil); err != nil || all["Members@odata.count"] != 1.0 {
			t.Errorf("all: %v, %v", all, err)
		}
		if _, err := vendorCall(m, d, "delete_subscription", map[string]any{"id": id}); err != nil || len(m.Subscriptions()) != 0 {
			t.Errorf("deleted: %v, left %v", err, m.Subscriptions())
		}
		if got := m.Effects(); !slices.Equal(got, []string{"create subscription", "delete subscription"}) {
			t.Errorf("effects = %q", got)
		}
	})
}

func TestBMCThatKnowsNoSubscriptionsHasNone(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.without("/EventService", http.StatusOK, `{}`)
	if all, err := vendorCall(m, d, "get_all_subscriptions", nil); err != nil || all["Members@odata.count"] != 0.0 {
		t.Errorf("all: %v, %v; want an empty list", all, err)
	}
	var invalid *node.ValidationError
	if _, err := vendorCall(m, d, "delete_subscription", map[string]any{"id": "1"}); !errors.As(err, &invalid) {
		t.Errorf("delete one: %v, want that there is none", err)
	}
	var unable *node.NotSupportedError
	if _, err := vendorCall(m, d, "create_subscription", map[string]any{"Destination": "https://192.0.2.9"}); !errors.As(err, &unable) {
		t.Errorf("make one: %v, want that it is not supported", err)
	}
}

func TestVendorMethodRefusesWrongArguments(t *testing.T) {
	m, d := newMachine(t, "dell")
	for name, call := range map[string]struct {
		method string
		args   map[string]any
	}{
		"no destination": {"create_subscription", map[string]any{"Context": "c"}}, "another key": {"create_subscription", map[string]any{"Destination": "https://192.0.2.9", "Url": "x"}},
		"wrong type": {"create_subscription", map[string]any{"Destination": "https://192.0.2.9", "EventTypes": "Alert"}},
		"no id":      {"get_subscription", nil}, "unknown id": {"delete_subscription", map[string]any{"id": "../../Systems"}},
		"unknown device": {"eject_vmedia", map[string]any{"boot_device": "tape"}},
	} {
		var invalid *node.ValidationError
		if _, err := vendorCall(m, d, call.method, call.args); !errors.As(err, &invalid) || len(m.Effects()) != 0 {
			t.Errorf("%s: %v, effects %q; want a ValidationError and none", name, err, m.Effects())
		}
	}
	vendor := d.Interfaces()[node.VendorInterface].(driver.Vendor)
	_, err := vendor.Call(t.Context(), m.node, "POST", "create_subscription", node.ObjectOf(map[string]any{"Destination": "https://192.0.2.9"}), driver.Turn{Attempt: driver.Unknown})
	if err == nil || !strings.Contains(err.Error(), "outcome unknown") || len(m.Effects()) != 0 {
		t.Errorf("a call whose outcome is unknown: %v, effects %q", err, m.Effects())
	}
}

func TestMediaAreEjectedOnRequest(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		slot := slices.IndexFunc(m.Profile().Slots, func(s bmc.Slot) bool { return slices.Contains(s.Types, "CD") })
		if err := m.Insert(&bmc.Call{}, slot, bmc.Medium{Image: "http://192.0.2.1/boot.iso"}); err != nil {
			t.Fatal(err)
		}
		if _, err := vendorCall(m, d, "eject_vmedia", map[string]any{"boot_device": "floppy"}); err != nil {
			t.Fatal(err)
		}
		if media, err := d.Media(t.Context(), m.node); err != nil || len(media) != 1 {
			t.Errorf("media %v, %v, want the CD still", media, err)
		}
		if _, err := vendorCall(m, d, "eject_vmedia", nil); err != nil {
			t.Fatal(err)
		}
		if media, err := d.Media(t.Context(), m.node); err != nil || len(media) != 0 {
			t.Errorf("media %v, %v, want none", media, err)
		}
	})
}
