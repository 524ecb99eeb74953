package node

import "errors"

// ErrUnavailable means that the database cannot be reached, or refuses all work for now;
// the same request may succeed later (HTTP 503).
var ErrUnavailable = errors.New("database is not available")

// UnavailableError says why the database does nothing for now, or that what a
// request asks for is elsewhere and cannot be had from there now. It is an
// ErrUnavailable.
type UnavailableError struct {
	Reason string // sentences for clients: what is wrong, and who has to do what
}

func (e *UnavailableError) Error() string { return e.Reason }

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }
