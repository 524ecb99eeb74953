package ironic

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/node"
)

// maxText limits the text from outside in an error, in bytes.
const maxText = 2 << 10

// faultKeys are the keys of an error document that may have the message, in order of preference.
// Applications write faultstring; routers and proxies write one of the others.
var faultKeys = []string{"faultstring", "description", "message", "title"}

// faultEnvelopes are the keys that hold an error document inside another one.
var faultEnvelopes = []string{"error_message", "error", "errors"}

// versionHeaders are headers with API versions. Engines add at least one of them to their answers.
var versionHeaders = []string{"OpenStack-API-Version", "X-OpenStack-Ironic-API-Version", "X-OpenStack-Ironic-API-Maximum-Version"}

// isFault reports whether a refusal comes from the API itself: it has a version header, or a
// document in the form that applications write. Ironic sends both, except for paths without a
// route.
func isFault(header http.Header, body []byte) bool {
	for _, name := range versionHeaders {
		if header.Get(name) != "" {
			return true
		}
	}
	type document struct {
		Fault *string `json:"faultstring"`
	}
	var bare document
	var wrapped struct {
		Message json.RawMessage `json:"error_message"`
	}
	if json.Unmarshal(body, &bare) != nil || json.Unmarshal(body, &wrapped) != nil {
		return false
	}
	inner, text := document{}, ""
	if json.Unmarshal(wrapped.Message, &text) == nil {
		wrapped.Message = json.RawMessage(text)
	}
	_ = json.Unmarshal(wrapped.Message, &inner)
	return bare.Fault != nil || inner.Fault != nil
}

// faultText returns the message in the body of a failed request. It understands every form that
// engines and proxies use: a fault object, a fault inside error_message as text or as an object, a
// list of errors, and plain text. If there is no message, it returns the name of the HTTP status.
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

// faultOf searches one JSON value for the message. The depth is limited, because an envelope may
// contain JSON as text.
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
