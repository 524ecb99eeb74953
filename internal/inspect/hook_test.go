package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// nic is an interface without an IP address; suffix is the last octet of its MAC.
func nic(name, suffix string) string {
	return fmt.Sprintf(`{"name":%q,"mac_address":"02:00:00:00:00:%s"}`, name, suffix)
}

// nicWith is nic with further members.
func nicWith(name, suffix, members string) string {
	return strings.TrimSuffix(nic(name, suffix), "}") + "," + members + "}"
}

const bootedFrom02 = `,"boot":{"pxe_interface":"01-02-00-00-00-00-02"}`

func TestRamdiskError(t *testing.T) {
	for value, want := range map[string]string{
		`null`:             "",
		`""`:               "",
		`" \n "`:           "",
		`false`:            "",
		`0`:                "",
		`[]`:               "",
		`"no disks found"`: "ramdisk-error: the ramdisk reported: no disks found",
		`["a", "b"]`:       `ramdisk-error: the ramdisk reported: ["a", "b"]`,
		`{"code": 5}`:      `ramdisk-error: the ramdisk reported: {"code": 5}`,
		`true`:             "ramdisk-error: the ramdisk reported: true",
		`"get http://bob:hunter2@images.example.net/x failed"`: "ramdisk-error: the ramdisk reported: get http://******@images.example.net/x failed",
		`"a\u0000b\u001b[31m"`:                                 "ramdisk-error: the ramdisk reported: a b [31m",
	} {
		doc := document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`]},"error":`+value+`}`)
		_, err := pipeline(t, func(c *Config) { c.Hooks = []string{"ramdisk-error"} }).Run(Input{Document: doc})
		if got := errorText(err); got != want {
			t.Errorf("error %s gives %q, want %q", value, got, want)
		}
	}
}

func TestLongRamdiskErrorIsCut(t *testing.T) {
	doc := document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`]},"error":"`+strings.Repeat("x", 1<<20)+`"}`)
	_, err := pipeline(t, nil).Run(Input{Document: doc})
	if err == nil || len(err.Error()) > 2200 {
		t.Errorf("error has %d bytes, want about 2 KiB", len(errorText(err)))
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestArchitecture(t *testing.T) {
	const missing = "architecture: the inventory names no CPU architecture (cpu.architecture); check the ramdisk's hardware manager"
	for name, tc := range map[string]struct {
		cpu, before, want, err string
	}{
		"new":            {cpu: `{"architecture":"aarch64"}`, want: "aarch64"},
		"other than set": {cpu: `{"architecture":"aarch64"}`, before: "x86_64", want: "aarch64"},
		"as before":      {cpu: `{"architecture":"x86_64"}`, before: "x86_64"},
		"with spaces":    {cpu: `{"architecture":" x86_64\n"}`, want: "x86_64"},
		"no cpu":         {cpu: `null`, err: missing},
		"empty":          {cpu: `{"architecture":""}`, err: missing},
		"null":           {cpu: `{"architecture":null,"count":-4}`, err: missing},
		"too long":       {cpu: `{"architecture":"` + strings.Repeat("x", 33) + `"}`, err: "architecture: the CPU architecture in the inventory is too long to be one (cpu.architecture)"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Document: document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`],"cpu":`+tc.cpu+`}}`)}
			if tc.before != "" {
				in.Properties = node.ObjectOf(map[string]any{"cpu_arch": tc.before})
			}
			result, err := pipeline(t, func(c *Config) { c.Hooks = []string{"architecture"} }).Run(in)
			if errorText(err) != tc.err {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if err != nil {
				return
			}
			if got, _ := result.Properties["cpu_arch"].(string); got != tc.want {
				t.Errorf("cpu_arch changes to %q, want %q", got, tc.want)
			}
		})
	}
}

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

func TestInterfaceEntriesAreCopiesWithCorrections(t *testing.T) {
	doc := machine(t, `{"vendor_key":{"deep":[1, 2.50]},"name":"eth0","mac_address":"02-00-00-00-00-0A","ipv6_address":"fe80::1%eth0",`+
		`"pxe_enabled":"yes","is_added":1,"lldp":[[1,"04"]],"ipv4_address":null}`, `,"boot":{"pxe_interface":"02:00:00:00:00:0A"}`)
	result := run(t, pipeline(t, nil), Input{Document: doc})
	want := map[string]any{
		"vendor_key": map[string]any{"deep": []any{1.0, 2.5}}, "name": "eth0", "mac_address": "02:00:00:00:00:0a",
		"ipv6_address": "fe80::1", "pxe_enabled": true, "lldp": []any{[]any{1.0, "04"}}, "ipv4_address": nil,
	}
	if diff := cmp.Diff(map[string]any{"eth0": want}, pluginValue(t, result, "all_interfaces")); diff != "" {
		t.Errorf("all_interfaces (-want +got):\n%s", diff)
	}
	want["is_added"] = true
	if diff := cmp.Diff(map[string]any{"eth0": want}, pluginValue(t, result, "valid_interfaces")); diff != "" {
		t.Errorf("valid_interfaces (-want +got):\n%s", diff)
	}
}

