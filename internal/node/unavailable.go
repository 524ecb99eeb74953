package node

import "errors"

// ErrUnavailable means that the database cannot be reached, or refuses all work for now;
// the same request may succeed later (HTTP 503).
var ErrUnavailable = errors.New("database is not available")
