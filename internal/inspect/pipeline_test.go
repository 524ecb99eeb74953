package inspect

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// fixture reads a document of package inventory's test data.
func fixture(t testing.TB, name string) *inventory.Document {
	t.Helper()
	body, err := os.ReadFile("../inventory/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return document(t, string(body))
}

func document(t testing.TB, body string) *inventory.Document {
	t.Helper()
	doc, err := inventory.Parse([]byte(body))
	if err != nil {
		t.Fatalf("parse document: %v", err)
	}
	return doc
}

// machine returns a document with the given interfaces, a comma-separated list
// of JSON objects, and more members of its inventory.
func machine(t testing.TB, interfaces, more string) *inventory.Document {
	t.Helper()
	return document(t, `{"inventory":{"interfaces":[`+interfaces+`],"cpu":{"architecture":"x86_64"}`+more+`}}`)
}

func pipeline(t testing.TB, change func(*Config)) *Pipeline {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	p, err := NewPipeline(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func run(t testing.TB, p *Pipeline, in Input) *Result {
	t.Helper()
	result, err := p.Run(in)
	if err != nil {
		t.Fatalf("run pipeline: %v", err)
	}
	return result
}

// pluginValue decodes one key of a result's plugin data.
func pluginValue(t testing.TB, result *Result, key string) any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(result.PluginData, &data); err != nil {
		t.Fatalf("plugin data %s: %v", result.PluginData, err)
	}
	return data[key]
}

// addresses returns the MACs of ports in order, the PXE port marked with a star.
func addresses(ports []Port) []string {
	var macs []string
	for _, port := range ports {
		mac := port.Address
		if port.PXEEnabled {
			mac += "*"
		}
		macs = append(macs, mac)
	}
	return macs
}

func TestRecordedAgentPassesTheDefaultPipeline(t *testing.T) {
	result := run(t, pipeline(t, nil), Input{Document: fixture(t, "ironic-python-agent-9.11.0.json")})

	if diff := cmp.Diff(map[string]any{"cpu_arch": "x86_64"}, result.Properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Port{{Address: "02:fc:00:00:00:01"}}, result.PortsToCreate); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	nic := map[string]any{
		"name": "eth0", "mac_address": "02:fc:00:00:00:01", "ipv4_address": "192.0.2.2", "ipv6_address": "fd00::2",
		"has_carrier": true, "lldp": nil, "vendor": "0x1af4", "product": "0x0001", "client_id": nil, "biosdevname": nil,
		"speed_mbps": nil, "pxe_enabled": false,
	}
	valid := maps.Clone(nic)
	valid["is_added"] = true
	for key, want := range map[string]any{
		"all_interfaces":   map[string]any{"eth0": nic},
		"valid_interfaces": map[string]any{"eth0": valid},
		"macs":             []any{"02:fc:00:00:00:01"},
		"error":            nil,
		"boot_interface":   nil,
	} {
		if diff := cmp.Diff(want, pluginValue(t, result, key)); diff != "" {
			t.Errorf("plugin data %s (-want +got):\n%s", key, diff)
		}
	}
	if result.Skipped != nil {
		t.Errorf("skipped = %q, want nothing", result.Skipped)
	}
}

func TestRunAfterRestartGivesTheSameResult(t *testing.T) {
	doc := fixture(t, "server-4-nics.json")
	restored, err := inventory.Restore(doc.Inventory, appendObject(nil, doc.PluginData))
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline(t, nil)
	first, second := run(t, p, Input{Document: doc}), run(t, p, Input{Document: restored})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("result after a restart (-first +second):\n%s", diff)
	}
}

func TestRunChangesNothingItIsGiven(t *testing.T) {
	doc := fixture(t, "server-4-nics.json")
	in := Input{Document: doc, Ports: []Port{{UUID: "p1", Address: "3c:ec:ef:10:20:31", PXEEnabled: true}, {UUID: "p2", Address: "02:00:00:00:00:01"}}}
	inventoryBefore, keys, ports := string(doc.Inventory), len(doc.PluginData), slices.Clone(in.Ports)
	run(t, pipeline(t, func(c *Config) { c.KeepPorts = KeepPresent }), in)
	if string(doc.Inventory) != inventoryBefore || len(doc.PluginData) != keys {
		t.Error("the document changed")
	}
	if diff := cmp.Diff(ports, in.Ports); diff != "" {
		t.Errorf("ports given (-before +after):\n%s", diff)
	}
}

func TestHookListIsExpandedAndOrdered(t *testing.T) {
	for name, tc := range map[string]struct {
		defaults, hooks []string
		want            string
		warnings        int
	}{
		"default":                {DefaultConfig().DefaultHooks, DefaultConfig().Hooks, "ramdisk-error architecture validate-interfaces ports", 0},
		"none":                   {nil, nil, "", 0},
		"hooks around defaults":  {[]string{"validate-interfaces"}, []string{"architecture", "$default_hooks", "ports"}, "architecture validate-interfaces ports", 0},
		"one text with commas":   {nil, []string{" validate-interfaces, ports,,architecture "}, "validate-interfaces ports architecture", 0},
		"default with commas":    {[]string{"validate-interfaces,ports"}, []string{"$default_hooks"}, "validate-interfaces ports", 0},
		"underscores":            {nil, []string{"ramdisk_error", "validate_interfaces", "ports"}, "ramdisk-error validate-interfaces ports", 2},
		"default hooks left out": {DefaultConfig().DefaultHooks, []string{"architecture"}, "architecture", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, func(c *Config) { c.DefaultHooks, c.Hooks = tc.defaults, tc.hooks })
			if got := strings.Join(p.Hooks(), " "); got != tc.want {
				t.Errorf("hooks = %s, want %s", got, tc.want)
			}
			if len(p.Warnings()) != tc.warnings {
				t.Errorf("warnings = %q, want %d", p.Warnings(), tc.warnings)
			}
		})
	}
}

