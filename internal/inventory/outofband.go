package inventory

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Keys of documents for which JoinOutOfBand has special rules.
const (
	interfacesKey = "interfaces"
	rootDiskKey   = "root_disk"
)

// devices is the folder of devices. The names of disks begin with it if a ramdisk found them.
const devices = "/dev/"

// JoinOutOfBand reads an inspection document that a BMC driver wrote. It adds what the result of an
// earlier inspection has and the document lacks; nil adds nothing. Two things stay as a ramdisk
// reported them: the details of interfaces, of which a ramdisk knows more than a BMC, and the root
// device. The errors are those of ParseInventory: unlike the document of an agent, this one may
// have no interface.
func JoinOutOfBand(body []byte, earlier *node.InspectionData) (*Document, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, errorf("want an object: %v", err)
	}
	inventory := members["inventory"]
	delete(members, "inventory")
	plugin := AppendObject(nil, members)
	if inventory == nil {
		inventory = json.RawMessage("{}")
	}
	if earlier == nil {
		return Restore(inventory, plugin)
	}
	known, err := Restore(earlier.Inventory, earlier.PluginData)
	if err != nil {
		return nil, err
	}
	now, err := Restore(inventory, plugin)
	if err != nil {
		return nil, err
	}
	joined := join(known.Inventory, now.Inventory)
	joined[interfacesKey] = joinInterfaces(known.Hardware.Interfaces, now.Hardware.Interfaces)
	data := join(AppendObject(nil, known.PluginData), AppendObject(nil, now.PluginData))
	delete(data, rootDiskKey)
	root := now.PluginData[rootDiskKey]
	if earlier := known.PluginData[rootDiskKey]; isDevice(earlier) && isThere(earlier, now.Hardware.Disks) {
		root = earlier
	}
	if root != nil {
		data[rootDiskKey] = root
	}
	return Restore(AppendObject(nil, joined), AppendObject(nil, data))
}

// join returns the members of both objects. If both have a member, the second one counts; if both
// values are objects, they are joined in the same way.
func join(earlier, now json.RawMessage) map[string]json.RawMessage {
	joined := map[string]json.RawMessage{}
	for key, value := range Members(earlier) {
		joined[key] = value
	}
	for key, value := range Members(now) {
		if isObject(value) && isObject(joined[key]) {
			value = AppendObject(nil, join(joined[key], value))
		}
		joined[key] = value
	}
	return joined
}

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }

// isDevice reports whether a ramdisk found the disk: its name is then that of a device.
func isDevice(disk json.RawMessage) bool {
	if !isObject(disk) {
		return false
	}
	for key, value := range Members(disk) {
		if name, ok := Text(value); ok && key == "name" {
			return strings.HasPrefix(name, devices)
		}
	}
	return false
}

// DisksFromRamdisk reports whether a ramdisk reported the disks, or reported that there are none. A
// BMC shows other disks, for instance the drives behind a RAID controller, with names of its own.
func (inv *Inventory) DisksFromRamdisk() bool {
	if len(inv.Disks) == 0 {
		return slices.ContainsFunc(inv.Interfaces, fromRamdisk)
	}
	return slices.ContainsFunc(inv.Disks, func(d Disk) bool { return strings.HasPrefix(d.Name, devices) })
}

// isThere reports whether a disk that a ramdisk found may be one of the disks that a BMC shows: one
// of those has its serial number or size, or the BMC shows no disks.
func isThere(disk json.RawMessage, shown []Disk) bool {
	var found struct {
		Size   int64  `json:"size"`
		Serial string `json:"serial"`
	}
	if json.Unmarshal(disk, &found) != nil {
		return false
	}
	return len(shown) == 0 || slices.ContainsFunc(shown, func(d Disk) bool {
		return d.Size == found.Size || d.Serial != "" && d.Serial == found.Serial
	})
}

// joinInterfaces returns the interfaces that a BMC shows, completed with what a ramdisk reported
// about them, or the ramdisk's interfaces when the BMC shows none. Interfaces become ports, so it
// leaves out an interface that the BMC does not show: the interface may be gone.
func joinInterfaces(earlier, now []Interface) json.RawMessage {
	found := slices.DeleteFunc(slices.Clone(earlier), func(i Interface) bool { return !fromRamdisk(i) })
	list := []byte{'['}
	add := func(entry json.RawMessage) {
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, entry...)
	}
	for _, shown := range now {
		entry, address := shown.Raw, ownAddress(shown)
		if i := slices.IndexFunc(found, func(i Interface) bool { return address != "" && ownAddress(i) == address }); i >= 0 {
			entry = AppendObject(nil, join(shown.Raw, found[i].Raw))
		}
		add(entry)
	}
	if len(now) == 0 {
		for _, i := range found {
			add(i.Raw)
		}
	}
	return append(list, ']')
}

// ownAddress returns the address of an interface, which may be one of InfiniBand. It returns "" for
// an address that other interfaces may have too, such as all zeros.
func ownAddress(i Interface) string {
	if i.MACAddress != "" {
		return i.MACAddress
	}
	address, _ := node.ParseHardwareAddress(i.HardwareAddress)
	if len(address) == len(zeroMAC) || strings.Trim(address, "0:") == "" {
		return ""
	}
	return address
}

// fromRamdisk reports whether a ramdisk reported the interface. Agents send the key ipv4_address,
// even if it is null; BMCs do not know that address.
func fromRamdisk(i Interface) bool {
	for key := range Members(i.Raw) {
		if key == "ipv4_address" {
			return true
		}
	}
	return false
}
