package provisioner

import (
	"crypto/sha256"
	"strings"

	"github.com/google/uuid"
)

// lockPrefix begins every lock, so that it is told from other instance IDs. The version 8 says
// that the rest of the UUID is somebody's own, too.
const lockPrefix = "696e676f-7400-8"

// locks is the namespace of locks.
var locks = uuid.MustParse("696e676f-7400-8000-8000-000000000000")

// Lock is the instance ID that a node has while a host with this mark takes it. The API has no
// condition for writing a mark, but refuses to replace an instance ID: of several that take a
// node at the same moment one gets its lock in. It depends on the mark and on the node alone, so that
// an operator that ended in between recognises its own. Nobody else uses such an ID.
func (m Mark) Lock(nodeID string) string {
	id := uuid.NewHash(sha256.New(), locks, []byte(string(m)+"\n"+nodeID), 8)
	copy(id[:6], locks[:6])
	return id.String()
}

// IsLock reports whether an instance ID is the lock of any mark.
func IsLock(instanceID string) bool { return strings.HasPrefix(instanceID, lockPrefix) }
