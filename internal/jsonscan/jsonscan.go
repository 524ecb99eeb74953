// Package jsonscan finds values in JSON texts (RFC 8259) without decoding them. It is for texts
// that are known to be valid: it checks nothing. What it returns may be a part of the text, and
// must not be changed.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"unicode/utf8"
)

// Fields returns the keys and the values of a JSON object in the order of its text, keys decoded
// and values as they are written. A key that the text has twice comes twice.
func Fields(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		rest := object
		for {
			quote := bytes.IndexByte(rest, '"')
			if quote < 0 {
				return
			}
			rest = rest[quote:]
			end := StringEnd(rest, 0)
			key := Unquote(rest[:end])
			colon := bytes.IndexByte(rest[end:], ':')
			if colon < 0 {
				return
			}
			rest = rest[end+colon+1:]
			end = ValueEnd(rest, 0)
			if !yield(key, bytes.TrimSpace(rest[:end:end])) {
				return
			}
			rest = rest[end:]
		}
	}
}

// StringEnd returns the index after the JSON string that begins at i.
func StringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// ValueEnd returns the index after the JSON value that begins at i.
func ValueEnd(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = StringEnd(text, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return i // the end of a number, boolean or null
			}
			if depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// Unquote returns the text of a JSON string as encoding/json decodes it, and nil for values of other
// kinds.
func Unquote(quoted []byte) []byte {
	if len(quoted) < len(`""`) || quoted[0] != '"' {
		return nil
	}
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return slices.Clip(text)
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return nil
	}
	return []byte(text)
}
