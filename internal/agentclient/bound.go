package agentclient

import (
	"errors"
	"io"
)

// bound is how much is read of an answer, in bytes.
type bound struct {
	sent int64 // of header and body
	kept int64 // of the body, with its strings shortened, and as much of the header
	text int64 // of each string of the body, as it is written there
}

// errTooLarge is why an answer is not whole that goes beyond its bound.
var errTooLarge = errors.New("it is too large")

// shortener reads JSON and leaves out what strings have beyond a length. What remains is JSON of
// the same form.
type shortener struct {
	from   io.Reader
	most   int64 // of each string
	inside bool  // a string
	length int64 // of what was read of that string
	escape int   // characters that are still to come of an escape sequence
	cut    bool  // the rest of the string is left out
}

// Read implements [io.Reader].
func (s *shortener) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	kept := p[:0]
	for _, b := range p[:n] {
		if s.keeps(b) {
			kept = append(kept, b)
		}
	}
	return len(kept), err
}

// keeps reports whether the next byte is passed on. No escape sequence is torn.
func (s *shortener) keeps(b byte) bool {
	switch {
	case !s.inside:
		s.inside, s.length, s.cut = b == '"', 0, false
		return true
	case s.escape > 0:
		if s.escape--; b == 'u' {
			s.escape = 4 // hexadecimal digits
		}
	case b == '"':
		s.inside = false
		return true
	default:
		s.cut = s.length >= s.most
		if b == '\\' {
			s.escape = 1
		}
	}
	s.length++
	return !s.cut
}
