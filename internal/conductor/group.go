package conductor

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// foreignPoll is how soon a conductor looks again for work that it left to
// another one.
const foreignPoll = time.Second

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
		return c.startWork(tx, n.ID, kind, intent)
	}
	return nil, tx.AddWork(&store.Work{NodeID: n.ID, Kind: kind, Intent: intent})
}

// enqueueStarted starts the work of a request; nil is none of ours.
func (c *Conductor) enqueueStarted(started *job) {
	if started != nil {
		c.enqueue(*started)
	}
}

// claimServed claims due work and gives back what is for other conductors; foreign
// says that there was such work.
func (c *Conductor) claimServed(tx *store.Tx, limit int) (claimed []*store.Work, foreign bool, err error) {
	due, err := tx.ClaimWork(c.cfg.Hostname, c.cfg.LeaseTTL, limit)
	if err != nil {
		return nil, false, err
	}
	for _, w := range due {
		n, err := tx.NodeByID(w.NodeID)
		if err != nil {
			return nil, false, err
		}
		mine, err := c.serves(tx, n.ConductorGroup)
		if err == nil && mine {
			mine, err = c.takes(tx, w.Kind)
		}
		if err != nil {
			return nil, false, err
		}
		if mine {
			claimed = append(claimed, w)
			continue
		}
		foreign = true
		if err := tx.ReleaseLease(w.Lease); err != nil {
			return nil, false, err
		}
	}
	return claimed, foreign, nil
}

// takes reports whether this conductor takes work of a kind: every one that it
// knows. One that it does not know is of a newer version, which does it as long as
// another conductor lives; when this one is alone it takes the work, to fail it.
func (c *Conductor) takes(tx *store.Tx, kind store.WorkKind) (bool, error) {
	if c.knows(kind) {
		return true, nil
	}
	conductors, err := tx.Conductors(aliveFor)
	return !slices.ContainsFunc(conductors, func(o node.Conductor) bool { return o.Alive && o.Hostname != c.cfg.Hostname }), err
}

// knows reports whether this version has a runner for a kind of work.
func (c *Conductor) knows(kind store.WorkKind) bool {
	_, scripted := c.scripts[kind]
	return scripted || kind == workVerify || kind == workInspect
}
