package node

import (
	"fmt"
	"strings"
	"time"
)

// storeWait is the beginning of every text that StoreWait returns.
const storeWait = "Inspection waits for the object store with the inventories"

// StoreWait returns the last_error of a node whose inspection waits because the object store fails:
// since when, for how long at most, and for which error.
func StoreWait(since time.Time, limit time.Duration, cause error) string {
	return CutText(fmt.Sprintf("%s since %s, for at most %s: %v.", storeWait, since.UTC().Format(time.RFC3339), limit, cause))
}

// IsStoreWait reports whether a last_error is a text of StoreWait, which is not a failure of the
// node.
func IsStoreWait(lastError string) bool { return strings.HasPrefix(lastError, storeWait) }
