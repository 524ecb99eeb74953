package inventory

import (
	"encoding/json"
	"iter"
)

// errStopped ends a walk when the caller has seen enough.
var errStopped = errorf("stopped by the caller")

// Members iterates over the keys of a JSON object in the order in which they were sent, each with
// the bytes of its value. It stops silently at the first fault, so object must come from a parsed
// Document.
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

// Elements iterates over the elements of a JSON list, each with its bytes. A value of another kind
// has no elements. As with Members, list must come from a parsed Document.
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

// Text decodes a JSON string of a parsed Document. It returns false for a value of another kind.
func Text(value json.RawMessage) (string, bool) {
	r := newReader(value)
	if r.peek() != '"' {
		return "", false
	}
	text, err := r.string()
	return text, err == nil
}

// DiskSize returns the size in bytes in a disk's object, such as the plugin data root_disk. It
// reads nothing else of the object. A missing or null size is 0. The error is an *Error.
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
