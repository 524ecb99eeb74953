package inventory

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads a string and decodes its escapes. A string without escapes shares memory with the
// document.
func (r *reader) string() (string, error) {
	start := r.pos
	escaped, err := r.scanString()
	if err != nil {
		return "", err
	}
	text := r.text[start+1 : r.pos-1]
	if escaped {
		text = unescape(text)
	}
	return text, nil
}

// unescape decodes the escape sequences of a checked string. As with
// encoding/json, half a surrogate pair becomes the replacement character.
func unescape(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for {
		plain, rest, found := strings.Cut(text, `\`)
		b.WriteString(plain)
		if !found {
			return b.String()
		}
		if rest[0] != 'u' {
			b.WriteByte(escapedByte(rest[0]))
			text = rest[1:]
			continue
		}
		char, rest := hexRune(rest), rest[len("u0000"):]
		if utf16.IsSurrogate(char) {
			low := utf8.RuneError
			if strings.HasPrefix(rest, `\u`) {
				low = hexRune(rest[1:])
			}
			if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
				rest = rest[len(`\u0000`):]
			}
		}
		b.WriteRune(char)
		text = rest
	}
}

// escapedByte returns the character that a letter after a backslash stands for. Any other character
// stands for itself.
func escapedByte(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

// hexRune reads the four digits of "u0000". The caller has checked them.
func hexRune(text string) rune {
	n, _ := strconv.ParseUint(text[1:5], 16, 16)
	return rune(n)
}

// rawString is string without decoding, for text that is only skipped.
func (r *reader) rawString() (string, error) {
	start := r.pos
	if _, err := r.scanString(); err != nil {
		return "", err
	}
	return r.text[start+1 : r.pos-1], nil
}

// scanString moves past a string and reports whether it contains escapes.
func (r *reader) scanString() (escaped bool, err error) {
	for r.pos++; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; {
		case c == '"':
			r.pos++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := r.scanEscape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, r.malformed()
		}
	}
	return false, r.malformed()
}

// scanEscape moves to the last byte of an escape sequence.
func (r *reader) scanEscape() error {
	r.pos++
	switch r.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			r.pos++
			if !isHex(r.peek()) {
				return r.malformed()
			}
		}
		return nil
	default:
		return r.malformed()
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// number reads a number and returns its literal.
func (r *reader) number() (string, error) {
	start := r.pos
	r.accept('-')
	if !r.accept('0') && !r.digits() {
		return "", r.malformed()
	}
	if r.accept('.') && !r.digits() {
		return "", r.malformed()
	}
	exponent := r.accept('e') || r.accept('E')
	if exponent {
		if !r.accept('+') {
			r.accept('-')
		}
		if !r.digits() {
			return "", r.malformed()
		}
	}
	literal := r.text[start:r.pos]
	if exponent || len(literal) > maxPlainDigits {
		if _, err := strconv.ParseFloat(literal, 64); err != nil {
			return "", errorf("the number %s is too large", cut(literal))
		}
	}
	return literal, nil
}

// maxPlainDigits is the length up to which a number without exponent certainly fits a float64.
// Clients decode numbers into a float64, and a single number that does not fit would keep them from
// reading the whole answer.
const maxPlainDigits = 300

func (r *reader) digits() bool {
	start := r.pos
	for c := r.peek(); '0' <= c && c <= '9'; c = r.peek() {
		r.pos++
	}
	return r.pos > start
}

// textInto reads a string or null.
func (r *reader) textInto(dst *string) error { return r.stringInto(dst, "text") }

func (r *reader) stringInto(dst *string, kind string) (err error) {
	*dst = ""
	if r.peek() == '"' {
		*dst, err = r.string()
		return err
	}
	if r.null() {
		return nil
	}
	return r.mismatch(kind)
}

// numeralInto reads a number as its text, or a string, or null, because agents have sent the
// processor frequency in all three forms.
func (r *reader) numeralInto(dst *string) (err error) {
	if c := r.peek(); c == '-' || '0' <= c && c <= '9' {
		*dst, err = r.number()
		return err
	}
	return r.stringInto(dst, "a number")
}

// intInto reads a whole number or null. Hardware managers pass on what tools print, so a text with
// a number counts as the number, an empty text as null, and fractions are dropped.
func (r *reader) intInto(dst *int64) error {
	*dst = 0
	start := r.pos
	var literal string
	if err := r.numeralInto(&literal); err != nil {
		return err
	}
	literal = strings.TrimSpace(literal)
	if literal == "" {
		return nil
	}
	n, ok := parseInt(literal)
	if !ok {
		r.pos = start
		return r.mismatch("a whole number")
	}
	*dst = n
	return nil
}

func parseInt(literal string) (int64, bool) {
	if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(literal, 64)
	// The bounds also refuse NaN and the infinities; -2^63 and 2^63 are exact.
	if err != nil || !(f >= math.MinInt64 && f < math.MaxInt64) {
		return 0, false
	}
	return int64(f), true
}

// boolInto reads true, false or null.
func (r *reader) boolInto(dst *bool) error {
	*dst = false
	switch r.peek() {
	case 't', 'f', 'n':
		*dst = r.peek() == 't'
		return r.keyword()
	default:
		return r.mismatch("true or false")
	}
}
