package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

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

// documentIntent is the key of the document in the intent of inspection work.
const documentIntent = "document"

// runInspect runs the hooks over a posted document and commits their result. It
// may run again at any point: nothing is written before the end.
func (c *Conductor) runInspect(ctx context.Context, j job) error {
	var documentID int64
	if !j.Intent.Get(documentIntent, &documentID) {
		return c.fail(ctx, j, "Failed to finish inspection: the work names no document.")
	}
	input, err := c.inspectionInput(ctx, j, documentID)
	if err != nil {
		return err
	}
	result, err := c.pipeline.Run(input)
	if err != nil {
		return c.fail(ctx, j, fmt.Sprintf("Failed to finish inspection: %v", err))
	}
	for _, skipped := range result.Skipped {
		c.log.Info("Inspection passed over a part of the data", "node_id", j.NodeID, "reason", skipped)
	}
	return c.finish(ctx, j, func(tx *store.Tx, n *node.Node) error {
		if len(result.Properties) > 0 {
			n.Properties = n.Properties.With(result.Properties)
		}
		n.InspectionFinishedAt = tx.Now()
		n.LastError = ""
		if n.ProvisionState == node.Inspecting {
			if err := c.move(tx, n, node.OnDone); err != nil {
				return err
			}
		}
		if err := c.storePorts(tx, n, result); err != nil {
			return err
		}
		return tx.FinishInspection(n.ID, documentID, result.PluginData)
	})
}

// inspectionInput reads what the hooks need.
func (c *Conductor) inspectionInput(ctx context.Context, j job, documentID int64) (inspect.Input, error) {
	input := inspect.Input{Document: j.document, Logger: c.log}
	err := c.store.Read(ctx, func(tx *store.Tx) error {
		if input.Document == nil {
			data, err := tx.Document(documentID)
			if err != nil {
				return err
			}
			if input.Document, err = inventory.Restore(data.Inventory, data.PluginData); err != nil {
				return fmt.Errorf("read stored inspection document %d: %w", documentID, err)
			}
		}
		n := j.node
		if n == nil {
			var err error
			if n, err = tx.NodeByID(j.NodeID); err != nil {
				return err
			}
		}
		input.Properties = n.Properties
		ports, err := tx.PortsOf(n.ID)
		if err != nil {
			return err
		}
		for _, p := range ports {
			input.Ports = append(input.Ports, inspect.Port{
				UUID: p.UUID, Address: p.Address, PXEEnabled: p.PXEEnabled, Extra: p.Extra,
				LocalLinkConnection: p.LocalLinkConnection, PhysicalNetwork: p.PhysicalNetwork,
			})
		}
		if c.pipeline.ReadsPrevious() {
			if input.Previous, err = previousInventory(tx, n); err != nil {
				return err
			}
		}
		taken, err := tx.PortOwners(input.Document.Hardware.MACs())
		maps.DeleteFunc(taken, func(_, owner string) bool { return owner == n.UUID })
		input.Taken = taken
		return err
	})
	return input, err
}

// previousInventory returns the inventory of the node's last successful
// inspection, nil when there was none.
func previousInventory(tx *store.Tx, n *node.Node) (*inventory.Inventory, error) {
	data, err := tx.Inspection(n)
	if errors.Is(err, node.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	hardware, err := inventory.ParseInventory(data.Inventory)
	if err != nil {
		return nil, fmt.Errorf("read previous inventory of node %s: %w", n.UUID, err)
	}
	return hardware, nil
}

// storePorts writes the ports that hooks created, changed and deleted.
func (c *Conductor) storePorts(tx *store.Tx, n *node.Node, result *inspect.Result) error {
	created := make([]*node.Port, len(result.PortsToCreate))
	for i, p := range result.PortsToCreate {
		id, err := portUUID()
		if err != nil {
			return err
		}
		created[i] = &node.Port{UUID: id, Address: p.Address}
		setPort(created[i], p)
	}
	if err := tx.AddPorts(n.ID, created); err != nil {
		return err
	}
	for _, changed := range result.PortsToUpdate {
		before, err := tx.Port(changed.UUID)
		if err != nil {
			return err
		}
		after := *before
		setPort(&after, changed)
		if err := tx.UpdatePort(before, &after); err != nil {
			return err
		}
	}
	for _, gone := range result.PortsToDelete {
		p, err := tx.Port(gone.UUID)
		if err != nil {
			return err
		}
		if err := tx.DeletePort(p); err != nil {
			return err
		}
	}
	return nil
}

// setPort gives a port what hooks decided about it.
func setPort(stored *node.Port, decided inspect.Port) {
	stored.PXEEnabled, stored.Extra = decided.PXEEnabled, decided.Extra
	stored.LocalLinkConnection, stored.PhysicalNetwork = decided.LocalLinkConnection, decided.PhysicalNetwork
}

// portUUID returns a UUID that begins with the time (RFC 9562, version 7). Ports
// that are stored together then stand together in the index by UUID, and a storm
// of machines changes fewer of its pages.
func portUUID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a UUID for a port: %w", err)
	}
	return id.String(), nil
}

// inventoryClaims lists every address that a document ties to its node.
func inventoryClaims(hardware *inventory.Inventory) []store.Claim {
	claims := macClaims(hardware.MACs())
	for _, address := range hardware.BMCAddresses() {
		claims = append(claims, store.Claim{Kind: store.BMC, Address: address.String()})
	}
	return claims
}
