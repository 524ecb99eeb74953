package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// stampsOf returns the last fields of every record: created_at, updated_at and links.
func stampsOf[T any](path string, uuid func(*T) string, created, updated func(*T) *time.Time) []field[T] {
	return []field[T]{
		{name: "created_at", since: 1, value: timeOf(created)},
		{name: "updated_at", since: 1, value: timeOf(updated)},
		{name: "links", since: 1, brief: true, noSort: true, value: computed(func(dst []byte, v *view, item *T) []byte {
			return v.links.appendLinks(dst, path+"/", uuid(item), "")
		})},
	}
}

// flagWithDefault is a boolean; null means fallback.
func flagWithDefault[T any](fallback bool, at func(*T) *bool) value[T] {
	v := flagOf(at)
	set := v.read
	v.read = func(item *T, raw json.RawMessage) error {
		if isNull(raw) {
			*at(item) = fallback
			return nil
		}
		return set(item, raw)
	}
	return v
}

// textWithDefault is a string; null and "" mean fallback.
func textWithDefault[T any](fallback string, at func(*T) *string) value[T] {
	v := textOf(at)
	set := v.read
	v.read = func(item *T, raw json.RawMessage) error {
		err := set(item, raw)
		if err == nil && *at(item) == "" {
			*at(item) = fallback
		}
		return err
	}
	return v
}

// macOf is a MAC address in lower case with colons, or null.
func macOf[T any](at func(*T) *string) value[T] {
	v := textOf(at)
	v.read = func(item *T, raw json.RawMessage) error {
		text, err := readText(raw, maxText)
		if err != nil || text == "" {
			*at(item) = ""
			return err
		}
		mac, ok := node.ParseMAC(text)
		if !ok {
			return fmt.Errorf("want a MAC address, got %q", text)
		}
		*at(item) = mac
		return nil
	}
	return v
}

// numberOf is an integer of at least 0.
func numberOf[T any](at func(*T) *int64) value[T] {
	return value[T]{
		append: func(dst []byte, _ *view, item *T) []byte { return fmt.Appendf(dst, "%d", *at(item)) },
		read: func(item *T, raw json.RawMessage) error {
			var number int64
			if err := json.Unmarshal(raw, &number); err != nil || number < 0 || isNull(raw) {
				return fmt.Errorf("want an integer of at least 0, got %s", node.CutText(string(raw)))
			}
			*at(item) = number
			return nil
		},
	}
}

// wordListOf is an array of strings, kept in the order of the client. Each string must pass check.
func wordListOf[T any](at func(*T) *node.Words, check func(string) error) value[T] {
	return value[T]{
		append: func(dst []byte, _ *view, item *T) []byte { return appendWords(dst, *at(item)) },
		read: func(item *T, raw json.RawMessage) error {
			words, err := readWords(raw, check)
			if err == nil {
				*at(item) = node.WordsInOrder(words...)
			}
			return err
		},
	}
}

func appendWords(dst []byte, words node.Words) []byte {
	dst = append(dst, '[')
	for i, word := range words.List() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, word)
	}
	return append(dst, ']')
}

func readWords(raw json.RawMessage, check func(string) error) ([]string, error) {
	if isNull(raw) {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("want an array of strings")
	}
	for _, word := range list {
		if err := check(word); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// identOf is the UUID or name of another item. It is never shown.
func identOf[T any](at func(*T) *string) value[T] {
	return value[T]{read: func(item *T, raw json.RawMessage) error {
		ident, err := readText(raw, maxText)
		if err == nil {
			err = checkReference(ident)
		}
		if err == nil {
			*at(item) = ident
		}
		return err
	}}
}

// checkReference reports whether text can be the UUID or the name of an item.
func checkReference(text string) error {
	if !namePattern.MatchString(text) {
		return fmt.Errorf("want a UUID or a name, got %q", node.CutText(text))
	}
	return nil
}
