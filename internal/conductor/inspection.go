package conductor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

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

// inspectionScopeKey is the property that tells inspection rules of others which
// nodes are theirs.
const inspectionScopeKey = "inspection_scope"

// ContinueInspection takes the document that a ramdisk posted. For the one node
// it speaks for, or for a new node of an unknown machine, it stores document,
// claims, state and the work of processing it in one commit and then answers;
// hooks run afterwards. Everything else is the same "not found"; the reason
// stands in the log.
func (c *Conductor) ContinueInspection(ctx context.Context, posted node.InspectionPost) (answer *node.LookupAnswer, err error) {
	p := &post{InspectionPost: posted}
	defer func() { c.observer.PostEnded(postOutcome(p.enrolled, err)) }()
	if now := c.store.Now(); !c.posts.AllowN(now, 1) {
		c.refuse(now, p, slog.LevelWarn, "there are more posts than auto_discovery.rate allows")
		return nil, fmt.Errorf("take inspection data: more than %g posts a second (auto_discovery.rate): %w", c.cfg.Discovery.Rate, node.ErrBusy)
	}
	if p.document, err = inventory.Parse(p.Body); err != nil {
		c.refuse(c.store.Now(), p, slog.LevelInfo, err.Error())
		return nil, node.Invalid("Inspection data is not usable: %v", err)
	}
	if err := c.store.Write(ctx, func(tx *store.Tx) error { return c.takePost(tx, p) }); err != nil {
		c.forget(p)
		if isLocked(err) {
			c.refuse(c.store.Now(), p, slog.LevelInfo, err.Error())
		}
		return nil, err
	}
	if p.job == nil {
		return nil, errNoMatch
	}
	c.enqueue(*p.job)
	if p.enrolled {
		c.log.LogAttrs(ctx, slog.LevelInfo, "Enrolled an unknown machine",
			slog.String("node", p.answer.Node.UUID), slog.Any("source", p.Source), shown(p.document.Hardware.MACs()))
	} else {
		c.log.Debug("Took inspection data", "node", p.answer.Node.UUID, "source", p.Source)
	}
	return p.answer, nil
}

// post is an inspection post on its way through the transaction.
type post struct {
	node.InspectionPost
	document *inventory.Document

	enrolled bool // counted as discovered; counted anew when the commit fails
	answer   *node.LookupAnswer
	job      *job // nil when the post was refused
}

// refuse notes why a machine is sent away.
func (c *Conductor) refuse(now time.Time, p *post, level slog.Level, reason string) {
	attrs := []slog.Attr{slog.String("reason", reason), slog.Any("source", p.Source)}
	if p.NodeUUID != "" {
		attrs = append(attrs, slog.String("node_uuid", p.NodeUUID))
	}
	if p.document != nil {
		attrs = append(attrs, shown(p.document.Hardware.MACs()))
	}
	c.refusals.note(now, level, "Refused inspection data", attrs...)
}

// takePost decides and writes. It may leave p.job nil: the post was refused, but
// a note about it may have been stored.
func (c *Conductor) takePost(tx *store.Tx, p *post) error {
	c.forget(p) // what an earlier run decided was not stored
	claims := inventoryClaims(&p.document.Hardware)
	facts, err := c.gatherFacts(tx, p.NodeUUID, claims)
	if err != nil {
		return err
	}
	verdict := inspect.Decide(facts)
	if verdict.Enrol {
		if verdict.Refuse = c.refusesUnknown(p); verdict.Refuse == "" {
			return c.enrol(tx, p, claims)
		}
	}
	if verdict.Accept != "" {
		return c.accept(tx, p, verdict.Accept, claims)
	}
	c.refuse(tx.Now(), p, slog.LevelInfo, verdict.Refuse)
	if verdict.Known == "" {
		return nil
	}
	if err := c.starting(tx, verdict.Known); err != nil {
		return err
	}
	return c.noteReboot(tx, verdict.Known)
}

// starting returns a *node.LockedError while a conductor starts the ramdisk of a
// node: the machine was quicker and shall try again.
func (c *Conductor) starting(tx *store.Tx, uuid string) error {
	n, err := tx.Node(uuid)
	if err != nil || n.ProvisionState != node.Inspecting {
		return err
	}
	works, err := tx.WorkOf(n.ID)
	if err == nil && slices.ContainsFunc(works, func(w *store.Work) bool { return w.Kind == workLook }) {
		err = &node.LockedError{Node: n.UUID, Owner: cmp.Or(n.Lease.Owner, c.cfg.Hostname)}
	}
	return err
}

