package store

import "github.com/google/uuid"

// NewUUID returns a UUID for a new record. It begins with the time (RFC 9562, version 7). So
// records that are created one after another are neighbours in the index by UUID, and creating or
// deleting many of them changes few pages. The rest is random.
func NewUUID() string {
	return uuid.Must(uuid.NewV7()).String() // fails only if crypto/rand fails, which ends the program anyway
}
