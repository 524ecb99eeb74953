package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// sourceOf returns the source address of a request. It is the address of the sender,
// unless the sender is one of the proxies. Proxies append to X-Forwarded-For, so the
// source is the last entry that is not a proxy; anybody can forge earlier entries. The
// zero Addr means that the source is unknown.
func sourceOf(r *http.Request, proxies []netip.Prefix) netip.Addr {
	var source netip.Addr
	if sender, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		source = canonicalAddr(sender.Addr())
	}
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if !trusted(source) {
		return source
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		hop = strings.TrimSpace(hop)
		if hop == "" {
			continue
		}
		address, err := netip.ParseAddr(hop)
		if err != nil {
			return netip.Addr{}
		}
		if source = canonicalAddr(address); !trusted(source) {
			break
		}
	}
	return source
}

func canonicalAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
