package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordedAgent is the body that ironic-python-agent 9.11.0 posted from a small
// virtual machine; server4NICs is an invented server of about 10 kB.
const (
	recordedAgent = "ironic-python-agent-9.11.0.json"
	server4NICs   = "server-4-nics.json"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func mustParse(t testing.TB, body string) *Document {
	t.Helper()
	doc, err := Parse([]byte(body))
	if err != nil {
		t.Fatalf("Parse(%s): %v", body, err)
	}
	return doc
}

// withInventory returns a document with one good interface and the given
// further members of its inventory.
func withInventory(members string) string {
	return `{"inventory":{"interfaces":[{"name":"eth0","mac_address":"52:54:00:12:34:56"}]` + members + `}}`
}

func TestRecordedAgentDocumentIsRead(t *testing.T) {
	doc := mustParse(t, string(fixture(t, recordedAgent)))

	hw := doc.Hardware
	hw.CPU.Flags = hw.CPU.Flags[:2]
	hw.Interfaces[0].Raw, hw.Disks[0].Raw = nil, nil
	want := Inventory{
		Interfaces: []Interface{{
			Name: "eth0", MACAddress: "02:fc:00:00:00:01", HardwareAddress: "02:fc:00:00:00:01",
			IPv4Address: "192.0.2.2", IPv6Address: "fd00::2", HasCarrier: true,
			Vendor: "0x1af4", Product: "0x0001",
		}},
		CPU:        CPU{ModelName: "AMD EPYC", Count: 2, Architecture: "x86_64", Flags: []string{"fpu", "vme"}, SocketCount: 1},
		Memory:     Memory{Total: 25276510208, PhysicalMB: 24576},
		Disks:      []Disk{{Name: "/dev/vda", Size: 274877906944, Rotational: true, Vendor: "0x1af4"}},
		BMCAddress: "0.0.0.0", BMCV6Address: "::/0",
		Boot:     Boot{CurrentBootMode: "bios"},
		Hostname: "vm",
	}
	if diff := cmp.Diff(want, hw); diff != "" {
		t.Errorf("typed view (-want +got):\n%s", diff)
	}
	if got := doc.Hardware.BMCAddresses(); got != nil {
		t.Errorf("BMC addresses of a machine without a BMC = %v, want none", got)
	}
	if _, ok := doc.PluginData["root_disk"]; !ok || len(doc.PluginData) != 4 {
		t.Errorf("plugin data = %v, want root_disk, boot_interface, configuration and error", doc.PluginData)
	}
}

func TestServerDocumentIsRead(t *testing.T) {
	doc := mustParse(t, string(fixture(t, server4NICs)))

	hw := &doc.Hardware
	wantMACs := []string{"3c:ec:ef:10:20:30", "3c:ec:ef:10:20:31", "3c:ec:ef:10:20:32", "3c:ec:ef:10:20:33"}
	if diff := cmp.Diff(wantMACs, hw.MACs()); diff != "" {
		t.Errorf("MACs (-want +got):\n%s", diff)
	}
	if got := hw.BootMAC(); got != wantMACs[0] {
		t.Errorf("boot MAC = %q, want %q", got, wantMACs[0])
	}
	wantBMC := []netip.Addr{netip.MustParseAddr("192.0.2.217"), netip.MustParseAddr("2001:db8:5::d9")}
	if got := hw.BMCAddresses(); !cmp.Equal(got, wantBMC, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })) {
		t.Errorf("BMC addresses = %v, want %v", got, wantBMC)
	}
	wantDisk := Disk{
		Name: "/dev/sdb", Model: "Example SSD PM883", Size: 480103981056, WWN: "0x5000c500a1b2c301", Serial: "S5XANA0N401001",
		Vendor: "ATA", WWNWithExtension: "0x5000c500a1b2c301", HCTL: "1:0:0:0", ByPath: "/dev/disk/by-path/pci-0000:00:17.0-ata-2",
		LogicalSectors: 512, PhysicalSectors: 4096,
	}
	if raw := string(hw.Disks[1].Raw); !strings.HasPrefix(raw, `{"name": "/dev/sdb"`) || !strings.HasSuffix(raw, "}") {
		t.Errorf("second disk as sent = %s", raw)
	}
	hw.Disks[1].Raw = nil
	if diff := cmp.Diff(wantDisk, hw.Disks[1]); diff != "" {
		t.Errorf("second disk (-want +got):\n%s", diff)
	}
	wantVendor := SystemVendor{
		ProductName: "EX-2029 (SKU=NotProvided;ModelName=EX-2029)", SerialNumber: "SN7QX0042", Manufacturer: "Example Systems",
		Firmware: Firmware{Vendor: "American Megatrends Inc.", Version: "3.6", BuildDate: "01/26/2033"},
	}
	if diff := cmp.Diff(wantVendor, hw.SystemVendor); diff != "" {
		t.Errorf("system vendor (-want +got):\n%s", diff)
	}
}

