package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Bounds of finding out where BMCs are.
const (
	resolveWithin = 5 * time.Second // all names of one node together
	maxBMCHosts   = 16              // hosts of one node
	maxAnswers    = 16              // addresses of one name
)

// Resolver looks host names up. A *net.Resolver is one.
type Resolver interface {
	// LookupNetIP returns the addresses of a host; the network "ip" asks for both
	// families.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// BMCHosts returns the hosts that stand in a node's driver_info: those of every
// key that ends in "_address", as host[:port] or as a URL, each once and in order.
// A node whose BMC is reached through that of another machine has none: the
// address is not its own.
func BMCHosts(driverInfo node.Object) []string {
	if driverInfo.IsEmpty() || bridged(driverInfo) {
		return nil
	}
	var hosts []string
	for key, value := range driverInfo.Values() {
		if text, ok := value.(string); ok && strings.HasSuffix(key, "_address") {
			if host := hostOf(text); host != "" {
				hosts = append(hosts, host)
			}
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	return hosts[:min(len(hosts), maxBMCHosts)]
}

// bridged reports whether IPMI requests are handed on by another BMC.
func bridged(driverInfo node.Object) bool {
	text := strings.ToLower(driverInfo.Text("ipmi_bridging"))
	return text != "" && text != "no"
}

// BMCAddresses returns the IP addresses that stand literally in a node's
// driver_info.
func BMCAddresses(driverInfo node.Object) []netip.Addr {
	var addresses []netip.Addr
	for _, host := range BMCHosts(driverInfo) {
		if address, err := netip.ParseAddr(host); err == nil {
			addresses = append(addresses, address)
		}
	}
	return telling(addresses)
}

// ResolveBMC returns the IP addresses of a node's BMCs, with names resolved, and
// the sentence for each name that has none. It waits five seconds at most.
func ResolveBMC(ctx context.Context, resolver Resolver, driverInfo node.Object) (addresses []netip.Addr, problems []string) {
	hosts := BMCHosts(driverInfo)
	if len(hosts) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	answers, failures := make([][]netip.Addr, len(hosts)), make([]error, len(hosts))
	var asking sync.WaitGroup
	for i, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			answers[i] = []netip.Addr{address}
			continue
		}
		asking.Go(func() { answers[i], failures[i] = resolver.LookupNetIP(ctx, "ip", host) })
	}
	asking.Wait()
	for i, host := range hosts {
		if failures[i] != nil {
			problems = append(problems, fmt.Sprintf("The BMC address %s could not be resolved: %s",
				node.CutText(host), node.CutText(failures[i].Error())))
		}
		addresses = append(addresses, answers[i][:min(len(answers[i]), maxAnswers)]...)
	}
	return telling(addresses), problems
}

// telling returns the addresses that tell machines apart, in canonical form,
// sorted, each once. Loopback, link-local and group addresses do not: many
// machines share them.
func telling(addresses []netip.Addr) []netip.Addr {
	var told []netip.Addr
	for _, address := range addresses {
		if address = address.Unmap().WithZone(""); address.IsGlobalUnicast() {
			told = append(told, address)
		}
	}
	slices.SortFunc(told, netip.Addr.Compare)
	return slices.Compact(told)
}

// hostOf returns the host part of a URL or of host[:port], without brackets. What
// can be neither a name nor an address is "", such as the numbers that are
// addresses on an IPMI bus.
func hostOf(text string) string {
	if !strings.Contains(text, "://") {
		if _, err := netip.ParseAddr(text); err == nil {
			return text
		}
		text = "//" + text
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	host := parsed.Hostname()
	if _, err := strconv.ParseUint(host, 0, 64); err == nil {
		return ""
	}
	return host
}
