package provisioner

import (
	"crypto/sha256"
	"strings"

	"github.com/google/uuid"
)

// lockPrefix begins every lock and tells it from other instance IDs. Version 8 of UUIDs says that
// the rest of the UUID has a meaning of its own, too.
const lockPrefix = "696e676f-7400-8"

// locks is the UUID namespace of locks.
var locks = uuid.MustParse("696e676f-7400-8000-8000-000000000000")

// Lock returns the instance ID that a node has while a host with this mark takes the node. The API
// has no precondition for writing a mark, but it refuses to replace an instance ID. So only one of
// several that take a node at the same moment gets its lock in. The lock depends only on the mark
// and the node, so that an operator recognises its own lock after a restart. Nobody else uses such
// an ID.
func (m Mark) Lock(nodeID string) string {
	id := uuid.NewHash(sha256.New(), locks, []byte(string(m)+"\n"+nodeID), 8)
	copy(id[:6], locks[:6])
	return id.String()
}

// IsLock reports whether an instance ID is the lock of any mark.
func IsLock(instanceID string) bool { return strings.HasPrefix(instanceID, lockPrefix) }
