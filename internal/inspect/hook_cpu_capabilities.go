package inspect

import (
	"fmt"
	"slices"
	"strings"
)

// cpuCapabilitiesHook turns CPU flags into capabilities of the node with the value "true", as
// Config.CPUCapabilities says. It removes no capability.
var cpuCapabilitiesHook = Hook{Name: "cpu-capabilities", Prepare: prepareCPUCapabilities, Process: setCPUCapabilities}

// cpuCapability is one entry of Config.CPUCapabilities.
type cpuCapability struct{ flag, capability string }

func prepareCPUCapabilities(c *Config) error {
	c.cpuCapabilities = nil
	for _, entry := range split(c.CPUCapabilities) {
		flag, capability, _ := strings.Cut(entry, ":")
		flag, capability = strings.TrimSpace(flag), strings.TrimSpace(capability)
		if flag == "" || !isCapabilityName(capability) {
			return fmt.Errorf("inspector.cpu_capabilities: want FLAG:CAPABILITY such as vmx:cpu_vt, got %q", entry)
		}
		c.cpuCapabilities = append(c.cpuCapabilities, cpuCapability{flag, capability})
	}
	return nil
}

// isCapabilityName reports whether a name fits into the text of capabilities.
func isCapabilityName(name string) bool {
	return name != "" && !strings.ContainsAny(name, ":, \t\n")
}

func setCPUCapabilities(ctx *Context) error {
	flags := ctx.Inventory.CPU.Flags
	if len(flags) == 0 {
		ctx.Skip("The inventory lists no CPU flags, so capabilities stay as they are")
		return nil
	}
	for _, wanted := range ctx.Config.cpuCapabilities {
		if slices.Contains(flags, wanted.flag) {
			ctx.Properties.SetCapability(wanted.capability, "true")
		}
	}
	return nil
}
