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

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// discoveredKey marks the plugin data of inspections that enrolled their machine, as clients of
// Ironic expect it. No other plugin data has that key.
const discoveredKey = "auto_discovered"

// inspectionScopeKey is the property by which inspection rules of other software
// select nodes.
const inspectionScopeKey = "inspection_scope"

// ContinueInspection accepts the inspection document that a ramdisk posted. The document is for the
// one node that it matches, or for a new node when the machine is unknown. One commit stores the
// document, the claims, the state and the work that processes the document. The ramdisk is answered
// after that commit; the hooks run later. Every refusal is the same "not found" to the machine; the
// log has the reason.
func (c *Conductor) ContinueInspection(ctx context.Context, posted node.InspectionPost) (answer *node.LookupAnswer, err error) {
	p := &post{InspectionPost: posted}
	defer func() { c.observer.PostEnded(postOutcome(p.enrolled, err)) }()
	if p.document, err = inventory.Parse(p.Body); err != nil {
		c.refuse(c.store.Now(), p, slog.LevelInfo, err.Error())
		return nil, node.Invalid("Inspection data is not usable: %v", err)
	}
	if err := c.whenFree(ctx, func() error { return c.writePost(ctx, p) }); err != nil {
		c.clearDecided(p)
		if isLocked(err) {
			c.refuse(c.store.Now(), p, slog.LevelInfo, err.Error())
		}
		return nil, err
	}
	c.runner.Enqueue(p.job)
	c.clearDeleted(p.transfer)
	c.observer.AddressesLeftOut(p.leftOut)
	c.keepPostedLogs(ctx, p)
	if p.enrolled {
		c.refusals.Log(c.store.Now(), slog.LevelInfo, "Enrolled an unknown machine", slog.String("node", p.answer.Node.UUID),
			slog.Any("source", p.Source), shown(p.document.Hardware.MACs()), slog.Int("addresses_left_out", p.leftOut))
	} else {
		c.log.Debug("Accepted inspection data", "node", p.answer.Node.UUID, "source", p.Source)
	}
	return p.answer, nil
}

// writePost decides about the post in a transaction. An unknown machine that exceeds the enrolment
// rate waits for its turn outside the transaction, and then a new transaction decides anew.
func (c *Conductor) writePost(ctx context.Context, p *post) error {
	take := func() error {
		p.asked = time.Now()
		return c.store.Write(ctx, func(tx *store.Tx) error { return c.takePost(tx, p) })
	}
	err := take()
	if !errors.Is(err, errEnrolmentRate) {
		return err
	}
	if !fairqueue.Release(ctx) {
		return errWaiters
	}
	if err := c.enrolments.wait(ctx, c.store.Now, p.Source); err != nil {
		c.refuse(c.store.Now(), p, slog.LevelWarn, err.Error())
		return fmt.Errorf("enrol machine: %w: %w", err, node.ErrBusy)
	}
	p.mayEnrol = true
	return take()
}

// post is an inspection post and what the transaction decides about it.
type post struct {
	node.InspectionPost
	document *inventory.Document
	asked    time.Time // when the transaction was asked for

	mayEnrol bool              // the machine is among those that auto_discovery.rate allows
	enrolled bool              // counted as discovered; counted anew when the commit fails
	macs     []string          // that the node claims
	leftOut  int               // how many more the machine has, which a provisional node may not claim
	kept     map[string]string // MAC addresses that other registered nodes keep, with their UUIDs
	transfer *macTransfer      // nil when an unknown machine was enrolled
	answer   *node.LookupAnswer
	job      *runner.Job // nil when the post waits with suspended work
}

// refuse logs why a post is refused.
func (c *Conductor) refuse(now time.Time, p *post, level slog.Level, reason string) {
	attrs := []slog.Attr{slog.String("reason", reason), slog.Any("source", p.Source)}
	if p.NodeUUID != "" {
		attrs = append(attrs, slog.String("node_uuid", p.NodeUUID))
	}
	if p.document != nil {
		attrs = append(attrs, shown(p.document.Hardware.MACs()))
	}
	c.refusals.Log(now, level, "Refused inspection data", attrs...)
}

