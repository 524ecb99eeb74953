package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// AllowList says which unknown machines may be enrolled. The zero value allows
// all of them. It never changes and is safe for concurrent use.
type AllowList struct {
	macs     map[string]bool // prefixes of MAC addresses, as hexadecimal digits
	lengths  []int           // lengths of those prefixes, each once
	serials  map[string]bool
	networks []netip.Prefix
}

// NewAllowList parses the criteria of an operator: prefixes of MAC addresses (such as "52:54:00"; a
// whole address works too), serial numbers of chassis, and networks (CIDR) that machines post from.
// An empty criterion allows every machine; a machine must meet all other criteria. The error names
// the invalid entry.
func NewAllowList(macs, serials, networks []string) (AllowList, error) {
	l := AllowList{macs: map[string]bool{}, serials: map[string]bool{}}
	for _, text := range macs {
		digits, ok := node.ParseMACPrefix(text)
		if !ok {
			return l, fmt.Errorf("allowed_macs: want the first digits of MAC addresses, such as 52:54:00, got %q", text)
		}
		l.macs[digits] = true
		if !slices.Contains(l.lengths, len(digits)) {
			l.lengths = append(l.lengths, len(digits))
		}
	}
	for _, text := range serials {
		serial := normalizeSerial(text)
		if serial == "" {
			return l, fmt.Errorf("allowed_serials: want serial numbers, got %q", text)
		}
		l.serials[serial] = true
	}
	var err error
	if l.networks, err = ParseNetworks(networks); err != nil {
		return l, fmt.Errorf("allowed_networks: %w", err)
	}
	return l, nil
}

// ParseNetworks parses networks in CIDR notation.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("want CIDR networks such as 192.0.2.0/24: %w", err)
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}

// Refuses returns why an unknown machine that posted from source is not enrolled,
// or "" if it may be. An unknown source is in no network.
func (l AllowList) Refuses(machine *inventory.Inventory, source netip.Addr) string {
	source = source.Unmap().WithZone("")
	switch {
	case len(l.networks) > 0 && !slices.ContainsFunc(l.networks, func(n netip.Prefix) bool { return n.Contains(source) }):
		return "it posted from outside auto_discovery.allowed_networks"
	case len(l.serials) > 0 && !l.serials[normalizeSerial(machine.SystemVendor.SerialNumber)]:
		return "its serial number is not in auto_discovery.allowed_serials"
	case len(l.macs) > 0 && !slices.ContainsFunc(machine.MACs(), l.allowsMAC):
		return "none of its MAC addresses is in auto_discovery.allowed_macs"
	}
	return ""
}

func (l AllowList) allowsMAC(mac string) bool {
	digits, _ := node.ParseMACPrefix(mac)
	return slices.ContainsFunc(l.lengths, func(length int) bool {
		return length <= len(digits) && l.macs[digits[:length]]
	})
}

// normalizeSerial makes serial numbers comparable, because firmware pads them and people type them
// in either case.
func normalizeSerial(text string) string { return strings.ToUpper(strings.TrimSpace(text)) }