func TestDocumentKeepsTheBytesAsSent(t *testing.T) {
	const inv = `{ "interfaces" : [ {"mac_address":"AA:BB:CC:00:11:22","x":1e2} ],"vendor_key":{"b": [1, 2 ],"a":"é"} }`
	body := "\n {\"inventory\": " + inv + ` , "root_disk" : {"size": 1.0}, "logs":"H4sI", "own" : [ ]} `
	doc := mustParse(t, body)

	if got := string(doc.Inventory); got != inv {
		t.Errorf("inventory = %s, want %s", got, inv)
	}
	want := map[string]json.RawMessage{"root_disk": json.RawMessage(`{"size": 1.0}`), "own": json.RawMessage(`[ ]`)}
	if diff := cmp.Diff(want, doc.PluginData); diff != "" {
		t.Errorf("plugin data (-want +got):\n%s", diff)
	}
	if got := string(doc.Logs); got != `"H4sI"` {
		t.Errorf("logs = %s, want them apart from the plugin data", got)
	}
	if got := string(doc.Hardware.Interfaces[0].Raw); got != `{"mac_address":"AA:BB:CC:00:11:22","x":1e2}` {
		t.Errorf("raw interface = %s", got)
	}
	_ = append(doc.Inventory, strings.Repeat("x", 60)...)
	if got := string(doc.PluginData["own"]); got != `[ ]` {
		t.Errorf("appending to the inventory changed its neighbour to %s", got)
	}
}

func TestRestoreGivesTheSameDocumentBack(t *testing.T) {
	doc := mustParse(t, string(fixture(t, server4NICs)))
	plugin, err := json.Marshal(doc.PluginData)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(doc.Inventory, plugin)
	if err != nil {
		t.Fatal(err)
	}
	doc.Logs = nil // logs are never stored
	plain := cmp.Transformer("decode", func(raw json.RawMessage) (v any) {
		if raw != nil {
			_ = json.Unmarshal(raw, &v)
		}
		return v
	})
	if diff := cmp.Diff(doc, restored, plain); diff != "" {
		t.Errorf("restored document (-want +got):\n%s", diff)
	}
}

func TestRestoreErrorNamesTheInvalidPart(t *testing.T) {
	good := `{"interfaces":[{"mac_address":"52:54:00:12:34:56"}]}`
	for _, tc := range []struct{ inventory, plugin, want string }{
		{`[]`, `{}`, `inventory: want an object, got a list`},
		{``, `{}`, `inventory: body is empty, want a JSON object`},
		{good, `null`, `plugin_data: want an object, got null`},
		{good, `{"a":}`, `plugin_data.a: malformed JSON: unexpected '}' at byte 5`},
		{good, `{} x`, `plugin_data: malformed JSON: unexpected 'x' at byte 3`},
	} {
		if _, err := Restore([]byte(tc.inventory), []byte(tc.plugin)); err == nil || err.Error() != tc.want {
			t.Errorf("Restore(%s, %s) = %v, want %s", tc.inventory, tc.plugin, err, tc.want)
		}
	}
}

