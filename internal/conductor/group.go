package conductor

import (
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// serving returns the conductors that may work on a group's nodes: the group's conductors
// that are alive, or all that are alive when the group has none.
func serving(group string, conductors []node.Conductor) []node.Conductor {
	alive := slices.DeleteFunc(slices.Clone(conductors), func(c node.Conductor) bool { return !c.Alive })
	own := slices.DeleteFunc(slices.Clone(alive), func(c node.Conductor) bool { return c.Group != group })
	if len(own) > 0 {
		return own
	}
	return alive
}

// watcher returns the one conductor that keeps the power state of a node in sync.
// When a conductor starts or ends, the choice changes for its nodes only. A node
// whose group has no conductor gets one of the others.
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

// registrations are the times of a conductor's own registrations, by the database's clock.
type registrations struct {
	mu           sync.Mutex
	last, before time.Time // before is at least registerTick earlier; zero when there was none
}

func (r *registrations) add(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.IsZero() || at.Sub(r.last) >= registerTick {
		r.last, r.before = at, r.last
	}
}

// since returns the time against which the silence of others is measured: the last registration but
// one, or the only one. It is false without registrations.
func (r *registrations) since() (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before.IsZero() {
		return r.last, !r.last.IsZero()
	}
	return r.before, true
}

// conductors returns the conductors of the database, and whether they count as alive when work
// is shared among them. Another conductor counts as dead only if it was silent for aliveFor while
// this one was not. While a database does not answer, no conductor can register; the one that
// registers first afterwards must not take the others for dead.
func (c *Conductor) conductors(tx *store.Tx) ([]node.Conductor, error) {
	conductors, err := tx.Conductors(aliveFor)
	if since, ok := c.registered.since(); ok {
		for i := range conductors {
			conductors[i].Alive = since.Sub(conductors[i].UpdatedAt) <= aliveFor
		}
	}
	return conductors, err
}

// serves reports whether this conductor may work on the nodes of a group.
func (c *Conductor) serves(tx *store.Tx, group string) (bool, error) {
	if group == c.cfg.Group {
		return true, nil
	}
	conductors, err := c.conductors(tx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(serving(group, conductors), func(o node.Conductor) bool { return o.Hostname == c.cfg.Hostname }), nil
}

// startServed is startWork for work that only the conductors of the node's group may
// do. When this conductor is none of them, the work is stored without a lease and no
// job is returned; they find it in the database.
func (c *Conductor) startServed(tx *store.Tx, n *node.Node, kind store.WorkKind, intent node.Object) (*runner.Job, error) {
	mine, err := c.serves(tx, n.ConductorGroup)
	if err != nil {
		return nil, err
	}
	if mine {
		return c.startWork(tx, n, kind, intent)
	}
	return nil, tx.AddWork(&store.Work{NodeID: n.ID, Kind: kind, Intent: intent})
}

// Scope says which work this conductor leaves to others: work of groups that have
// conductors of their own and, as long as another conductor is alive, work of kinds
// that this version does not know. A conductor that is alone claims all work: work of
// an unknown kind then is logged and not done.
func (c *Conductor) Scope(tx *store.Tx) (store.WorkScope, error) {
	conductors, err := c.conductors(tx)
	if err != nil {
		return store.WorkScope{}, err
	}
	var scope store.WorkScope
	for _, other := range conductors {
		if !other.Alive || other.Hostname == c.cfg.Hostname {
			continue
		}
		scope.Kinds = c.Kinds()
		if other.Group != c.cfg.Group && !slices.Contains(scope.NotGroups, other.Group) {
			scope.NotGroups = append(scope.NotGroups, other.Group)
		}
	}
	return scope, nil
}
