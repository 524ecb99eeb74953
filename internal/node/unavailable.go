package node

import "errors"

// ErrUnavailable means that the database cannot be reached, or refuses all work at present. The
// same request may succeed later (HTTP 503).
var ErrUnavailable = errors.New("database is not available")

// UnavailableError says why the database, or another store that has the requested data, cannot be
// used at present. It is an ErrUnavailable.
type UnavailableError struct {
	Reason string // sentences for clients: what is wrong, and what to do
}

func (e *UnavailableError) Error() string { return e.Reason }

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }
