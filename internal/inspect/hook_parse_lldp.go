package inspect

import "github.com/ingot-metal/ingot/internal/inventory"

// parseLLDPHook writes the decoded LLDP data of switches to the plugin data parsed_lldp, by
// interface name. An interface without LLDP data has no entry. Without any entry, the key
// parsed_lldp is absent.
var parseLLDPHook = Hook{Name: "parse-lldp", Process: parseLLDP}

const parsedLLDPKey = "parsed_lldp"

func parseLLDP(ctx *Context) error {
	parsed := make(map[string]*inventory.LLDP)
	for name, neighbour := range ctx.neighbours() {
		if !neighbour.IsZero() {
			parsed[name] = neighbour
		}
	}
	if len(parsed) == 0 {
		delete(ctx.PluginData, parsedLLDPKey) // a value from the ramdisk under this key was not parsed here
		return nil
	}
	ctx.SetPluginData(parsedLLDPKey, parsed)
	return nil
}
