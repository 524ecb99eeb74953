package inventory

import (
	"encoding/json"
	"iter"
)

// errStopped ends a walk when the caller has seen enough.
var errStopped = errorf("stopped by the caller")

// Members walks the keys of a JSON object in the order they were sent, each with
// its value's bytes. It stops silently at the first fault: object must come from a
// parsed Document.
func Members(object json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		r := newReader(object)
		r.space()
		_ = r.object(func(key string) error {
			value, err := r.rawValue()
			if err == nil && !yield(key, value) {
				err = errStopped
			}
			return err
		})
	}
}

// Elements walks the elements of a JSON list, each with its bytes. A value of
// another kind has none. As with Members, the list must come from a parsed
// Document.
func Elements(list json.RawMessage) iter.Seq2[int, json.RawMessage] {
	return func(yield func(int, json.RawMessage) bool) {
		r := newReader(list)
		r.space()
		_ = r.list(func(index int) error {
			value, err := r.rawValue()
			if err == nil && !yield(index, value) {
				err = errStopped
			}
			return err
		})
	}
}

// Text decodes a JSON string of a parsed Document. It reports false for a value of
// another kind.
func Text(value json.RawMessage) (string, bool) {
	r := newReader(value)
	if r.peek() != '"' {
		return "", false
	}
	text, err := r.string()
	return text, err == nil
}

// DiskSize reads the size in bytes from a disk's object on its own, as the plugin
// data root_disk holds it, and nothing else of it. A size that is missing or null
// is 0. The error is an *Error.
func DiskSize(disk json.RawMessage) (bytes int64, err error) {
	r := newReader(disk)
	err = r.object(func(key string) error {
		if key == "size" {
			return r.intInto(&bytes)
		}
		return r.skip()
	})
	return bytes, err
}