// Bounds of inspection data, in bytes.
const (
	maxUnknownDocument = 4 << 20   // of a machine that nobody registered: anybody can make one up
	keptDocument       = 256 << 10 // that stays in memory until its work begins; see keepDocuments
)

// refusesUnknown returns why an unknown machine is not enrolled, "" when it is.
func (c *Conductor) refusesUnknown(p *post) string {
	if size := documentSize(p.document); size > maxUnknownDocument {
		return fmt.Sprintf("no node matches, and its data of %d bytes is more than the %d that an unknown machine may leave here", size, maxUnknownDocument)
	}
	return c.cfg.Discovery.Allow.Refuses(&p.document.Hardware, p.Source)
}

// documentSize is about how much of a document is stored.
func documentSize(document *inventory.Document) int {
	size := len(document.Inventory)
	for key, value := range document.PluginData {
		size += len(key) + len(value)
	}
	return size
}

// forget takes back what was decided about a post and not stored.
func (c *Conductor) forget(p *post) {
	if p.enrolled {
		c.discovered.forget()
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
	matches, err := tx.MatchClaims(askedClaims(claims))
	if err != nil {
		return facts, err
	}
	for _, m := range matches {
		claimant := inspect.Claimant{UUID: m.UUID, State: m.State}
		switch m.Kind {
		case store.MAC:
			facts.ByMAC = append(facts.ByMAC, claimant)
		case store.InspectedBMC:
			facts.Inspected = append(facts.Inspected, claimant)
		case store.BMC:
			facts.BMCOwners = append(facts.BMCOwners, claimant)
		}
	}
	return facts, nil
}

// askedClaims returns what a document claims, and asks for each BMC address which
// inspection waits for it.
func askedClaims(claims []store.Claim) []store.Claim {
	asked := claims
	for _, claim := range claims {
		if claim.Kind == store.BMC {
			asked = append(asked[:len(asked):len(asked)], store.Claim{Kind: store.InspectedBMC, Address: claim.Address})
		}
	}
	return asked
}

// enrol creates the node of an unknown machine. It stays in enroll until
// somebody manages it.
func (c *Conductor) enrol(tx *store.Tx, p *post, claims []store.Claim) error {
	room, err := c.discovered.room(tx, c.cfg.Discovery.MaxNodes)
	if err != nil {
		return err
	}
	if room <= 0 {
		c.refuse(tx.Now(), p, slog.LevelWarn, "it is unknown, and auto_discovery.max_nodes is reached")
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
	if c.cfg.Discovery.Scope != "" {
		n.Properties = node.ObjectOf(map[string]any{inspectionScopeKey: c.cfg.Discovery.Scope})
	}
	c.answerPost(tx, p, n)
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
	c.answerPost(tx, p, &n)
	if err := tx.UpdateNode(before, &n); err != nil {
		return err
	}
	if err := tx.DropUnused(n.ID); err != nil {
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
	p.job, err = c.startWork(tx, n, workInspect, node.ObjectOf(map[string]any{documentIntent: documentID}))
	if err != nil {
		return err
	}
	if p.job.node = n; documentSize(p.document) <= keptDocument {
		p.job.document = p.document
	}
	return nil
}

// answerPost decides what the ramdisk hears. Its start made every token void that
// an earlier one was given: from 1.84 the answer brings a new one, which saves the
// lookup, and before that its lookup gets one.
func (c *Conductor) answerPost(tx *store.Tx, p *post, n *node.Node) {
	p.answer = &node.LookupAnswer{Node: n, HeartbeatTimeout: c.cfg.HeartbeatTimeout}
	if p.Version < callbackTokenSince {
		n.DriverInternalInfo = n.DriverInternalInfo.Without(agentKeys...)
		return
	}
	p.answer.Token = agent.NewToken()
	n.DriverInternalInfo = agent.WithToken(n.DriverInternalInfo, p.answer.Token, tx.Now())
}

// inventoryClaims lists every address that a document ties to its node.
func inventoryClaims(hardware *inventory.Inventory) []store.Claim {
	claims := macClaims(hardware.MACs())
	for _, address := range hardware.BMCAddresses() {
		claims = append(claims, store.Claim{Kind: store.BMC, Address: address.String()})
	}
	return claims
}
