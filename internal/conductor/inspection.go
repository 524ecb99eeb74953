package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// callbackTokenSince is the microversion from which the inspection callback
// answers like a lookup.
const callbackTokenSince = 84

// discoveredKey marks the plugin data of discovered machines, where clients of
// the shipped API look for it.
const discoveredKey = "auto_discovered"

// ContinueInspection takes the document that a ramdisk posted. For the one node
// it speaks for, or for a new node of an unknown machine, it stores document,
// claims, state and the work of processing it in one commit and then answers;
// hooks run afterwards. Everything else is the same "not found"; the reason
// stands in the log.
func (c *Conductor) ContinueInspection(ctx context.Context, body []byte, nodeUUID string, version int) (answer *node.LookupAnswer, err error) {
	p := &post{askedUUID: nodeUUID, version: version}
	defer func() { c.observer.PostEnded(postOutcome(p.enrolled, err)) }()
	if !c.posts.AllowN(c.store.Now(), 1) {
		return nil, fmt.Errorf("take inspection data: more than %g posts a second (auto_discovery.rate): %w", c.cfg.Discovery.Rate, node.ErrBusy)
	}
	if p.document, err = inventory.Parse(body); err != nil {
		c.log.Info("Refused inspection data", "reason", err.Error())
		return nil, node.Invalid("Inspection data is not usable: %v", err)
	}
	if err := c.store.Write(ctx, func(tx *store.Tx) error { return c.takePost(tx, p) }); err != nil {
		c.forget(p)
		return nil, err
	}
	if p.job == nil {
		return nil, errNoMatch
	}
	c.enqueue(*p.job)
	c.log.Debug("Took inspection data", "node", p.answer.Node.UUID, "enrolled", p.enrolled)
	return p.answer, nil
}

// post is an inspection post on its way through the transaction.
type post struct {
	document  *inventory.Document
	askedUUID string
	version   int

	enrolled bool // counted as discovered; taken back when the commit fails
	answer   *node.LookupAnswer
	job      *job // nil when the post was refused
}

// takePost decides and writes. It may leave p.job nil: the post was refused, but
// a note about it may have been stored.
func (c *Conductor) takePost(tx *store.Tx, p *post) error {
	c.forget(p) // what an earlier run decided was not stored
	claims := inventoryClaims(&p.document.Hardware)
	facts, err := c.gatherFacts(tx, p.askedUUID, claims)
	if err != nil {
		return err
	}
	verdict := inspect.Decide(facts)
	switch {
	case verdict.Enrol:
		return c.enrol(tx, p, claims)
	case verdict.Accept != "":
		return c.accept(tx, p, verdict.Accept, claims)
	}
	c.log.Info("Refused inspection data", "reason", verdict.Refuse, "macs", p.document.Hardware.MACs())
	if verdict.Known == "" {
		return nil
	}
	return c.noteReboot(tx, verdict.Known)
}

// forget takes back what was decided about a post and not stored.
func (c *Conductor) forget(p *post) {
	if p.enrolled {
		c.discovered.Add(-1)
	}
	p.enrolled, p.answer, p.job = false, nil, nil
}

func (c *Conductor) gatherFacts(tx *store.Tx, askedUUID string, claims []store.Claim) (inspect.Facts, error) {
	facts := inspect.Facts{AskedUUID: askedUUID, Discovery: c.cfg.Discovery.Enabled}
	if askedUUID != "" {
		n, err := tx.Node(askedUUID)
		switch {
		case errors.Is(err, node.ErrNotFound):
		case err != nil:
			return facts, err
		case n.UUID == askedUUID: // a name is no answer to a question for a UUID
			facts.Asked = &inspect.Claimant{UUID: n.UUID, State: n.ProvisionState}
		}
	}
	matches, err := tx.MatchClaims(claims)
	if err != nil {
		return facts, err
	}
	for _, m := range matches {
		claimant := inspect.Claimant{UUID: m.UUID, State: m.State}
		if m.Kind == store.MAC {
			facts.ByMAC = append(facts.ByMAC, claimant)
		} else {
			facts.ByBMC = append(facts.ByBMC, claimant)
		}
	}
	return facts, nil
}

