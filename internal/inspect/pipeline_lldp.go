package inspect

import (
	"encoding/json"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// maxNeighbours is on how many interfaces LLDP is read at most. Frames arrive on physical ports,
// and no machine has more of them.
const maxNeighbours = 64

// rawLLDPKey is the key of plugin data for the results of the ramdisk's lldp collector: TLVs by
// interface name.
const rawLLDPKey = "lldp_raw"

// neighbours returns the LLDP data of the switch at the other end of each interface's cable, by
// interface name. The first hook that needs the data parses it.
func (c *Context) neighbours() map[string]*inventory.LLDP {
	if c.lldp == nil {
		c.lldp = readNeighbours(c)
	}
	return c.lldp
}

// readNeighbours parses the TLVs of each interface, from the lldp collector if it has any, else
// from the inventory.
func readNeighbours(ctx *Context) map[string]*inventory.LLDP {
	collected := collectedTLVs(ctx)
	neighbours := make(map[string]*inventory.LLDP)
	missing, example, unread := 0, "", 0
	for i := range ctx.Inventory.Interfaces {
		nic := &ctx.Inventory.Interfaces[i]
		if _, known := neighbours[nic.Name]; known || nic.Name == "" {
			continue
		}
		tlvs := collected[nic.Name]
		if tlvs == nil {
			tlvs = nic.LLDP
		}
		switch {
		case !empty(tlvs) && len(neighbours) < maxNeighbours:
			neighbours[nic.Name] = readNeighbour(ctx, nic.Name, tlvs)
		case !empty(tlvs):
			unread++
		default:
			if missing++; missing == 1 {
				example = nic.Name
			}
		}
	}
	if unread > 0 {
		ctx.Skip("LLDP data is read for %d interfaces at most; that of %d more is left out", maxNeighbours, unread)
	}
	if missing > 0 {
		ctx.Skip("LLDP data is missing for %d of %d interfaces, such as %s", missing, len(ctx.Inventory.Interfaces), inventory.Quote(example))
	}
	return neighbours
}

func readNeighbour(ctx *Context, name string, tlvs json.RawMessage) *inventory.LLDP {
	lldp, reasons := inventory.ParseLLDP(tlvs)
	switch more := len(reasons) - 1; {
	case more == 0:
		ctx.Skip("LLDP of interface %s: %s", inventory.Quote(name), reasons[0])
	case more > 0:
		ctx.Skip("LLDP of interface %s: %s, and %d more like it", inventory.Quote(name), reasons[0], more)
	}
	return &lldp
}

// collectedTLVs returns the non-empty lists in lldp_raw. It skips other kinds of values.
func collectedTLVs(ctx *Context) map[string]json.RawMessage {
	raw := ctx.PluginData[rawLLDPKey]
	switch {
	case empty(raw):
		return nil
	case raw[0] != '{':
		ctx.Skip("The plugin data %s is not an object of interfaces; LLDP is read from the inventory only", rawLLDPKey)
		return nil
	}
	collected := make(map[string]json.RawMessage)
	for name, tlvs := range inventory.Members(raw) {
		switch {
		case empty(tlvs):
		case tlvs[0] != '[':
			ctx.Skip("The plugin data %s has no list of TLVs for interface %s", rawLLDPKey, inventory.Quote(name))
		default:
			collected[name] = tlvs
		}
	}
	return collected
}
