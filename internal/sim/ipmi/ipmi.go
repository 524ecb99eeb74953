// Package ipmi serves a simulated BMC over IPMI 2.0: RMCP+ sessions over UDP with the
// cipher suites 3 and 17, chassis status and control, boot flags, and the identity of BMC
// and system. Section numbers in comments are those of the specification, v2.0,
// revision 1.1.
//
// What a BMC does and which faults it has is in package bmc; account, effects and faults
// are those that it has over Redfish. The keys and messages that open a session are those
// of go-ipmi's server.
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

// Service is the IPMI service of one BMC. It is safe for concurrent use. It is small until
// somebody speaks to it.
type Service struct {
	bmc *bmc.BMC

	mu       sync.Mutex
	sessions *sessions // nil while there were none
	newest   bootFlags // that a client has set
	lacking  map[uint8]types.CompletionCode
	plain    bool // of boot flags that are valid, only the device is shown
}

// New returns the IPMI service of a BMC.
func New(b *bmc.BMC) *Service { return &Service{bmc: b} }

// Lack makes the BMC one that does not have a parameter of the boot options, and answers
// requests to set it with a completion code.
func (s *Service) Lack(parameter, code uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lacking == nil {
		s.lacking = map[uint8]types.CompletionCode{}
	}
	s.lacking[parameter] = types.CompletionCode(code)
}

// lacks returns what requests to set a parameter are answered that the BMC does not have.
func (s *Service) lacks(parameter uint8) (types.CompletionCode, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, lacks := s.lacking[parameter]
	return code, lacks
}

// ShowDeviceOnly makes the BMC one that keeps the boot flags and shows neither the mode nor that
// they are for good.
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

// Answer does what a datagram asks for and returns the answer; nil means that there is
// none. It waits for as long as the BMC delays its answers.
func (s *Service) Answer(ctx context.Context, datagram []byte, client netip.Addr) []byte {
	if len(datagram) < 5 || datagram[0] != rmcpVersion || datagram[3] != classIPMI || !s.bmc.Reachable() {
		return nil
	}
	if datagram[4] != formatRMCPPlus {
		return s.answerV15(ctx, datagram)
	}
	return s.answerRMCPPlus(ctx, datagram, client)
}

// answers waits until the BMC answers a call, and returns false when it never does. The
// end of the client cannot be seen: it is assumed at once.
func (s *Service) answers(ctx context.Context, call *bmc.Call) bool {
	if call.Fate.Hang || call.Fate.LoseAnswer {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		ctx = gone
	}
	return s.bmc.Answers(ctx, call)
}