func TestBadConfigurationIsRefusedAtStart(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"unknown hook": {
			func(c *Config) { c.Hooks = []string{"$default_hooks", "memroy"} },
			`inspector.hooks: unknown hook "memroy", want one of architecture, ports, ramdisk-error, validate-interfaces`,
		},
		"hook twice":                  {func(c *Config) { c.Hooks = []string{"architecture", "$default_hooks"} }, `inspector.hooks: hook "architecture" comes twice`},
		"twice in other spelling":     {func(c *Config) { c.Hooks = []string{"ramdisk-error", "ramdisk_error"} }, `inspector.hooks: hook "ramdisk-error" comes twice`},
		"defaults twice":              {func(c *Config) { c.Hooks = []string{"$default_hooks", "$default_hooks"} }, `inspector.hooks: hook "ramdisk-error" comes twice`},
		"dependency missing":          {func(c *Config) { c.Hooks = []string{"ports"} }, `inspector.hooks: hook "ports" needs "validate-interfaces" before it`},
		"dependency too late":         {func(c *Config) { c.Hooks = []string{"ports", "validate-interfaces"} }, `inspector.hooks: hook "ports" needs "validate-interfaces" before it`},
		"defaults contain themselves": {func(c *Config) { c.DefaultHooks = []string{"$default_hooks"} }, `inspector.default_hooks: $default_hooks cannot contain itself`},
		"add_ports":                   {func(c *Config) { c.AddPorts = "some" }, `inspector.add_ports: unknown value "some", want one of all, active, pxe, disabled`},
		"keep_ports":                  {func(c *Config) { c.KeepPorts = "" }, `inspector.keep_ports: unknown value "", want one of all, present, added`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			tc.change(&cfg)
			if _, err := NewPipeline(cfg); err == nil || err.Error() != tc.want {
				t.Errorf("NewPipeline\n got: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestPointlessKeepPortsIsWarnedOf(t *testing.T) {
	p := pipeline(t, func(c *Config) { c.KeepPorts = KeepAdded })
	if len(p.Warnings()) != 1 {
		t.Errorf("warnings = %q, want one", p.Warnings())
	}
}

func TestPreprocessFailuresAreReportedTogetherBeforeAnyMainHook(t *testing.T) {
	var ran []string
	step := func(name string, err error) func(*Context) error {
		return func(*Context) error {
			ran = append(ran, name)
			return err
		}
	}
	first, second := errors.New("no memory"), errors.New("no disk")
	p := &Pipeline{hooks: []Hook{
		{Name: "a", Preprocess: step("pre a", first), Process: step("main a", nil)},
		{Name: "b", Process: step("main b", nil)},
		{Name: "c", Preprocess: step("pre c", second)},
	}}
	_, err := p.Run(Input{Document: machine(t, nic("eth0", "01"), "")})
	if err == nil || err.Error() != "a: no memory; c: no disk" {
		t.Errorf("error = %v, want both failures", err)
	}
	if !errors.Is(err, first) || !errors.Is(err, second) {
		t.Error("the failures are not wrapped")
	}
	if diff := cmp.Diff([]string{"pre a", "pre c"}, ran); diff != "" {
		t.Errorf("phases that ran (-want +got):\n%s", diff)
	}
}

func TestFirstMainFailureEndsThePipeline(t *testing.T) {
	var ran []string
	step := func(name string, err error) func(*Context) error {
		return func(*Context) error {
			ran = append(ran, name)
			return err
		}
	}
	p := &Pipeline{hooks: []Hook{
		{Name: "a", Process: step("main a", nil)},
		{Name: "b", Preprocess: step("pre b", nil), Process: step("main b", errors.New("no luck"))},
		{Name: "c", Process: step("main c", nil)},
	}}
	result, err := p.Run(Input{Document: machine(t, nic("eth0", "01"), "")})
	var failure *Failure
	if !errors.As(err, &failure) || len(failure.Hooks) != 1 || failure.Hooks[0].Hook != "b" || result != nil {
		t.Errorf("Run = %v, %v, want no result and the failure of hook b", result, err)
	}
	if diff := cmp.Diff([]string{"pre b", "main a", "main b"}, ran); diff != "" {
		t.Errorf("phases that ran (-want +got):\n%s", diff)
	}
}

func TestPluginDataStaysAsSentWithSortedKeys(t *testing.T) {
	doc := document(t, `{"zeta":{"b" : 1.50,"a":[ ]},"inventory":{"interfaces":[`+nic("eth0", "01")+`]},"\u00fc\n\"":"\u00fc","logs":"x"}`)
	result := run(t, pipeline(t, func(c *Config) { c.Hooks = nil }), Input{Document: doc})
	if got, want := string(result.PluginData), `{"zeta":{"b" : 1.50,"a":[ ]},"ü\n\"":"\u00fc"}`; got != want {
		t.Errorf("plugin data = %s, want %s", got, want)
	}
}

func TestSkippedListIsBounded(t *testing.T) {
	var nics []string
	for range 500 {
		nics = append(nics, `{"name":"","mac_address":"02:00:00:00:00:01"}`)
	}
	result := run(t, pipeline(t, nil), Input{Document: machine(t, strings.Join(nics, ",")+","+nic("eth0", "01"), "")})
	if len(result.Skipped) != maxSkips+1 {
		t.Errorf("%d remarks, want %d", len(result.Skipped), maxSkips+1)
	}
}

func TestPropertiesReportOnlyChanges(t *testing.T) {
	before := node.ObjectOf(map[string]any{"cpu_arch": "x86_64", "memory_mb": 1024, "capabilities": "a:1, b:2"})
	p := &Properties{before: before}
	p.Set("cpu_arch", "aarch64")
	if got := p.Text("cpu_arch"); got != "aarch64" {
		t.Errorf("cpu_arch = %q before storing, want the new value", got)
	}
	p.Set("cpu_arch", "x86_64")
	p.Set("memory_mb", 1024)
	if p.changed["cpu_arch"] != nil || len(p.changed) != 0 {
		t.Errorf("changes = %v, want none when all is as before", p.changed)
	}
	p.Set("local_gb", 10)
	if diff := cmp.Diff(map[string]any{"local_gb": 10}, p.changed); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestCapabilitiesKeepTheOthers(t *testing.T) {
	for _, tc := range []struct{ before, name, value, want string }{
		{"", "boot_mode", "uefi", "boot_mode:uefi"},
		{"a:1,boot_mode:bios,b:2", "boot_mode", "uefi", "a:1,boot_mode:uefi,b:2"},
		{" a:1 ,, b:2", "c", "3", "a:1,b:2,c:3"},
		{"a:1,a:2", "a", "3", "a:3"},
		{"flag", "a", "x:y", "flag,a:x:y"},
	} {
		p := &Properties{before: node.ObjectOf(map[string]any{"capabilities": tc.before})}
		p.SetCapability(tc.name, tc.value)
		if got := p.Text("capabilities"); got != tc.want {
			t.Errorf("capabilities %q with %s=%s = %q, want %q", tc.before, tc.name, tc.value, got, tc.want)
		}
		if got := p.Capability(tc.name); got != tc.value {
			t.Errorf("capability %s = %q, want %q", tc.name, got, tc.value)
		}
	}
	if got := (&Properties{before: node.ObjectOf(map[string]any{"capabilities": 7})}).Capability("a"); got != "" {
		t.Errorf("capability of a property that is no text = %q, want none", got)
	}
}

func BenchmarkPipeline(b *testing.B) {
	doc := fixture(b, "server-4-nics.json")
	p := pipeline(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(Input{Document: doc}); err != nil {
			b.Fatal(err)
		}
	}
}
