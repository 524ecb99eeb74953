package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// rosterAge is how old the list of conductors may be that answers are written
// from. Who lives is known to a minute anyway.
const rosterAge = time.Second

// roster remembers the conductors for a moment, so that showing a node costs no
// query more.
type roster struct {
	mu    sync.Mutex
	read  time.Time
	known []node.Conductor
}

// conductors returns all conductors as they were at most rosterAge before now, or
// as they were last known while the database does not tell. The caller must not
// change them.
func (r *roster) conductors(ctx context.Context, engine Service, now time.Time) ([]node.Conductor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.read); r.known != nil && age >= 0 && age <= rosterAge {
		return r.known, nil
	}
	known, err := engine.Conductors(ctx)
	switch {
	case err != nil && r.known != nil:
		return r.known, nil
	case err != nil:
		return nil, err
	}
	r.known, r.read = known, now
	return known, nil
}

// nodesOfConductor returns what reads the nodes of a list: all of them, or those
// that the conductor looks after which the request names.
func (a *api) nodesOfConductor(r *http.Request) (func(context.Context, node.Query) ([]*node.Node, error), error) {
	c := callOf(r)
	if !c.query.Has("conductor") {
		return a.engine.Nodes, nil
	}
	if c.version < conductorSince {
		return nil, notAcceptable("Argument conductor", conductorSince)
	}
	conductors, err := a.roster.conductors(r.Context(), a.engine, a.now())
	if err != nil {
		return nil, fmt.Errorf("list conductors: %w", err)
	}
	hostname := c.query.Get("conductor")
	i := slices.IndexFunc(conductors, func(conductor node.Conductor) bool { return conductor.Alive && conductor.Hostname == hostname })
	if i < 0 {
		return func(context.Context, node.Query) ([]*node.Node, error) { return nil, nil }, nil
	}
	own := watchedNodes{read: a.engine.Nodes, hostname: hostname, group: conductors[i].Group, conductors: conductors}
	return own.page, nil
}

// watchedNodes reads the nodes that one conductor looks after. Which of its group
// does is no column of the database, so pages are read until one is full.
type watchedNodes struct {
	read            func(context.Context, node.Query) ([]*node.Node, error)
	hostname, group string
	conductors      []node.Conductor
}

func (l watchedNodes) page(ctx context.Context, query node.Query) ([]*node.Node, error) {
	query.Filters = append(slices.Clone(query.Filters), node.Filter{Field: "conductor_group", Value: l.group})
	var own []*node.Node
	for {
		some, err := l.read(ctx, query)
		if err != nil {
			return nil, err
		}
		full := query.Limit > 0 && len(some) == query.Limit
		if full {
			query.Marker = some[len(some)-1].UUID
		}
		for _, n := range some {
			if node.Responsible(n.UUID, l.group, l.conductors) == l.hostname {
				own = append(own, n)
			}
		}
		switch {
		case query.Limit > 0 && len(own) >= query.Limit:
			return own[:query.Limit], nil
		case !full:
			return own, nil
		}
	}
}
