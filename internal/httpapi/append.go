package httpapi

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/node"
)

// timeLayout is RFC 3339 with a numeric zone, as clients of this API expect it.
const timeLayout = "2006-01-02T15:04:05.999999-07:00"

// appendString appends text as a JSON string. It copies a text that needs no
// escapes as it is; most texts need none.
func appendString(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendEscaped(dst, text)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // strings always marshal
		return append(dst, `""`...)
	}
	return append(dst, quoted...)
}

// appendText appends text, or null when it is empty.
func appendText(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, text)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// appendTime appends a point in time in UTC, or null for the zero time.
func appendTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, timeLayout)
	return append(dst, '"')
}

func appendObject(dst []byte, o node.Object) []byte {
	if len(o) == 0 {
		return append(dst, "{}"...)
	}
	return append(dst, o...)
}

// linkBase has the beginnings of the links of one answer, escaped for JSON.
type linkBase struct{ self, bookmark []byte }

func newLinkBase(base string) linkBase {
	escaped := appendString(nil, base)
	escaped = escaped[1 : len(escaped)-1]
	return linkBase{
		self:     fmt.Appendf(nil, `[{"href":"%s/v1/`, escaped),
		bookmark: fmt.Appendf(nil, `","rel":"self"},{"href":"%s/`, escaped),
	}
}

// appendLinks appends the self and bookmark links of a resource. Its path consists
// of the collection, the UUID of the item and a part of the item; none needs escapes.
func (b linkBase) appendLinks(dst []byte, collection, uuid, part string) []byte {
	dst = append(dst, b.self...)
	dst = append(append(append(dst, collection...), uuid...), part...)
	dst = append(dst, b.bookmark...)
	dst = append(append(append(dst, collection...), uuid...), part...)
	return append(dst, `","rel":"bookmark"}]`...)
}
