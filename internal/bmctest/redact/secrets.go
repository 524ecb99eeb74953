package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"net/url"
	"strings"
)

// secrets are the secrets that must not be shown, with their replacements.
type secrets struct {
	key      []byte
	replaced map[string]string // replacement by identity, see once
	used     map[string]bool   // replacements so far
	finder   *finder           // finds the secrets that are replaced anywhere
	versions map[string]bool   // versions that look like IPv4 addresses
	words    map[string]bool   // secrets that are replaced where they are a whole value
}

// Lengths of texts, in bytes.
const (
	shortest = 4 // shorter texts are replaced in their own property only
	anywhere = 8 // shorter texts are replaced only where they are a word
)

// lower returns text with its ASCII letters in lower case, so its length stays the same.
func lower(text string) string {
	out := []byte(text)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return string(out)
}

// add notes a secret, unless it means "no value". A name without digits is replaced in its own
// property only, because names such as admin are words of other texts. Such a name of a host or
// place is also replaced where it is a whole value and, if it is long, where it is a word.
func (s *secrets) add(c class, text string) {
	if text == "" || c != credential && isPlaceholder(text) {
		return
	}
	if ip, err := netip.ParseAddr(text); err == nil && c != credential && (c == host || !isCommon(ip)) {
		s.addIP(text, ip)
		return
	}
	invented, bounded := s.invent(text), len(text) < anywhere
	if c != credential && c != identity && c != address && !strings.ContainsAny(text, "0123456789.@") {
		if c == name || len(text) < shortest {
			return
		}
		s.words[text] = true
		if bounded {
			return
		}
		bounded = true
	}
	s.finder.add(text, invented, bounded)
	if escaped := url.PathEscape(text); escaped != text {
		s.finder.add(escaped, invented, bounded)
	}
	switch formOf(text) { // the same address is also written with other separators, or with none
	case uuidForm:
		s.finder.add(separated(text, ""), separated(invented, ""), bounded)
	case pairsForm:
		for _, separator := range []string{"", ":", "-"} {
			s.finder.add(separated(text, separator), separated(invented, separator), bounded)
		}
	}
}

// addWord notes a secret that is also replaced where it is a whole value.
func (s *secrets) addWord(c class, text string) {
	s.add(c, text)
	if len(text) >= shortest {
		s.words[text] = true
	}
}

// own returns what is shown for the value of a property of a class. The value of an open property
// is replaced only if the whole value is a secret. ok is false if the value stays.
func (s *secrets) own(c class, text string) (string, bool) {
	if c == open && !s.words[text] {
		return "", false
	}
	known, ok := s.replaced[idOf(text)]
	return cased(shaped(known, text), text), ok
}

// form is how a secret is written.
type form int

const (
	textForm form = iota
	uuidForm
	pairsForm // of hexadecimal digits, such as a MAC address
)

func formOf(text string) form {
	switch {
	case len(text) == len("01234567-0123-0123-0123-0123456789ab") && uuids.MatchString(text):
		return uuidForm
	case pairs.FindString(text) == text, bareAddress.MatchString(text):
		return pairsForm
	}
	return textForm
}

// idOf returns an identifier of a secret that is the same for all its spellings.
func idOf(text string) string {
	if formOf(text) != textForm {
		return separated(lower(text), "")
	}
	return lower(text)
}

// invent returns the replacement of a secret.
func (s *secrets) invent(text string) string {
	invented := s.once(idOf(text), func(random []byte) string {
		if formOf(text) != textForm {
			return hexLike(lower(text), random)
		}
		return like(lower(text), random)
	})
	return cased(shaped(invented, text), text)
}

// shaped returns an address with the separators of another spelling of it.
func shaped(known, text string) string {
	if formOf(text) == textForm {
		return known
	}
	digits, out := separated(known, ""), make([]byte, 0, len(text))
	for i := range len(text) {
		if !isAlnum(text[i]) || digits == "" {
			out = append(out, text[i])
			continue
		}
		out, digits = append(out, digits[0]), digits[1:]
	}
	return string(out)
}

// maxTries limits how often a replacement is drawn again because it is already used. Few texts have
// a form with fewer possibilities.
const maxTries = 64

// once returns the replacement for an identity. It is made at the first request.
func (s *secrets) once(id string, draw func(random []byte) string) string {
	if known, ok := s.replaced[id]; ok {
		return known
	}
	invented := ""
	for try := range uint64(maxTries) {
		invented = draw(s.random(id, try))
		if !s.used[invented] && !strings.Contains(id, lower(invented)) {
			break
		}
	}
	s.used[invented], s.replaced[id] = true, invented
	return invented
}

// random returns random bytes for an identity. They depend only on the key, the identity and the
// try.
func (s *secrets) random(id string, try uint64) []byte {
	size := 2*len(id) + sha256.Size // long enough for a spelling with separators
	out := make([]byte, 0, size+sha256.Size)
	for block := uint64(0); len(out) < size; block++ {
		mac := hmac.New(sha256.New, s.key)
		// A write to an HMAC never fails.
		_, _ = mac.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, try), block))
		_, _ = mac.Write([]byte(id))
		out = mac.Sum(out)
	}
	return out
}

// like draws a text of the form of another text: digits for digits, letters for letters. A text
// with few letters and digits gets letters throughout.
func like(text string, random []byte) string {
	out := []byte(text)
	alnum := 0
	for _, c := range out {
		if isAlnum(c) {
			alnum++
		}
	}
	few := alnum < shortest && alnum < len(out)
	for i, c := range out {
		switch {
		case c >= '0' && c <= '9' && i == 0:
			out[i] = '1' + random[i]%9 // numbers do not begin with a zero
		case c >= '0' && c <= '9':
			out[i] = '0' + random[i]%10
		case c >= 'a' && c <= 'z', c >= 0x80, few:
			out[i] = 'a' + random[i]%26
		}
	}
	return string(out)
}

// hexLike draws hexadecimal digits for the digits of an address. Replacements of MAC addresses are
// locally administered. Version and variant of a UUID stay.
func hexLike(text string, random []byte) string {
	const digits = "0123456789abcdef"
	out := []byte(text)
	isUUID := formOf(text) == uuidForm
	for i, c := range out {
		switch {
		case isUUID && (i == 14 || i == 19):
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
			out[i] = digits[random[i]%16]
		case c > 'f' && c <= 'z', c >= 0x80:
			out[i] = 'x'
		}
	}
	if !isUUID && len(out) > 1 && isAlnum(out[0]) && isAlnum(out[1]) {
		out[0], out[1] = '0', '2'
	}
	return string(out)
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// separated returns the digits of an address in pairs, with a separator.
func separated(text, separator string) string {
	var b strings.Builder
	n := 0
	for i := range len(text) {
		if !isAlnum(text[i]) {
			continue
		}
		if n > 0 && n%2 == 0 {
			b.WriteString(separator)
		}
		b.WriteByte(text[i])
		n++
	}
	return b.String()
}

// cased returns text with upper-case letters where a text of the same length has them. If that text
// has upper-case letters only, all letters become upper-case.
func cased(text, as string) string {
	switch {
	case len(text) != len(as):
		return text
	case lower(as) != as && strings.ToUpper(as) == as:
		return strings.ToUpper(text)
	}
	out := []byte(text)
	for i := range out {
		if as[i] >= 'A' && as[i] <= 'Z' && out[i] >= 'a' && out[i] <= 'z' {
			out[i] -= 'a' - 'A'
		}
	}
	return string(out)
}
