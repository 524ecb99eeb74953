package agentclient

import (
	"errors"
	"io"
)

// bound limits how much of an answer is read, in bytes.
type bound struct {
	sent int64 // of header and body
	kept int64 // of the body, after its strings were shortened, and as much of the header
	text int64 // of each string in the body, as it is written there
}

// errTooLarge is the reason why an answer that exceeds its bound is not complete.
var errTooLarge = errors.New("it is too large")

// shortener reads JSON and cuts strings to a length. The result is JSON of the same structure.
type shortener struct {
	from   io.Reader
	most   int64 // length of each string
	inside bool  // whether the next byte is in a string
	length int64 // bytes of that string that were read
	escape int   // characters of an escape sequence that are still to come
	cut    bool  // whether the rest of the string is left out
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

// keeps reports whether the next byte is passed on. It never cuts an escape sequence in two.
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
