package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

// metricsHost and metricsPort are where in its network the operator of a world serves its metrics; no machine has that
// address.
const metricsHost, metricsPort = "255.254", "8098"

// metricsAddress is where the operator of a world on a network serves its metrics.
func metricsAddress(network netip.Prefix) string {
	return fmt.Sprintf("127.%d.%s:%s", network.Addr().As4()[1], metricsHost, metricsPort)
}

// claims keep the networks of this process until it ends.
var claims struct {
	mu        sync.Mutex
	listeners []net.Listener
}

// claimNetwork returns a loopback network that no other world of this computer has.
func claimNetwork() (netip.Prefix, error) {
	network, listener, err := loopbacktest.Claim()
	if err != nil {
		return netip.Prefix{}, err
	}
	claims.mu.Lock()
	defer claims.mu.Unlock()
	claims.listeners = append(claims.listeners, listener)
	return network, nil
}
