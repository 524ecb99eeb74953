package conductor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Keys of the intent of inspection work.
const (
	documentIntent = "document" // the ID of the document
	servedIntent   = "served"   // whether the engine served the ramdisk that posted it
	keptIntent     = "kept"     // its MAC addresses that other nodes keep, with their UUIDs
)

// processing is the state of processing a document that a machine posted or that was read through
// its BMC.
type processing struct {
	documentID int64
	node       *node.Node          // as it was when the work began
	ports      *store.MachinePorts // nil until they are read
	input      inspect.Input
	kept       map[string]string // MAC addresses that other nodes keep, with their UUIDs
	previous   string            // key of the object with the node's last result; empty unless it is needed
	// failed turns a cause into the error with which the inspection fails.
	failed func(cause error) error
}

// processHint is what the post of a document leaves in memory for its processing.
type processHint struct {
	document *inventory.Document
	posted   time.Time
	ports    *store.MachinePorts // as they were then; nil when they were not read
	claimed  map[string]bool     // the MAC addresses that the node claimed then; nil when they were not read
}

// portsValidFor is how long after a post its ports and claims are good enough for the hooks. Clients
// may create ports meanwhile, so what took longer, such as switching the machine off, reads them
// anew.
const portsValidFor = time.Second

// maxHintPorts is how many ports a hint keeps in memory at most until the hooks run.
const maxHintPorts = 64

// setPorts notes the ports unless they are too many.
func (h *processHint) setPorts(ports *store.MachinePorts) {
	if len(ports.Own)+len(ports.Others) <= maxHintPorts {
		h.ports = ports
	}
}

// setUnknown notes what is known of the ports of a machine that was unknown before its post: none
// has one of its addresses.
func (h *processHint) setUnknown(claimed []string) {
	h.ports, h.claimed = &store.MachinePorts{}, setOf(claimed)
}

// fill gives the hooks what is good enough of the hint.
func (h *processHint) fill(in *processing, now time.Time) {
	in.input.Document = h.document
	if now.Sub(h.posted) <= portsValidFor {
		in.ports, in.input.Claimed = h.ports, h.claimed
	}
}

// processOperations returns the operations that switch the machine off, withdraw its ramdisk, which
// is no longer needed, and run the hooks over the posted document. When the machine is rebooted
// instead, its ramdisk is withdrawn before. The hooks run even when the machine cannot be switched
// off. Work that waited for the object store does not switch the machine off again.
func (c *Conductor) processOperations(t runner.Task) ([]runner.Operation, error) {
	off, reboot := c.stopInspected(t.Node)
	for stop, verb := range map[*runner.Operation]string{&off: "switched off", &reboot: "rebooted"} {
		*stop = stop.SkipIf(waitedForObjects(t.Work))
		stop.OnFailure = func(cause error) runner.Write {
			c.log.Warn("Machine stays in its ramdisk after its inspection", "node", t.Node.UUID, "err", cause)
			text := node.CutText(fmt.Sprintf("The machine could not be %s after its inspection: %v", verb, cause))
			return func(tx *store.Tx, n *node.Node) error {
				return c.recordHistory(tx, n, node.SeverityError, "power", text)
			}
		}
	}
	hooks := runner.Operation{
		Ref: runner.Ref{Name: "run hooks"}, Processor: true,
		Read: func(ctx context.Context, _ *node.Node) (runner.Write, error) {
			in := &processing{node: t.Node, input: inspect.Input{Logger: c.log}, failed: failedInspection}
			if hint, ok := t.Hint.(*processHint); ok {
				hint.fill(in, c.store.Now())
			}
			t.Work.Intent.Get(keptIntent, &in.kept)
			if !t.Work.Intent.Get(documentIntent, &in.documentID) {
				return nil, failedInspection(errors.New("the stored work has no document"))
			}
			return c.runHooks(ctx, t, in)
		},
	}
	var served bool
	if t.Work.Intent.Get(servedIntent, &served); !served {
		return []runner.Operation{reboot, off, hooks}, nil // without another commit between the last two
	}
	return []runner.Operation{off, c.leaveRamdiskIfItCan(t.Node), reboot, hooks}, nil
}

