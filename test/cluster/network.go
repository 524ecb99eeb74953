package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
)

// The networks of worlds are 127.N.0.0/16, with so many N from this one on.
const (
	firstNetwork = 96
	networkCount = 32
	// claimHost is the end of an address in each of them that no machine has, and claimPort the port there that says
	// whose the network is.
	claimHost, claimPort = "255.254", "8099"
	// metricsPort is the port there at which an operator serves its metrics.
	metricsPort = "8098"
)

// metricsAddress is where the operator of a world on a network serves its metrics.
func metricsAddress(network netip.Prefix) string {
	return fmt.Sprintf("127.%d.%s:%s", network.Addr().As4()[1], claimHost, metricsPort)
}

// claims keep the networks of this process until it ends.
var claims struct {
	mu        sync.Mutex
	listeners []net.Listener
}

// claimNetwork returns a loopback network that no other world of this computer has.
func claimNetwork() (netip.Prefix, error) {
	var failures []error
	for i := range networkCount {
		n := firstNetwork + (os.Getpid()+i)%networkCount
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.%d.%s:%s", n, claimHost, claimPort)) //nolint:noctx // binding does not wait
		if err != nil {
			failures = append(failures, err)
			continue
		}
		claims.mu.Lock()
		defer claims.mu.Unlock()
		claims.listeners = append(claims.listeners, listener)
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(n), 0, 0}), 16), nil
	}
	return netip.Prefix{}, fmt.Errorf("find a network for simulated machines: %w", errors.Join(failures...))
}
