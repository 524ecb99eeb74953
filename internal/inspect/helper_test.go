package inspect

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/inventory"
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

// nic is an interface without an IP address; suffix is the last octet of its MAC.
func nic(name, suffix string) string {
	return fmt.Sprintf(`{"name":%q,"mac_address":"02:00:00:00:00:%s"}`, name, suffix)
}

// nicWith is nic with further members.
func nicWith(name, suffix, members string) string {
	return strings.TrimSuffix(nic(name, suffix), "}") + "," + members + "}"
}

const bootedFrom02 = `,"boot":{"pxe_interface":"01-02-00-00-00-00-02"}`

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
