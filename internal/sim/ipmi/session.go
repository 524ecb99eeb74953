package ipmi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	gobmc "github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/protocol"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// Fixed bytes of datagrams (sections 13.1.3 and 13.6).
const (
	rmcpVersion    = 0x06
	classIPMI      = 0x07
	formatRMCPPlus = 0x06
	rmcpHeader     = 4
	payloadStart   = 16
	nextHeader     = 0x07
)

// lanChannel is the channel of all sessions.
const lanChannel = 1

// sessions has the sessions of a BMC since it started.
type sessions struct {
	starts   int64 // restarts of the BMC when the sessions began; a restart ends them
	state    *gobmc.BMC
	commands *handlers.Registry // the commands that concern sessions
}

// present returns the sessions of the BMC since its last start.
func (s *Service) present() *sessions {
	starts := s.bmc.Restarts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil || s.sessions.starts != starts {
		s.sessions = s.newSessions(starts)
	}
	return s.sessions
}

func (s *Service) newSessions(starts int64) *sessions {
	state := gobmc.New(gobmc.DeviceInfo{}, s.guid(), nil, gobmc.WithV15Disabled())
	config := s.bmc.Config()
	_ = state.Users.Delete(1) // the anonymous user, which always exists
	_ = state.Users.Upsert(2, func(u *gobmc.User) error {
		u.Name, u.Enabled = config.User, true
		u.SetPassword([]byte(config.Password))
		u.ChannelAccess = map[uint8]gobmc.UserChannelAccess{lanChannel: {MaxPrivilege: gobmc.PrivilegeLevelAdministrator, Enabled: true}}
		return nil
	})
	made := &sessions{starts: starts, state: state, commands: handlers.NewRegistry()}
	handlers.RegisterSessionHandlers(made.commands)
	return made
}

// openFunc answers a message that opens a session; nil means that there is no answer.
type openFunc func(ctx context.Context, b *gobmc.BMC, data []byte) ([]byte, error)

// openers has the answers to the messages that open a session (section 13.15), by payload type.
var openers = map[types.PayloadType]struct {
	answer types.PayloadType
	do     openFunc
}{
	types.PayloadTypeRmcpOpenSessionRequest: {types.PayloadTypeRmcpOpenSessionResponse, handlers.HandleOpenSession},
	types.PayloadTypeRAKPMessage1:           {types.PayloadTypeRAKPMessage2, handlers.HandleRAKP1},
	types.PayloadTypeRAKPMessage3:           {types.PayloadTypeRAKPMessage4, handlers.HandleRAKP3},
}

// answerRMCPPlus answers a datagram of IPMI 2.0.
func (s *Service) answerRMCPPlus(ctx context.Context, datagram []byte, client netip.Addr) []byte {
	id, sequence, kind, flags, payload, ok := protocol.ParseRMCPPlusHeader(datagram)
	if !ok {
		return nil
	}
	known := s.present()
	if opener, ok := openers[types.PayloadType(kind)]; ok {
		do := opener.do
		if types.PayloadType(kind) == types.PayloadTypeRmcpOpenSessionRequest {
			do = s.login(ctx, client, do)
		}
		answer, err := do(ctx, known.state, payload)
		if err != nil || answer == nil {
			return nil
		}
		return protocol.BuildRMCPPlusPacket(uint8(opener.answer), 0, 0, 0, answer)
	}
	switch {
	case types.PayloadType(kind) != types.PayloadTypeIPMI:
		return nil
	case id == 0:
		return protocol.BuildRMCPPlusPacket(kind, 0, 0, 0, known.withoutSession(ctx, payload))
	}
	return s.inSession(ctx, known, datagram, client, received{id, sequence, flags, payload})
}

// login counts the start of a session as a reading. It returns the function that answers it: do, or
// one for the fault that the reading met.
func (s *Service) login(ctx context.Context, client netip.Addr, do openFunc) openFunc {
	call := &bmc.Call{Client: client.String()}
	s.bmc.Read(call)
	switch {
	case !s.answers(ctx, call):
		return func(context.Context, *gobmc.BMC, []byte) ([]byte, error) { return nil, nil }
	case !call.Fate.Spared():
		return noResources
	}
	return do
}

// noResources refuses to open a session.
func noResources(_ context.Context, _ *gobmc.BMC, data []byte) ([]byte, error) {
	var asked rmcpplus.OpenSessionRequest
	if err := asked.Unpack(data); err != nil {
		return nil, err
	}
	refusal := rmcpplus.OpenSessionResponse{
		MessageTag: asked.MessageTag, RmcpStatusCode: types.RmcpStatusCodeNoResToCreateSess, RemoteConsoleSessionID: asked.RemoteConsoleSessionID,
	}
	return refusal.Pack(), nil
}

