package ipmi

import "encoding/binary"

// payloadType is the type of an RMCP+ payload (section 13.27.3).
type payloadType byte

// Types of payloads.
const (
	payloadMessage      payloadType = 0x00
	payloadOpenRequest  payloadType = 0x10
	payloadOpenResponse payloadType = 0x11
	payloadRAKP1        payloadType = 0x12
	payloadRAKP2        payloadType = 0x13
	payloadRAKP3        payloadType = 0x14
	payloadRAKP4        payloadType = 0x15
)

// protected are the flags of a payload that is encrypted and authenticated.
const protected = 0xC0

// rmcpHeader begins each datagram: RMCP 1.0, no acknowledgement, class IPMI (section
// 13.1.3).
var rmcpHeader = [4]byte{0x06, 0x00, 0xFF, 0x07}

// formatRMCPPlus is the authentication type of RMCP+ datagrams (section 13.6).
const formatRMCPPlus = 0x06

// headerSize is the size of the two headers before a payload.
const headerSize = 16

// packet is an RMCP+ datagram without its trailer.
type packet struct {
	kind      payloadType
	protected bool
	session   uint32 // of the receiver; 0 before there is one
	sequence  uint32
	payload   []byte
}

func (p packet) encode() []byte {
	out := make([]byte, headerSize, headerSize+len(p.payload))
	copy(out, rmcpHeader[:])
	out[4], out[5] = formatRMCPPlus, byte(p.kind)
	if p.protected {
		out[5] |= protected
	}
	binary.LittleEndian.PutUint32(out[6:], p.session)
	binary.LittleEndian.PutUint32(out[10:], p.sequence)
	binary.LittleEndian.PutUint16(out[14:], uint16(len(p.payload))) // far below 64 KiB
	return append(out, p.payload...)
}

// decodePacket reads a datagram. It returns false for one that is no RMCP+ datagram.
func decodePacket(datagram []byte) (p packet, ok bool) {
	if len(datagram) < headerSize || datagram[0] != rmcpHeader[0] || datagram[3] != rmcpHeader[3] || datagram[4] != formatRMCPPlus {
		return packet{}, false
	}
	end := headerSize + int(binary.LittleEndian.Uint16(datagram[14:]))
	if len(datagram) < end {
		return packet{}, false
	}
	return packet{
		kind: payloadType(datagram[5] &^ protected), protected: datagram[5]&protected == protected,
		session: binary.LittleEndian.Uint32(datagram[6:]), sequence: binary.LittleEndian.Uint32(datagram[10:]),
		payload: datagram[headerSize:end],
	}, true
}

// command is a command with its network function (appendix G).
type command struct{ function, id byte }

// Addresses in messages (sections 5.5 and 13.8).
const (
	bmcAddress     = 0x20
	consoleAddress = 0x81
)

// encodeRequest returns an IPMI message (section 13.8) with a sequence number of 6 bits.
func encodeRequest(c command, sequence byte, data []byte) []byte {
	out := make([]byte, 0, 7+len(data))
	out = append(out, bmcAddress, c.function<<2)
	out = append(out, checksum(out))
	out = append(out, consoleAddress, sequence<<2, c.id)
	out = append(out, data...)
	return append(out, checksum(out[3:]))
}

// decodeAnswer reads an IPMI message. It returns false for one that is no answer to the
// request.
func decodeAnswer(message []byte, c command, sequence byte) (code completion, data []byte, ok bool) {
	if len(message) < 8 || checksum(message[:3]) != 0 || checksum(message[3:]) != 0 {
		return 0, nil, false
	}
	if message[1]>>2 != c.function|1 || message[4]>>2 != sequence || message[5] != c.id {
		return 0, nil, false
	}
	return completion(message[6]), message[7 : len(message)-1], true
}

// checksum returns the byte that makes the sum of all bytes zero.
func checksum(data []byte) byte {
	var sum byte
	for _, b := range data {
		sum -= b
	}
	return sum
}
