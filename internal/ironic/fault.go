package ironic

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/node"
)

// maxText bounds the text from outside in an error, in bytes.
const maxText = 2 << 10

// faultKeys are the keys of an error document that may have the message, in the order
// of preference. Applications write faultstring; routers and proxies write one of
// the others.
var faultKeys = []string{"faultstring", "description", "message", "title"}

// faultEnvelopes are the keys that hold an error document inside another one.
var faultEnvelopes = []string{"error_message", "error", "errors"}

// faultText returns the message in the body of a failed request. It understands every
// form that engines and proxies use: a fault object, one inside error_message as text
// or as an object, a list of errors, and plain text. Without any it returns the name
// of the HTTP status.
func faultText(body []byte, status int) string {
	if text := faultOf(json.RawMessage(body), 0); text != "" {
		return cleanText(text)
	}
	text := strings.TrimSpace(string(body))
	if text == "" || text[0] == '<' || text[0] == '{' || text[0] == '[' {
		return http.StatusText(status)
	}
	return cleanText(text)
}

// faultOf searches one JSON value for the message. The depth is bounded because an
// envelope may contain JSON as text.
func faultOf(value json.RawMessage, depth int) string {
	if depth > 4 {
		return ""
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		if inner := faultOf(json.RawMessage(text), depth+1); inner != "" {
			return inner
		}
		return text
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && len(list) > 0 {
		return faultOf(list[0], depth+1)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return ""
	}
	for _, key := range faultKeys {
		var sentence string
		if json.Unmarshal(fields[key], &sentence) == nil && sentence != "" {
			return sentence
		}
	}
	for _, key := range faultEnvelopes {
		if inner, ok := fields[key]; ok {
			if sentence := faultOf(inner, depth+1); sentence != "" {
				return sentence
			}
		}
	}
	return ""
}

// cleanText makes text from outside safe for an error: one line of at most maxText
// bytes, without control characters and credentials.
func cleanText(text string) string {
	text = node.MaskURLs(text)
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxText {
		return text
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
