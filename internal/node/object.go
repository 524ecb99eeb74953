package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/ingot-metal/ingot/internal/jsonscan"
)

// Object is a JSON object with any keys, stored as its text, so that listing a
// thousand nodes parses none. The zero value is the empty object. An Object is
// immutable: every change returns a new one.
type Object []byte

// ParseObject checks that text is a JSON object and returns it without
// insignificant white space. Null becomes the empty object.
func ParseObject(text []byte) (Object, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return nil, nil
	}
	if text[0] != '{' {
		return nil, fmt.Errorf("want a JSON object, got %s", JSONKind(text))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("parse JSON object: %w", err)
	}
	if compact.Len() == len("{}") {
		return nil, nil
	}
	return compact.Bytes(), nil
}

// ObjectOf builds an Object from Go values; it panics on values that JSON
// cannot express, which is a programming error.
func ObjectOf(values map[string]any) Object {
	if len(values) == 0 {
		return nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		panic(fmt.Sprintf("node: object of unmarshallable values: %v", err))
	}
	return text
}

// IsEmpty reports whether the object has no keys.
func (o Object) IsEmpty() bool { return len(o) == 0 || string(o) == "{}" }

// String returns the JSON text, "{}" for the empty object.
func (o Object) String() string {
	if len(o) == 0 {
		return "{}"
	}
	return string(o)
}

// Fields returns the values by key, undecoded. The caller may change the map, but not the values:
// they are parts of the object.
func (o Object) Fields() map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	for key, value := range jsonscan.Fields(o) {
		fields[string(key)] = value
	}
	return fields
}

// field returns the value of key, undecoded, nil if there is none.
func (o Object) field(key string) json.RawMessage {
	var found json.RawMessage
	for name, value := range jsonscan.Fields(o) {
		if string(name) == key {
			found = value // the last one counts, as for encoding/json
		}
	}
	return found
}

// Values returns the object decoded into Go values, numbers as json.Number so
// that nothing is rounded.
func (o Object) Values() map[string]any {
	values := map[string]any{}
	if !o.IsEmpty() {
		decoder := json.NewDecoder(bytes.NewReader(o))
		decoder.UseNumber()
		_ = decoder.Decode(&values)
	}
	return values
}

// Get decodes the value of key into target. It reports whether the key exists and its
// value has the type of target.
func (o Object) Get(key string, target any) bool {
	value := o.field(key)
	return value != nil && json.Unmarshal(value, target) == nil
}

// Text returns the value of key if it is a string, else "".
func (o Object) Text(key string) string {
	return string(jsonscan.Unquote(o.field(key)))
}

// With returns the object with the given keys set. A nil value removes the key.
func (o Object) With(changes map[string]any) Object {
	fields := make(map[string]any, len(changes))
	for key, raw := range o.Fields() {
		fields[key] = raw
	}
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	return ObjectOf(fields)
}

// Without returns the object with the given keys removed.
func (o Object) Without(keys ...string) Object {
	if o.IsEmpty() {
		return o
	}
	removed := make(map[string]any, len(keys))
	for _, key := range keys {
		removed[key] = nil
	}
	return o.With(removed)
}

// MarshalJSON returns the text of the object.
func (o Object) MarshalJSON() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalJSON accepts an object or null.
func (o *Object) UnmarshalJSON(text []byte) error {
	parsed, err := ParseObject(text)
	if err != nil {
		return err
	}
	*o = parsed
	return nil
}

// JSONKind returns what kind of value a JSON text is, as error texts name it.
func JSONKind(text []byte) string {
	if len(text) == 0 {
		return "nothing"
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