func TestUnusableInterfacesAreSkippedWithAReason(t *testing.T) {
	infiniband := strings.Repeat("a0:", 19) + "a0"
	for name, tc := range map[string]struct{ nic, reason string }{
		"no name":       {`{"mac_address":"02:00:00:00:00:01"}`, `Interface "" with address "02:00:00:00:00:01" has no name`},
		"null name":     {`{"name":null,"mac_address":"02:00:00:00:00:01"}`, `Interface "" with address "02:00:00:00:00:01" has no name`},
		"loopback":      {`{"name":"lo","mac_address":"00:00:00:00:00:00"}`, `Interface "lo" with address "00:00:00:00:00:00" is the loopback`},
		"loopback IP":   {nicWith("dummy0", "01", `"ipv4_address":"127.0.0.1"`), `Interface "dummy0" with address "02:00:00:00:00:01" is the loopback`},
		"loopback IPv6": {nicWith("dummy0", "01", `"ipv6_address":"::1"`), `Interface "dummy0" with address "02:00:00:00:00:01" is the loopback`},
		"zero MAC":      {`{"name":"tun0","mac_address":"00:00:00:00:00:00"}`, `Interface "tun0" with address "00:00:00:00:00:00" has no Ethernet address that identifies it`},
		"group MAC":     {`{"name":"x","mac_address":"01:00:5e:00:00:01"}`, `Interface "x" with address "01:00:5e:00:00:01" has no Ethernet address that identifies it`},
		"InfiniBand":    {`{"name":"ib0","mac_address":"` + infiniband + `"}`, `Interface "ib0" with address "` + infiniband + `" has no Ethernet address that identifies it`},
		"name twice":    {nic("good", "01"), `Interface "good" with address "02:00:00:00:00:01" has a name that an earlier one has`},
		"hostile name":  {`{"name":"` + strings.Repeat("\\u001b", 99) + `","mac_address":"00:00:00:00:00:00"}`, `Interface "` + strings.Repeat(`\x1b`, 64) + `…" with address "00:00:00:00:00:00" has no Ethernet address that identifies it`},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, pipeline(t, nil), Input{Document: machine(t, nic("good", "ee")+","+tc.nic, "")})
			if diff := cmp.Diff([]string{tc.reason}, result.Skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"02:00:00:00:00:ee"}, addresses(result.PortsToCreate)); diff != "" {
				t.Errorf("ports to create (-want +got):\n%s", diff)
			}
			if got := len(pluginValue(t, result, "all_interfaces").(map[string]any)); got != 1 {
				t.Errorf("%d entries in all_interfaces, want the good one only", got)
			}
		})
	}
}

func TestMachineWithoutUsableInterfaceFailsWithReasons(t *testing.T) {
	only := nicWith("eth0", "01", `"ipv4_address":"::1"`)
	for name, tc := range map[string]struct {
		add              AddPorts
		nics, more, want string
	}{
		"nothing usable": {AddAll, only + `,{"mac_address":"02:00:00:00:00:02"}`, "",
			`validate-interfaces: no usable network interface in the inventory. Interface "eth0" with address "02:00:00:00:00:01" is the loopback. ` +
				`Interface "" with address "02:00:00:00:00:02" has no name`},
		"nothing active": {AddActive, nic("eth0", "01") + "," + nic("eth1", "02"), "",
			`validate-interfaces: add_ports is active, but each of the 2 usable interfaces has no IP address`},
		"boot interface not listed": {AddPXE, nic("eth0", "01"), bootedFrom02,
			`validate-interfaces: add_ports is pxe, but each of the 1 usable interfaces is not the one the ramdisk was booted from`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline(t, func(c *Config) { c.AddPorts = tc.add }).Run(Input{Document: machine(t, tc.nics, tc.more)})
			if errorText(err) != tc.want {
				t.Errorf("error\n got: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestOddInterfacesStillBecomePorts(t *testing.T) {
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
	result := run(t, pipeline(t, nil), Input{Document: machine(t, nicWith("ib0", "01", `"client_id":"`+clientID+`"`), "")})
	if got := result.PortsToCreate[0].Extra.Text("client-id"); got != clientID {
		t.Errorf("extra.client-id = %q, want %q", got, clientID)
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
