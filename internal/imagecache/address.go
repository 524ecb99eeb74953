package imagecache

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Whoever gives the URL of an image chooses which server the engine asks, and may name this
// machine. A redirect or an answer of the DNS is somebody else's choice, and its content is served
// to machines without a password. So neither may lead to this machine or its link, where services
// trust whoever reaches them. An example is the service with the credentials of virtual machines in
// clouds.

// isInternal reports whether an address belongs to this machine or only to its link.
func isInternal(address netip.Addr) bool {
	address = address.Unmap()
	return address.IsLoopback() || address.IsUnspecified() || address.IsLinkLocalUnicast() || address.IsMulticast()
}

// namesInternal reports whether the host of a URL is itself an internal address or localhost.
func namesInternal(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && isInternal(address) || strings.EqualFold(host, "localhost")
}

// redirectsInside reports whether a redirect leads from the URL of an image to this machine
// or its link.
func redirectsInside(given, to *url.URL) bool {
	return to.Host != given.Host && namesInternal(to.Hostname())
}

// dialWithin limits the time to connect to a server.
const dialWithin = 30 * time.Second

// dial connects to a server. It refuses an internal address that the DNS returns for a name.
func dial(ctx context.Context, network, server string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialWithin}
	if host, _, err := net.SplitHostPort(server); err == nil && !namesInternal(host) {
		dialer.Control = refuseInternal
	}
	return dialer.DialContext(ctx, network, server)
}

// refuseInternal refuses connections to internal addresses. It is a net.Dialer.Control.
func refuseInternal(_, address string, _ syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err == nil && isInternal(to.Addr()) {
		return final("the name of the server leads to %s, an address of this machine or its link: if that is meant, have the URL name the address itself", to.Addr())
	}
	return nil
}