func TestBadDocumentsAreRefusedWithThePlaceAndTheReason(t *testing.T) {
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for name, tc := range map[string]struct{ body, want string }{
		"empty body":            {"", "body is empty, want a JSON object"},
		"only white space":      {" \n", "body is empty, want a JSON object"},
		"not JSON":              {"hello", "malformed JSON: unexpected 'h' at byte 0"},
		"not UTF-8":             {"{\"inventory\":\"\xff\"}", "body is not UTF-8 text"},
		"byte order mark":       {"\ufeff{}", `malformed JSON: unexpected '\ufeff' at byte 0`},
		"list":                  {`[1]`, "want an object, got a list"},
		"text":                  {`"inventory"`, `want an object, got the text "inventory"`},
		"number":                {`12`, "want an object, got the number 12"},
		"null":                  {`null`, "want an object, got null"},
		"two documents":         {withInventory("") + withInventory(""), "malformed JSON: unexpected '{' at byte 80"},
		"cut off":               {`{"inventory":{"interfaces":[{"mac_address":"52:5`, "inventory.interfaces[0].mac_address: malformed JSON: the text ends early, at byte 48"},
		"trailing comma":        {`{"a":1,}`, "malformed JSON: unexpected '}' at byte 7"},
		"comma in front":        {`{,"a":1}`, "malformed JSON: unexpected ',' at byte 1"},
		"no colon":              {`{"a" 1}`, "malformed JSON: unexpected '1' at byte 5"},
		"unquoted key":          {`{a:1}`, "malformed JSON: unexpected 'a' at byte 1"},
		"single quotes":         {`{'a':1}`, `malformed JSON: unexpected '\'' at byte 1`},
		"list without comma":    {`{"a":[1 2]}`, "a: malformed JSON: unexpected '2' at byte 8"},
		"leading zero":          {`{"a":01}`, "malformed JSON: unexpected '1' at byte 6"},
		"bare minus":            {`{"a":-}`, "a: malformed JSON: unexpected '}' at byte 6"},
		"NaN":                   {`{"a":NaN}`, "a: malformed JSON: unexpected 'N' at byte 5"},
		"raw control character": {"{\"a\":\"x\ty\"}", `a: malformed JSON: unexpected '\t' at byte 7`},
		"bad escape":            {`{"a":"\q"}`, "a: malformed JSON: unexpected 'q' at byte 7"},
		"bad unicode escape":    {`{"a":"\u12g4"}`, "a: malformed JSON: unexpected 'g' at byte 10"},
		"nested one too deep":   {`{"a":` + nested(25) + `}`, "a" + strings.Repeat("[0]", 24) + ": JSON is nested deeper than 25 levels"},
		"bomb":                  {strings.Repeat("[", 1<<20), "want an object, got a list"},
		"bomb in plugin data":   {`{"a":` + strings.Repeat(`[`, 1<<20), "a" + strings.Repeat("[0]", 24) + ": JSON is nested deeper than 25 levels"},

		"no inventory":            {`{"root_disk":{}}`, "inventory: is missing, want an object"},
		"inventory is null":       {`{"inventory":null}`, "inventory: want an object, got null"},
		"inventory is a list":     {`{"inventory":[]}`, "inventory: want an object, got a list"},
		"no interfaces":           {`{"inventory":{}}`, "inventory.interfaces: want a list of at least one network interface"},
		"no interface":            {`{"inventory":{"interfaces":[]}}`, "inventory.interfaces: want a list of at least one network interface"},
		"interfaces are null":     {`{"inventory":{"interfaces":null}}`, "inventory.interfaces: want a list, got null"},
		"interfaces by name":      {`{"inventory":{"interfaces":{"eth0":{}}}}`, "inventory.interfaces: want a list, got an object"},
		"interface is text":       {`{"inventory":{"interfaces":["eth0"]}}`, `inventory.interfaces[0]: want an object, got the text "eth0"`},
		"interface without MAC":   {`{"inventory":{"interfaces":[{"name":"eth0"}]}}`, "inventory.interfaces[0].mac_address: is missing"},
		"MAC is null":             {`{"inventory":{"interfaces":[{"mac_address":null}]}}`, "inventory.interfaces[0].mac_address: want a MAC address, got null"},
		"MAC is a number":         {`{"inventory":{"interfaces":[{"mac_address":1}]}}`, "inventory.interfaces[0].mac_address: want a MAC address, got the number 1"},
		"MAC is empty":            {`{"inventory":{"interfaces":[{"mac_address":""}]}}`, `inventory.interfaces[0].mac_address: want a MAC address, got ""`},
		"second MAC is a name":    {`{"inventory":{"interfaces":[{"mac_address":"52:54:00:12:34:56"},{"mac_address":"eth1"}]}}`, `inventory.interfaces[1].mac_address: want a MAC address, got "eth1"`},
		"MAC without separators":  {`{"inventory":{"interfaces":[{"mac_address":"525400123456"}]}}`, `inventory.interfaces[0].mac_address: want a MAC address, got "525400123456"`},
		"MAC with both":           {`{"inventory":{"interfaces":[{"mac_address":"52:54:00-12:34:56"}]}}`, `inventory.interfaces[0].mac_address: want a MAC address, got "52:54:00-12:34:56"`},
		"only an InfiniBand MAC":  {`{"inventory":{"interfaces":[{"mac_address":"` + strings.Repeat("a0:", 19) + `a0"}]}}`, "inventory.interfaces: no interface has an Ethernet address, so the machine cannot be identified"},
		"only a zero MAC":         {`{"inventory":{"interfaces":[{"mac_address":"00:00:00:00:00:00"}]}}`, "inventory.interfaces: no interface has an Ethernet address, so the machine cannot be identified"},
		"quoted text is cut":      {`{"inventory":{"interfaces":[{"mac_address":"` + strings.Repeat("ü", 100) + `"}]}}`, `inventory.interfaces[0].mac_address: want a MAC address, got "` + strings.Repeat("ü", 64) + `…"`},
		"cpu is text":             {withInventory(`,"cpu":"fast"`), `inventory.cpu: want an object, got the text "fast"`},
		"cpu count is text":       {withInventory(`,"cpu":{"count":"many"}`), `inventory.cpu.count: want a whole number, got the text "many"`},
		"cpu flag is a number":    {withInventory(`,"cpu":{"flags":["aes",1]}`), `inventory.cpu.flags[1]: want text, got the number 1`},
		"architecture is a list":  {withInventory(`,"cpu":{"architecture":["x86_64"]}`), `inventory.cpu.architecture: want text, got a list`},
		"memory is a number":      {withInventory(`,"memory":4096`), `inventory.memory: want an object, got the number 4096`},
		"memory without end":      {withInventory(`,"memory":{"total":1e999}`), `inventory.memory.total: the number 1e999 is too large`},
		"number beyond floats":    {withInventory(`,"x":[-1e400]`), `inventory.x[0]: the number -1e400 is too large`},
		"memory beyond 64 bits":   {withInventory(`,"memory":{"total":9223372036854775808}`), `inventory.memory.total: want a whole number, got the number 9223372036854775808`},
		"memory is not a number":  {withInventory(`,"memory":{"total":"NaN"}`), `inventory.memory.total: want a whole number, got the text "NaN"`},
		"disks by name":           {withInventory(`,"disks":{"sda":{}}`), `inventory.disks: want a list, got an object`},
		"disk is null":            {withInventory(`,"disks":[null]`), `inventory.disks[0]: want an object, got null`},
		"disk size is an object":  {withInventory(`,"disks":[{},{"size":{}}]`), `inventory.disks[1].size: want a number, got an object`},
		"rotational is text":      {withInventory(`,"disks":[{"rotational":"yes"}]`), `inventory.disks[0].rotational: want true or false, got the text "yes"`},
		"half a boolean":          {withInventory(`,"disks":[{"rotational":tru}]`), `inventory.disks[0].rotational: malformed JSON: unexpected 't' at byte 102`},
		"BMC address is a number": {withInventory(`,"bmc_address":1`), `inventory.bmc_address: want text, got the number 1`},
		"hostname is a boolean":   {withInventory(`,"hostname":true`), `inventory.hostname: want text, got true`},
		"LLDP is text":            {`{"inventory":{"interfaces":[{"mac_address":"52:54:00:12:34:56","lldp":"x"}]}}`, `inventory.interfaces[0].lldp: want a list of TLVs, got the text "x"`},
		"firmware is a list":      {withInventory(`,"system_vendor":{"firmware":[]}`), `inventory.system_vendor.firmware: want an object, got a list`},
		"boot is text":            {withInventory(`,"boot":"uefi"`), `inventory.boot: want an object, got the text "uefi"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.body))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Parse = %v (%T), want an *Error", err, err)
			}
			if e.Error() != tc.want {
				t.Errorf("error\n got: %s\nwant: %s", e, tc.want)
			}
		})
	}
}

func TestListsAreBounded(t *testing.T) {
	many := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	nic := `{"mac_address":"52:54:00:12:34:56"}`
	for name, tc := range map[string]struct{ body, want string }{
		"interfaces": {`{"inventory":{"interfaces":[` + many(nic, MaxInterfaces+1) + `]}}`, "more than 4096 interfaces"},
		"disks":      {withInventory(`,"disks":[` + many("{}", maxDisks+1) + `]`), "more than 16384 disks"},
		"flags":      {withInventory(`,"cpu":{"flags":[` + many(`""`, maxFlags+1) + `]}`), "more than 4096 flags"},
		"plugin keys": {func() string {
			var b strings.Builder
			for i := range maxPluginKeys + 1 {
				fmt.Fprintf(&b, `"k%d":0,`, i)
			}
			return "{" + b.String() + "}"
		}(), "more than 1024 keys beside the inventory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.body))
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("Parse = %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Parse([]byte(`{"inventory":{"interfaces":[` + many(nic, MaxInterfaces) + `]}}`)); err != nil {
		t.Errorf("Parse of %d interfaces = %v, want them accepted", MaxInterfaces, err)
	}
}

func TestKnownDeviationsAreAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		members string
		check   func(*Inventory) (got, want any)
	}{
		"everything null": {
			`,"cpu":null,"memory":null,"disks":null,"system_vendor":null,"boot":null,"hostname":null,"bmc_address":null,"bmc_v6address":null`,
			func(inv *Inventory) (any, any) {
				return []any{inv.CPU, inv.Disks, inv.Boot, inv.Hostname}, []any{CPU{}, []Disk(nil), Boot{}, ""}
			},
		},
		"null inside objects": {
			`,"cpu":{"flags":null,"count":null,"frequency":null},"system_vendor":{"firmware":null},"disks":[{"size":null,"rotational":null}]`,
			func(inv *Inventory) (any, any) {
				return []any{inv.CPU, inv.Disks}, []any{CPU{}, []Disk{{Raw: []byte(`{"size":null,"rotational":null}`)}}}
			},
		},
		"frequency as number": {`,"cpu":{"frequency":3100.50}`, func(inv *Inventory) (any, any) { return inv.CPU.Frequency, "3100.50" }},
		"numbers as text": {`,"cpu":{"count":" 16 "},"disks":[{"size":"480103981056"},{"size":""}]`, func(inv *Inventory) (any, any) {
			return []int64{inv.CPU.Count, inv.Disks[0].Size, inv.Disks[1].Size}, []int64{16, 480103981056, 0}
		}},
		"fraction and exponent": {`,"memory":{"total":6.7e10,"physical_mb":1024.9}`, func(inv *Inventory) (any, any) {
			return inv.Memory, Memory{Total: 67000000000, PhysicalMB: 1024}
		}},
		"negative size": {`,"disks":[{"size":-1}]`, func(inv *Inventory) (any, any) { return inv.Disks[0].Size, int64(-1) }},
		"escapes": {`,"hostname":"a\u0062\n\"\ud83d\ude00"`, func(inv *Inventory) (any, any) {
			return inv.Hostname, "ab\n\"😀"
		}},
		"key with escapes":     {`,"\u0068ostname":"x"`, func(inv *Inventory) (any, any) { return inv.Hostname, "x" }},
		"last key wins":        {`,"hostname":"a","cpu":{"count":4,"architecture":"x"},"hostname":"b","cpu":{"count":8}`, func(inv *Inventory) (any, any) { return []any{inv.Hostname, inv.CPU}, []any{"b", CPU{Count: 8}} }},
		"unknown keys skipped": {`,"numa":{"x":[1,-2.5e-3,true,false,null,{"y":""}]},"Hostname":"no"`, func(inv *Inventory) (any, any) { return inv.Hostname, "" }},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := tc.check(&mustParse(t, withInventory(tc.members)).Hardware)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("typed view (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDocumentAtTheDepthLimitIsAccepted(t *testing.T) {
	mustParse(t, strings.Replace(withInventory(""), "{", `{"deep":`+strings.Repeat("[", 24)+strings.Repeat("]", 24)+",", 1))
}

func TestSecondInventoryReplacesTheFirst(t *testing.T) {
	doc := mustParse(t, `{"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01"}],"hostname":"a"},`+
		`"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:02"}]}}`)
	if got := doc.Hardware.MACs(); len(got) != 1 || got[0] != "52:54:00:00:00:02" || doc.Hardware.Hostname != "" {
		t.Errorf("typed view = %v, hostname %q, want only the second inventory", got, doc.Hardware.Hostname)
	}
	if !strings.Contains(string(doc.Inventory), "00:02") {
		t.Errorf("raw inventory = %s, want the second, like the typed view", doc.Inventory)
	}
}

func TestInventoryOnItsOwnMayLackInterfaces(t *testing.T) {
	inv, err := ParseInventory([]byte(` {"cpu":{"count":8},"interfaces":[]} `))
	if err != nil || inv.CPU.Count != 8 || len(inv.MACs()) != 0 {
		t.Errorf("ParseInventory = %+v, %v, want 8 processors and no address", inv, err)
	}
	for body, want := range map[string]string{
		`{"interfaces":[{"mac_address":"x"}]}`: `inventory.interfaces[0].mac_address: want a MAC address, got "x"`,
		`{} {}`:                                `inventory: malformed JSON: unexpected '{' at byte 3`,
	} {
		if _, err := ParseInventory([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("ParseInventory(%s) = %v, want %s", body, err, want)
		}
	}
}