// takePost decides about the post and stores the outcome. Its error is errNoMatch when the post
// matches no node and the machine is not enrolled.
func (c *Conductor) takePost(tx *store.Tx, p *post) error {
	c.clearDecided(p) // an earlier attempt of the transaction stored nothing
	facts, err := c.gatherFacts(tx, p.NodeUUID, &p.document.Hardware)
	if err != nil {
		return err
	}
	verdict := inspect.Decide(facts)
	if verdict.Enrol {
		if verdict.Refuse = c.refusesUnknown(p); verdict.Refuse == "" {
			if !p.mayEnrol && !c.enrolments.take(tx.Now()) {
				return errEnrolmentRate
			}
			p.mayEnrol = true
			return c.enrol(tx, p)
		}
	}
	if verdict.Accept != "" {
		return c.accept(tx, p, verdict)
	}
	if verdict.Known != "" {
		if err := c.starting(tx, verdict.Known); err != nil {
			return err
		}
	}
	c.refuse(tx.Now(), p, slog.LevelInfo, verdict.Refuse)
	return errNoMatch
}

// starting returns a *node.LockedError while a conductor is still starting the ramdisk of the node:
// the machine was faster than the conductor and must try again. The error is a finalLockError when
// no conductor holds the node, because then there is no end of work to wait for.
func (c *Conductor) starting(tx *store.Tx, uuid string) error {
	n, err := tx.Node(uuid)
	if err != nil || n.ProvisionState != node.Inspecting {
		return err
	}
	works, err := tx.WorkOf(n.ID)
	if err == nil && slices.ContainsFunc(works, func(w *store.Work) bool { return w.Kind == workInspect || w.Kind == oldInspect }) {
		locked := &node.LockedError{Node: n.UUID, Holder: cmp.Or(n.Lease.Holder, c.cfg.Hostname)}
		switch {
		case n.Lease.Suspended():
			err = n.Locked()
		case n.Lease.InForce(tx.Now()):
			err = locked
		default:
			err = finalLockError{locked}
		}
	}
	return err
}

// Bounds of inspection data, in bytes. A document of up to maxHintDocument stays in memory until its
// work begins; a larger one is read again then.
const (
	maxUnknownDocument = 4 << 20   // of unknown machines, which anybody can invent
	maxHintDocument    = 256 << 10 // larger ones do not stay in memory, see runner.Runner.Enqueue
)

// refusesUnknown returns why an unknown machine is not enrolled, "" when it may be.
func (c *Conductor) refusesUnknown(p *post) string {
	if size := documentSize(p.document); size > maxUnknownDocument {
		return fmt.Sprintf("no node matches, and its data has %d bytes; the limit for unknown machines is %d", size, maxUnknownDocument)
	}
	return c.cfg.Discovery.Allow.Refuses(&p.document.Hardware, p.Source)
}

// documentSize is the approximate size of a document as it is stored, in bytes.
func documentSize(document *inventory.Document) int {
	size := len(document.Inventory)
	for key, value := range document.PluginData {
		size += len(key) + len(value)
	}
	return size
}

// clearDecided resets what was decided about a post but not stored.
func (c *Conductor) clearDecided(p *post) {
	if p.enrolled {
		c.discovered.markStale()
	}
	p.enrolled, p.macs, p.leftOut, p.kept, p.transfer, p.answer, p.job = false, nil, 0, nil, nil, nil, nil
}

func (c *Conductor) gatherFacts(tx *store.Tx, askedUUID string, hardware *inventory.Inventory) (inspect.Facts, error) {
	facts := inspect.Facts{AskedUUID: askedUUID, Discovery: c.cfg.Discovery.Enabled}
	if askedUUID != "" {
		n, err := tx.Node(askedUUID)
		switch {
		case errors.Is(err, node.ErrNotFound):
		case err != nil:
			return facts, err
		case n.UUID == askedUUID: // a node whose name equals the requested UUID does not count
			facts.Asked = &inspect.Claimant{UUID: n.UUID, State: n.ProvisionState, Provisional: n.Provisional}
		}
	}
	matches, err := matchMachine(tx, hardware.MACs(), hardware.IdentifyingMACs(), askedClaims(bmcsOf(hardware))...)
	if err != nil {
		return facts, err
	}
	for _, m := range matches {
		switch m.Kind {
		case store.MAC:
			facts.ByMAC = append(facts.ByMAC, claimant(m))
		case store.InspectedBMC:
			facts.Inspected = append(facts.Inspected, claimant(m))
		case store.BMC:
			facts.BMCOwners = append(facts.BMCOwners, claimant(m))
		}
	}
	return facts, nil
}

