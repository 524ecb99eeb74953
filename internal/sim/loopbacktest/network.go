// Package loopbacktest gives tests loopback networks for simulated machines and their BMCs.
package loopbacktest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
)

// The networks are 127.N.0.0/16 for networkCount values of N, from firstNetwork on.
const (
	firstNetwork = 128
	networkCount = 127
	// claimHost is the end of an address in each network that no machine has. Whoever listens on
	// claimPort of this address has claimed the network.
	claimHost, claimPort = "255.254", "8099"
)

// Claim returns a network that nobody else on this computer has claimed, in this process or another
// one. The network stays claimed until the listener is closed.
func Claim() (netip.Prefix, net.Listener, error) {
	var failures []error
	for i := range networkCount {
		n := firstNetwork + (os.Getpid()+i)%networkCount
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.%d.%s:%s", n, claimHost, claimPort)) //nolint:noctx // binding does not wait
		if err == nil {
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(n), 0, 0}), 16), listener, nil
		}
		failures = append(failures, err)
	}
	return netip.Prefix{}, nil, fmt.Errorf("find a network for simulated machines: %w", errors.Join(failures...))
}

// Network claims a network for one test, until the end of the test.
func Network(t testing.TB) netip.Prefix {
	t.Helper()
	network, listener, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return network
}