// runHooks runs the hooks over a document and returns the function that stores
// their result. It may be interrupted and run again at any point: before its end it
// writes nothing but an object that the database already lists, or logs that are in no
// database.
func (c *Conductor) runHooks(ctx context.Context, t runner.Task, in *processing) (runner.Write, error) {
	if err := c.readInspection(ctx, in); err != nil {
		return nil, c.awaitObjects(ctx, t.Work, err)
	}
	result, err := c.pipeline.Run(in.input)
	if err != nil {
		c.keepLogsOfFailedHooks(ctx, t.Node, in.input.Document)
		return nil, in.failed(err)
	}
	if len(result.Skipped) > 0 {
		c.ignored.Log(c.store.Now(), slog.LevelInfo, "Inspection ignored parts of the data",
			slog.String("node", t.Node.UUID), slog.String("reasons", node.CutText(strings.Join(result.Skipped, "; "))))
	}
	if err := c.putResult(ctx, t.Work, in, result); err != nil {
		return nil, c.awaitObjects(ctx, t.Work, err)
	}
	return func(tx *store.Tx, n *node.Node) error { return c.storeProcessed(tx, n, in, result) }, nil
}

func failedInspection(cause error) error {
	return runner.Final(fmt.Errorf("Failed to finish inspection: %w", cause))
}

// storeProcessed stores the result of the hooks.
func (c *Conductor) storeProcessed(tx *store.Tx, n *node.Node, in *processing, result *inspect.Result) error {
	if len(result.Properties) > 0 {
		n.Properties = n.Properties.With(result.Properties)
	}
	n.InspectionFinishedAt = tx.Now()
	n.ClearError()
	if n.ProvisionState == node.Inspecting {
		if err := c.Move(tx, n, node.OnDone); err != nil {
			return err
		}
	}
	if err := c.storePorts(tx, n, in, result); err != nil {
		return err
	}
	return c.storeResult(tx, n, in, result)
}

// readInspection reads the input of the hooks, but for what is known already.
func (c *Conductor) readInspection(ctx context.Context, in *processing) error {
	missing := missingInput{
		document: in.input.Document == nil, ports: in.ports == nil, claims: in.node.Provisional && in.input.Claimed == nil,
		previous: c.pipeline.ReadsPrevious() && !in.node.InspectionFinishedAt.IsZero(),
	}
	if missing != (missingInput{}) {
		if err := c.store.ReadSingle(ctx, func(tx *store.Tx) error { return missing.read(tx, in) }); err != nil {
			return err
		}
	}
	in.input.Properties = in.node.Properties
	in.input.Ports, in.input.Taken = inspectedPorts(in.ports.Own), map[string]string{}
	maps.Copy(in.input.Taken, in.kept)
	for _, p := range in.ports.Others {
		in.input.Taken[p.Address] = p.NodeUUID
	}
	if in.previous == "" {
		return nil
	}
	previous, err := c.fetchPrevious(ctx, in)
	in.input.Previous = previous
	return err
}

// missingInput says what must be read before hooks can run.
type missingInput struct {
	document bool // of a large document, or after a restart
	ports    bool
	claims   bool // of a provisional node
	previous bool // the result of the inspection before, for hooks that use it
}

// read reads what is missing. It may be called again after a failure, as in store.Store.ReadSingle.
func (m missingInput) read(tx *store.Tx, in *processing) (err error) {
	if m.document {
		if in.input.Document, err = storedDocument(tx, in.documentID); err != nil {
			return err
		}
	}
	if m.ports {
		if in.ports, err = tx.MachinePorts(in.node.ID, in.input.Document.Hardware.MACs()); err != nil {
			return err
		}
	}
	if m.previous {
		if in.input.Previous, in.previous, err = previousInventory(tx, in.node); err != nil {
			return err
		}
	}
	if m.claims {
		in.input.Claimed, err = claimedMACs(tx, in.node.ID)
	}
	return err
}

// claimedMACs returns the MAC addresses that a node claims, as a set.
func claimedMACs(tx *store.Tx, nodeID int64) (map[string]bool, error) {
	macs, err := tx.MACsOf(nodeID)
	return setOf(macs), err
}

func setOf(macs []string) map[string]bool {
	set := make(map[string]bool, len(macs))
	for _, mac := range macs {
		set[mac] = true
	}
	return set
}

