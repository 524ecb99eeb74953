package provisioner

import (
	"encoding/json"
	"fmt"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// Inventory is the result of a node's inspection.
type Inventory struct {
	// Hardware is what the ramdisk reported.
	Hardware inventory.Inventory
	// AutoDiscovered reports whether the inspection enrolled the node.
	AutoDiscovered bool
	// PXE names the interfaces that the machine booted from.
	PXE map[string]bool
	// LLDP holds what switches announced, by interface name.
	LLDP map[string]LLDP
}

// LLDP is what a switch announced on the port of one interface (IEEE 802.1AB).
type LLDP struct {
	ChassisID  string
	PortID     string
	SystemName string
	// UntaggedVLAN is 0 when it was not announced.
	UntaggedVLAN int
	VLANs        []VLAN
}

// VLAN is a VLAN that a switch announced.
type VLAN struct {
	ID   int
	Name string
}

// pluginData are the parts of the plugin data that the operator reads. Each is decoded
// separately, because other hooks and collectors may use the same keys differently.
type pluginData struct {
	AllInterfaces  json.RawMessage `json:"all_interfaces"`
	ParsedLLDP     json.RawMessage `json:"parsed_lldp"`
	AutoDiscovered json.RawMessage `json:"auto_discovered"`
}

// DecodeInventory decodes inventory and plugin data as the Bare Metal API returns them.
// Only an invalid inventory is an error; invalid plugin data is ignored.
func DecodeInventory(hardware, plugins []byte) (*Inventory, error) {
	parsed, err := inventory.ParseInventory(hardware)
	if err != nil {
		return nil, fmt.Errorf("decode inventory: %w", err)
	}
	inv := &Inventory{Hardware: *parsed, PXE: map[string]bool{}, LLDP: map[string]LLDP{}}
	var data pluginData
	if json.Unmarshal(plugins, &data) != nil {
		return inv, nil
	}
	_ = json.Unmarshal(data.AutoDiscovered, &inv.AutoDiscovered)
	for name, raw := range members(data.AllInterfaces) {
		var nic struct {
			PXE bool `json:"pxe_enabled"`
		}
		if json.Unmarshal(raw, &nic) == nil && nic.PXE {
			inv.PXE[name] = true
		}
	}
	for name, raw := range members(data.ParsedLLDP) {
		inv.LLDP[name] = decodeLLDP(raw)
	}
	return inv, nil
}

func members(raw json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	return object
}

func decodeLLDP(raw json.RawMessage) LLDP {
	fields := members(raw)
	var lldp LLDP
	_ = json.Unmarshal(fields["switch_chassis_id"], &lldp.ChassisID)
	_ = json.Unmarshal(fields["switch_port_id"], &lldp.PortID)
	_ = json.Unmarshal(fields["switch_system_name"], &lldp.SystemName)
	_ = json.Unmarshal(fields["switch_port_untagged_vlan_id"], &lldp.UntaggedVLAN)
	var vlans []struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	}
	if json.Unmarshal(fields["switch_port_vlans"], &vlans) == nil {
		for _, v := range vlans {
			lldp.VLANs = append(lldp.VLANs, VLAN{ID: v.ID, Name: v.Name})
		}
	}
	return lldp
}
