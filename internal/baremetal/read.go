package baremetal

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strings"
)

// Nodes lists the nodes that q selects. Pages are asked for as the caller
// advances, so a caller that stops early costs the engine nothing more; an
// error ends the sequence as its last element. The list is not a snapshot: a
// node that changes while it is read may be missing when it is sorted by what
// changed, and is then at the head of the next list.
func (c *Client) Nodes(ctx context.Context, q NodeQuery) iter.Seq2[Node, error] {
	query, err := q.values()
	if err != nil {
		return func(yield func(Node, error) bool) { yield(Node{}, err) }
	}
	return list(ctx, c, "nodes", query, func(n Node) string { return n.UUID })
}

// Node reads the node with the UUID or name ident; fields limit what is
// filled, none means everything. Its error is of kind [ErrNotFound] when the
// engine has no such node.
func (c *Client) Node(ctx context.Context, ident string, fields ...string) (Node, error) {
	var n Node
	if err := c.readNode(ctx, &n, ident, fields); err != nil {
		return Node{}, err
	}
	return n, nil
}

// NodeDocuments is [Client.Nodes] for callers that show nodes instead of
// reading them: each element is one node as the engine sent it.
func (c *Client) NodeDocuments(ctx context.Context, q NodeQuery) iter.Seq2[json.RawMessage, error] {
	query, err := q.values()
	if err != nil {
		return func(yield func(json.RawMessage, error) bool) { yield(nil, err) }
	}
	return list(ctx, c, "nodes", query, documentID)
}

func documentID(document json.RawMessage) string {
	var node struct{ UUID string }
	if json.Unmarshal(document, &node) != nil {
		return ""
	}
	return node.UUID
}

// NodeDocument is [Client.Node] that returns the node as the engine sent it.
func (c *Client) NodeDocument(ctx context.Context, ident string, fields ...string) (json.RawMessage, error) {
	var document json.RawMessage
	if err := c.readNode(ctx, &document, ident, fields); err != nil {
		return nil, err
	}
	return document, nil
}

func (c *Client) readNode(ctx context.Context, target any, ident string, fields []string) error {
	op := "show node " + ident
	segment, err := pathSegment(op, ident)
	if err != nil {
		return err
	}
	query := url.Values{}
	if len(fields) > 0 {
		query.Set("fields", strings.Join(withUUID(fields), ","))
	}
	return c.getFields(ctx, op, target, query, "nodes", segment)
}
