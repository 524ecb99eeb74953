// Package ipmi serves a simulated BMC over IPMI 2.0: RMCP+ sessions over UDP with the cipher suites
// 3 and 17, chassis status and control, boot flags, and the identity of BMC and system. Section
// numbers in comments are those of the specification, v2.0, revision 1.1.
//
// Package bmc decides what a BMC does and which faults it has. The account, the effects and the
// faults are the same over IPMI and over Redfish. go-ipmi's server provides the keys and messages
// that open a session.
package ipmi

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// Service is the IPMI service of one BMC. It is safe for concurrent use. It takes little memory
// until the first request.
type Service struct {
	bmc *bmc.BMC

	mu       sync.Mutex
	sessions *sessions // nil before the first request
	newest   bootFlags // the flags that a client set last
	lacking  map[uint8]types.CompletionCode
	plain    bool // shows only the device of valid boot flags
}

// New returns the IPMI service of a BMC.
func New(b *bmc.BMC) *Service { return &Service{bmc: b} }

// Lack makes the BMC lack a parameter of the boot options. The BMC then answers requests to set the
// parameter with a completion code.
func (s *Service) Lack(parameter, code uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lacking == nil {
		s.lacking = map[uint8]types.CompletionCode{}
	}
	s.lacking[parameter] = types.CompletionCode(code)
}

// lacks returns the completion code of requests to set a parameter, and whether the BMC lacks it.
func (s *Service) lacks(parameter uint8) (types.CompletionCode, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, lacks := s.lacking[parameter]
	return code, lacks
}

// ShowDeviceOnly makes the BMC store the boot flags completely, but show neither the mode nor that
// they are persistent.
func (s *Service) ShowDeviceOnly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain = true
}

// maxDatagram is the size of the largest request, in bytes.
const maxDatagram = 512

// Serve answers requests until the connection is closed.
func (s *Service) Serve(ctx context.Context, conn *net.UDPConn) error {
	var answering sync.WaitGroup
	defer answering.Wait()
	buffer := make([]byte, maxDatagram)
	for {
		n, client, err := conn.ReadFromUDPAddrPort(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		datagram := slices.Clone(buffer[:n])
		answering.Go(func() {
			if answer := s.Answer(ctx, datagram, client.Addr().Unmap()); answer != nil {
				_, _ = conn.WriteToUDPAddrPort(answer, client) // the client may be gone
			}
		})
	}
}

// Answer does what a datagram asks for and returns the answer, or nil if there is none. It waits as
// long as the BMC delays its answers.
func (s *Service) Answer(ctx context.Context, datagram []byte, client netip.Addr) []byte {
	if len(datagram) < 5 || datagram[0] != rmcpVersion || datagram[3] != classIPMI || !s.bmc.Reachable() {
		return nil
	}
	if datagram[4] != formatRMCPPlus {
		return s.answerV15(ctx, datagram)
	}
	return s.answerRMCPPlus(ctx, datagram, client)
}

// answers waits until the BMC answers a call, and returns false when it never does. In the second
// case it does not wait: over UDP nobody can see that the client has gone.
func (s *Service) answers(ctx context.Context, call *bmc.Call) bool {
	if call.Fate.Hang || call.Fate.LoseAnswer {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		ctx = gone
	}
	return s.bmc.Answers(ctx, call)
}
