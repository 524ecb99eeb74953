package conductor

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// History returns a page of a node's history, oldest first. Only Marker and Limit
// of the query count.
func (c *Conductor) History(ctx context.Context, ident string, query node.Query) ([]*node.Event, error) {
	events, err := c.events(ctx, ident)
	if err != nil {
		return nil, err
	}
	if query.Marker != "" {
		i := slices.IndexFunc(events, func(e *node.Event) bool { return e.UUID == query.Marker })
		if i < 0 {
			return nil, &node.NotFoundError{Kind: "Marker", Ident: query.Marker}
		}
		events = events[i+1:]
	}
	if query.Limit > 0 && len(events) > query.Limit {
		events = events[:query.Limit]
	}
	return events, nil
}

// Event returns one row of a node's history.
func (c *Conductor) Event(ctx context.Context, ident, uuid string) (*node.Event, error) {
	events, err := c.events(ctx, ident)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(events, func(e *node.Event) bool { return e.UUID == uuid }); i >= 0 {
		return events[i], nil
	}
	return nil, &node.NotFoundError{Kind: "History event", Ident: uuid}
}

func (c *Conductor) events(ctx context.Context, ident string) ([]*node.Event, error) {
	var events []*node.Event
	err := c.store.Read(ctx, func(tx *store.Tx) error {
		n, err := tx.Node(ident)
		if err != nil {
			return err
		}
		events, err = tx.Events(n.ID)
		return err
	})
	return events, err
}
