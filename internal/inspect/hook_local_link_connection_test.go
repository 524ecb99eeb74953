package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// connected is a pipeline that records connections.
func connected(t testing.TB) *Pipeline {
	t.Helper()
	return pipeline(t, func(c *Config) { c.Hooks = []string{"$default_hooks", "local-link-connection"} })
}

// lldpServer is a machine with one interface that has the given TLVs.
func lldpServer(t testing.TB, lldp string) *inventory.Document {
	t.Helper()
	return machine(t, nicWith("eth0", "01", `"lldp":`+lldp), "")
}

func TestNewPortGetsItsLocalLinkConnection(t *testing.T) {
	result := run(t, connected(t), Input{Document: lldpServer(t, tlvs(tlvChassis, tlvPort, tlvName))})
	want := map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "swp7", "switch_info": "leaf-12a"}
	if diff := cmp.Diff(want, result.PortsToCreate[0].LocalLinkConnection.Values()); diff != "" {
		t.Errorf("local_link_connection (-want +got):\n%s", diff)
	}
	if result.Skipped != nil {
		t.Errorf("skipped = %q, want nothing", result.Skipped)
	}
}

func TestConnectionFromLLDP(t *testing.T) {
	full := map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "swp7"}
	const (
		incomplete = "LLDP does not name both the switch by a MAC address and the port"
		differs    = "it differs from what LLDP says"
		otherKind  = "it is of another kind than what LLDP says"
	)
	for name, tc := range map[string]struct {
		lldp    string
		before  map[string]any
		want    map[string]any // nil: as before
		skipped string         // why
	}{
		"no system name":             {lldp: tlvs(tlvChassis, tlvPort), want: full},
		"port by MAC":                {lldp: tlvs(tlvChassis, `[2,"03020000000A0b"]`), want: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "02:00:00:00:0a:0b"}},
		"port by address":            {lldp: tlvs(tlvChassis, `[2,"0401c0000201"]`), want: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "192.0.2.1"}},
		"port by local number":       {lldp: tlvs(tlvChassis, `[2,"07353137"]`), want: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "517"}},
		"name is broken":             {lldp: tlvs(tlvChassis, tlvPort, `[5,"6c1b5b33316d"]`), want: full},
		"chassis by name":            {lldp: tlvs(`[1,"076c656166"]`, tlvPort, tlvName), skipped: incomplete},
		"chassis only looks like it": {lldp: tlvs(`[1,"0731303a32323a33333a34343a35353a3031"]`, tlvPort), skipped: incomplete},
		"chassis by address":         {lldp: tlvs(`[1,"0501c0000201"]`, tlvPort), skipped: incomplete},
		"chassis is zero":            {lldp: tlvs(`[1,"04000000000000"]`, tlvPort), skipped: incomplete},
		"chassis cut":                {lldp: tlvs(`[1,"041022"]`, tlvPort), skipped: incomplete},
		"no port":                    {lldp: tlvs(tlvChassis, tlvName), skipped: incomplete},
		"port is unprintable":        {lldp: tlvs(tlvChassis, `[2,"0700010203"]`), skipped: incomplete},
		"end comes first":            {lldp: tlvs(`[0,""]`, tlvChassis, tlvPort), want: full},
		"end comes before the port":  {lldp: tlvs(tlvChassis, `[0,""]`, tlvPort), skipped: incomplete},

		"the same is recorded":     {lldp: tlvs(tlvChassis, tlvPort), before: full},
		"the same in upper case":   {lldp: tlvs(`[1,"0410aabbccddee"]`, tlvPort), before: map[string]any{"switch_id": "10:AA:BB:CC:DD:EE", "port_id": "swp7"}},
		"switch_info is missing":   {lldp: tlvs(tlvChassis, tlvPort, tlvName), before: full, want: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "swp7", "switch_info": "leaf-12a"}},
		"port_id is missing":       {lldp: tlvs(tlvChassis, tlvPort), before: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": nil}, want: full},
		"another switch":           {lldp: tlvs(tlvChassis, tlvPort, tlvName), before: map[string]any{"switch_id": "10:22:33:44:55:99", "port_id": "swp7"}, skipped: differs},
		"another port":             {lldp: tlvs(tlvChassis, tlvPort, tlvName), before: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "swp8"}, skipped: differs},
		"another name":             {lldp: tlvs(tlvChassis, tlvPort, tlvName), before: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "swp7", "switch_info": "x"}, skipped: differs},
		"datapath ID":              {lldp: tlvs(tlvChassis, tlvPort), before: map[string]any{"switch_id": "0x0000102233445501", "port_id": "swp7"}, skipped: differs},
		"port is a number":         {lldp: tlvs(tlvChassis, tlvPort), before: map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": 7}, skipped: differs},
		"smart NIC":                {lldp: tlvs(tlvChassis, tlvPort), before: map[string]any{"hostname": "dpu", "port_id": "swp7"}, skipped: otherKind},
		"unmanaged":                {lldp: tlvs(tlvChassis, tlvPort), before: map[string]any{"network_type": "unmanaged"}, skipped: otherKind},
		"recorded and nothing new": {lldp: tlvs(`[3,"0078"]`), before: full},
	} {
		t.Run(name, func(t *testing.T) {
			stored := Port{UUID: "p", Address: "02:00:00:00:00:01", LocalLinkConnection: node.ObjectOf(tc.before)}
			result := run(t, connected(t), Input{Document: lldpServer(t, tc.lldp), Ports: []Port{stored}})
			got := tc.want
			if len(result.PortsToUpdate) > 0 {
				got = result.PortsToUpdate[0].LocalLinkConnection.Values()
			} else if tc.want != nil {
				t.Error("the port is not updated")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("local_link_connection (-want +got):\n%s", diff)
			}
			reason := ""
			if tc.skipped != "" {
				reason = fmt.Sprintf(`The local_link_connection of port 02:00:00:00:00:01 stays as it is: %s on interface "eth0"`, tc.skipped)
			}
			if last := strings.Join(result.Skipped[max(0, len(result.Skipped)-1):], ""); reason != "" && last != reason {
				t.Errorf("skipped = %q, want %q at the end", result.Skipped, reason)
			}
		})
	}
}

