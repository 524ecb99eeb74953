package ironic

import (
	"context"
	"iter"
	"net/url"
	"strings"
)

// Nodes lists the nodes that q selects. It requests each page when the caller needs it. An error
// ends the sequence as its last element. The list is not a snapshot: in a list sorted by
// updated_at, a node that changes meanwhile may be missing, and is then first in the next list.
func (c *Client) Nodes(ctx context.Context, q NodeQuery) iter.Seq2[Node, error] {
	query, err := q.values()
	if err != nil {
		return func(yield func(Node, error) bool) { yield(Node{}, err) }
	}
	return list(ctx, c, "list nodes", []string{"nodes"}, query, func(n Node) string { return n.UUID })
}

// Node reads the node with the UUID or name ident. fields limit what is filled; none means
// everything. If the engine has no such node, the error is of kind [ErrNotFound].
func (c *Client) Node(ctx context.Context, ident string, fields ...string) (Node, error) {
	op := "show node " + ident
	segment, err := pathSegment(op, ident)
	if err != nil {
		return Node{}, err
	}
	query := url.Values{}
	if len(fields) > 0 {
		query.Set("fields", strings.Join(withID(fields, "uuid"), ","))
	}
	var n Node
	if err := c.getFields(ctx, op, &n, query, "nodes", segment); err != nil {
		return Node{}, err
	}
	return n, nil
}
