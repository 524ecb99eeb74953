package inspect

import (
	"encoding/json"
	"maps"
	"slices"
)

// appendObject writes a JSON object of raw values, keys sorted. The values are
// copied as they are: they come from a parsed document or from a hook.
func appendObject(dst []byte, members map[string]json.RawMessage) []byte {
	size := len("{}")
	for key, value := range members {
		size += len(key) + len(value) + len(`"":,`)
	}
	dst = append(slices.Grow(dst, size), '{')
	for i, key := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, key), ':')
		dst = append(dst, members[key]...)
	}
	return append(dst, '}')
}

// appendString writes a JSON string.
func appendString(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			encoded, _ := json.Marshal(text) // a string always encodes
			return append(dst, encoded...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