// answerV15 answers the only request that clients send as IPMI 1.5: the request for the supported
// versions (sections 13.6 and 22.13).
func (s *Service) answerV15(ctx context.Context, datagram []byte) []byte {
	const header = 14 // of RMCP, then authentication type, sequence, session and length
	if len(datagram) < header || datagram[4] != 0 || len(datagram) < header+int(datagram[header-1]) {
		return nil
	}
	message := datagram[header : header+int(datagram[header-1])]
	answer := s.present().withoutSession(ctx, message)
	if answer == nil {
		return nil
	}
	out := append(bytes.Clone(datagram[:header-1]), byte(len(answer)))
	return append(out, answer...)
}

// withoutSession answers a message of a client that has no session.
func (known *sessions) withoutSession(ctx context.Context, message []byte) []byte {
	function, id, data, sequence, ok := protocol.ParseIPMIRequest(message)
	if !ok {
		return nil
	}
	answer, code, _ := known.commands.Dispatch(ctx, &handlers.HandlerContext{BMC: known.state}, function, id, data)
	return protocol.BuildIPMIResponse(function, id, sequence, uint8(code), answer)
}

// received is a datagram that belongs to a session.
type received struct {
	session, sequence uint32
	flags             uint8
	payload           []byte
}

// inSession answers a datagram of a session. It drops a datagram that it has seen before (section
// 6.12.13): a repeated datagram is the same request.
func (s *Service) inSession(ctx context.Context, known *sessions, datagram []byte, client netip.Addr, r received) []byte {
	session, err := known.state.Sessions.Get(r.session)
	if err != nil {
		return nil
	}
	session.ProcMu.Lock()
	defer session.ProcMu.Unlock()
	if session.State != gobmc.SessionStateActive || !authentic(datagram, len(r.payload), session) || r.sequence <= session.InboundSeq {
		return nil
	}
	session.InboundSeq = r.sequence
	known.state.Sessions.Touch(r.session)
	message, ok := opened(session, r)
	if !ok {
		return nil
	}
	function, id, data, sequence, ok := protocol.ParseIPMIRequest(message)
	if !ok {
		return nil
	}
	q := &request{data: data, call: &bmc.Call{User: session.User.Name, Client: client.String()}}
	var answer []byte
	var code types.CompletionCode
	if row, own := commands[commandKey{function, id}]; own {
		answer, code = s.do(row, session.PrivilegeLevel, q)
		if !s.answers(ctx, q.call) {
			return nil
		}
	} else {
		hc := &handlers.HandlerContext{BMC: known.state, Session: session, User: session.User}
		answer, code, _ = known.commands.Dispatch(ctx, hc, function, id, data)
	}
	return sealed(session, protocol.BuildIPMIResponse(function, id, sequence, uint8(code), answer))
}

// opened returns the IPMI message in the payload of a datagram. It decrypts the payload if the
// client has encrypted it.
func opened(session *gobmc.Session, r received) ([]byte, bool) {
	if r.flags&types.PayloadFlagEncrypted == 0 {
		return r.payload, true
	}
	if len(r.payload) < 32 || len(r.payload)%16 != 0 {
		return nil, false
	}
	message, err := crypto.DecryptAESPayload(r.payload, session.K2)
	return message, err == nil
}

// authentic checks the trailer of a datagram (section 13.28.4).
func authentic(datagram []byte, payload int, session *gobmc.Session) bool {
	size, ok := crypto.IntegrityAuthCodeLen(session.IntegrityAlg)
	start := payloadStart + payload + types.IntegrityPadLen(payloadStart-rmcpHeader, payload) + 2
	if !ok || size == 0 || len(session.K1) == 0 || len(datagram) != start+size {
		return false
	}
	want, err := crypto.SessionIntegrityAuthCode(session.IntegrityAlg, datagram[rmcpHeader:start], session.K1, "")
	return err == nil && crypto.Equal(want, datagram[start:])
}

// sealed returns the datagram of an answer, encrypted and then authenticated.
func sealed(session *gobmc.Session, message []byte) []byte {
	vector := make([]byte, 16)
	_, _ = rand.Read(vector) // never fails
	payload, err := crypto.EncryptAESPayload(message, session.K2, vector)
	if err != nil {
		return nil
	}
	const flags = types.PayloadFlagEncrypted | types.PayloadFlagAuthenticated
	out := protocol.BuildRMCPPlusPacket(uint8(types.PayloadTypeIPMI), flags, session.ConsoleID, session.NextOutboundSeq(), payload)
	padding := types.IntegrityPadLen(payloadStart-rmcpHeader, len(payload))
	out = append(out, bytes.Repeat([]byte{0xFF}, padding)...)
	out = append(out, byte(padding), nextHeader)
	code, err := crypto.SessionIntegrityAuthCode(session.IntegrityAlg, out[rmcpHeader:], session.K1, "")
	if err != nil {
		return nil
	}
	return append(out, code...)
}

// guid returns the system's UUID as IPMI sends it, the least significant byte first (section 20.8).
func (s *Service) guid() (reversed [16]byte) {
	id := s.bmc.UUID()
	for i, b := range id {
		reversed[len(id)-1-i] = b
	}
	return reversed
}

// littleEndian24 returns a number as three bytes.
func littleEndian24(number uint32) []byte { return binary.LittleEndian.AppendUint32(nil, number)[:3] }
