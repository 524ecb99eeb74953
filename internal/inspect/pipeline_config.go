package inspect

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// AddPorts says which interfaces become ports of the node.
type AddPorts string

// Values of AddPorts.
const (
	AddAll      AddPorts = "all"      // every usable interface
	AddActive   AddPorts = "active"   // interfaces with an IP address
	AddPXE      AddPorts = "pxe"      // the interface the ramdisk was booted from
	AddDisabled AddPorts = "disabled" // none
)

// KeepPorts says which existing ports stay.
type KeepPorts string

// Values of KeepPorts.
const (
	KeepAll     KeepPorts = "all"     // every port
	KeepPresent KeepPorts = "present" // ports whose interface is in the inventory
	KeepAdded   KeepPorts = "added"   // ports that AddPorts selects
)

// defaultHooksVariable is replaced in a hook list by the default hooks.
const defaultHooksVariable = "$default_hooks"

// Config is the list of hooks and their options, the section inspector of the engine's
// configuration. Start from DefaultConfig. With an empty Hooks list, inspection only stores what
// the agent sent.
type Config struct {
	// DefaultHooks replaces $default_hooks in Hooks.
	DefaultHooks []string
	// Hooks run in this order. An entry may contain several names, separated by commas.
	Hooks            []string
	AddPorts         AddPorts
	KeepPorts        KeepPorts
	UpdatePXEEnabled bool // correct pxe_enabled of existing ports

	// LoopbackNetworks are parts of 127.0.0.0/8, or ::1/128, in CIDR notation. An interface with an
	// address in one of them may become a port; an interface with another loopback address never
	// does. Simulated machines have such addresses.
	LoopbackNetworks []string

	// KnownAccelerators is a YAML file that lists accelerators; empty means the
	// list that comes with the engine.
	KnownAccelerators string
	// CPUCapabilities are "flag:capability": a processor with the flag gives the
	// node the capability.
	CPUCapabilities []string
	// ExtraHardwareStrict rejects all extra hardware facts when one row is malformed.
	ExtraHardwareStrict bool
	// PCIDeviceAlias are "vendor_id:product_id:name", the IDs in hexadecimal.
	PCIDeviceAlias []string
	// PhysicalNetworkCIDRMap are "network:name"; the first network that contains an address wins.
	PhysicalNetworkCIDRMap []string
	// DiskPartitioningSpacing is subtracted from the size of the root disk for local_gb, in GiB.
	DiskPartitioningSpacing int

	accelerators     map[pciID]map[string]any // KnownAccelerators
	cpuCapabilities  []cpuCapability          // CPUCapabilities
	pciAliases       []pciAlias               // PCIDeviceAlias
	physicalNetworks []physicalNetwork        // PhysicalNetworkCIDRMap
	loopbackNetworks []netip.Prefix           // LoopbackNetworks
}

// DefaultConfig returns the hooks and options that Ironic's specification for the merge of
// Inspector makes the default.
func DefaultConfig() Config {
	return Config{
		DefaultHooks:     []string{ramdiskErrorHook.Name, architectureHook.Name, validateInterfacesHook.Name, portsHook.Name},
		Hooks:            []string{defaultHooksVariable},
		AddPorts:         AddAll,
		KeepPorts:        KeepAll,
		UpdatePXEEnabled: true,
		CPUCapabilities: []string{
			"vmx:cpu_vt", "svm:cpu_vt", "aes:cpu_aes", "pse:cpu_hugepages", "pdpe1gb:cpu_hugepages_1g", "smx:cpu_txt",
		},
		DiskPartitioningSpacing: 1,
	}
}

// check refuses unknown option values and warns about combinations without effect.
func (c Config) check() (warnings []string, err error) {
	if all := []AddPorts{AddAll, AddActive, AddPXE, AddDisabled}; !slices.Contains(all, c.AddPorts) {
		return nil, fmt.Errorf("inspector.add_ports: unknown value %q, want one of %s", c.AddPorts, join(all))
	}
	if all := []KeepPorts{KeepAll, KeepPresent, KeepAdded}; !slices.Contains(all, c.KeepPorts) {
		return nil, fmt.Errorf("inspector.keep_ports: unknown value %q, want one of %s", c.KeepPorts, join(all))
	}
	if c.KeepPorts == KeepAdded && c.AddPorts == AddAll {
		warnings = append(warnings, "Option inspector.keep_ports=added does the same as present while inspector.add_ports is all")
	}
	return warnings, nil
}

// expand returns the hook names with $default_hooks replaced.
func (c Config) expand() ([]string, error) {
	defaults := split(c.DefaultHooks)
	if slices.Contains(defaults, defaultHooksVariable) {
		return nil, errors.New("inspector.default_hooks: " + defaultHooksVariable + " cannot contain itself")
	}
	var names []string
	for _, name := range split(c.Hooks) {
		if name == defaultHooksVariable {
			names = append(names, defaults...)
		} else {
			names = append(names, name)
		}
	}
	return names, nil
}

// split splits entries at commas and drops empty ones, because a list from the environment or the
// command line arrives as one text.
func split(entries []string) []string {
	var names []string
	for _, entry := range entries {
		for name := range strings.SplitSeq(entry, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// dashed returns the canonical spelling of a hook name. The specification writes some names with
// underscores.
func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

func findHook(hooks []Hook, name string) (Hook, bool) {
	i := slices.IndexFunc(hooks, func(h Hook) bool { return h.Name == name })
	if i < 0 {
		return Hook{}, false
	}
	return hooks[i], true
}

func hookNames() string {
	var names []string
	for _, hook := range knownHooks {
		names = append(names, hook.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func join[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return strings.Join(texts, ", ")
}
