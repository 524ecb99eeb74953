package ipmi

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// status is the status code of a message that opens a session (table 13-15).
type status byte

// Status codes.
const (
	statusNoResources        status = 0x01
	statusNoAuthentication   status = 0x04
	statusNoIntegrity        status = 0x05
	statusNoAuthPayload      status = 0x06
	statusNoIntegrityPayload status = 0x07
	statusInvalidRole        status = 0x09
	statusUnauthorizedRole   status = 0x0A
	statusNoResourcesForRole status = 0x0B
	statusUnauthorizedName   status = 0x0D
	statusWrongCode          status = 0x0F
	statusNoConfidentiality  status = 0x10
	statusNoSuite            status = 0x11
	statusIllegalParameter   status = 0x12
)

// statusError is a status that ends the opening of a session.
type statusError struct{ status status }

func (e *statusError) Error() string { return reasonOf(e.status) }

// errWrongPassword says that the BMC does not know the password that the node has.
var errWrongPassword = errors.New("the BMC refuses the user name or password")

// errNotTheBMC says that the BMC has accepted the password but cannot prove that it knows it.
var errNotTheBMC = errors.New("the BMC does not prove that it knows the password; if it has a key K_g, remove that from it")

// isRefusedLogin reports whether the BMC has refused the credentials.
func isRefusedLogin(err error) bool {
	var refused *statusError
	return errors.Is(err, errWrongPassword) ||
		errors.As(err, &refused) && (refused.status == statusUnauthorizedName || refused.status == statusWrongCode)
}

// noSuite are the statuses of a BMC that does not have the offered cipher suite. A BMC that is
// older than the number of an algorithm may call that number an illegal parameter.
var noSuite = []status{
	statusNoAuthentication, statusNoIntegrity, statusNoAuthPayload, statusNoIntegrityPayload, statusNoConfidentiality, statusNoSuite, statusIllegalParameter,
}

// lacksSuite reports whether the BMC does not have the offered cipher suite.
func lacksSuite(err error) bool {
	var refused *statusError
	return errors.As(err, &refused) && slices.Contains(noSuite, refused.status)
}

// maxHandshakes is how often the opening of a session is begun for one call.
const maxHandshakes = 4

// connect opens a session (section 13.15). When an answer is lost, it begins again with other
// session IDs and random numbers, so that no late answer is taken for another one.
func connect(ctx context.Context, a access, o Options) (*session, error) {
	offers := suitesFor(a.suite)
	for tries := 1; ; {
		s, err := handshake(ctx, a, offers[0], o)
		switch {
		case err == nil:
			return s, nil
		case errors.Is(err, errNoAnswer) && tries < maxHandshakes:
			tries++
		case lacksSuite(err) && len(offers) > 1:
			offers = offers[1:]
		default:
			return nil, err
		}
	}
}

