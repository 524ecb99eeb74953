package ipmi_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

func vendorCall(m *machine, d ipmi.Driver, method string, args map[string]any, turn driver.Turn) error {
	m.t.Helper()
	_, err := d.Interfaces()[node.VendorInterface].(driver.Vendor).Call(m.t.Context(), m.node, "POST", method, node.ObjectOf(args), turn)
	return err
}

func TestVendorMethodsSendOneRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		args   map[string]any
		want   []string // effects
	}{
		"power on":          {"send_raw", map[string]any{"raw_bytes": "0x00 0x02 1"}, []string{"power on"}},
		"reading":           {"send_raw", map[string]any{"raw_bytes": "0 1"}, nil},
		"BMC, by default":   {"bmc_reset", nil, []string{"restart bmc"}},
		"BMC, cold":         {"bmc_reset", map[string]any{"warm": false}, []string{"restart bmc"}},
		"BMC, warm as text": {"bmc_reset", map[string]any{"warm": "True"}, []string{"restart bmc"}},
	} {
		m, d := newMachine(t, "dell")
		if err := vendorCall(m, d, tc.method, tc.args, fresh); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := m.Effects(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: effects %q, want %q", name, got, tc.want)
		}
	}
}

func TestVendorMethodsRefuseWhatIsNoRequest(t *testing.T) {
	m, d := newMachine(t, "dell")
	for _, tc := range []struct {
		method string
		args   map[string]any
	}{
		{"send_raw", nil},
		{"send_raw", map[string]any{"raw_bytes": "0x00"}},
		{"send_raw", map[string]any{"raw_bytes": "0x00 0x100"}},
		{"send_raw", map[string]any{"raw_bytes": "power on"}},
		{"bmc_reset", map[string]any{"warm": "maybe"}},
		{"set_fans", nil},
	} {
		var invalid *node.ValidationError
		if err := vendorCall(m, d, tc.method, tc.args, fresh); !errors.As(err, &invalid) {
			t.Errorf("%s %v: %v, want a refusal", tc.method, tc.args, err)
		}
	}
	if got := m.Effects(); len(got) != 0 {
		t.Errorf("effects %q", got)
	}
}

func TestVendorMethodOfUnknownOutcomeIsNotRepeated(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.Fail(effect.Faults{LoseAnswer: 1, Only: []string{"power on"}})
	args := map[string]any{"raw_bytes": "0x00 0x02 0x01"}
	var failure *node.DriverError
	if err := vendorCall(m, d, "send_raw", args, fresh); !errors.As(err, &failure) || failure.Refused {
		t.Fatalf("lost answer: %v, want an unknown outcome", err)
	}
	if err := vendorCall(m, d, "send_raw", args, driver.Turn{Attempt: driver.Unknown}); err == nil {
		t.Error("the next turn says that it went well")
	}
	if got := m.Effects(); len(got) != 1 {
		t.Errorf("effects %q, want one", got)
	}
}