// enrol creates the node of an unknown machine. It stays in enroll until
// somebody manages it.
func (c *Conductor) enrol(tx *store.Tx, p *post, claims []store.Claim) error {
	// Counted here and not after the commit, which many posts share.
	if c.discovered.Add(1) > int64(c.cfg.Discovery.MaxNodes) {
		c.discovered.Add(-1)
		c.log.Warn("Refused to enrol an unknown machine", "reason", "auto_discovery.max_nodes is reached", "nodes", c.cfg.Discovery.MaxNodes)
		return fmt.Errorf("enrol machine: %d discovered nodes (auto_discovery.max_nodes): %w", c.cfg.Discovery.MaxNodes, node.ErrBusy)
	}
	p.enrolled = true
	interfaces, err := c.drivers.Resolve(c.cfg.Discovery.Driver, node.Interfaces{})
	if err != nil {
		return fmt.Errorf("enrol machine: %w", err)
	}
	n := &node.Node{
		UUID: uuid.NewString(), Driver: c.cfg.Discovery.Driver, Interfaces: interfaces,
		ConductorGroup: c.cfg.Group,
		ProvisionState: node.Enroll, ProvisionUpdatedAt: tx.Now(), InspectionStartedAt: tx.Now(),
		AutoDiscovered: true,
	}
	if p.answer = c.callbackAnswer(p, n); p.answer.Token != "" {
		n.DriverInternalInfo = agent.WithToken(n.DriverInternalInfo, p.answer.Token, tx.Now())
	}
	if err := tx.CreateNode(n); err != nil {
		return err
	}
	if err := c.record(tx, n, node.SeverityInfo, "discovery", "Enrolled: an unknown machine posted its inventory."); err != nil {
		return err
	}
	return c.storePost(tx, p, n, claims)
}

// accept goes on with the inspection of a node that waits for this post.
func (c *Conductor) accept(tx *store.Tx, p *post, ident string, claims []store.Claim) error {
	before, err := unleased(tx, ident)
	if err != nil {
		return err
	}
	n := *before
	if err := c.move(tx, &n, node.OnResume); err != nil {
		return err
	}
	if err := c.dropParked(tx, n.ID); err != nil {
		return err
	}
	if p.answer = c.callbackAnswer(p, &n); p.answer.Token != "" {
		n.DriverInternalInfo = agent.WithToken(n.DriverInternalInfo, p.answer.Token, tx.Now())
	}
	if err := tx.UpdateNode(before, &n); err != nil {
		return err
	}
	return c.storePost(tx, p, &n, claims)
}

// storePost stores the document, its claims and the work on it.
func (c *Conductor) storePost(tx *store.Tx, p *post, n *node.Node, claims []store.Claim) error {
	if p.enrolled {
		p.document.PluginData[discoveredKey] = json.RawMessage("true")
	} else {
		p.document.PluginData[discoveredKey] = json.RawMessage("false")
	}
	documentID, err := tx.AddDocument(n.ID, node.InspectionData{
		Inventory: p.document.Inventory, PluginData: inventory.AppendObject(nil, p.document.PluginData),
	})
	if err != nil {
		return err
	}
	if err := tx.ClaimInventory(n.ID, claims); err != nil {
		return err
	}
	p.job, err = c.startWork(tx, n.ID, workInspect, node.ObjectOf(map[string]any{documentIntent: documentID}))
	if err != nil {
		return err
	}
	p.job.document, p.job.node = p.document, n
	return nil
}

// callbackAnswer is what the ramdisk hears: from 1.84 it includes a token, which
// saves it the lookup.
func (c *Conductor) callbackAnswer(p *post, n *node.Node) *node.LookupAnswer {
	answer := &node.LookupAnswer{Node: n, HeartbeatTimeout: c.cfg.HeartbeatTimeout}
	if p.version >= callbackTokenSince {
		answer.Token = agent.NewToken()
	}
	return answer
}

// inventoryClaims lists every address that a document ties to its node.
func inventoryClaims(hardware *inventory.Inventory) []store.Claim {
	claims := macClaims(hardware.MACs())
	for _, address := range hardware.BMCAddresses() {
		claims = append(claims, store.Claim{Kind: store.BMC, Address: address.String()})
	}
	return claims
}
