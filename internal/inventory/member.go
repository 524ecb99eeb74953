package inventory

import (
	"encoding/json"
	"iter"
)

// Members walks the keys of a JSON object in the order they were sent, each with
// its value's bytes. It stops silently at the first fault: object must come from a
// parsed Document.
func Members(object json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		r := newReader(object)
		r.space()
		stop := errorf("stopped by the caller")
		_ = r.object(func(key string) error {
			value, err := r.rawValue()
			if err != nil {
				return err
			}
			if !yield(key, value) {
				return stop
			}
			return nil
		})
	}
}
