package ipmi

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // cipher suite 3 is HMAC-SHA1, and many BMCs have no other
	"crypto/sha256"
	"hash"
	"slices"
)

// suite is a cipher suite (table 22-20). Only those that authenticate and encrypt are
// here.
type suite struct {
	id              int
	authentication  byte // algorithm of RAKP
	integrity       byte // algorithm of the trailers
	hash            func() hash.Hash
	shortened       int  // size of integrity codes
	confidentiality byte // algorithm of the encryption
}

// suites has the best one first.
var suites = []suite{
	{17, 3, 4, sha256.New, 16, 1},
	{3, 1, 1, sha1.New, 12, 1},
}

// suitesFor lists the suites to offer to a BMC: the wanted one, or all.
func suitesFor(wanted int) []suite {
	if i := slices.IndexFunc(suites, func(s suite) bool { return s.id == wanted }); i >= 0 {
		return suites[i : i+1]
	}
	return suites
}

// code authenticates the parts of a text under a key.
func (s suite) code(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(s.hash, key)
	for _, part := range parts {
		_, _ = mac.Write(part) // never fails
	}
	return mac.Sum(nil)
}

// keys are those of one session (sections 13.31 and 13.32).
type keys struct {
	session   []byte // SIK
	integrity []byte // K1
	cipher    []byte // K2, as long as an AES-128 key
}

func (s suite) deriveKeys(sessionKey []byte) keys {
	return keys{
		session: sessionKey, integrity: s.code(sessionKey, bytes.Repeat([]byte{1}, 20)),
		cipher: s.code(sessionKey, bytes.Repeat([]byte{2}, 20))[:aes.BlockSize],
	}
}

// nextHeader ends the padding of a trailer (section 13.28.4).
const nextHeader = 0x07

// seal returns the datagram of a message in a session: encrypted, then authenticated.
func (s suite) seal(k keys, p packet) []byte {
	p.protected, p.payload = true, encrypt(k.cipher, p.payload)
	out := p.encode()
	padding := (4 - (len(out)-len(rmcpHeader)+2)%4) % 4
	out = append(out, bytes.Repeat([]byte{0xFF}, padding)...)
	out = append(out, byte(padding), nextHeader)
	return append(out, s.code(k.integrity, out[len(rmcpHeader):])[:s.shortened]...)
}

// unseal returns the message in a datagram of a session. It returns false for a datagram that the
// other side has not sent in this session.
func (s suite) unseal(k keys, session uint32, datagram []byte) (message []byte, ok bool) {
	p, ok := decodePacket(datagram)
	if !ok || !p.protected || p.kind != payloadMessage || p.session != session || len(datagram) < headerSize+s.shortened {
		return nil, false
	}
	end := len(datagram) - s.shortened
	if want := s.code(k.integrity, datagram[len(rmcpHeader):end])[:s.shortened]; !hmac.Equal(want, datagram[end:]) {
		return nil, false
	}
	return decrypt(k.cipher, p.payload)
}

// encrypt returns an initialization vector and the encrypted text (section 13.29).
func encrypt(key, text []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil { // the key has the right length
		panic("make a cipher: " + err.Error())
	}
	padding := (aes.BlockSize - (len(text)+1)%aes.BlockSize) % aes.BlockSize
	out := make([]byte, aes.BlockSize, 3*aes.BlockSize+len(text))
	_, _ = rand.Read(out) // never fails
	out = append(out, text...)
	for i := range padding {
		out = append(out, byte(i+1))
	}
	out = append(out, byte(padding))
	cipher.NewCBCEncrypter(block, out[:aes.BlockSize]).CryptBlocks(out[aes.BlockSize:], out[aes.BlockSize:])
	return out
}

// decrypt is the reverse of encrypt. It returns false for a text that encrypt cannot have made.
func decrypt(key, sealed []byte) (text []byte, ok bool) {
	if len(sealed) < 2*aes.BlockSize || len(sealed)%aes.BlockSize != 0 {
		return nil, false
	}
	block, err := aes.NewCipher(key)
	if err != nil { // the key has the right length
		panic("make a cipher: " + err.Error())
	}
	out := make([]byte, len(sealed)-aes.BlockSize)
	cipher.NewCBCDecrypter(block, sealed[:aes.BlockSize]).CryptBlocks(out, sealed[aes.BlockSize:])
	end := len(out) - 1 - int(out[len(out)-1])
	if end < 0 {
		return nil, false
	}
	return out[:end], true
}