func TestConnectionsAreMatchedByAddress(t *testing.T) {
	infiniband := strings.Repeat("a0:", 19) + "a0"
	doc := machine(t, strings.Join([]string{
		nicWith("eth0", "01", `"lldp":null`),
		nicWith("eth0.100", "01", `"lldp":`+tlvs(tlvChassis, tlvPort)), // shares its address
		nicWith("eth1", "02", `"lldp":`+tlvs(tlvChassis, `[2,"0573777038"]`)),
		`{"name":"ib0","mac_address":"` + infiniband + `","lldp":` + tlvs(tlvChassis, tlvPort) + `}`,
		nicWith("eth3", "04", `"lldp":[]`),
	}, ","), "")
	result := run(t, connected(t), Input{Document: doc, Taken: map[string]string{"02:00:00:00:00:02": "other-node"}})
	got := map[string]string{}
	for _, port := range result.PortsToCreate {
		got[port.Address] = port.LocalLinkConnection.Text("port_id")
	}
	if diff := cmp.Diff(map[string]string{"02:00:00:00:00:01": "swp7", "02:00:00:00:00:04": ""}, got); diff != "" {
		t.Errorf("port_id by port (-want +got):\n%s", diff)
	}
}

func TestLLDPProblemIsReportedOnceForBothHooks(t *testing.T) {
	p := pipeline(t, func(c *Config) { c.Hooks = []string{"$default_hooks", "parse-lldp,local-link-connection"} })
	result := run(t, p, Input{Document: lldpServer(t, tlvs(tlvChassis, tlvPort, `[5,"ff"]`))})
	if diff := cmp.Diff([]string{`LLDP of interface "eth0": TLV 2: type 5: text is not UTF-8`}, result.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}
