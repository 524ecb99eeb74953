package ironic

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestMachineBehindABMCIsAskedOfTheDriverWithoutANode(t *testing.T) {
	const methods, call = "GET /v1/drivers/redfish/vendor_passthru/methods", "POST /v1/drivers/redfish/vendor_passthru"
	r := webHost(t)
	e := &upstream{replies: map[string]any{
		methods: map[string]any{"identify": map[string]any{"http_methods": []string{"POST"}}},
		call:    map[string]any{"uuid": "4C4C4544-0034-5010-8052-B4C04F4A4D32", "serial_number": "To Be Filled By O.E.M.", "mac_addresses": []string{"00:00:5e:00:53:01"}},
	}}
	got, err := newEngine(t, e).Identify(t.Context(), *r.Access, r.Credentials)
	want := node.MachineFacts{MachineIdentity: node.MachineIdentity{UUID: "4c4c4544-0034-5010-8052-b4c04f4a4d32"}, MACAddresses: []string{"00:00:5e:00:53:01"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, facts differ (-want +got):\n%s", err, diff)
	}
	asked := []string{`POST /v1/drivers/redfish/vendor_passthru?method=identify {"driver_info":{"redfish_address":"https://192.0.2.1","redfish_password":"secret","redfish_system_id":"/redfish/v1/Systems/1","redfish_username":"admin"}}`}
	if diff := cmp.Diff(asked, mutations(e)); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}

	e.answers, e.refusal = map[string][]int{call: {400}}, "The BMC refuses the credentials; this is not supported."
	if _, err := newEngine(t, e).Identify(t.Context(), *r.Access, r.Credentials); !errors.Is(err, provisioner.ErrInvalid) || errors.Is(err, provisioner.ErrUnsupported) {
		t.Errorf("a BMC that refuses: %v, want ErrInvalid, so that nobody takes it for one that cannot tell", err)
	}
	for name, e := range map[string]*upstream{
		"no methods":   {replies: map[string]any{methods: map[string]any{}}},
		"no conductor": {answers: map[string][]int{methods: {404}}},
	} {
		if _, err := newEngine(t, e).Identify(t.Context(), *r.Access, r.Credentials); !errors.Is(err, provisioner.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
}
