package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

func TestAddPortsSelectsInterfaces(t *testing.T) {
	nics := strings.Join([]string{
		nicWith("eth0", "01", `"ipv4_address":"192.0.2.1"`),
		nic("eth1", "02"),
		nicWith("eth2", "03", `"ipv6_address":"2001:db8::3"`),
		nicWith("eth3", "04", `"ipv4_address":"","ipv6_address":null`),
	}, ",")
	all := []string{"02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03", "02:00:00:00:00:04"}
	star := func(macs []string, i int) []string {
		marked := append([]string(nil), macs...)
		marked[i] += "*"
		return marked
	}
	for name, tc := range map[string]struct {
		add     AddPorts
		more    string
		created []string
		macs    int
	}{
		"all":                 {AddAll, bootedFrom02, star(all, 1), 4},
		"all, boot unknown":   {AddAll, "", all, 4},
		"active":              {AddActive, bootedFrom02, []string{all[0], all[2]}, 2},
		"pxe":                 {AddPXE, bootedFrom02, []string{all[1] + "*"}, 1},
		"pxe in upper case":   {AddPXE, `,"boot":{"pxe_interface":"02:00:00:00:00:02"}`, []string{all[1] + "*"}, 1},
		"pxe, boot unknown":   {AddPXE, "", all, 4},
		"pxe, boot is no MAC": {AddPXE, `,"boot":{"pxe_interface":"eth0"}`, all, 4},
		"disabled":            {AddDisabled, bootedFrom02, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, pipeline(t, func(c *Config) { c.AddPorts = tc.add }), Input{Document: machine(t, nics, tc.more)})
			if diff := cmp.Diff(tc.created, addresses(result.PortsToCreate)); diff != "" {
				t.Errorf("ports to create (-want +got):\n%s", diff)
			}
			if got := len(pluginValue(t, result, "all_interfaces").(map[string]any)); got != 4 {
				t.Errorf("%d entries in all_interfaces, want every usable one", got)
			}
			macs := pluginValue(t, result, "macs").([]any)
			valid := pluginValue(t, result, "valid_interfaces").(map[string]any)
			if len(macs) != tc.macs || len(valid) != tc.macs {
				t.Errorf("macs = %v, %d valid interfaces, want %d of both", macs, len(valid), tc.macs)
			}
			for name, entry := range valid {
				if got := entry.(map[string]any)["is_added"]; got != (tc.add != AddDisabled) {
					t.Errorf("is_added of %s = %v", name, got)
				}
			}
		})
	}
}

func TestUnusualInterfacesBecomePorts(t *testing.T) {
	for name, tc := range map[string]struct {
		nics string
		want []string
	}{
		"IPv6 only":         {nicWith("eth0", "01", `"ipv6_address":"fe80::1%eth0","speed_mbps":"10000"`), []string{"02:00:00:00:00:01"}},
		"broken address":    {nicWith("eth0", "01", `"ipv4_address":"no","speed_mbps":-1`), []string{"02:00:00:00:00:01"}},
		"strange name":      {nic(`ü/".\\$(rm)`, "01"), []string{"02:00:00:00:00:01"}},
		"VLAN shares a MAC": {nic("eth0", "01") + "," + nic("eth0.10", "01"), []string{"02:00:00:00:00:01"}},
		"upper case shares": {`{"name":"a","mac_address":"02:00:00:00:00:AA"},` + nic("b", "aa"), []string{"02:00:00:00:00:aa"}},
		"everything null":   {nicWith("eth0", "01", `"ipv4_address":null,"ipv6_address":null,"has_carrier":null,"lldp":null,"vendor":null,"speed_mbps":null`), []string{"02:00:00:00:00:01"}},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, pipeline(t, nil), Input{Document: machine(t, tc.nics, "")})
			if diff := cmp.Diff(tc.want, addresses(result.PortsToCreate)); diff != "" {
				t.Errorf("ports to create (-want +got):\n%s", diff)
			}
			if got := len(pluginValue(t, result, "macs").([]any)); got != len(tc.want) {
				t.Errorf("%d macs, want each address once", got)
			}
		})
	}
}

