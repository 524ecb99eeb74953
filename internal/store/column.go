package store

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// column ties a database column to a field of T. The tables of columns are the
// only place that knows both; statements are built from them.
type column[T any] struct {
	name string
	get  func(*T) any                // the value to store; nil is null
	set  func(*T, any) error         // takes what the driver returned
	same func(before, after *T) bool // whether the stored value would be equal
}

func newColumn[T any](name string, get func(*T) any, set func(*T, any) error) column[T] {
	return column[T]{name: name, get: get, set: set, same: func(before, after *T) bool { return get(before) == get(after) }}
}

// plainColumn is a column whose values Go compares as the database does. Comparing the fields costs
// less than comparing the stored values.
func plainColumn[T any, V comparable](name string, field func(*T) *V, get func(*T) any, set func(*T, any) error) column[T] {
	c := newColumn(name, get, set)
	c.same = func(before, after *T) bool { return *field(before) == *field(after) }
	return c
}

func textColumn[T any, S ~string](name string, field func(*T) *S) column[T] {
	return plainColumn(name, field,
		func(t *T) any { return orNull(*field(t)) },
		func(t *T, v any) error {
			text, err := asText(v)
			*field(t) = S(text)
			return err
		})
}

// requiredTextColumn never stores null.
func requiredTextColumn[T any, S ~string](name string, field func(*T) *S) column[T] {
	c := textColumn(name, field)
	c.get = func(t *T) any { return string(*field(t)) }
	return c
}

func objectColumn[T any](name string, field func(*T) *node.Object) column[T] {
	c := newColumn(name,
		func(t *T) any {
			if field(t).IsEmpty() {
				return nil
			}
			return string(*field(t))
		},
		func(t *T, v any) error {
			text, err := asText(v)
			if text != "" {
				*field(t) = node.Object(text)
			} else {
				*field(t) = nil
			}
			return err
		})
	c.same = func(before, after *T) bool {
		one, other := *field(before), *field(after)
		return bytes.Equal(one, other) || one.IsEmpty() && other.IsEmpty()
	}
	return c
}

func intColumn[T any](name string, field func(*T) *int64) column[T] {
	return plainColumn(name, field,
		func(t *T) any { return *field(t) },
		func(t *T, v any) error {
			n, err := asInt(v)
			*field(t) = n
			return err
		})
}

func boolColumn[T any](name string, field func(*T) *bool) column[T] {
	return plainColumn(name, field,
		func(t *T) any { return asBit(*field(t)) },
		func(t *T, v any) error {
			n, err := asInt(v)
			*field(t) = n != 0
			return err
		})
}

// optionalBoolColumn distinguishes nil (null) from false.
func optionalBoolColumn[T any](name string, field func(*T) **bool) column[T] {
	return newColumn(name,
		func(t *T) any {
			if *field(t) == nil {
				return nil
			}
			return asBit(**field(t))
		},
		func(t *T, v any) error {
			if v == nil {
				*field(t) = nil
				return nil
			}
			n, err := asInt(v)
			value := n != 0
			*field(t) = &value
			return err
		})
}

func timeColumn[T any](name string, field func(*T) *time.Time) column[T] {
	return newColumn(name,
		func(t *T) any { return micros(*field(t)) },
		func(t *T, v any) error {
			if v == nil {
				*field(t) = time.Time{}
				return nil
			}
			n, err := asInt(v)
			*field(t) = time.UnixMicro(n).UTC()
			return err
		})
}

func asBit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func asInt(v any) (int64, error) {
	switch n := v.(type) {
	case int64:
		return n, nil
	case nil:
		return 0, nil
	}
	return 0, fmt.Errorf("column holds %T, want a number", v)
}

func asText(v any) (string, error) {
	switch text := v.(type) {
	case string:
		return text, nil
	case []byte:
		return string(text), nil
	case nil:
		return "", nil
	}
	return "", fmt.Errorf("column holds %T, want text", v)
}
