package baremetal

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is how much of somebody else's text enters an error, in bytes.
const maxText = 2 << 10

// credentials matches the user part of a URL.
var credentials = regexp.MustCompile(`://[^/\s@]+@`)

// faultKeys are the places of the sentence in an error document, in the order
// of preference. Applications write faultstring; routers and proxies write
// one of the others.
var faultKeys = []string{"faultstring", "description", "message", "title"}

// faultEnvelopes are the keys that hold an error document inside another one.
var faultEnvelopes = []string{"error_message", "error", "errors"}

// faultText finds the sentence for people in the body of a failed request. It
// accepts every form that engines and the servers in front of them use: a
// fault object, one inside error_message as text or as an object, a list
// of errors, plain text. The HTTP status' name is the last resort.
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

// faultOf looks into one JSON value. The depth is bounded because an envelope
// may hold JSON as text again.
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

// cleanText makes somebody else's text fit for an error: one line, without
// control characters and credentials, at most maxText bytes.
func cleanText(text string) string {
	text = credentials.ReplaceAllString(text, "://******@")
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
