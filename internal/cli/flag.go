package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// maxQuoted is how much of a flag's value an error repeats, in characters.
const maxQuoted = 60

// wanted says what a flag takes whose own errors are for programmers, by the
// type of its value.
var wanted = map[string]string{
	"int":  "it must be a whole number",
	"bool": "it must be true or false",
}

// FlagError makes a [*UsageError] of what the flags library has to say.
func FlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return &UsageError{err}
	}
	reason := errors.Unwrap(invalid).Error()
	if plain, ok := wanted[invalid.GetFlag().Value.Type()]; ok {
		reason = plain
	}
	value := []rune(invalid.GetValue())
	if len(value) > maxQuoted {
		value = append(value[:maxQuoted], '…')
	}
	return &UsageError{fmt.Errorf("--%s is %q: %s", invalid.GetFlag().Name, string(value), reason)}
}
