package ironic

import (
	"errors"
	"slices"
	"strings"
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

func TestAccessToABMCIsCheckedByReadingThroughTheNode(t *testing.T) {
	const read = "GET /v1/nodes/a/management/boot_device"
	for name, tt := range map[string]struct {
		status  int
		refusal string
		want    error
	}{
		"the BMC answers":          {200, "", nil},
		"the BMC refuses":          {500, "Redfish exception occurred. Error: unable to access", provisioner.ErrFailed},
		"the BMC may answer later": {503, "read boot device: the BMC did not answer in time", provisioner.ErrFailed},
		"the BMC is busy":          {503, "call the BMC of node a: earlier calls to it took longer than 30s; check that it answers, and try again.", provisioner.ErrFailed},
		"the node is locked":       {409, "Node a is locked by host c1, please retry after the current operation is completed.", provisioner.ErrBusy},
		"the node is gone":         {404, "Node a could not be found.", provisioner.ErrNotFound},
		"the engine is no more":    {503, "Service unavailable", provisioner.ErrUnreachable},
	} {
		e := &upstream{nodes: []map[string]any{webNode(nil)}, answers: map[string][]int{read: {tt.status}}, refusal: tt.refusal}
		err := newEngine(t, e).CheckAccess(t.Context(), "a")
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if tt.status == 500 && !strings.Contains(err.Error(), tt.refusal) {
			t.Errorf("%s: %v, want what the engine says", name, err)
		}
		if changed := mutations(e); len(changed) > 0 || !slices.Contains(e.calls, read) {
			t.Errorf("%s: asked for %q", name, e.calls)
		}
	}
}
