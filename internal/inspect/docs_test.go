package inspect

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// page returns the sections of a page of the documentation by heading.
func page(t *testing.T, name string) map[string]string {
	t.Helper()
	content, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(content), "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		sections[heading] = body
	}
	return sections
}

func TestDocsListExactlyTheKnownHooks(t *testing.T) {
	sections := page(t, "inspection-hooks.md")
	rows := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| \\[?`([a-z-]+)`(?:\\]\\(inspection-hooks\\.md#[a-z-]+\\))? \\| .* \\| .* \\|$")
	for _, row := range row.FindAllStringSubmatch(page(t, "inspection.md")["Hooks"], -1) {
		rows[row[1]] = true
	}
	known := map[string]bool{}
	for _, hook := range knownHooks {
		known[hook.Name] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("hooks in the tables of docs/inspection.md (-want +got):\n%s", diff)
	}
	for _, hook := range knownHooks {
		if sections[hook.Name] == "" && !slices.Contains(DefaultConfig().DefaultHooks, hook.Name) {
			t.Errorf("docs/inspection-hooks.md has no section on %s", hook.Name)
		}
	}
}

// codeSpans matches JSON in a section: a fenced block, or a line's span.
var codeSpans = regexp.MustCompile("(?s)```json\n(.*?)```|`([\\[{]\".*?)`")

// TestDocumentedExamplesWork runs the examples of the sections: the first is what a ramdisk posts,
// the following ones are what the hook makes of it.
func TestDocumentedExamplesWork(t *testing.T) {
	sections := page(t, "inspection-hooks.md")
	for _, name := range []string{
		"accelerators", "boot-mode", "cpu-capabilities", "extra-hardware", "local-link-connection", "memory", "parse-lldp", "pci-devices", "physical-network",
	} {
		t.Run(name, func(t *testing.T) {
			var options []string
			var examples []map[string]any
			for _, span := range codeSpans.FindAllStringSubmatch(sections[name], -1) {
				code := []byte(span[1] + span[2])
				if json.Unmarshal(code, &options) == nil {
					continue
				}
				var example map[string]any
				if err := json.Unmarshal(code, &example); err != nil {
					t.Fatalf("example %s: %v", code, err)
				}
				examples = append(examples, example)
			}
			if len(examples) < 2 {
				t.Fatalf("%d examples, want what is sent and what comes of it", len(examples))
			}
			in := Input{Document: exampleDocument(t, examples[0])}
			if name == "boot-mode" {
				in.Properties = node.ObjectOf(map[string]any{"capabilities": "cpu_vt:true"})
			}
			result := run(t, pipeline(t, func(c *Config) {
				c.Hooks = []string{"$default_hooks", name}
				c.PCIDeviceAlias, c.PhysicalNetworkCIDRMap = options, options
			}), in)
			for key, want := range examples[1] {
				if diff := cmp.Diff(want, exampleResult(t, result, key, want)); diff != "" {
					t.Errorf("%s (-documented +got):\n%s", key, diff)
				}
			}
		})
	}
}

// exampleDocument adds to an example what every document needs.
func exampleDocument(t *testing.T, example map[string]any) *inventory.Document {
	t.Helper()
	hardware, _ := example["inventory"].(map[string]any)
	if hardware == nil {
		hardware = map[string]any{}
	}
	if hardware["interfaces"] == nil {
		hardware["interfaces"] = []any{map[string]any{"name": "eno1", "mac_address": "52:54:00:12:34:56"}}
	}
	processor, _ := hardware["cpu"].(map[string]any)
	if processor == nil {
		processor = map[string]any{}
	}
	processor["architecture"] = "x86_64"
	hardware["cpu"] = processor
	example["inventory"] = hardware
	body, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	return document(t, string(body))
}

// exampleResult returns what a run gave for a key of an example, without the properties that the
// example lacks.
func exampleResult(t *testing.T, result *Result, key string, want any) any {
	t.Helper()
	port := result.PortsToCreate[0]
	switch key {
	case "properties":
		changed := node.ObjectOf(result.Properties).Fields()
		got := map[string]any{}
		for property := range want.(map[string]any) {
			var value any
			if err := json.Unmarshal(changed[property], &value); err != nil {
				t.Fatalf("property %s = %s: %v", property, changed[property], err)
			}
			got[property] = value
		}
		return got
	case "local_link_connection":
		return port.LocalLinkConnection.Values()
	case "physical_network":
		return port.PhysicalNetwork
	default:
		return pluginValue(t, result, key)
	}
}
