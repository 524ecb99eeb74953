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

// Limits of resolving BMC addresses.
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

// BMCHosts returns the hosts in a node's driver_info, sorted and without duplicates: the values of
// all keys that end in "_address", each host[:port] or a URL. A node behind a bridging BMC has
// none, because the address belongs to another machine.
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

// bridged reports whether another BMC forwards the IPMI requests of the node.
func bridged(driverInfo node.Object) bool {
	text := strings.ToLower(driverInfo.Text("ipmi_bridging"))
	return text != "" && text != "no"
}

// BMCAddresses returns the IP addresses in a node's driver_info. It does not resolve host names.
func BMCAddresses(driverInfo node.Object) []netip.Addr {
	var addresses []netip.Addr
	for _, host := range BMCHosts(driverInfo) {
		if address, err := netip.ParseAddr(host); err == nil {
			addresses = append(addresses, address)
		}
	}
	return identifying(addresses)
}

// ResolveBMC returns the IP addresses of a node's BMCs, with host names resolved, and one sentence
// for each name that cannot be resolved. It takes at most five seconds.
func ResolveBMC(ctx context.Context, resolver Resolver, driverInfo node.Object) (addresses []netip.Addr, problems []string) {
	hosts := BMCHosts(driverInfo)
	if len(hosts) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	answers, failures := make([][]netip.Addr, len(hosts)), make([]error, len(hosts))
	var lookups sync.WaitGroup
	for i, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			answers[i] = []netip.Addr{address}
			continue
		}
		lookups.Go(func() { answers[i], failures[i] = resolver.LookupNetIP(ctx, "ip", host) })
	}
	lookups.Wait()
	for i, host := range hosts {
		if failures[i] != nil {
			problems = append(problems, fmt.Sprintf("The BMC address %s could not be resolved: %s",
				node.CutText(host), node.CutText(failures[i].Error())))
		}
		addresses = append(addresses, answers[i][:min(len(answers[i]), maxAnswers)]...)
	}
	return identifying(addresses), problems
}

// identifying returns the addresses that identify one machine, in canonical form,
// sorted and without duplicates. Many machines share loopback, link-local and
// multicast addresses.
func identifying(addresses []netip.Addr) []netip.Addr {
	var global []netip.Addr
	for _, address := range addresses {
		if address = address.Unmap().WithZone(""); address.IsGlobalUnicast() {
			global = append(global, address)
		}
	}
	slices.SortFunc(global, netip.Addr.Compare)
	return slices.Compact(global)
}

// hostOf returns the host part of a URL or of host[:port], without brackets. It
// returns "" for anything that is neither a name nor an IP address, such as the
// numeric addresses on an IPMI bus.
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