// askedClaims adds to the BMC addresses of a document the claims by which they lead to a waiting
// inspection.
func askedClaims(bmcs []store.Claim) []store.Claim {
	asked := bmcs
	for _, claim := range bmcs {
		asked = append(asked, store.Claim{Kind: store.InspectedBMC, Address: claim.Address})
	}
	return asked
}

// enrol creates a node for an unknown machine. The node stays in enroll until a client requests
// manage.
func (c *Conductor) enrol(tx *store.Tx, p *post) error {
	room, err := c.discovered.room(tx, c.cfg.Discovery.MaxNodes)
	if err != nil {
		return err
	}
	if room <= 0 {
		c.refuse(tx.Now(), p, slog.LevelWarn, "no node matches, and auto_discovery.max_nodes is reached")
		return fmt.Errorf("enrol machine: %d discovered nodes (auto_discovery.max_nodes): %w", c.cfg.Discovery.MaxNodes, node.ErrBusy)
	}
	p.enrolled = true
	n := &node.Node{
		UUID: store.NewUUID(), Driver: c.cfg.Discovery.Driver,
		ConductorGroup: c.cfg.Group,
		ProvisionState: node.Enroll, ProvisionUpdatedAt: tx.Now(), InspectionStartedAt: tx.Now(),
		AutoDiscovered: true, Provisional: true,
	}
	if n.Interfaces, err = c.drivers.InterfacesOf(n); err != nil {
		return fmt.Errorf("enrol machine: %w", err)
	}
	if c.cfg.Discovery.Scope != "" {
		n.Properties = node.ObjectOf(map[string]any{inspectionScopeKey: c.cfg.Discovery.Scope})
	}
	c.answerPost(tx, p, n)
	c.chooseMACs(p, n)
	if err := tx.CreateNode(n); err != nil {
		return err
	}
	text := "Enrolled: an unknown machine posted its inventory."
	if p.leftOut > 0 {
		text += fmt.Sprintf(" It claims %d of its MAC addresses and leaves out %d (auto_discovery.max_ports) until a person changes the node and inspects it again.", len(p.macs), p.leftOut)
	}
	if err := c.recordHistory(tx, n, node.SeverityInfo, "discovery", text); err != nil {
		return err
	}
	return c.storePost(tx, p, n)
}

// accept continues the inspection of a node that waits for this post. Suspended work is replaced by
// work that processes the post and is suspended, too.
func (c *Conductor) accept(tx *store.Tx, p *post, verdict inspect.Verdict) error {
	tx.ExpectWork()
	before, err := changeable(tx, verdict.Accept)
	if err != nil {
		return err
	}
	n := *before
	if err := c.Move(tx, &n, node.OnResume); err != nil {
		return err
	}
	if err := c.dropParked(tx, n.ID); err != nil {
		return err
	}
	c.answerPost(tx, p, &n)
	c.chooseMACs(p, &n)
	if verdict.Shared {
		if err := leaveShared(tx, p, &n); err != nil {
			return err
		}
	}
	if err := tx.UpdateNode(before, &n); err != nil {
		return err
	}
	if err := tx.DropUnused(n.ID); err != nil {
		return err
	}
	p.transfer = &macTransfer{to: &n, macs: p.macs}
	for _, uuid := range verdict.TakeFrom {
		if err := c.takeFrom(tx, p.transfer, uuid); err != nil {
			return err
		}
	}
	return c.storePost(tx, p, &n)
}

