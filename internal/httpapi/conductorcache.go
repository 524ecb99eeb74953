package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// conductorCacheAge is the greatest age of the cached list of conductors. Whether a conductor is
// alive is known only to a minute, so a second costs no accuracy.
const conductorCacheAge = time.Second

// conductorCache keeps the list of conductors for conductorCacheAge, so that showing
// a node needs no further query.
type conductorCache struct {
	mu    sync.Mutex
	read  time.Time
	known []node.Conductor
}

// conductors returns all conductors, at most conductorCacheAge old. While the database is
// unavailable, it returns the last known list. The caller must not change the list.
func (r *conductorCache) conductors(ctx context.Context, engine Service, now time.Time) ([]node.Conductor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.read); r.known != nil && age >= 0 && age <= conductorCacheAge {
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

// nodesOfConductor returns the function that reads the nodes of a list: all nodes,
// or those of the conductor that the request names.
func (a *api) nodesOfConductor(r *http.Request) (func(context.Context, node.Query) ([]*node.Node, error), error) {
	c := callOf(r)
	if !c.query.Has("conductor") {
		return a.engine.Nodes, nil
	}
	if c.version < conductorSince {
		return nil, notAcceptable("Argument conductor", conductorSince)
	}
	conductors, err := a.conductorCache.conductors(r.Context(), a.engine, a.now())
	if err != nil {
		return nil, fmt.Errorf("list conductors: %w", err)
	}
	hostname := c.query.Get("conductor")
	i := slices.IndexFunc(conductors, func(conductor node.Conductor) bool { return conductor.Alive && conductor.Hostname == hostname })
	if i < 0 {
		return func(context.Context, node.Query) ([]*node.Node, error) { return nil, nil }, nil
	}
	own := conductorNodes{read: a.engine.Nodes, hostname: hostname, group: conductors[i].Group, conductors: conductors}
	return own.page, nil
}

// conductorNodes reads the nodes of one conductor. The database has no column for the conductor of
// a node, so page reads nodes until it has a full page. If a page that it read was cut, it returns
// the nodes that it has with node.ErrPageCut. These are at least one, because the next page begins
// after the last of them.
type conductorNodes struct {
	read            func(context.Context, node.Query) ([]*node.Node, error)
	hostname, group string
	conductors      []node.Conductor
}

func (l conductorNodes) page(ctx context.Context, query node.Query) ([]*node.Node, error) {
	query.Filters = append(slices.Clone(query.Filters), node.Filter{Field: "conductor_group", Value: l.group})
	var own []*node.Node
	for {
		some, err := l.read(ctx, query)
		cut := errors.Is(err, node.ErrPageCut)
		if err != nil && !cut {
			return nil, err
		}
		more := len(some) > 0 && (cut || len(some) == query.Limit)
		if more {
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
		case !more:
			return own, nil
		case cut && len(own) > 0:
			return own, err
		}
	}
}
