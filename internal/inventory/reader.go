package inventory

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep objects and lists may nest in a document; the document itself is level 1.
// The Bare Metal API has the same limit for every body.
const MaxDepth = 25

// reader reads a JSON text once, from front to back, and checks it (RFC 8259), but decodes only
// what the typed view needs. The callback path parses thousands of documents a second and has to
// keep the sender's bytes: encoding/json would scan each nested raw value again.
//
// Every method that reads a value starts at the value's first byte, after white space, and leaves
// pos after its last byte. Errors are *Error.
type reader struct {
	raw   []byte // the text as sent, for raw values
	text  string // the same bytes, for strings that outlive the call
	pos   int
	depth int
}

func newReader(raw []byte) *reader {
	return &reader{raw: raw, text: string(raw)}
}

// start checks the encoding and skips leading white space.
func (r *reader) start() error {
	if !utf8.ValidString(r.text) {
		return errorf("body is not UTF-8 text")
	}
	r.space()
	if r.pos == len(r.text) {
		return errorf("body is empty, want a JSON object")
	}
	return nil
}

// end checks that nothing but white space is left.
func (r *reader) end() error {
	r.space()
	if r.pos != len(r.text) {
		return r.malformed()
	}
	return nil
}

func (r *reader) space() {
	for r.pos < len(r.text) {
		switch r.text[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end of the text. A zero byte in the text is malformed
// wherever peek is used, so callers need not distinguish the two.
func (r *reader) peek() byte {
	if r.pos < len(r.text) {
		return r.text[r.pos]
	}
	return 0
}

// accept consumes c if it comes next.
func (r *reader) accept(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.pos++
	return true
}

// object reads an object and calls value for each key. The reader then stands at the key's value,
// which value must consume. A repeated key is reported each time, so that the last one wins, as
// with every common JSON decoder.
func (r *reader) object(value func(key string) error) error {
	return r.members((*reader).string, value)
}

// members is object with a function that reads the keys.
func (r *reader) members(readKey func(*reader) (string, error), value func(key string) error) error {
	if err := r.want('{', "an object"); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	r.space()
	for first := true; !r.accept('}'); first = false {
		if !first {
			if !r.accept(',') {
				return r.malformed()
			}
			r.space()
		}
		if r.peek() != '"' {
			return r.malformed()
		}
		key, err := readKey(r)
		if err != nil {
			return err
		}
		r.space()
		if !r.accept(':') {
			return r.malformed()
		}
		r.space()
		if err := value(key); err != nil {
			return inKey(key, err)
		}
		r.space()
	}
	r.depth--
	return nil
}

// list reads a list and calls item for each element. The reader then stands at the element, which
// item must consume.
func (r *reader) list(item func(index int) error) error {
	if err := r.want('[', "a list"); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	r.space()
	for index := 0; !r.accept(']'); index++ {
		if index > 0 {
			if !r.accept(',') {
				return r.malformed()
			}
			r.space()
		}
		if err := item(index); err != nil {
			return inItem(index, err)
		}
		r.space()
	}
	r.depth--
	return nil
}

func (r *reader) enter() error {
	r.depth++
	if r.depth > MaxDepth {
		return errorf("JSON is nested deeper than %d levels", MaxDepth)
	}
	return nil
}

// want consumes the opening byte of a value. Its error says what is there instead.
func (r *reader) want(open byte, kind string) error {
	if r.accept(open) {
		return nil
	}
	return r.mismatch(kind)
}

// null consumes a null if it comes next. A longer word that begins with null is malformed, which
// the caller finds when it reads on.
func (r *reader) null() bool {
	if strings.HasPrefix(r.text[r.pos:], "null") {
		r.pos += len("null")
		return true
	}
	return false
}

// skip consumes any value and checks its syntax.
func (r *reader) skip() error {
	switch c := r.peek(); {
	case c == '{':
		return r.members((*reader).rawString, func(string) error { return r.skip() })
	case c == '[':
		return r.list(func(int) error { return r.skip() })
	case c == '"':
		_, err := r.rawString()
		return err
	case c == '-' || '0' <= c && c <= '9':
		_, err := r.number()
		return err
	default:
		return r.keyword()
	}
}

// rawValue consumes any value and returns its bytes.
func (r *reader) rawValue() (json.RawMessage, error) {
	start := r.pos
	if err := r.skip(); err != nil {
		return nil, err
	}
	return r.since(start), nil
}

// since returns the bytes from start to the reader's position. Their capacity ends there too, so
// that an append never overwrites the following bytes.
func (r *reader) since(start int) json.RawMessage {
	return json.RawMessage(r.raw[start:r.pos:r.pos])
}

func (r *reader) keyword() error {
	for _, word := range [...]string{"null", "true", "false"} {
		if strings.HasPrefix(r.text[r.pos:], word) {
			r.pos += len(word)
			return nil
		}
	}
	return r.malformed()
}

// mismatch returns the error for a value of the wrong kind, or for no value at all.
func (r *reader) mismatch(want string) error {
	switch c := r.peek(); {
	case c == '{':
		return errorf("want %s, got an object", want)
	case c == '[':
		return errorf("want %s, got a list", want)
	case c == '"':
		text, err := r.string()
		if err != nil {
			return err
		}
		return errorf("want %s, got the text %s", want, Quote(text))
	case c == '-' || '0' <= c && c <= '9':
		text, err := r.number()
		if err != nil {
			return err
		}
		return errorf("want %s, got the number %s", want, cut(text))
	default:
		start := r.pos
		if err := r.keyword(); err != nil {
			return err
		}
		return errorf("want %s, got %s", want, r.text[start:r.pos])
	}
}

func (r *reader) malformed() error {
	if r.pos >= len(r.text) {
		return errorf("malformed JSON: the text ends early, at byte %d", r.pos)
	}
	c, _ := utf8.DecodeRuneInString(r.text[r.pos:])
	return errorf("malformed JSON: unexpected %q at byte %d", c, r.pos)
}
