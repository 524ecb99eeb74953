package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

// knowing returns a pipeline with the accelerators hook and a file of known
// devices.
func knowing(t testing.TB, file string) (*Pipeline, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Hooks, cfg.KnownAccelerators = []string{"accelerators"}, path
	p, err := NewPipeline(cfg)
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), path, "FILE"))
	}
	return p, err
}

func TestAcceleratorsAreFoundInTheBuiltInList(t *testing.T) {
	devices := "[" + strings.Join([]string{
		pci("8086", "1572", "0000:18:00.0"), pci("10de", "1eb8", "0000:3b:00.0"), pci("10DE", "0x1EB8", "0000:5e:00.0"),
		pci("1002", "74a1", strings.Repeat("x", 65)), pci("10ee", "5020", "0000:af:00.0"),
	}, ",") + "]"
	result := run(t, pipeline(t, only("accelerators")), Input{Document: withPCI(t, devices)})
	want := map[string]any{"accelerators": []map[string]any{
		{"vendor_id": "10de", "device_id": "1eb8", "type": "GPU", "device_info": "NVIDIA Tesla T4", "pci_address": "0000:3b:00.0"},
		{"vendor_id": "10de", "device_id": "1eb8", "type": "GPU", "device_info": "NVIDIA Tesla T4", "pci_address": "0000:5e:00.0"},
		{"vendor_id": "1002", "device_id": "74a1", "type": "GPU", "device_info": "AMD Instinct MI300X"},
		{"vendor_id": "10ee", "device_id": "5020", "type": "FPGA", "device_info": "AMD Xilinx Alveo U50", "pci_address": "0000:af:00.0"},
	}}
	if diff := cmp.Diff(want, result.Properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	again := run(t, pipeline(t, only("accelerators")), Input{Document: withPCI(t, devices), Properties: node.ObjectOf(result.Properties)})
	if len(again.Properties) != 0 {
		t.Errorf("a second inspection changes %v", again.Properties)
	}
}

func TestBuiltInAcceleratorsAreComplete(t *testing.T) {
	known, err := parseAccelerators(builtInAccelerators)
	if err != nil {
		t.Fatal(err)
	}
	for id, device := range known {
		if device["type"] != "GPU" && device["type"] != "FPGA" || device["device_info"] == nil || len(device) != 4 {
			t.Errorf("device %s:%s is %v, want a type and device_info", id.vendor(), id.device(), device)
		}
	}
}

func TestAcceleratorFileReplacesTheBuiltInList(t *testing.T) {
	p, err := knowing(t, "pci_devices:\n- {vendor_id: 0x8086, device_id: \"1572\"}\n")
	if err == nil {
		t.Fatalf("accepted a number as vendor_id: %v", p)
	}
	p, err = knowing(t, "pci_devices:\n- {vendor_id: \"0x8086\", device_id: \"1572\", type: NIC, site: {rack: 5}}\n")
	if err != nil {
		t.Fatal(err)
	}
	result := run(t, p, Input{Document: withPCI(t, "["+pci("8086", "1572", "0000:18:00.0")+","+pci("10de", "1eb8", "0000:3b:00.0")+"]")})
	want := map[string]any{"accelerators": []map[string]any{
		{"vendor_id": "8086", "device_id": "1572", "type": "NIC", "site": map[string]any{"rack": float64(5)}, "pci_address": "0000:18:00.0"},
	}}
	if diff := cmp.Diff(want, result.Properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestMachineWithoutAcceleratorsGetsAnEmptyList(t *testing.T) {
	p := pipeline(t, only("accelerators"))
	before := node.Object(`{"accelerators":[{"vendor_id":"10de","device_id":"1eb8"}]}`)
	result := run(t, p, Input{Document: withPCI(t, "["+pci("8086", "1572", "")+"]"), Properties: before})
	if diff := cmp.Diff(map[string]any{"accelerators": []map[string]any{}}, result.Properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestMalformedPCIDevicesAreNoAccelerators(t *testing.T) {
	p := pipeline(t, only("accelerators"))
	for devices, reason := range unusablePCILists {
		result := run(t, p, Input{Document: withPCI(t, devices)})
		_, set := result.Properties["accelerators"]
		if set != strings.Contains(reason, "Entry") {
			t.Errorf("pci_devices %s sets %v; want the property only if there was a list", devices, result.Properties)
		}
		if got := strings.Join(result.Skipped, "; "); got != reason {
			t.Errorf("pci_devices %s\n got: %s\nwant: %s", devices, got, reason)
		}
	}
}

func TestNumberOfAcceleratorsIsBounded(t *testing.T) {
	devices := "[" + strings.TrimSuffix(strings.Repeat(pci("10de", "1eb8", "0000:3b:00.0")+",", 5000), ",") + "]"
	result := run(t, pipeline(t, only("accelerators")), Input{Document: withPCI(t, devices)})
	if got := result.Properties["accelerators"].([]map[string]any); len(got) != maxAccelerators {
		t.Errorf("%d accelerators, want %d", len(got), maxAccelerators)
	}
	want := []string{"The machine has more than 256 accelerators; the property lists the first ones"}
	if diff := cmp.Diff(want, result.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestBadAcceleratorFilesAreRefusedAtStart(t *testing.T) {
	for file, want := range map[string]string{
		"":                                     "FILE: want a key pci_devices with a list of devices, and at least one in it",
		"pci_devices: []":                      "FILE: want a key pci_devices with a list of devices, and at least one in it",
		"- vendor_id: x":                       "FILE: want a key pci_devices with a list of devices: ",
		"pci_devices: 5":                       "FILE: want a key pci_devices with a list of devices: ",
		"pci_devices: [5]":                     "FILE: want a key pci_devices with a list of devices: ",
		"a: b: c":                              "FILE: want a key pci_devices with a list of devices: ",
		"pci_devices: [{vendor_id: \"10de\"}]": "FILE: pci_devices[0]: want vendor_id and device_id in hexadecimal and in quotes, got 10de and <nil>",
		"pci_devices: [{vendor_id: \"10de\", device_id: 10e4}]":                                          "FILE: pci_devices[0]: want vendor_id and device_id in hexadecimal and in quotes, got 10de and 100000",
		"pci_devices: [{vendor_id: \"1\", device_id: \"2\"}, {vendor_id: \"0001\", device_id: \"0x2\"}]": "FILE: pci_devices[1]: the device 0001:0002 is listed twice",
	} {
		_, err := knowing(t, file)
		if !strings.HasPrefix(errorText(err), "inspector.known_accelerators: "+want) {
			t.Errorf("file %q\n got: %v\nwant: inspector.known_accelerators: %s", file, err, want)
		}
	}
	cfg := DefaultConfig()
	cfg.Hooks, cfg.KnownAccelerators = []string{"accelerators"}, "/nonexistent/known.yaml"
	if _, err := NewPipeline(cfg); !strings.HasPrefix(errorText(err), "inspector.known_accelerators: open /nonexistent/known.yaml: ") {
		t.Errorf("missing file: error %v", err)
	}
}
