package inspect

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// validateInterfacesHook selects network interfaces. It writes the plugin data all_interfaces
// (every usable one, by name), valid_interfaces (those that add_ports selects) and macs (the
// addresses of valid_interfaces). An entry is the interface as sent, including unknown keys, with
// its MAC address normalised, no scope in ipv6_address, and pxe_enabled added.
var validateInterfacesHook = Hook{Name: "validate-interfaces", Prepare: prepareLoopbackNetworks, Preprocess: validateInterfaces}

func prepareLoopbackNetworks(c *Config) error {
	networks, err := ParseNetworks(split(c.LoopbackNetworks))
	if err != nil {
		return fmt.Errorf("inspector.loopback_networks: %w", err)
	}
	for _, network := range networks {
		if !network.Addr().IsLoopback() {
			return fmt.Errorf("inspector.loopback_networks: want parts of 127.0.0.0/8, or ::1/128, got %s", network)
		}
	}
	c.loopbackNetworks = networks
	return nil
}

func validateInterfaces(ctx *Context) error {
	bootMAC := ctx.Inventory.BootMAC()
	ctx.interfaces = usableInterfaces(ctx, bootMAC)
	if len(ctx.interfaces) == 0 {
		return noUsableInterface(ctx)
	}
	rule := selections[ctx.Config.AddPorts]
	switch {
	case ctx.OutOfBand:
		rule = selections[AddAll] // a BMC knows neither IP addresses nor what the machine boots from
	case ctx.Config.AddPorts == AddPXE && bootMAC == "":
		ctx.Skip("add_ports is pxe, but the inventory does not say which interface the ramdisk was booted from; all are taken")
		rule = selections[AddAll]
	}
	if reasons := selectInterfaces(ctx, rule); reasons != "" {
		return fmt.Errorf("add_ports is %s, but each of the %d usable interfaces %s", ctx.Config.AddPorts, len(ctx.interfaces), reasons)
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

// hasLoopback is the reason not to select an interface whose address is only valid on the machine
// itself.
const hasLoopback = "has a loopback address"

// selectInterfaces marks the valid interfaces. If there are none, it returns the reasons.
func selectInterfaces(ctx *Context, rule selection) (reasons string) {
	var found []string
	selected := false
	for i := range ctx.interfaces {
		nic := &ctx.interfaces[i]
		var reason string
		switch {
		case ctx.Config.isLoopback(nic.Addr()):
			reason = hasLoopback
		case !rule.selects(nic):
			reason = rule.otherwise
		default:
			nic.valid, selected = true, true
			continue
		}
		ctx.Skip("Interface %s %s", inventory.Quote(nic.Name), reason)
		if !slices.Contains(found, reason) {
			found = append(found, reason)
		}
	}
	if selected {
		return ""
	}
	return strings.Join(found, ", or ")
}

// isLoopback reports whether an address shows that its interface is not a NIC.
func (c *Config) isLoopback(address netip.Addr) bool {
	return address.IsLoopback() && !slices.ContainsFunc(c.loopbackNetworks, func(n netip.Prefix) bool { return n.Contains(address) })
}

// usableInterfaces returns the interfaces that could become ports. It returns only the first of
// those with the same name, because plugin data is keyed by name.
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

// unusable returns why an interface cannot become a port, "" if it can.
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

// noUsableInterface returns the error for a machine without usable interfaces. The error repeats
// the first few reasons, because that is what the operator of a machine with a broken ramdisk sees.
// It is nil for data of a BMC if the node has ports.
func noUsableInterface(ctx *Context) error {
	if ctx.OutOfBand && len(ctx.Ports.All()) > 0 {
		ctx.Skip("The BMC shows no usable network interface, so the ports of the node stay as they are")
		return nil
	}
	if ctx.OutOfBand {
		return errors.New("the BMC shows no network interface with a MAC address, and the node has no ports: create a port for the interface that the machine boots from, or set inspect_interface to agent")
	}
	reasons := ctx.skipped[:min(len(ctx.skipped), maxReasons)]
	return errors.New("no usable network interface in the inventory. " + strings.Join(reasons, ". "))
}
