package store

import (
	"fmt"

	"github.com/ingot-metal/ingot/internal/node"
)

// Why a database is not available, in sentences that clients read. Sentences that promise that
// nothing was changed are used only for failures for which that is certain.
const (
	unreachable = "The database is not available, please retry."
	diskFull    = "The disk of the database is full and nothing was changed: free space there, then retry."
	diskFails   = "The disk of the database fails: the log of the engine has what it answered. Mend it, then retry."
	readOnly    = "The database is read-only and nothing was changed: make it writable, then retry."
	crowded     = "The database takes no more connections: raise its limit or close some, then retry."
	stopping    = "The database is stopping or starting, please retry."
	occupied    = "The database is held up by another transaction and nothing was changed, please retry."
	unknowable  = "The connection to the database broke while a change was stored, and whether it was stored is not known: look before you repeat it."
)

// unavailable returns cause as a node.ErrUnavailable with a reason for clients.
func unavailable(reason string, cause error) error {
	return fmt.Errorf("%w: %w", &node.UnavailableError{Reason: reason}, cause)
}
