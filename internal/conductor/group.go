package conductor

import (
	"maps"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// serving returns the living conductors that may work on a group's nodes: those
// of the group, or all when none of them lives.
func serving(group string, conductors []node.Conductor) []node.Conductor {
	alive := slices.DeleteFunc(slices.Clone(conductors), func(c node.Conductor) bool { return !c.Alive })
	own := slices.DeleteFunc(slices.Clone(alive), func(c node.Conductor) bool { return c.Group != group })
	if len(own) > 0 {
		return own
	}
	return alive
}

// watcher returns the one conductor that looks after a node in the background:
// the choice changes only for the nodes of conductors that come or go. A node
// whose group has none is looked after by one of the others.
func watcher(n *node.Node, conductors []node.Conductor) string {
	if own := node.Responsible(n.UUID, n.ConductorGroup, conductors); own != "" {
		return own
	}
	others := slices.Clone(conductors)
	for i := range others {
		others[i].Group = n.ConductorGroup
	}
	return node.Responsible(n.UUID, n.ConductorGroup, others)
}

// serves reports whether this conductor may work on the nodes of a group.
func (c *Conductor) serves(tx *store.Tx, group string) (bool, error) {
	if group == c.cfg.Group {
		return true, nil
	}
	conductors, err := tx.Conductors(aliveFor)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(serving(group, conductors), func(o node.Conductor) bool { return o.Hostname == c.cfg.Hostname }), nil
}

// startServed is startWork for a node whose machine only the conductors of its
// group may reach. Work for others is stored without a lease and without a job;
// they find it when they look for work.
func (c *Conductor) startServed(tx *store.Tx, n *node.Node, kind store.WorkKind, intent node.Object) (*job, error) {
	mine, err := c.serves(tx, n.ConductorGroup)
	if err != nil {
		return nil, err
	}
	if mine {
		return c.startWork(tx, n, kind, intent)
	}
	return nil, tx.AddWork(&store.Work{NodeID: n.ID, Kind: kind, Intent: intent})
}

// enqueueStarted starts the work of a request; nil is none of ours.
func (c *Conductor) enqueueStarted(started *job) {
	if started != nil {
		c.enqueue(*started)
	}
}

// scope leaves the work to others that is theirs: that of groups in which other
// conductors live, and that of kinds which this version does not know, as long as
// another conductor lives. One that is alone takes all of it, work of an unknown
// kind to fail it.
func (c *Conductor) scope(tx *store.Tx) (store.WorkScope, error) {
	conductors, err := tx.Conductors(aliveFor)
	if err != nil {
		return store.WorkScope{}, err
	}
	var scope store.WorkScope
	for _, other := range conductors {
		if !other.Alive || other.Hostname == c.cfg.Hostname {
			continue
		}
		scope.Kinds = c.kinds()
		if other.Group != c.cfg.Group && !slices.Contains(scope.NotGroups, other.Group) {
			scope.NotGroups = append(scope.NotGroups, other.Group)
		}
	}
	return scope, nil
}

// kinds are those of the work that this version knows.
func (c *Conductor) kinds() []store.WorkKind {
	return append(slices.Sorted(maps.Keys(c.scripts)), workVerify, workInspect)
}
