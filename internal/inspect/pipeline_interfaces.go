package inspect

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// candidate is a usable interface on its way to a port.
type candidate struct {
	*inventory.Interface
	pxe   bool   // true when the ramdisk was booted from it
	valid bool   // true when add_ports selects it
	entry []byte // its object in plugin data without the closing brace
}

// interfaceEntry copies an interface for plugin data, without the closing brace, so that a later
// hook can append keys. Values that the engine corrects or adds replace the agent's values.
func interfaceEntry(nic *inventory.Interface, pxe bool) []byte {
	entry := make([]byte, 0, len(nic.Raw)+len(`,"pxe_enabled":false,"is_added":false`))
	entry = append(entry, '{')
	for key, value := range inventory.Members(nic.Raw) {
		switch key {
		case "pxe_enabled", "is_added":
			continue
		case "mac_address":
			value = inventory.AppendString(nil, nic.MACAddress)
		case "ipv6_address":
			if address, _, scoped := strings.Cut(nic.IPv6Address, "%"); scoped {
				value = inventory.AppendString(nil, address)
			}
		}
		entry = append(inventory.AppendString(entry, key), ':')
		entry = append(entry, value...)
		entry = append(entry, ',')
	}
	entry = append(entry, `"pxe_enabled":`...)
	return strconv.AppendBool(entry, pxe)
}

// interfaceMap writes the interfaces that include accepts as one object by name. Each entry ends
// with the keys that include returns.
func interfaceMap(interfaces []candidate, include func(*candidate) (more string, ok bool)) json.RawMessage {
	size := len("{}")
	for i := range interfaces {
		size += len(interfaces[i].Name) + len(interfaces[i].entry) + len(`"":,"is_added":false},`)
	}
	dst := append(make([]byte, 0, size), '{')
	for i := range interfaces {
		nic := &interfaces[i]
		more, ok := include(nic)
		if !ok {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(inventory.AppendString(dst, nic.Name), ':')
		dst = append(dst, nic.entry...)
		dst = append(dst, more...)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// validMACs writes the addresses of the valid interfaces, each once.
func validMACs(interfaces []candidate) json.RawMessage {
	dst := append(make([]byte, 0, len(interfaces)*len(`"aa:bb:cc:dd:ee:ff",`)+len("[]")), '[')
	seen := make(map[string]struct{}, len(interfaces))
	for i := range interfaces {
		nic := &interfaces[i]
		if _, dup := seen[nic.MACAddress]; dup || !nic.valid {
			continue
		}
		seen[nic.MACAddress] = struct{}{}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = inventory.AppendString(dst, nic.MACAddress)
	}
	return append(dst, ']')
}
