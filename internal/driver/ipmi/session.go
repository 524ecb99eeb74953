package ipmi

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Commands (appendix G).
var (
	setSessionPrivilege = command{0x06, 0x3B}
	closeSession        = command{0x06, 0x3C}
	getDeviceID         = command{0x06, 0x01}
	getSystemGUID       = command{0x06, 0x37}
	getChassisStatus    = command{0x00, 0x01}
	chassisControl      = command{0x00, 0x02}
	setBootOptions      = command{0x00, 0x08}
	getBootOptions      = command{0x00, 0x09}
)

const (
	// maxReads is how often a request that changes nothing is sent.
	maxReads = 4
	// changeAnswer is how long the driver waits for the answer to a change.
	changeAnswer = 15 * time.Second
)

// session is an open session. One goroutine uses it.
type session struct {
	wire      *wire
	suite     suite
	keys      keys
	answer    time.Duration
	id, bmcID uint32

	sequence uint32 // of the newest datagram
	message  byte   // number of the newest request, 6 bits
}

// read makes a request that changes nothing. When there is no answer, it asks again with new
// numbers, because a BMC ignores numbers that it has seen.
func (s *session) read(ctx context.Context, c command, data ...byte) ([]byte, error) {
	for tries := 1; ; tries++ {
		got, err := s.request(ctx, s.answer, c, data)
		if tries == maxReads || !errors.Is(err, errNoAnswer) {
			return got, err
		}
	}
}

// change makes a request that changes the machine. It is one datagram: when there is no
// answer, nobody knows whether the BMC has acted.
func (s *session) change(ctx context.Context, c command, data ...byte) error {
	_, err := s.request(ctx, changeAnswer, c, data)
	return err
}

// request sends one datagram and returns the data of its answer. An answer with a
// completion code that is not zero is a *completionError.
func (s *session) request(ctx context.Context, timeout time.Duration, c command, data []byte) ([]byte, error) {
	if err := s.post(ctx, c, data); err != nil {
		return nil, err
	}
	var code completion
	var got []byte
	err := s.wire.receive(ctx, timeout, func(datagram []byte) bool {
		message, ok := s.suite.unseal(s.keys, s.id, datagram)
		if !ok {
			return false
		}
		code, got, ok = decodeAnswer(message, c, s.message)
		got = slices.Clone(got)
		return ok
	})
	if err == nil && code != 0 {
		err = &completionError{code}
	}
	return got, err
}

// post sends a request under the next numbers.
func (s *session) post(ctx context.Context, c command, data []byte) error {
	s.sequence++
	s.message = (s.message + 1) & 0x3F
	return s.wire.send(ctx, s.suite.seal(s.keys, packet{
		kind: payloadMessage, session: s.bmcID, sequence: s.sequence, payload: encodeRequest(c, s.message, data),
	}))
}

// raise gives the session its privilege level. A session begins with the level of a user (section
// 22.18). If the account or the channel does not have the level, the error is a *statusError, as
// from a BMC that refuses the level earlier. It is no *completionError, because the completion
// codes for that mean something else in other answers.
func (s *session) raise(ctx context.Context, privilege byte) error {
	_, err := s.read(ctx, setSessionPrivilege, privilege)
	var answer *completionError
	if errors.As(err, &answer) && slices.Contains([]completion{0x80, 0x81}, answer.code) {
		return &statusError{statusUnauthorizedRole}
	}
	return err
}

// close ends the session and waits for no answer: a BMC that does not get the request
// ends the session by itself after a minute.
func (s *session) close(ctx context.Context) {
	_ = s.post(ctx, closeSession, binary.LittleEndian.AppendUint32(nil, s.bmcID))
	s.wire.close()
}
