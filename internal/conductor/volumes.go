package conductor

import (
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// VolumeConnectors serves the volume connectors.
func (c *Conductor) VolumeConnectors() node.Collection[node.VolumeConnector] {
	return volumes(c, store.VolumeConnectors, "volume connector", func(v *node.VolumeConnector) (*int64, *string) { return &v.NodeID, &v.NodeUUID })
}

// VolumeTargets serves the volume targets.
func (c *Conductor) VolumeTargets() node.Collection[node.VolumeTarget] {
	return volumes(c, store.VolumeTargets, "volume target", func(v *node.VolumeTarget) (*int64, *string) { return &v.NodeID, &v.NodeUUID })
}

// volumes is the collection of what ties a node to storage outside of it. It may
// be added at any time, but changed and removed only while the node is off and
// nobody works on it. owner returns the key and the UUID of a record's node.
func volumes[T any](c *Conductor, kind *store.Kind[T], what string, owner func(*T) (*int64, *string)) collection[T] {
	free := func(tx *store.Tx, uuid string) error {
		n, err := unleased(tx, uuid)
		if err == nil && n.PowerState != node.PowerOff {
			err = node.Invalid("A %s can be changed only while node %s is known to be powered off; its power state is %q.", what, n.UUID, n.PowerState)
		}
		return err
	}
	return collection[T]{c: c, kind: kind, rules: rules[T]{
		created: func(tx *store.Tx, record *T) error {
			id, uuid := owner(record)
			n, err := ownerOf(tx, *uuid)
			if err == nil {
				*id, *uuid = n.ID, n.UUID
			}
			return err
		},
		changed: func(tx *store.Tx, before, after *T) error {
			_, was := owner(before)
			if _, is := owner(after); *is != *was {
				return node.Invalid("A %s cannot move to another node: delete it and create it there.", what)
			}
			return free(tx, *was)
		},
		deleted: func(tx *store.Tx, record *T) error {
			_, uuid := owner(record)
			return free(tx, *uuid)
		},
	}}
}
