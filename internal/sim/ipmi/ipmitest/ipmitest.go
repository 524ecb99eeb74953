// Package ipmitest starts a simulated BMC that speaks IPMI for a test.
package ipmitest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/ipmi"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// Server is one BMC that answers over UDP on loopback until the test ends. It also answers over
// Redfish. Its clock stands still unless the test moves it.
type Server struct {
	*redfishtest.Server
	Address netip.AddrPort // where it answers IPMI
	IPMI    *ipmi.Service
}

// Start starts a BMC of a vendor. The user and the password are those of package redfishtest.
func Start(t testing.TB, vendor string, options ...redfishtest.Options) *Server {
	t.Helper()
	s := &Server{Server: redfishtest.Start(t, vendor, options...)}
	s.IPMI = ipmi.New(s.BMC)
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s.Address = netip.MustParseAddrPort(conn.LocalAddr().String())
	ended := make(chan error, 1)
	go func() { ended <- s.IPMI.Serve(context.Background(), conn) }()
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("serve IPMI: %v", err)
		}
	})
	return s
}
