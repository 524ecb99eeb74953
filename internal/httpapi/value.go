package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
)

// maxText is the largest length of a text without a limit of its own, in characters.
const maxText = 255

// textOf is a string or null. Null means "".
func textOf[T any](at func(*T) *string) value[T] { return textUpTo(maxText, at) }

// textUpTo is a string of at most limit characters, or null.
func textUpTo[T any](limit int, at func(*T) *string) value[T] {
	return value[T]{
		append: func(dst []byte, _ *view, item *T) []byte { return appendText(dst, *at(item)) },
		read: func(item *T, raw json.RawMessage) error {
			text, err := readText(raw, limit)
			if err == nil {
				*at(item) = text
			}
			return err
		},
	}
}

// wordOf is one of words, or null.
func wordOf[T any](words []string, at func(*T) *string) value[T] {
	v := textOf(at)
	v.read = func(item *T, raw json.RawMessage) error {
		text, err := readText(raw, maxText)
		switch {
		case err != nil:
			return err
		case text != "" && !slices.Contains(words, text):
			return fmt.Errorf("want one of %s, got %q", strings.Join(words, ", "), text)
		}
		*at(item) = text
		return nil
	}
	return v
}

// flagOf is a boolean; null means false.
func flagOf[T any](at func(*T) *bool) value[T] {
	return value[T]{
		append: func(dst []byte, _ *view, item *T) []byte { return appendBool(dst, *at(item)) },
		read: func(item *T, raw json.RawMessage) error {
			flag, err := readFlag(raw)
			if err == nil {
				*at(item) = flag != nil && *flag
			}
			return err
		},
	}
}

// optionalFlagOf is a boolean, or null for nil.
func optionalFlagOf[T any](at func(*T) **bool) value[T] {
	return value[T]{
		append: func(dst []byte, _ *view, item *T) []byte {
			if flag := *at(item); flag != nil {
				return appendBool(dst, *flag)
			}
			return append(dst, "null"...)
		},
		read: func(item *T, raw json.RawMessage) error {
			flag, err := readFlag(raw)
			if err == nil {
				*at(item) = flag
			}
			return err
		},
	}
}

// timeOf is a point in time that only the engine writes.
func timeOf[T any](at func(*T) *time.Time) value[T] {
	return value[T]{append: func(dst []byte, _ *view, item *T) []byte { return appendTime(dst, *at(item)) }}
}

// objectOf is a JSON object with any keys and without secrets.
func objectOf[T any](at func(*T) *node.Object) value[T] {
	return value[T]{
		append: func(dst []byte, _ *view, item *T) []byte { return appendObject(dst, *at(item)) },
		read:   func(item *T, raw json.RawMessage) error { return readObject(at(item), raw) },
		text:   func(item *T) string { return at(item).String() },
	}
}

// secretOf is a JSON object with any keys. Its secrets are masked.
func secretOf[T any](at func(*T) *node.Object) value[T] { return maskedOf(maskingFor, at) }

// maskedOf is a JSON object with any keys, masked as the role demands.
func maskedOf[T any](by func(role.Role) masking, at func(*T) *node.Object) value[T] {
	masked := objectOf(at)
	masked.append = func(dst []byte, v *view, item *T) []byte { return appendMasked(dst, *at(item), by(v.role)) }
	return masked
}

// computed is a value that only the engine writes.
func computed[T any](write func(dst []byte, v *view, item *T) []byte) value[T] {
	return value[T]{append: write}
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// readText decodes a string or null of at most limit characters.
func readText(raw json.RawMessage, limit int) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("want a string or null, got %s", node.JSONKind(raw))
	}
	if length := utf8.RuneCountInString(text); length > limit {
		return "", fmt.Errorf("want at most %d characters, got %d", limit, length)
	}
	if strings.ContainsRune(text, 0) {
		return "", errors.New("must not contain a zero character")
	}
	return text, nil
}

// readFlag decodes a boolean, a string that parseBool accepts, or null (nil).
func readFlag(raw json.RawMessage) (*bool, error) {
	if isNull(raw) {
		return nil, nil
	}
	var flag bool
	if json.Unmarshal(raw, &flag) == nil {
		return &flag, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if flag, ok := parseBool(text); ok {
			return &flag, nil
		}
		return nil, fmt.Errorf("want true or false, got %q", node.CutText(text))
	}
	return nil, fmt.Errorf("want true or false, got %s", node.JSONKind(raw))
}

func readObject(target *node.Object, raw json.RawMessage) error {
	object, err := node.ParseObject(raw)
	if err == nil {
		*target = object
	}
	return err
}
