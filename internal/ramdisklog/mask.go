package ramdisklog

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// shortest is the length of the shortest secret that is searched for. A shorter secret would be
// found in every other word.
const shortest = 4

// masked returns a text without secrets: known secrets, secrets in URLs, and values behind the name
// of a secret. Longer secrets are searched for first. Otherwise a shorter secret with which a
// longer one begins would leave the rest of the longer one.
func masked(text []byte, secrets []string) []byte {
	longestFirst := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range longestFirst {
		if len(secret) >= shortest {
			text = bytes.ReplaceAll(text, []byte(secret), []byte(node.Mask))
		}
	}
	return maskedValues(node.AppendMaskedURLs(nil, text))
}

// Characters around a name and its value, as in ipa-agent-token=…, "password": "…", Authorization:
// Basic … and env['token'] = u'…'.
const (
	blanks      = " \t"
	separators  = "=:"
	afterName   = blanks + `"'\]`
	beforeValue = blanks + separators + ">"
	lists       = "[{(" // characters that begin a value that is masked to the end of its line
	afterValue  = blanks + "\r\n\f\v" + `"',;&}])`
)

// maskedValues returns a text with a mask in place of each value behind a name for which
// node.SecretKey is true.
func maskedValues(text []byte) []byte {
	var dst []byte
	for {
		separator := bytes.IndexAny(text, separators)
		if separator < 0 {
			return append(dst, text...)
		}
		name := nameBefore(text[:separator])
		value := len(text) - len(bytes.TrimLeft(text[separator:], beforeValue))
		dst, text = append(dst, text[:value]...), text[value:]
		if !node.SecretKey(name) {
			continue
		}
		start, end := valueIn(text, bytes.Contains(bytes.ToLower(name), []byte("authorization")))
		dst = append(dst, text[:start]...)
		if end > start {
			dst = append(dst, node.Mask...)
		}
		text = text[end:]
	}
}

// nameBefore returns the name at the end of a text, without quotes.
func nameBefore(text []byte) []byte {
	text = bytes.TrimRight(text, afterName)
	return text[bytes.LastIndexFunc(text, func(r rune) bool { return !ofName(r) })+1:]
}

func ofName(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.'
}

// valueIn returns the range of the secret in the value at the start of a text. A quoted value is
// secret within its quotes. A list is secret to the end of its line, and so is every value if whole
// is true. Any other value is secret to the end of its word.
func valueIn(text []byte, whole bool) (start, end int) {
	if start, end, ok := quoted(text); ok {
		return start, end
	}
	if whole || bytes.IndexAny(text[:min(1, len(text))], lists) == 0 {
		return 0, lineEnd(text)
	}
	if end = bytes.IndexAny(text, afterValue); end < 0 {
		end = len(text)
	}
	return 0, end
}

// lineEnd returns the length of the first line of a text.
func lineEnd(text []byte) int {
	if end := bytes.IndexAny(text, "\r\n"); end >= 0 {
		return end
	}
	return len(text)
}

// longestQuoted limits the search for the quote that closes a value, in bytes, because an
// apostrophe may open nothing. It is less than margin.
const longestQuoted = 16 << 10

// quoted returns the range within the quotes at the start of a text. ok is false if the text does
// not begin with a quote. Before the quote there may be a letter of a Python literal, and
// backslashes if the text itself is quoted. Without a closing quote, the range ends with the line.
func quoted(text []byte) (start, end int, ok bool) {
	if len(text) > 1 && bytes.IndexByte([]byte("uUbBrR"), text[0]) >= 0 && bytes.IndexByte([]byte(`\"'`), text[1]) >= 0 {
		start++
	}
	opening := backslashes(text[start:])
	start += opening
	if start == len(text) || text[start] != '"' && text[start] != '\'' {
		return 0, 0, false
	}
	quote := text[start]
	start++
	within := text[start:min(len(text), start+longestQuoted)]
	for at := 0; at < len(within); at++ {
		escapes := backslashes(within[at:])
		at += escapes
		if at < len(within) && within[at] == quote && closes(escapes, opening) {
			return start, start + at - min(escapes, opening), true
		}
	}
	return start, start + lineEnd(text[start:]), true
}

// backslashes returns how many backslashes a text begins with.
func backslashes(text []byte) int { return len(text) - len(bytes.TrimLeft(text, `\`)) }

// closes reports whether a quote behind escapes backslashes closes a text that began with a quote
// behind opening backslashes. Each level of quoting doubles the backslashes and adds one.
func closes(escapes, opening int) bool {
	return escapes < opening || escapes%(2*(opening+1)) == opening
}
