// Package imageurl tells which URLs of images and firmware lead to the engine's own machine.
//
// Users of Kubernetes write these URLs, and the engine reads them and hands over what it got. So a
// URL must not name a file of the engine, nor its machine or its link. Services there trust whoever
// reaches them, such as the metadata services of clouds, which hand out a virtual machine's
// credentials. Check does not know which addresses a DNS name leads to: a NetworkPolicy or a
// firewall has to limit those.
package imageurl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Check returns why a URL must not be given to the engine, or nil. It does not apply other rules
// for URLs: text without a scheme is the name of an image that the engine knows.
func Check(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("it is not a URL")
	case u.Scheme == "":
		return nil
	case u.Scheme == "file":
		return errors.New("it names a file of the engine; put that on a web server")
	case u.Hostname() == "":
		return fmt.Errorf("the URL %s has no host", node.MaskURLs(text))
	case isLocal(u.Hostname()):
		return fmt.Errorf("the host %s may be the engine's own machine or its link; put the image on a server with an address of its own", u.Hostname())
	default:
		return nil
	}
}

// isLocal reports whether the host of a URL is the machine that reads the URL, or on its link.
// Names and numbers that different programs read differently count as local.
func isLocal(host string) bool {
	host = strings.ToLower(strings.TrimRight(host, "."))
	if address, err := netip.ParseAddr(host); err == nil {
		return isLocalAddress(address)
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	isNumber := err == nil || last != "" && strings.Trim(last, "0123456789") == ""
	return last == "" || isNumber || last == "localhost" || last == "localdomain" || strings.HasPrefix(host, "ip6-") ||
		strings.ContainsFunc(host, func(r rune) bool { return r > '~' })
}

func isLocalAddress(address netip.Addr) bool {
	address = embedded(address)
	return address.IsLoopback() || address.IsUnspecified() || address.IsLinkLocalUnicast() || address.IsMulticast()
}

// translated are the IPv6 networks whose addresses end with an IPv4 address: a deprecated one that
// some systems still understand, and that of NAT64 (RFC 6052).
var translated = []netip.Prefix{netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96")}

// embedded returns the IPv4 address in an IPv6 address, or the address itself.
func embedded(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	for _, network := range translated {
		if bytes := address.As16(); address.Is6() && network.Contains(address) && !address.IsLoopback() && !address.IsUnspecified() {
			return netip.AddrFrom4([4]byte(bytes[12:]))
		}
	}
	return address
}
