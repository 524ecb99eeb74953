package provisioner

import (
	"testing"

	"github.com/google/uuid"
)

func TestLockIsAUUIDOfOneHostAndOneNode(t *testing.T) {
	const one, other = Mark("c1/metal/web"), Mark("c2/metal/web")
	lock := one.Lock("n1")
	if id, err := uuid.Parse(lock); err != nil || id.Version() != 8 || id.Variant() != uuid.RFC4122 || id.String() != lock {
		t.Errorf("lock %q is no UUID of version 8: %v", lock, err)
	}
	if lock != one.Lock("n1") {
		t.Error("a host does not recognise its lock")
	}
	if lock == other.Lock("n1") || lock == one.Lock("n2") {
		t.Error("two hosts or two nodes have the same lock")
	}
	if !IsLock(lock) || IsLock(uuid.NewString()) || IsLock("") {
		t.Error("locks are not told from other instance IDs")
	}
}
