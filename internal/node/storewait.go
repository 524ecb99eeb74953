package node

import (
	"fmt"
	"strings"
	"time"
)

// storeWait is what the sentence of StoreWait begins with.
const storeWait = "Inspection waits for the object store with the inventories"

// StoreWait is the last_error of a node whose inspection is not over because the
// object store fails: since when, for how long it may, and how it fails.
func StoreWait(since time.Time, limit time.Duration, cause error) string {
	return CutText(fmt.Sprintf("%s since %s, for at most %s: %v.", storeWait, since.UTC().Format(time.RFC3339), limit, cause))
}

// IsStoreWait reports whether a last_error is that of StoreWait, and so no failure.
func IsStoreWait(lastError string) bool { return strings.HasPrefix(lastError, storeWait) }
