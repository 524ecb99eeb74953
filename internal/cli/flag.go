package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// maxQuoted is how many characters of a flag's value an error repeats.
const maxQuoted = 60

// wanted says what a flag takes, by the type of its value. The errors of the flags library are
// written for programmers.
var wanted = map[string]string{
	"int":  "it must be a whole number",
	"bool": "it must be true or false",
}

// FlagError turns an error of the flags library into a [*UsageError].
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
