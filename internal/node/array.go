package node

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Array is a JSON array, stored as its text. The zero value is the empty array.
// Values are never changed in place.
type Array []byte

// ParseArray checks that text is a JSON array and returns it without
// insignificant white space. Null becomes the empty array.
func ParseArray(text []byte) (Array, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return nil, nil
	}
	if text[0] != '[' {
		return nil, fmt.Errorf("want a JSON array, got %s", JSONKind(text))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("parse JSON array: %w", err)
	}
	if compact.Len() == len("[]") {
		return nil, nil
	}
	return compact.Bytes(), nil
}

// String returns the JSON text, "[]" for the empty array.
func (a Array) String() string {
	if len(a) == 0 {
		return "[]"
	}
	return string(a)
}
