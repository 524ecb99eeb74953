package inspect

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// physicalNetworkHook sets the physical network of ports from the IP addresses that the ramdisk got
// on their interfaces.
var physicalNetworkHook = Hook{
	Name: "physical-network", Requires: []string{validateInterfacesHook.Name},
	Prepare: preparePhysicalNetworks, Process: setPhysicalNetworks,
}

// maxPhysicalNetwork is the longest name of a physical network, in characters. The limit is from
// the Bare Metal API.
const maxPhysicalNetwork = 64

// physicalNetwork is one entry of physical_network_cidr_map.
type physicalNetwork struct {
	prefix netip.Prefix
	name   string
}

func preparePhysicalNetworks(cfg *Config) error {
	cfg.physicalNetworks = nil
	seen := map[netip.Prefix]bool{}
	for _, entry := range split(cfg.PhysicalNetworkCIDRMap) {
		network, err := parsePhysicalNetwork(entry)
		if err == nil && seen[network.prefix] {
			err = fmt.Errorf("the network %s comes twice", network.prefix)
		}
		if err != nil {
			return fmt.Errorf("inspector.physical_network_cidr_map: entry %q: %w", entry, err)
		}
		seen[network.prefix] = true
		cfg.physicalNetworks = append(cfg.physicalNetworks, network)
	}
	return nil
}

// parsePhysicalNetwork reads "192.0.2.0/24:name" or "2001:db8::/32:name".
func parsePhysicalNetwork(entry string) (physicalNetwork, error) {
	colon := strings.LastIndexByte(entry, ':')
	if colon < 0 || strings.Contains(entry[colon:], "/") {
		return physicalNetwork{}, errors.New("want NETWORK:NAME, such as 192.0.2.0/24:provisioning")
	}
	cidr, name := strings.TrimSpace(entry[:colon]), strings.TrimSpace(entry[colon+1:])
	prefix, err := netip.ParsePrefix(cidr)
	switch {
	case err != nil:
		return physicalNetwork{}, fmt.Errorf("want a network such as 192.0.2.0/24 or 2001:db8::/64 in front of the name, got %q", cidr)
	case prefix != prefix.Masked():
		return physicalNetwork{}, fmt.Errorf("%s is an address in a network; write the network, %s", prefix, prefix.Masked())
	case name == "":
		return physicalNetwork{}, errors.New("the name of the physical network is empty")
	case len([]rune(name)) > maxPhysicalNetwork:
		return physicalNetwork{}, fmt.Errorf("the name of the physical network has more than %d characters", maxPhysicalNetwork)
	}
	return physicalNetwork{prefix: prefix, name: name}, nil
}

func setPhysicalNetworks(ctx *Context) error {
	found := make(map[string]string) // address to physical network
	for i := range ctx.interfaces {
		nic := &ctx.interfaces[i]
		if found[nic.MACAddress] != "" || ctx.Ports.Find(nic.MACAddress) == nil {
			continue
		}
		if name := physicalNetworkOf(ctx, nic); name != "" {
			found[nic.MACAddress] = name
		}
	}
	groups := make(map[string][]*Port)
	for _, port := range ctx.Ports.All() {
		if port.PortgroupUUID != "" {
			groups[port.PortgroupUUID] = append(groups[port.PortgroupUUID], port)
		} else if name := found[port.Address]; name != "" {
			port.PhysicalNetwork = name
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(groups)) {
		setGroupNetwork(ctx, uuid, groups[uuid], found)
	}
	return nil
}

// setGroupNetwork sets the physical network of all ports of a port group to the one that was found
// for any of them, because the ports of a group share one network, and often only the port that
// booted the ramdisk has an address. If the ports disagree, all keep their network.
func setGroupNetwork(ctx *Context, uuid string, members []*Port, found map[string]string) {
	group, first := "", ""
	for _, port := range members {
		switch name := found[port.Address]; {
		case name == "", name == group:
		case group == "":
			group, first = name, port.Address
		default:
			ctx.Skip("The ports of port group %s keep their physical network: port %s is in %s, port %s in %s", uuid, first, group, port.Address, name)
			return
		}
	}
	if group == "" {
		return
	}
	for _, port := range members {
		port.PhysicalNetwork = group
	}
}

// physicalNetworkOf returns the name of the first network that contains the interface's IPv4
// address, else of the first that contains its IPv6 address, else "".
func physicalNetworkOf(ctx *Context, nic *candidate) string {
	v4, v6 := nic.Addrs()
	for _, addr := range [...]netip.Addr{v4, v6} {
		for _, network := range ctx.Config.physicalNetworks {
			if network.prefix.Contains(addr) {
				return network.name
			}
		}
	}
	if v4.IsValid() || v6.IsGlobalUnicast() {
		ctx.Skip("No network of inspector.physical_network_cidr_map holds the address of interface %s (%s)", inventory.Quote(nic.Name), nic.Addr())
	}
	return ""
}
