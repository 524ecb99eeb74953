package inventory

import (
	"errors"
	"fmt"
	"strconv"
)

// maxQuotedRunes is how much outside text an Error quotes at most, in characters.
const maxQuotedRunes = 64

// Error says what is wrong with a document and where. The fault is always the sender's: parsing the
// same bytes again fails again.
type Error struct {
	Path   string // "inventory.interfaces[2].mac_address"; empty for the document as a whole
	Reason string // "want a MAC address, got "eth0""
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

func errorf(format string, args ...any) error {
	return &Error{Reason: fmt.Sprintf(format, args...)}
}

// inKey and inItem prepend a step to an error's path while a failed parse unwinds, so that valid
// documents do not pay for paths.
func inKey(key string, err error) error {
	return prefixed(cut(key), err)
}

func inItem(index int, err error) error {
	return prefixed("["+strconv.Itoa(index)+"]", err)
}

func prefixed(step string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Path == "", e.Path[0] == '[':
		e.Path = step + e.Path
	default:
		e.Path = step + "." + e.Path
	}
	return e
}

// Quote formats outside text for a message: in quotes, cut to 64 characters, with control
// characters escaped.
func Quote(text string) string { return strconv.Quote(cut(text)) }

func cut(text string) string {
	runes := 0
	for i := range text {
		if runes == maxQuotedRunes {
			return text[:i] + "…"
		}
		runes++
	}
	return text
}