// storePost stores the document, its claims and the work on it.
func (c *Conductor) storePost(tx *store.Tx, p *post, n *node.Node) error {
	delete(p.document.PluginData, discoveredKey) // only the engine may set it
	if p.enrolled {
		p.document.PluginData[discoveredKey] = json.RawMessage("true")
	}
	documentID, err := storeDocument(tx, n, p.document, p.macs)
	if err != nil {
		return err
	}
	intent := map[string]any{documentIntent: documentID}
	if _, serves := node.RamdiskBootOf(n); serves {
		intent[servedIntent] = true
	}
	if len(p.kept) > 0 {
		intent[keptIntent] = p.kept
	}
	waits := false
	if !p.enrolled { // else nothing is known of the machine from before
		if waits, err = waitsForPerson(tx, n); err != nil {
			return err
		}
	}
	mine, err := c.serves(tx, n.ConductorGroup)
	if err != nil {
		return err
	}
	if waits || !mine { // a person decides, or the conductors of the group find it
		return tx.AddWork(&store.Work{NodeID: n.ID, Kind: workHooks, Intent: node.ObjectOf(intent)})
	}
	w := &store.Work{NodeID: n.ID, NodeUUID: n.UUID, Kind: workHooks, Intent: node.ObjectOf(intent)}
	p.job = runner.NewJob(w, n, nil)
	if documentSize(p.document) <= maxHintDocument {
		hint := &processHint{document: p.document, posted: tx.Now()}
		macs := p.document.Hardware.MACs()
		if p.enrolled && len(macs) == len(p.document.Hardware.IdentifyingMACs()) {
			hint.setUnknown(p.macs)
		} else if err := tx.PrefetchMachinePorts(n.ID, macs, hint.setPorts); err != nil {
			return err
		}
		p.job = runner.NewJob(w, n, hint)
	}
	if err := c.runner.Begin(tx, p.job, p.asked); err != nil {
		return err
	}
	return tx.AddWork(w)
}

// storeDocument stores an inspection document with the claims of its machine: these MAC
// addresses, and its BMC addresses.
func storeDocument(tx *store.Tx, n *node.Node, document *inventory.Document, macs []string) (id int64, err error) {
	id, err = tx.AddDocument(n.ID, node.InspectionData{
		Inventory: document.Inventory, PluginData: inventory.AppendObject(nil, document.PluginData),
	})
	if err != nil {
		return 0, err
	}
	return id, tx.ClaimInventory(n.ID, slices.Concat(macClaims(macs), bmcsOf(&document.Hardware)))
}

// answerPost prepares the answer to the ramdisk. The answer has a new token when the ramdisk
// understands tokens and the node has none. A post does not prove who sends it, so it voids no
// token: if the node has a token, the ramdisk gets one of its own by a lookup, see
// agent.DecideToken.
func (c *Conductor) answerPost(tx *store.Tx, p *post, n *node.Node) {
	p.answer = &node.LookupAnswer{Node: n, HeartbeatTimeout: c.cfg.HeartbeatTimeout, SkipBMCDetect: c.drivers.Attributes(n).SkipBMCDetect}
	switch {
	case agent.Pregenerated(n) != "": // it has its token
	case n.DriverInternalInfo.Text(agent.TokenKey) != "":
		n.DriverInternalInfo = agent.WithRebootSeen(n.DriverInternalInfo, tx.Now())
	case p.WantsToken:
		p.answer.Token = agent.NewToken()
		n.DriverInternalInfo = agent.WithToken(n.DriverInternalInfo, p.answer.Token, tx.Now())
	}
}

// chooseMACs chooses the MAC addresses of the machine that the node claims: all that identify the
// machine, or, for a provisional node, only the first auto_discovery.max_ports of these. It stores
// in the node how many are left out.
func (c *Conductor) chooseMACs(p *post, n *node.Node) {
	p.macs, p.leftOut = c.claimedBy(n, p.document)
	if p.leftOut > 0 || !p.enrolled { // a new node has no such key
		noteLeftOut(n, p.leftOut)
	}
}

// claimedBy returns the MAC addresses of a document that a node claims, and how many it
// leaves out.
func (c *Conductor) claimedBy(n *node.Node, document *inventory.Document) (macs []string, leftOut int) {
	if n.Provisional {
		return inspect.FirstMACs(&document.Hardware, c.cfg.Discovery.MaxPorts)
	}
	return document.Hardware.IdentifyingMACs(), 0
}

// noteLeftOut writes into a node how many addresses of its machine it does not claim.
func noteLeftOut(n *node.Node, leftOut int) {
	if leftOut > 0 {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{node.AddressesLeftOutKey: leftOut})
		return
	}
	n.DriverInternalInfo = n.DriverInternalInfo.Without(node.AddressesLeftOutKey)
}

// bmcsOf lists the BMC addresses by which an inventory says which node it belongs to.
func bmcsOf(hardware *inventory.Inventory) []store.Claim {
	var claims []store.Claim
	for _, address := range hardware.BMCAddresses() {
		claims = append(claims, store.Claim{Kind: store.BMC, Address: address.String()})
	}
	return claims
}