func TestAddressThatOtherMachinesMayHaveBecomesNoPort(t *testing.T) {
	const assigned = `{"name":"eno1","mac_address":"3c:ec:ef:00:00:01"}`
	local := nic("usb0", "02")
	for name, tc := range map[string]struct {
		link   string
		boot   string
		before []Port
		want   []string
		kept   bool
	}{
		"USB link of a BMC": {link: local, want: []string{"3c:ec:ef:00:00:01"}},
		"known to be many":  {link: `{"name":"usb0","mac_address":"B0-3A-F2-B6-05-9F"}`, want: []string{"3c:ec:ef:00:00:01"}},
		"booted from":       {link: local, boot: bootedFrom02, want: []string{"3c:ec:ef:00:00:01", "02:00:00:00:00:02*"}},
		"has a port":        {link: local, before: []Port{{UUID: "p", Address: "02:00:00:00:00:02"}}, want: []string{"3c:ec:ef:00:00:01"}, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, pipeline(t, nil), Input{Document: machine(t, assigned+","+tc.link, tc.boot), Ports: tc.before})
			if diff := cmp.Diff(tc.want, addresses(result.PortsToCreate)); diff != "" || len(result.PortsToDelete) > 0 {
				t.Errorf("deleted %v, created (-want +got):\n%s", result.PortsToDelete, diff)
			}
			if told := len(result.Skipped) > 0; told != (len(tc.want) == 1 && !tc.kept) {
				t.Errorf("skipped %q", result.Skipped)
			}
		})
	}
}

func TestThousandsOfInterfacesBecomePorts(t *testing.T) {
	var nics []string
	for i := range inventory.MaxInterfaces {
		nics = append(nics, fmt.Sprintf(`{"name":"eth%d","mac_address":"02:00:00:00:%02x:%02x"}`, i, i>>8, i&0xff))
	}
	result := run(t, pipeline(t, nil), Input{Document: machine(t, strings.Join(nics, ","), "")})
	if got := len(result.PortsToCreate); got != inventory.MaxInterfaces {
		t.Errorf("%d ports, want %d", got, inventory.MaxInterfaces)
	}
}

func TestClientIDGoesToThePort(t *testing.T) {
	const clientID = "ff:00:00:00:00:00:02:00:00:02:c9:00:7c:fe:90:03:00:29:26:52"
	withID := func(name, id string) string { return nicWith(name, "01", `"client_id":"`+id+`"`) }
	port := func(extra string) []Port {
		return []Port{{UUID: "p", Address: "02:00:00:00:00:01", Extra: node.Object(extra)}}
	}
	const stored = `{"client-id":"` + clientID + `"}`
	for name, tc := range map[string]struct {
		nics             string
		before           []Port
		add              AddPorts
		created, updated string // extra of the port, if there is such a port
	}{
		"new port":                       {nics: withID("ib0", clientID), created: stored},
		"VLAN interface first":           {nics: nic("ib0.8", "01") + "," + withID("ib0", clientID), created: stored},
		"two identifiers":                {nics: withID("ib0", clientID) + "," + withID("ib1", "ff:00"), created: stored},
		"port without one":               {nics: withID("ib0", clientID), before: port(`{"a":1}`), updated: `{"a":1,"client-id":"` + clientID + `"}`},
		"other adapter":                  {nics: withID("ib0", clientID), before: port(`{"client-id":"ff:00"}`), updated: stored},
		"port of a person, none is made": {nics: withID("ib0", clientID), before: port(""), add: AddDisabled, updated: stored},
		"same":                           {nics: withID("ib0", clientID), before: port(stored)},
		"set by a person":                {nics: nic("ib0", "01"), before: port(stored)},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, func(c *Config) {
				if tc.add != "" {
					c.AddPorts = tc.add
				}
			})
			result := run(t, p, Input{Document: machine(t, tc.nics, ""), Ports: tc.before})
			extra := func(ports []Port) string {
				if len(ports) == 0 {
					return ""
				}
				return string(ports[0].Extra)
			}
			if got := extra(result.PortsToCreate); got != tc.created {
				t.Errorf("extra of the new port = %s, want %s", got, tc.created)
			}
			if got := extra(result.PortsToUpdate); got != tc.updated {
				t.Errorf("extra of the changed port = %s, want %s", got, tc.updated)
			}
		})
	}
}

func TestRamdiskBootedFromInfiniBandMarksItsPort(t *testing.T) {
	doc := machine(t, nic("eth0", "01")+","+nicWith("ib0", "02", `"client_id":"ff:00"`), `,"boot":{"pxe_interface":"20-02-00-00-00-00-02"}`)
	result := run(t, pipeline(t, func(c *Config) { c.AddPorts = AddPXE }), Input{Document: doc})
	if diff := cmp.Diff([]string{"02:00:00:00:00:02*"}, addresses(result.PortsToCreate)); diff != "" {
		t.Errorf("ports to create (-want +got):\n%s", diff)
	}
}

