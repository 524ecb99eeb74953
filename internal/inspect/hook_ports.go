package inspect

import (
	"strconv"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// portsHook makes the node's ports match the inventory, as add_ports, keep_ports and
// update_pxe_enabled say. Data from a BMC only adds ports: a BMC may not show all interfaces, and
// does not say which one the machine boots from. The hook adds is_added to every entry of
// valid_interfaces, which says whether the node now has a port for the interface.
var portsHook = Hook{Name: "ports", Requires: []string{"validate-interfaces"}, Process: reconcilePorts}

func reconcilePorts(ctx *Context) error {
	if len(ctx.interfaces) == 0 { // see noUsableInterface
		return nil
	}
	if ctx.Config.AddPorts != AddDisabled {
		addPorts(ctx)
	}
	setClientIDs(ctx)
	if keep := keptAddresses(ctx); keep != nil && !ctx.OutOfBand {
		for _, port := range ctx.Ports.All() {
			if !keep[port.Address] {
				ctx.Log.Debug("Inspection deletes a port", "address", port.Address, "keep_ports", ctx.Config.KeepPorts)
				ctx.Ports.Delete(port.Address)
			}
		}
	}
	if ctx.Config.UpdatePXEEnabled && !ctx.OutOfBand {
		updatePXEEnabled(ctx)
	}
	ctx.PluginData["valid_interfaces"] = interfaceMap(ctx.interfaces, func(nic *candidate) (string, bool) {
		return `,"is_added":` + strconv.FormatBool(ctx.Ports.Find(nic.MACAddress) != nil), nic.valid
	})
	return nil
}

// addPorts adds a port for every valid interface, with three exceptions: other machines may have
// the same address, a port of another node has the address (two nodes can never share one), or the
// node does not claim the address.
func addPorts(ctx *Context) {
	identifying := map[string]bool{}
	for _, mac := range ctx.Inventory.IdentifyingMACs() {
		identifying[mac] = true
	}
	for i := range ctx.interfaces {
		nic := &ctx.interfaces[i]
		if !nic.valid || ctx.Ports.Find(nic.MACAddress) != nil {
			continue
		}
		if !identifying[nic.MACAddress] {
			ctx.Skip("Interface %s gets no port: other machines may have the same address %s", inventory.Quote(nic.Name), nic.MACAddress)
			continue
		}
		if owner, taken := ctx.taken[nic.MACAddress]; taken {
			ctx.Skip("Interface %s gets no port: its address %s belongs to node %s", inventory.Quote(nic.Name), nic.MACAddress, owner)
			continue
		}
		if ctx.claimed != nil && !ctx.claimed[nic.MACAddress] {
			ctx.Skip("Interface %s gets no port before a person has accepted the node: its address %s is none of those that the node claims", inventory.Quote(nic.Name), nic.MACAddress)
			continue
		}
		// A BMC does not name the boot interface, so pxe_enabled gets the default of the API.
		ctx.Ports.Add(Port{Address: nic.MACAddress, PXEEnabled: nic.pxe || ctx.OutOfBand})
	}
}

// clientIDKey is the key in a port's extra for the DHCP client identifier, which
// InfiniBand ports have.
const clientIDKey = "client-id"

// setClientIDs records the client identifiers of interfaces on their ports. If several interfaces
// share an address, the first with an identifier counts. A port whose interfaces have no identifier
// keeps what a person set.
func setClientIDs(ctx *Context) {
	done := make(map[string]bool)
	for i := range ctx.interfaces {
		nic := &ctx.interfaces[i]
		port := ctx.Ports.Find(nic.MACAddress)
		if nic.ClientID == "" || port == nil || done[nic.MACAddress] {
			continue
		}
		done[nic.MACAddress] = true
		if port.Extra.Text(clientIDKey) != nic.ClientID {
			port.Extra = port.Extra.With(map[string]any{clientIDKey: nic.ClientID})
		}
	}
}

// keptAddresses returns the addresses of the ports to keep; nil means all ports.
func keptAddresses(ctx *Context) map[string]bool {
	if ctx.Config.KeepPorts == KeepAll {
		return nil
	}
	keep := make(map[string]bool, len(ctx.interfaces))
	for i := range ctx.interfaces {
		nic := &ctx.interfaces[i]
		if ctx.Config.KeepPorts == KeepPresent || nic.valid {
			keep[nic.MACAddress] = true
		}
	}
	return keep
}

// updatePXEEnabled sets pxe_enabled on the port from which the ramdisk was booted, and clears it on
// the others, even if the inventory does not name the boot interface.
func updatePXEEnabled(ctx *Context) {
	booted := make(map[string]bool, 1)
	for i := range ctx.interfaces {
		if nic := &ctx.interfaces[i]; nic.pxe {
			booted[nic.MACAddress] = true
		}
	}
	for _, port := range ctx.Ports.All() {
		port.PXEEnabled = booted[port.Address]
	}
}