func handshake(ctx context.Context, a access, suite suite, o Options) (*session, error) {
	conn, err := o.Dial(ctx, a.address)
	if err != nil {
		return nil, err
	}
	w := &wire{conn}
	h := &opening{wire: w, access: a, suite: suite, answer: o.Answer}
	_, _ = rand.Read(h.id[:]) // never fails
	_, _ = rand.Read(h.random[:])
	h.id[0] |= 1 // an ID is not zero
	for _, step := range []func(context.Context) error{h.open, h.exchangeRandoms, h.prove} {
		if err := step(ctx); err != nil {
			w.close()
			return nil, err
		}
	}
	s := &session{
		wire: w, suite: suite, keys: h.keys, answer: o.Answer,
		id: binary.LittleEndian.Uint32(h.id[:]), bmcID: binary.LittleEndian.Uint32(h.bmcID[:]),
	}
	if err := s.raise(ctx, a.privilege); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// opening is a session that is being opened. Names in brackets are those of section
// 13.31.
type opening struct {
	wire   *wire
	access access
	suite  suite
	answer time.Duration

	id, bmcID         [4]byte  // (SIDm, SIDc), as they are sent
	random, bmcRandom [16]byte // (Rm, Rc)
	guid              [16]byte // of the BMC (GUIDc)
	keys              keys
}

// identity returns the privilege level that is requested, with the flag that the user is looked up
// by name alone, the length of the name, and the name. It is part of all codes.
func (h *opening) identity() []byte {
	return append([]byte{h.access.privilege | 0x10, byte(len(h.access.username))}, h.access.username...)
}

// exchange sends a payload and returns its answer. Successful answers of less than size bytes are
// ignored. A status that is not zero is a *statusError.
func (h *opening) exchange(ctx context.Context, kind payloadType, request []byte, size int) ([]byte, error) {
	if err := h.wire.send(ctx, packet{kind: kind, payload: request}.encode()); err != nil {
		return nil, err
	}
	var got []byte
	err := h.wire.receive(ctx, h.answer, func(datagram []byte) bool {
		p, ok := decodePacket(datagram)
		if !ok || p.kind != kind+1 || p.session != 0 || len(p.payload) < 8 || !isFor(p.payload, h.id) {
			return false
		}
		if p.payload[1] == 0 && len(p.payload) < size {
			return false
		}
		got = slices.Clone(p.payload)
		return true
	})
	if err != nil {
		return nil, err
	}
	if refused := status(got[1]); refused != 0 {
		return nil, &statusError{refused}
	}
	return got, nil
}

// isFor reports whether a payload names the session. A refusal may name none.
func isFor(payload []byte, id [4]byte) bool {
	named := [4]byte(payload[4:8])
	return named == id || payload[1] != 0 && named == [4]byte{}
}

// open agrees on the cipher suite (sections 13.17 and 13.18).
func (h *opening) open(ctx context.Context) error {
	algorithms := []byte{
		0, 0, 0, 8, h.suite.authentication, 0, 0, 0,
		1, 0, 0, 8, h.suite.integrity, 0, 0, 0,
		2, 0, 0, 8, h.suite.confidentiality, 0, 0, 0,
	}
	request := append([]byte{0, h.access.privilege, 0, 0}, h.id[:]...)
	got, err := h.exchange(ctx, payloadOpenRequest, append(request, algorithms...), 36)
	if err != nil {
		return err
	}
	h.bmcID = [4]byte(got[8:12])
	if got[16] != h.suite.authentication || got[24] != h.suite.integrity || got[32] != h.suite.confidentiality {
		return &statusError{statusNoSuite}
	}
	return nil
}

// exchangeRandoms sends RAKP message 1 and checks in message 2 that the BMC knows the
// password (sections 13.20 and 13.21).
func (h *opening) exchangeRandoms(ctx context.Context) error {
	identity := h.identity()
	request := append([]byte{0, 0, 0, 0}, h.bmcID[:]...)
	request = append(request, h.random[:]...)
	request = append(request, identity[0], 0, 0)
	request = append(request, identity[1:]...)
	size := h.suite.hash().Size()
	got, err := h.exchange(ctx, payloadRAKP1, request, 40+size)
	if err != nil {
		return err
	}
	h.bmcRandom, h.guid = [16]byte(got[8:24]), [16]byte(got[24:40])
	want := h.suite.code([]byte(h.access.password), h.id[:], h.bmcID[:], h.random[:], h.bmcRandom[:], h.guid[:], identity)
	if !hmac.Equal(want, got[40:40+size]) {
		return errWrongPassword
	}
	return nil
}

// prove sends RAKP message 3, which shows the BMC that the engine knows the password, and
// checks message 4 (sections 13.22 and 13.23).
func (h *opening) prove(ctx context.Context) error {
	identity, password := h.identity(), []byte(h.access.password)
	request := append([]byte{0, 0, 0, 0}, h.bmcID[:]...)
	request = append(request, h.suite.code(password, h.bmcRandom[:], h.id[:], identity)...)
	got, err := h.exchange(ctx, payloadRAKP3, request, 8+h.suite.shortened)
	if err != nil {
		return err
	}
	h.keys = h.suite.deriveKeys(h.suite.code(password, h.random[:], h.bmcRandom[:], identity))
	want := h.suite.code(h.keys.session, h.random[:], h.bmcID[:], h.guid[:])[:h.suite.shortened]
	if !hmac.Equal(want, got[8:8+h.suite.shortened]) {
		return errNotTheBMC
	}
	return nil
}