func TestKeepPortsDeletesOnlyWhatItShould(t *testing.T) {
	existing := []Port{
		{UUID: "boot", Address: "02:00:00:00:00:02", PXEEnabled: true},
		{UUID: "plain", Address: "02:00:00:00:00:01"},
		{UUID: "gone", Address: "02:00:00:00:00:99"},
	}
	for name, tc := range map[string]struct {
		add     AddPorts
		keep    KeepPorts
		deleted []string
		created []string
	}{
		"all":            {AddPXE, KeepAll, nil, nil},
		"present":        {AddPXE, KeepPresent, []string{"gone"}, nil},
		"added":          {AddPXE, KeepAdded, []string{"plain", "gone"}, nil},
		"added, add all": {AddAll, KeepAdded, []string{"gone"}, []string{"02:00:00:00:00:03"}},
		"not even added": {AddDisabled, KeepPresent, []string{"gone"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			doc := machine(t, nic("eth0", "01")+","+nic("eth1", "02")+","+nic("eth2", "03"), bootedFrom02)
			result := run(t, pipeline(t, func(c *Config) { c.AddPorts, c.KeepPorts = tc.add, tc.keep }), Input{Document: doc, Ports: existing})
			var deleted []string
			for _, port := range result.PortsToDelete {
				deleted = append(deleted, port.UUID)
			}
			if diff := cmp.Diff(tc.deleted, deleted); diff != "" {
				t.Errorf("ports to delete (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.created, addresses(result.PortsToCreate)); diff != "" {
				t.Errorf("ports to create (-want +got):\n%s", diff)
			}
			if result.PortsToUpdate != nil {
				t.Errorf("ports to update = %v, want none", result.PortsToUpdate)
			}
		})
	}
}

func TestPXEEnabledOfExistingPortsFollowsTheInventory(t *testing.T) {
	existing := []Port{
		{UUID: "wrongly-on", Address: "02:00:00:00:00:01", PXEEnabled: true, Extra: node.ObjectOf(map[string]any{"a": 1})},
		{UUID: "wrongly-off", Address: "02:00:00:00:00:02"},
		{UUID: "not-listed", Address: "02:00:00:00:00:99", PXEEnabled: true},
	}
	doc := machine(t, nic("eth0", "01")+","+nic("eth1", "02"), bootedFrom02)

	result := run(t, pipeline(t, nil), Input{Document: doc, Ports: existing})
	want := []Port{existing[0], existing[1], existing[2]}
	want[0].PXEEnabled, want[1].PXEEnabled, want[2].PXEEnabled = false, true, false
	if diff := cmp.Diff(want, result.PortsToUpdate); diff != "" {
		t.Errorf("ports to update (-want +got):\n%s", diff)
	}
	if result.PortsToCreate != nil || result.PortsToDelete != nil {
		t.Errorf("created %v, deleted %v, want neither", result.PortsToCreate, result.PortsToDelete)
	}

	result = run(t, pipeline(t, func(c *Config) { c.UpdatePXEEnabled = false }), Input{Document: doc, Ports: existing})
	if result.PortsToUpdate != nil {
		t.Errorf("ports to update = %v with update_pxe_enabled off, want none", result.PortsToUpdate)
	}
}

func TestAddressOfAnotherNodeGetsNoPort(t *testing.T) {
	doc := machine(t, nic("eth0", "01")+","+nic("eth1", "02"), "")
	result := run(t, pipeline(t, nil), Input{Document: doc, Taken: map[string]string{"02:00:00:00:00:01": "other-node"}})
	if diff := cmp.Diff([]string{"02:00:00:00:00:02"}, addresses(result.PortsToCreate)); diff != "" {
		t.Errorf("ports to create (-want +got):\n%s", diff)
	}
	valid := pluginValue(t, result, "valid_interfaces").(map[string]any)
	if valid["eth0"].(map[string]any)["is_added"] != false || valid["eth1"].(map[string]any)["is_added"] != true {
		t.Errorf("valid_interfaces = %v, want is_added for eth1 only", valid)
	}
	want := []string{`Interface "eth0" gets no port: its address 02:00:00:00:00:01 belongs to node other-node`}
	if diff := cmp.Diff(want, result.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestSecondInspectionOfTheSameMachineChangesNothing(t *testing.T) {
	doc := fixture(t, "server-4-nics.json")
	p := pipeline(t, func(c *Config) { c.KeepPorts = KeepPresent })
	first := run(t, p, Input{Document: doc})
	stored := Input{Document: doc, Properties: node.ObjectOf(first.Properties)}
	for i, port := range first.PortsToCreate {
		port.UUID = fmt.Sprintf("port-%d", i)
		stored.Ports = append(stored.Ports, port)
	}
	second := run(t, p, stored)
	if diff := cmp.Diff(&Result{PluginData: first.PluginData}, second); diff != "" {
		t.Errorf("second result (-want +got):\n%s", diff)
	}
}