// storedDocument reads a document as it was posted.
func storedDocument(tx *store.Tx, id int64) (*inventory.Document, error) {
	data, err := tx.Document(id)
	if err != nil {
		return nil, err
	}
	document, err := inventory.Restore(data.Inventory, data.PluginData)
	if err != nil {
		return nil, fmt.Errorf("read stored inspection document %d: %w", id, err)
	}
	return document, nil
}

// inspectedPorts returns the node's ports as the hooks see them.
func inspectedPorts(stored []*node.Port) []inspect.Port {
	ports := make([]inspect.Port, len(stored))
	for i, p := range stored {
		ports[i] = inspect.Port{
			UUID: p.UUID, Address: p.Address, PXEEnabled: p.PXEEnabled, Extra: p.Extra,
			LocalLinkConnection: p.LocalLinkConnection, PhysicalNetwork: p.PhysicalNetwork, PortgroupUUID: p.PortgroupUUID,
		}
	}
	return ports
}

// previousInventory returns the inventory of the node's last successful inspection, or the key of
// the object that holds it. Both are empty when no inspection was successful.
func previousInventory(tx *store.Tx, n *node.Node) (*inventory.Inventory, string, error) {
	data, key, err := storedInspection(tx, n)
	switch {
	case errors.Is(err, node.ErrNotFound):
		return nil, "", nil
	case err != nil || data == nil:
		return nil, key, err
	}
	hardware, err := parsePrevious(n, data)
	return hardware, "", err
}

// fetchPrevious reads the inventory of the node's last successful inspection from the object store.
// It returns nil when the object is gone or no object store is configured.
func (c *Conductor) fetchPrevious(ctx context.Context, in *processing) (*inventory.Inventory, error) {
	data, err := c.fetchInspection(ctx, in.node, in.previous)
	switch {
	case isGone(err):
		c.log.Warn("Inventory is no longer stored, going on without it", "node", in.node.UUID, "err", err)
		return nil, nil
	case err != nil:
		return nil, &objectsError{err}
	}
	return parsePrevious(in.node, data)
}

func parsePrevious(n *node.Node, data *node.InspectionData) (*inventory.Inventory, error) {
	hardware, err := inventory.ParseInventory(data.Inventory)
	if err != nil {
		return nil, fmt.Errorf("read previous inventory of node %s: %w", n.UUID, err)
	}
	return hardware, nil
}

// storePorts writes the ports that hooks created, changed and deleted.
func (c *Conductor) storePorts(tx *store.Tx, n *node.Node, in *processing, result *inspect.Result) error {
	wanted := result.PortsToCreate
	// A registered node may have taken addresses of a provisional one since the hooks ran, even if
	// that one has been accepted meanwhile.
	if n.Provisional || in.input.Claimed != nil {
		claimed, err := claimedMACs(tx, n.ID)
		if err != nil {
			return err
		}
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(p inspect.Port) bool { return !claimed[p.Address] })
	}
	created := make([]*node.Port, len(wanted))
	for i, p := range wanted {
		created[i] = &node.Port{UUID: store.NewUUID(), Address: p.Address}
		setPort(created[i], p)
	}
	if err := tx.AddPorts(n.ID, created); err != nil {
		return err
	}
	if err := updatePorts(tx, in.ports.Own, result.PortsToUpdate); err != nil {
		return err
	}
	for _, gone := range result.PortsToDelete {
		p, err := tx.Port(gone.UUID)
		if err != nil {
			return err
		}
		if p.NodeID != n.ID { // it has moved since
			continue
		}
		if err := tx.DeletePort(p); err != nil {
			return err
		}
	}
	return nil
}

// updatePorts stores what hooks decided about ports.
func updatePorts(tx *store.Tx, seen []*node.Port, decided []inspect.Port) error {
	for _, changed := range decided {
		i := slices.IndexFunc(seen, func(p *node.Port) bool { return p.UUID == changed.UUID })
		if i < 0 {
			return &node.NotFoundError{Kind: "Port", Ident: changed.UUID}
		}
		after := *seen[i]
		setPort(&after, changed)
		if err := tx.UpdatePort(seen[i], &after); err != nil {
			return err
		}
	}
	return nil
}

// setPort copies to a port what the hooks decided about it.
func setPort(stored *node.Port, decided inspect.Port) {
	stored.PXEEnabled, stored.Extra = decided.PXEEnabled, decided.Extra
	stored.LocalLinkConnection, stored.PhysicalNetwork = decided.LocalLinkConnection, decided.PhysicalNetwork
}
