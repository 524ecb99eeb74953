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

// volumes returns a collection of volume connectors or targets. They may be created at any time,
// but changed and deleted only while the node is off and not under work. Owner returns the key and
// the UUID of a record's node.
func volumes[T any](c *Conductor, kind *store.Collection[T], what string, owner func(*T) (*int64, *string)) collection[T] {
	// poweredOff refuses an action while the node may use the volume. Clients match the text up to
	// the node, so that part is the text of Ironic (conductor/manager.py, InvalidStateRequested).
	poweredOff := func(tx *store.Tx, uuid, action string) error {
		n, err := c.idle(tx, uuid)
		if err == nil && n.PowerState != node.PowerOff {
			err = node.Invalid("The requested action \"%s %s\" can not be performed on node %q: the node must be known to be powered off, and its power state is %q.",
				what, action, n.UUID, n.PowerState)
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
			return poweredOff(tx, *was, "update")
		},
		deleted: func(tx *store.Tx, record *T) error {
			_, uuid := owner(record)
			return poweredOff(tx, *uuid, "deletion")
		},
	}}
}
