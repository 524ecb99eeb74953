package inspect

import (
	"encoding/json"
	"fmt"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// parseLLDPHook writes what switches told with LLDP into the plugin data
// parsed_lldp, by interface name. An interface whose switch told nothing has no
// entry, and without any entry there is no such key.
var parseLLDPHook = Hook{Name: "parse-lldp", Process: parseLLDP}

const parsedLLDPKey = "parsed_lldp"

func parseLLDP(ctx *Context) error {
	parsed := make(map[string]json.RawMessage)
	for name, neighbour := range ctx.neighbours() {
		encoded, err := json.Marshal(neighbour)
		if err != nil {
			return fmt.Errorf("encode LLDP of interface %s: %w", inventory.Quote(name), err)
		}
		if string(encoded) != "{}" {
			parsed[name] = encoded
		}
	}
	if len(parsed) == 0 {
		delete(ctx.PluginData, parsedLLDPKey) // what the ramdisk sent under this name was not parsed here
		return nil
	}
	ctx.PluginData[parsedLLDPKey] = inventory.AppendObject(nil, parsed)
	return nil
}
