package inspect

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// validateInterfacesHook sorts out the network interfaces. It writes the plugin
// data all_interfaces (every usable one, by name), valid_interfaces (those that
// add_ports selects) and macs (the addresses of the latter). An entry is the
// interface as sent, unknown keys included, with its MAC normalised, no scope in
// ipv6_address, and pxe_enabled added.
var validateInterfacesHook = Hook{Name: "validate-interfaces", Preprocess: validateInterfaces}

func validateInterfaces(ctx *Context) error {
	bootMAC := ctx.Inventory.BootMAC()
	ctx.interfaces = usableInterfaces(ctx, bootMAC)
	if len(ctx.interfaces) == 0 {
		return noUsableInterface(ctx)
	}
	rule := selections[ctx.Config.AddPorts]
	if ctx.Config.AddPorts == AddPXE && bootMAC == "" {
		ctx.Skip("add_ports is pxe, but the inventory does not say which interface the ramdisk was booted from; all are taken")
		rule = selections[AddAll]
	}
	selected := 0
	for i := range ctx.interfaces {
		nic := &ctx.interfaces[i]
		if nic.valid = rule.selects(nic); nic.valid {
			selected++
		} else {
			ctx.Skip("Interface %s %s", inventory.Quote(nic.Name), rule.otherwise)
		}
	}
	if selected == 0 {
		return fmt.Errorf("add_ports is %s, but each of the %d usable interfaces %s", ctx.Config.AddPorts, len(ctx.interfaces), rule.otherwise)
	}
	ctx.PluginData["all_interfaces"] = interfaceMap(ctx.interfaces, func(*candidate) (string, bool) { return "", true })
	ctx.PluginData["valid_interfaces"] = interfaceMap(ctx.interfaces, func(nic *candidate) (string, bool) { return "", nic.valid })
	ctx.PluginData["macs"] = validMACs(ctx.interfaces)
	return nil
}

// selection is one value of add_ports.
type selection struct {
	selects   func(*candidate) bool
	otherwise string // why an interface is not selected
}

var selections = map[AddPorts]selection{
	AddAll:      {selects: func(*candidate) bool { return true }},
	AddDisabled: {selects: func(*candidate) bool { return true }}, // valid, though the ports hook adds none
	AddActive:   {func(nic *candidate) bool { return nic.Addr().IsValid() }, "has no IP address"},
	AddPXE:      {func(nic *candidate) bool { return nic.pxe }, "is not the one the ramdisk was booted from"},
}

// usableInterfaces returns the interfaces that could become ports, each name
// once, because plugin data is keyed by name.
func usableInterfaces(ctx *Context, bootMAC string) []candidate {
	usable := make([]candidate, 0, len(ctx.Inventory.Interfaces))
	names := make(map[string]struct{}, len(ctx.Inventory.Interfaces))
	for i := range ctx.Inventory.Interfaces {
		nic := &ctx.Inventory.Interfaces[i]
		reason := unusable(nic)
		if _, dup := names[nic.Name]; reason == "" && dup {
			reason = "has a name that an earlier one has"
		}
		if reason != "" {
			ctx.Skip("Interface %s with address %s %s", inventory.Quote(nic.Name), inventory.Quote(nic.HardwareAddress), reason)
			continue
		}
		names[nic.Name] = struct{}{}
		pxe := nic.MACAddress == bootMAC
		usable = append(usable, candidate{Interface: nic, pxe: pxe, entry: interfaceEntry(nic, pxe)})
	}
	return usable
}

// unusable says why an interface cannot become a port, "" if it can.
func unusable(nic *inventory.Interface) string {
	switch {
	case nic.Name == "":
		return "has no name"
	case nic.Name == "lo":
		return "is the loopback"
	case nic.MACAddress == "":
		return "has no Ethernet address that identifies it"
	default:
		return ""
	}
}

// maxReasons is how many skipped interfaces an error explains.
const maxReasons = 3

// noUsableInterface repeats the first few reasons: this is what an operator of a
// machine with a broken ramdisk gets to see.
func noUsableInterface(ctx *Context) error {
	reasons := ctx.skipped[:min(len(ctx.skipped), maxReasons)]
	return errors.New("no usable network interface in the inventory. " + strings.Join(reasons, ". "))
}
