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

// The networks are 127.N.0.0/16, with so many N from this one on.
const (
	firstNetwork = 128
	networkCount = 127
	// claimHost is the end of an address in each of them that no machine has, and claimPort the
	// port there that says whose the network is.
	claimHost, claimPort = "255.254", "8099"
)

// Claim returns a network that nothing else on this computer has claimed, in this process or
// another one, and the listener that keeps it until it is closed.
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

// Network is Claim for one test, which has the network until its end.
func Network(t testing.TB) netip.Prefix {
	t.Helper()
	network, listener, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return network
}
