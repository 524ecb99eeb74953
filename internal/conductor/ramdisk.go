package conductor

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// tokenSince is the microversion from which a lookup hands out tokens.
const tokenSince = 62

// errNoMatch is what a ramdisk hears whenever it is not to be served: unknown,
// ambiguous and in the wrong state look the same.
var errNoMatch = &node.NotFoundError{Kind: "Node", Ident: "for this machine"}

// Lookup tells a ramdisk which node it runs on, and hands out the agent token
// when one is due.
func (c *Conductor) Lookup(ctx context.Context, request node.LookupRequest) (*node.LookupAnswer, error) {
	var answer *node.LookupAnswer
	err := c.retryLocked(ctx, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) (err error) {
			answer, err = c.lookup(tx, request)
			return err
		})
	})
	return answer, err
}

func (c *Conductor) lookup(tx *store.Tx, request node.LookupRequest) (*node.LookupAnswer, error) {
	ident, err := c.lookupIdent(tx, request)
	if err != nil {
		return nil, err
	}
	before, err := tx.Node(ident)
	if errors.Is(err, node.ErrNotFound) || err == nil && before.UUID != ident {
		c.refuseLookup(tx, "no such node", slog.String("node", ident))
		return nil, errNoMatch
	}
	if err != nil {
		return nil, err
	}
	if !agent.MayLookUp(before.ProvisionState, agent.FastTrack(before, c.cfg.FastTrack)) {
		c.refuseLookup(tx, "state does not allow it", slog.String("node", before.UUID), slog.String("state", string(before.ProvisionState)))
		return nil, errNoMatch
	}
	if before.Lease.Held(tx.Now()) {
		return nil, &node.LockedError{Node: before.UUID, Owner: before.Lease.Owner}
	}
	n := *before
	answer := &node.LookupAnswer{Node: &n, HeartbeatTimeout: c.cfg.HeartbeatTimeout}
	if request.Version < tokenSince {
		return answer, nil
	}
	if answer.Token, err = c.issueToken(tx, &n); err != nil {
		return nil, err
	}
	return answer, tx.UpdateNode(before, &n)
}

// lookupIdent returns the UUID of the node that the request means.
func (c *Conductor) lookupIdent(tx *store.Tx, request node.LookupRequest) (string, error) {
	if request.NodeUUID != "" {
		return request.NodeUUID, nil
	}
	matches, err := tx.MatchClaims(macClaims(request.Addresses))
	if err != nil {
		return "", err
	}
	if len(matches) != 1 {
		c.refuseLookup(tx, "addresses do not belong to exactly one node", slog.Int("nodes", len(matches)), shown(request.Addresses))
		return "", errNoMatch
	}
	return matches[0].UUID, nil
}

// refuseLookup notes why a ramdisk is sent away.
func (c *Conductor) refuseLookup(tx *store.Tx, reason string, attrs ...slog.Attr) {
	c.refusals.note(tx.Now(), slog.LevelInfo, "Refused lookup", append(attrs, slog.String("reason", reason))...)
}

// issueToken gives the node a new token if one is due, and returns it; "" means
// that the agent must have it already.
func (c *Conductor) issueToken(tx *store.Tx, n *node.Node) (string, error) {
	switch agent.DecideToken(n, tx.Now(), c.cfg.HeartbeatTimeout) {
	case agent.RetryLater:
		c.refusals.note(tx.Now(), slog.LevelInfo, "Deferred lookup until the earlier agent is surely gone", slog.String("node", n.UUID))
		return "", &node.LockedError{Node: n.UUID, Owner: c.cfg.Hostname}
	case agent.MaskToken:
		return "", nil
	case agent.ReissueToken:
		if err := c.record(tx, n, node.SeverityInfo, "agent",
			"The machine started its ramdisk again: its agent got a new token, the old one is void."); err != nil {
			return "", err
		}
	case agent.IssueToken:
	}
	token := agent.NewToken()
	n.DriverInternalInfo = agent.WithToken(n.DriverInternalInfo, token, tx.Now())
	return token, nil
}

// Heartbeat records a sign of life of a node's agent.
func (c *Conductor) Heartbeat(ctx context.Context, ident string, beat node.Heartbeat) error {
	var called *job
	err := c.retryLocked(ctx, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) (err error) {
			called, err = c.heartbeat(tx, ident, beat)
			return err
		})
	})
	if err == nil {
		c.enqueueStarted(called)
	}
	return err
}

// heartbeat returns the work that waited for the agent, if any.
func (c *Conductor) heartbeat(tx *store.Tx, ident string, beat node.Heartbeat) (*job, error) {
	before, err := tx.Node(ident)
	if err != nil {
		return nil, err
	}
	addresses := func() ([]netip.Addr, error) { return inventoryAddresses(tx, before) }
	if err := agent.CheckHeartbeat(before, beat, c.cfg.AgentRules, addresses); err != nil {
		c.refusals.note(tx.Now(), slog.LevelWarn, "Refused heartbeat", slog.String("node", before.UUID), slog.Any("err", err))
		return nil, err
	}
	if before.Lease.Held(tx.Now()) {
		return nil, &node.LockedError{Node: before.UUID, Owner: before.Lease.Owner}
	}
	if !agent.Records(before.ProvisionState) {
		c.log.Debug("Ignored heartbeat", "node", before.UUID, "state", before.ProvisionState)
		return nil, nil
	}
	n := *before
	n.DriverInternalInfo = agent.WithHeartbeat(n.DriverInternalInfo, beat, tx.Now())
	called, err := c.heard(tx, &n)
	if err != nil {
		return nil, err
	}
	return called, tx.UpdateNode(before, &n)
}

// heard shows that a waiting node's ramdisk lives, and takes up the work that
// waits for it. A ramdisk posts its inventory before its first heartbeat: one that
// is heard while that is awaited will not post, and prolongs nothing.
func (c *Conductor) heard(tx *store.Tx, n *node.Node) (*job, error) {
	if n.ProvisionState.Class() != node.Waiting || n.ProvisionState == node.InspectWait {
		return nil, nil
	}
	n.ProvisionUpdatedAt = tx.Now()
	return c.callWork(tx, n, func(p *progress) bool {
		wanted := p.Callback
		p.Called = wanted
		return wanted
	})
}

func macClaims(macs []string) []store.Claim {
	claims := make([]store.Claim, len(macs))
	for i, mac := range macs {
		claims[i] = store.Claim{Kind: store.MAC, Address: mac}
	}
	return claims
}

// noteReboot records that a known machine posted an inventory, which it does
// when its ramdisk has started anew. Only machines without a BMC need it, see
// agent.DecideToken.
func (c *Conductor) noteReboot(tx *store.Tx, uuid string) error {
	before, err := tx.Node(uuid)
	if err != nil || agent.HasBMC(before) || before.Lease.Held(tx.Now()) || before.DriverInternalInfo.Text(agent.TokenKey) == "" {
		return err
	}
	seen, err := time.Parse(time.RFC3339Nano, before.DriverInternalInfo.Text(agent.RebootSeenKey))
	if err == nil && seen.After(agent.LastHeartbeat(before)) {
		return nil // noted already; further posts must not cost a write
	}
	n := *before
	n.DriverInternalInfo = agent.WithRebootSeen(n.DriverInternalInfo, tx.Now())
	return tx.UpdateNode(before, &n)
}
