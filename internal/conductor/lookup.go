package conductor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// errNoMatch is the answer to every ramdisk that is refused, so that nobody can tell an unknown
// machine from an ambiguous one or from a node in the wrong state.
var errNoMatch = &node.NotFoundError{Kind: "Node", Ident: "for this machine"}

// Lookup returns the node that a ramdisk runs on, with a new agent token when one is
// due. Requests are not authenticated, so only a new token costs a write. When a token
// may be replaced, the agent that has it is called first, between two transactions.
func (c *Conductor) Lookup(ctx context.Context, request node.LookupRequest) (*node.LookupAnswer, error) {
	answer := &node.LookupAnswer{HeartbeatTimeout: c.cfg.HeartbeatTimeout}
	var call agent.Call
	err := c.whenFree(ctx, func() error {
		var due agent.TokenAnswer
		read := func(tx *store.Tx) (err error) {
			answer.Node, due, err = c.lookup(tx, tx.NodeOfAgent, request, call)
			if err == nil && due == agent.MaskToken {
				answer.Node, err = tx.Node(answer.Node.UUID)
			}
			return err
		}
		err := c.store.Read(ctx, read)
		if err == nil && due == agent.CallAgent {
			call = c.calls.call(ctx, answer.Node, request.Source)
			err = c.store.Read(ctx, read) // again: a heartbeat may have come meanwhile
		}
		if err != nil || due == agent.MaskToken {
			return err
		}
		found := request
		found.NodeUUID = answer.Node.UUID // the addresses have led to it
		return c.store.Write(ctx, func(tx *store.Tx) (err error) {
			answer.Node, answer.Token, err = c.lookupToken(tx, found, call)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	answer.SkipBMCDetect = c.drivers.Attributes(answer.Node).SkipBMCDetect
	return answer, nil
}

// lookup returns the node of a ramdisk, as find reads it, and whether it gets a token.
func (c *Conductor) lookup(tx *store.Tx, find nodeFinder, request node.LookupRequest, call agent.Call) (*node.Node, agent.TokenAnswer, error) {
	ident, err := c.lookupIdent(tx, request)
	if err != nil {
		return nil, agent.MaskToken, err
	}
	n, err := find(ident)
	if errors.Is(err, node.ErrNotFound) || err == nil && n.UUID != ident {
		c.refuseLookup(tx, "no such node", slog.String("node", ident))
		return nil, agent.MaskToken, errNoMatch
	}
	if err != nil {
		return nil, agent.MaskToken, err
	}
	if !agent.MayLookUp(n.ProvisionState, agent.FastTrack(n, c.drivers.Attributes(n), c.cfg.FastTrack)) {
		c.refuseLookup(tx, "state does not allow it", slog.String("node", n.UUID), slog.String("state", string(n.ProvisionState)))
		return nil, agent.MaskToken, errNoMatch
	}
	due := agent.MaskToken
	if request.WantsToken {
		due = agent.DecideToken(n, c.drivers.Attributes(n), tx.Now(), c.cfg.HeartbeatTimeout, call)
	}
	if due == agent.MaskToken && agent.CommandRuns(n) {
		return n, due, nil // even under a lease: the work on the node waits for this agent
	}
	if err := checkChangeable(tx, n); err != nil {
		return nil, agent.MaskToken, err
	}
	if due == agent.RetryLater {
		return nil, due, c.deferLookup(tx, n, call)
	}
	return n, due, nil
}

// deferLookup returns the error for a ramdisk that must ask again, because the token of
// the node is not replaced now.
func (c *Conductor) deferLookup(tx *store.Tx, n *node.Node, call agent.Call) error {
	c.refusals.Log(tx.Now(), slog.LevelInfo, "Deferred lookup: the agent that has the token may live", slog.String("node", n.UUID),
		slog.Duration("silence", agent.Silence(n, tx.Now())), slog.String("call", string(call.Reply)))
	return finalLockError{&node.LockedError{Node: n.UUID, Holder: c.cfg.Hostname}}
}

// lookupIdent returns the UUID of the node that the request matches.
func (c *Conductor) lookupIdent(tx *store.Tx, request node.LookupRequest) (string, error) {
	if request.NodeUUID != "" {
		return request.NodeUUID, nil
	}
	found, err := matchMachine(tx, request.Addresses, node.IdentifyingMACs(request.Addresses, ""))
	if err != nil {
		return "", err
	}
	matches := inspect.Prevailing(claimants(found))
	if len(matches) != 1 {
		c.refuseLookup(tx, "addresses do not belong to exactly one node", slog.Int("nodes", len(matches)), shown(request.Addresses))
		return "", errNoMatch
	}
	return matches[0].UUID, nil
}

// refuseLookup logs why a lookup is refused.
func (c *Conductor) refuseLookup(tx *store.Tx, reason string, attrs ...slog.Attr) {
	c.refusals.Log(tx.Now(), slog.LevelInfo, "Refused lookup", append(attrs, slog.String("reason", reason))...)
}

// lookupToken is lookup that also makes and stores the token that is due. An empty token means that
// the agent must have it already.
func (c *Conductor) lookupToken(tx *store.Tx, request node.LookupRequest, call agent.Call) (*node.Node, string, error) {
	before, due, err := c.lookup(tx, tx.Node, request, call)
	switch {
	case err != nil || due == agent.MaskToken: // another lookup was faster
		return before, "", err
	case due == agent.CallAgent: // another lookup got a token during the call
		return nil, "", c.deferLookup(tx, before, agent.Call{})
	}
	n := *before
	if due == agent.ReissueToken {
		if err := c.recordHistory(tx, &n, node.SeverityInfo, "agent", reissued(before, request, tx.Now())); err != nil {
			return nil, "", err
		}
	}
	token := agent.NewToken()
	n.DriverInternalInfo = agent.WithToken(n.DriverInternalInfo, token, tx.Now())
	return &n, token, tx.UpdateNode(before, &n)
}

// AwaitsRamdisk reports whether the node waits for its ramdisk.
func (c *Conductor) AwaitsRamdisk(ctx context.Context, uuid string) (awaits bool, err error) {
	err = c.store.Read(ctx, func(tx *store.Tx) error {
		n, err := tx.Node(uuid)
		if err == nil {
			awaits = n.UUID == uuid && n.ProvisionState.Class() == node.Waiting
		}
		return err
	})
	return awaits, err
}

// reissued returns the text for the history about why a token was replaced, and for whom.
func reissued(n *node.Node, request node.LookupRequest, now time.Time) string {
	source, was := "an unknown address", "never sent a heartbeat"
	if request.Source.IsValid() {
		source = request.Source.String()
	}
	if url := agent.EndpointOf(n).URL; url != "" {
		was = "did not answer at " + url
	}
	return fmt.Sprintf("A lookup from %s got a new agent token, and the old one is void: its agent was silent for %s and %s.",
		source, agent.Silence(n, now).Round(time.Second), was)
}

// matchMachine returns the nodes that claim addresses of one machine. MAC addresses that do not
// identify the machine count only if no other MAC address leads to a registered node, and only for
// registered nodes that are known by a port with such an address. A provisional node does not end the
// search: anybody may have made it with an address of the machine.
func matchMachine(tx *store.Tx, macs, identifying []string, bmcs ...store.Claim) ([]store.ClaimMatch, error) {
	registered := func(m store.ClaimMatch) bool { return m.Kind == store.MAC && !m.Provisional }
	matches, err := tx.MatchClaims(slices.Concat(macClaims(identifying), bmcs))
	if err != nil || len(identifying) == len(macs) || slices.ContainsFunc(matches, registered) {
		return matches, err
	}
	shared, err := tx.MatchClaims(macClaims(macs))
	if err != nil {
		return matches, err
	}
	for _, m := range shared {
		if !m.Port || m.Provisional {
			continue
		}
		known, err := knownByPort(tx, m.NodeID, macs)
		if err != nil {
			return matches, err
		}
		if known {
			matches = append(matches, m)
		}
	}
	return matches, nil
}

// knownByPort reports whether a node is known by one of these addresses of its ports, although
// other machines may have the same address. That is so when none of the node's addresses identifies
// one machine, or when the node boots from such a port and from no port whose address does. Ports
// that it does not boot from do not count: earlier releases created ports for all addresses, so
// these ports may have the addresses of links to BMCs, from which no machine boots.
func knownByPort(tx *store.Tx, nodeID int64, macs []string) (bool, error) {
	own, err := tx.MACsOf(nodeID)
	if err != nil || !slices.ContainsFunc(own, identifies) {
		return err == nil, err
	}
	ports, err := tx.PortsOf(nodeID)
	if err != nil {
		return false, err
	}
	var boots []string
	for _, p := range ports {
		if p.PXEEnabled {
			boots = append(boots, p.Address)
		}
	}
	isAsked := func(mac string) bool { return slices.Contains(macs, mac) }
	return slices.ContainsFunc(boots, isAsked) && !slices.ContainsFunc(boots, identifies), nil
}

func identifies(mac string) bool { return !node.MayBeShared(mac) }

func macClaims(macs []string) []store.Claim {
	claims := make([]store.Claim, len(macs))
	for i, mac := range macs {
		claims[i] = store.Claim{Kind: store.MAC, Address: mac}
	}
	return claims
}
