package conductor

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// nodeFinder reads a node by its UUID or name, whole or in part. It returns a *node.NotFoundError if
// there is none.
type nodeFinder func(ident string) (*node.Node, error)

// Heartbeat records a heartbeat of a node's agent and resumes the work that waits for
// one. A refusal is noted in the node for people, see noteRefusal; the agent learns no
// more than the error says.
func (c *Conductor) Heartbeat(ctx context.Context, ident string, beat node.Heartbeat) error {
	var called *runner.Job
	err := c.whenFree(ctx, func() error {
		recorded := false
		err := c.store.Read(ctx, func(tx *store.Tx) error {
			n, err := c.nodeOfHeartbeat(tx, tx.NodeOfAgent, ident, beat, func(*node.Node) ([]netip.Addr, error) { return nil, nil })
			recorded = n != nil
			return err
		})
		if err != nil || !recorded {
			return err
		}
		return c.store.Write(ctx, func(tx *store.Tx) (err error) {
			called, err = c.heartbeat(tx, ident, beat)
			return err
		})
	})
	var refused *agent.RefusedError
	switch {
	case err == nil:
		c.runner.Enqueue(called)
	case errors.As(err, &refused):
		c.noteRefusal(ctx, ident, refused.Reason, beat.CallbackURL)
	}
	return err
}

// HeartbeatRefused notes a heartbeat that was refused before its node was read.
func (c *Conductor) HeartbeatRefused(ctx context.Context, ident string, reason node.RefusalReason, callbackURL string) {
	c.noteRefusal(ctx, ident, reason, callbackURL)
}

// noteRefusal notes in the node why a heartbeat was refused, so that last_error, errors of
// drivers and clients can tell people. It notes one refusal a minute at most of heartbeats with
// the node's token, and one of those without. A node under work is left alone, because agents
// send the next heartbeat soon.
func (c *Conductor) noteRefusal(ctx context.Context, ident string, reason node.RefusalReason, callbackURL string) {
	var n *node.Node
	due := func(tx *store.Tx) (due bool, err error) {
		if n, err = tx.Node(ident); err != nil || !agent.NotesRefusal(n, reason, tx.Now()) {
			return false, err
		}
		return checkChangeable(tx, n) == nil, nil
	}
	noted := false
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		noted, err = due(tx)
		return err
	})
	if err == nil && noted {
		err = c.store.Write(ctx, func(tx *store.Tx) error {
			if still, err := due(tx); err != nil || !still {
				return err
			}
			after := *n
			after.DriverInternalInfo = agent.WithRefusal(n.DriverInternalInfo, reason, callbackURL, tx.Now())
			return tx.UpdateNode(n, &after)
		})
	}
	if err != nil && !errors.Is(err, node.ErrNotFound) {
		c.refusals.Log(c.store.Now(), slog.LevelWarn, "Refusal of a heartbeat was not noted", slog.String("node", ident), slog.Any("err", err))
	}
}

// nodeOfHeartbeat returns the node whose heartbeat is to be recorded, as find reads it; nil when the
// node's state ignores heartbeats. addresses returns the addresses in the node's inventory, which
// the callback URL is checked against. If it returns none, that check is left out.
func (c *Conductor) nodeOfHeartbeat(tx *store.Tx, find nodeFinder, ident string, beat node.Heartbeat, addresses func(*node.Node) ([]netip.Addr, error)) (*node.Node, error) {
	n, err := find(ident)
	if errors.Is(err, node.ErrNotFound) {
		c.refusals.Log(tx.Now(), slog.LevelInfo, "Refused heartbeat", slog.String("node", ident), slog.String("reason", "no such node"))
		return nil, agent.ErrToken
	}
	if err != nil {
		return nil, err
	}
	if err := agent.CheckHeartbeat(n, beat, c.cfg.AgentRules, func() ([]netip.Addr, error) { return addresses(n) }); err != nil {
		c.refusals.Log(tx.Now(), slog.LevelWarn, "Refused heartbeat", slog.String("node", n.UUID), slog.Any("err", err))
		return nil, err
	}
	if err := checkChangeable(tx, n); err != nil {
		return nil, err
	}
	if !agent.Records(n.ProvisionState) {
		c.log.Debug("Ignored heartbeat", "node", n.UUID, "state", n.ProvisionState)
		return nil, nil
	}
	return n, nil
}

// heartbeat records a heartbeat, and returns the work that waited for the agent, if any.
func (c *Conductor) heartbeat(tx *store.Tx, ident string, beat node.Heartbeat) (*runner.Job, error) {
	before, err := c.nodeOfHeartbeat(tx, tx.Node, ident, beat, func(n *node.Node) ([]netip.Addr, error) { return inventoryAddresses(tx, n) })
	if err != nil || before == nil {
		return nil, err
	}
	n := *before
	n.DriverInternalInfo = agent.WithHeartbeat(n.DriverInternalInfo, beat, tx.Now())
	resumed, err := c.resumeByHeartbeat(tx, &n)
	if err != nil {
		return nil, err
	}
	return resumed, tx.UpdateNode(before, &n)
}

// resumeByHeartbeat records that the ramdisk of a waiting node is alive, and resumes the work that
// waits for it, unless that work is suspended. A ramdisk posts its inventory before its first
// heartbeat. Therefore a heartbeat does not extend the wait of an inspection for the inventory.
func (c *Conductor) resumeByHeartbeat(tx *store.Tx, n *node.Node) (*runner.Job, error) {
	if n.ProvisionState.Class() != node.Waiting || n.ProvisionState == node.InspectWait {
		return nil, nil
	}
	n.ProvisionUpdatedAt = tx.Now()
	if waits, err := waitsForPerson(tx, n); waits || err != nil {
		return nil, err
	}
	return c.wakeParked(tx, n, runner.NoteHeartbeat)
}
