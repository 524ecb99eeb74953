package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// shown returns the input of a pipeline for what a BMC has shown.
func shown(t *testing.T, body string) Input {
	t.Helper()
	doc, err := inventory.JoinOutOfBand([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return Input{Document: doc, OutOfBand: true}
}

func TestHooksSetWhatTheBMCShows(t *testing.T) {
	const disks = `"disks":[{"name":"a","size":2147483648},{"name":"b","size":64424509440,"serial":"S1"}]`
	for name, tc := range map[string]struct {
		body       string
		properties map[string]any
		want       map[string]any
	}{
		"everything": {
			body: `{"inventory":{"interfaces":[` + nic("1", "01") + `],"cpu":{"architecture":"x86_64"},"memory":{"physical_mb":2048},"boot":{"current_boot_mode":"uefi"},` + disks + `},"root_disk":{"size":64424509440}}`,
			want: map[string]any{"cpu_arch": "x86_64", "memory_mb": int64(2048), "capabilities": "boot_mode:uefi", "local_gb": "59"},
		},
		"nothing but an interface": {body: `{"inventory":{"interfaces":[` + nic("1", "01") + `]}}`},
		"hints that a disk matches": {
			body:       `{"inventory":{"interfaces":[` + nic("1", "01") + `],` + disks + `},"root_disk":{"size":5368709120}}`,
			properties: map[string]any{"root_device": map[string]any{"serial": "S1"}}, want: map[string]any{"local_gb": "59"},
		},
		"hints that none matches": {
			body:       `{"inventory":{"interfaces":[` + nic("1", "01") + `],` + disks + `},"root_disk":{"size":5368709120}}`,
			properties: map[string]any{"root_device": map[string]any{"name": "/dev/sda"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := shown(t, tc.body)
			in.Properties = node.ObjectOf(tc.properties)
			result := run(t, pipeline(t, nil), in)
			if diff := cmp.Diff(tc.want, result.Properties); diff != "" {
				t.Errorf("properties (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBMCOnlyAddsPorts(t *testing.T) {
	before := []Port{
		{UUID: "a", Address: "02:00:00:00:00:01", PXEEnabled: true},
		{UUID: "b", Address: "02:00:00:00:00:02"},
		{UUID: "c", Address: "02:00:00:00:00:09", PXEEnabled: true},
	}
	in := shown(t, `{"inventory":{"interfaces":[`+nic("1", "01")+`,`+nic("2", "02")+`,`+nic("3", "03")+`]}}`)
	in.Ports = before
	for _, add := range []AddPorts{AddAll, AddActive, AddPXE} {
		result := run(t, pipeline(t, func(c *Config) { c.AddPorts, c.KeepPorts = add, KeepPresent }), in)
		if diff := cmp.Diff([]string{"02:00:00:00:00:03*"}, addresses(result.PortsToCreate)); diff != "" {
			t.Errorf("add_ports %s: created (-want +got):\n%s", add, diff)
		}
		if len(result.PortsToUpdate)+len(result.PortsToDelete) != 0 {
			t.Errorf("add_ports %s: updated %v, deleted %v; want the ports as they were", add, result.PortsToUpdate, result.PortsToDelete)
		}
	}
}

func TestBMCDoesNotSayWhatTheMachineBootsFrom(t *testing.T) {
	result := run(t, pipeline(t, nil), shown(t, `{"inventory":{"interfaces":[`+nic("1", "01")+`,`+nic("2", "02")+`]}}`))
	if diff := cmp.Diff([]string{"02:00:00:00:00:01*", "02:00:00:00:00:02*"}, addresses(result.PortsToCreate)); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	for name, entry := range pluginValue(t, result, "all_interfaces").(map[string]any) {
		if pxe := entry.(map[string]any)["pxe_enabled"]; pxe != false {
			t.Errorf("interface %s has pxe_enabled %v, want false", name, pxe)
		}
	}
}

func TestMachineWithoutAddressesNeedsPorts(t *testing.T) {
	in := shown(t, `{"inventory":{"memory":{"physical_mb":2048}}}`)
	_, err := pipeline(t, nil).Run(in)
	if err == nil || !strings.Contains(err.Error(), "create a port") {
		t.Errorf("error = %v, want one that says what to do", err)
	}
	in.Ports = []Port{{UUID: "a", Address: "02:00:00:00:00:01", PXEEnabled: true}}
	result := run(t, pipeline(t, func(c *Config) { c.KeepPorts = KeepPresent }), in)
	if result.Properties["memory_mb"] != int64(2048) || len(result.PortsToUpdate)+len(result.PortsToDelete) != 0 {
		t.Errorf("result = %+v, want the memory and the port as it was", result)
	}
}

func TestDriveOfABMCIsNoNewRAIDVolume(t *testing.T) {
	in := shown(t, `{"inventory":{"interfaces":[`+nic("1", "01")+`],"disks":[{"name":"b","size":64424509440,"serial":"S1"}]}}`)
	in.Previous = &inventory.Inventory{}
	result := run(t, pipeline(t, func(c *Config) { c.Hooks = append(c.Hooks, "raid-device") }), in)
	if _, set := result.Properties["root_device"]; set {
		t.Errorf("properties = %v, want no root device", result.Properties)
	}
}
