package store

import "github.com/google/uuid"

// NewUUID returns a UUID for a new record. It begins with the time (RFC 9562, version 7):
// records that are created after each other are neighbours in the index by UUID, so a
// commit of many changes few of its pages, and so does their deletion. The rest is random.
func NewUUID() string {
	return uuid.Must(uuid.NewV7()).String() // fails only if crypto/rand does, and that ends the program
}
