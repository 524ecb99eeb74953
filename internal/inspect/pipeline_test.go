package inspect

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
)

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
	restored, err := inventory.Restore(doc.Inventory, inventory.AppendObject(nil, doc.PluginData))
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline(t, nil)
	first, second := run(t, p, Input{Document: doc}), run(t, p, Input{Document: restored})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("result after a restart (-first +second):\n%s", diff)
	}
}

func TestRunDoesNotModifyItsInput(t *testing.T) {
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
			`inspector.hooks: unknown hook "memroy", want one of ` + hookNames(),
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

func TestKeepPortsWithoutEffectGivesAWarning(t *testing.T) {
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
	var failure *RunError
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
