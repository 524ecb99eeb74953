package inventory

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestWhatTheBMCDoesNotTellStays(t *testing.T) {
	for name, tc := range map[string]struct{ shown, inventory, plugin, wantInventory, wantPlugin string }{
		"nothing earlier": {
			shown:         `{"inventory":{"memory":{"physical_mb":1}},"root_disk":{"name":"a","size":5}}`,
			wantInventory: `{"memory":{"physical_mb":1}}`, wantPlugin: `{"root_disk":{"name":"a","size":5}}`,
		},
		"members of objects": {
			shown:         `{"inventory":{"cpu":{"count":4},"system_vendor":{"firmware":{"version":"2"}}}}`,
			inventory:     `{"cpu":{"count":2,"flags":["vmx"]},"system_vendor":{"serial_number":"S","firmware":{"version":"1","vendor":"V"}},"hostname":"h"}`,
			plugin:        `{"extra":{"a":1}}`,
			wantInventory: `{"interfaces":[],"cpu":{"count":4,"flags":["vmx"]},"system_vendor":{"serial_number":"S","firmware":{"version":"2","vendor":"V"}},"hostname":"h"}`,
			wantPlugin:    `{"extra":{"a":1}}`,
		},
		"lists are replaced": {
			shown:     `{"inventory":{"disks":[{"name":"a","size":5}]},"bmc_left_out":[]}`,
			inventory: `{"disks":[{"name":"/dev/sda","size":9},{"name":"/dev/sdb","size":9}]}`, plugin: `{"bmc_left_out":["x"]}`,
			wantInventory: `{"interfaces":[],"disks":[{"name":"a","size":5}]}`, wantPlugin: `{"bmc_left_out":[]}`,
		},
		"interfaces keep what a ramdisk told": {
			shown:         `{"inventory":{"interfaces":[{"name":"NIC.1","mac_address":"02:00:00:00:00:01","speed_mbps":10},{"name":"NIC.2","mac_address":"02:00:00:00:00:02"}]}}`,
			inventory:     `{"interfaces":[{"name":"eno1","mac_address":"02:00:00:00:00:01","ipv4_address":"192.0.2.1"},{"name":"eno9","mac_address":"02:00:00:00:00:09","ipv4_address":null},{"name":"NIC.8","mac_address":"02:00:00:00:00:08"}]}`,
			plugin:        `{}`,
			wantInventory: `{"interfaces":[{"name":"eno1","mac_address":"02:00:00:00:00:01","ipv4_address":"192.0.2.1","speed_mbps":10},{"name":"NIC.2","mac_address":"02:00:00:00:00:02"}]}`,
			wantPlugin:    `{}`,
		},
		"interfaces of a ramdisk stay where a BMC shows none": {
			shown:         `{"inventory":{}}`,
			inventory:     `{"interfaces":[{"name":"eno9","mac_address":"02:00:00:00:00:09","ipv4_address":null},{"name":"NIC.8","mac_address":"02:00:00:00:00:08"}]}`,
			plugin:        `{}`,
			wantInventory: `{"interfaces":[{"name":"eno9","mac_address":"02:00:00:00:00:09","ipv4_address":null}]}`, wantPlugin: `{}`,
		},
		"interfaces without an Ethernet address are told apart": {
			shown:         `{"inventory":{"interfaces":[{"name":"IB.1","mac_address":"80:00:02:08:FE:80:00:00:00:00:00:00:00:02:C9:03:00:00:00:01"},{"name":"IB.2","mac_address":"80:00:02:08:FE:80:00:00:00:00:00:00:00:02:C9:03:00:00:00:02"},{"name":"NIC.1","mac_address":"00:00:00:00:00:00"},{"name":"NIC.2","mac_address":"00:00:00:00:00:00"},{"name":"NIC.3","mac_address":"02:00:00:00:00:03"}]}}`,
			inventory:     `{"interfaces":[{"name":"ib1","mac_address":"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:02","ipv4_address":"192.0.2.2"},{"name":"eno1","mac_address":"00:00:00:00:00:00","ipv4_address":"192.0.2.3"},{"name":"ib0","mac_address":"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01","ipv4_address":"192.0.2.1"}]}`,
			plugin:        `{}`,
			wantInventory: `{"interfaces":[{"name":"ib0","mac_address":"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01","ipv4_address":"192.0.2.1"},{"name":"ib1","mac_address":"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:02","ipv4_address":"192.0.2.2"},{"name":"NIC.1","mac_address":"00:00:00:00:00:00"},{"name":"NIC.2","mac_address":"00:00:00:00:00:00"},{"name":"NIC.3","mac_address":"02:00:00:00:00:03"}]}`,
			wantPlugin:    `{}`,
		},
		"a root disk that is gone does not stay": {
			shown:     `{"inventory":{"disks":[{"name":"a","size":5},{"name":"b","size":7,"serial":"S"}]},"root_disk":{"name":"a","size":5}}`,
			inventory: `{}`, plugin: `{"root_disk":{"name":"/dev/sda","size":9,"serial":"T"}}`,
			wantInventory: `{"interfaces":[],"disks":[{"name":"a","size":5},{"name":"b","size":7,"serial":"S"}]}`, wantPlugin: `{"root_disk":{"name":"a","size":5}}`,
		},
		"one that is there does": {
			shown:     `{"inventory":{"disks":[{"name":"a","size":5},{"name":"b","size":7,"serial":"S"}]},"root_disk":{"name":"a","size":5}}`,
			inventory: `{}`, plugin: `{"root_disk":{"name":"/dev/sda","size":9,"serial":"S"}}`,
			wantInventory: `{"interfaces":[],"disks":[{"name":"a","size":5},{"name":"b","size":7,"serial":"S"}]}`, wantPlugin: `{"root_disk":{"name":"/dev/sda","size":9,"serial":"S"}}`,
		},
		"the root disk of a ramdisk stays": {
			shown: `{"inventory":{},"root_disk":{"name":"a","size":5}}`, inventory: `{}`, plugin: `{"root_disk":{"name":"/dev/sda","size":9}}`,
			wantInventory: `{"interfaces":[]}`, wantPlugin: `{"root_disk":{"name":"/dev/sda","size":9}}`,
		},
		"that of a BMC does not": {
			shown: `{"inventory":{},"root_disk":{"name":"a","size":5}}`, inventory: `{}`, plugin: `{"root_disk":{"name":"b","size":9}}`,
			wantInventory: `{"interfaces":[]}`, wantPlugin: `{"root_disk":{"name":"a","size":5}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var earlier *node.InspectionData
			if tc.inventory != "" {
				earlier = &node.InspectionData{Inventory: []byte(tc.inventory), PluginData: []byte(tc.plugin)}
			}
			doc, err := JoinOutOfBand([]byte(tc.shown), earlier)
			if err != nil {
				t.Fatal(err)
			}
			for what, pair := range map[string][2]string{
				"inventory": {tc.wantInventory, string(doc.Inventory)}, "plugin data": {tc.wantPlugin, string(AppendObject(nil, doc.PluginData))},
			} {
				if diff := cmp.Diff(value(t, pair[0]), value(t, pair[1])); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

func value(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
