package inventory

import (
	"encoding/json"
	"maps"
	"slices"
)

// AppendObject appends a JSON object to dst, with sorted keys. It copies the values unchecked, so
// they must come from a parsed document or be known JSON.
func AppendObject(dst []byte, members map[string]json.RawMessage) []byte {
	size := len("{}")
	for key, value := range members {
		size += len(key) + len(value) + len(`"":,`)
	}
	dst = append(slices.Grow(dst, size), '{')
	for i, key := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, key), ':')
		dst = append(dst, members[key]...)
	}
	return append(dst, '}')
}

// AppendString appends a JSON string to dst.
func AppendString(dst []byte, text string) []byte {
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
