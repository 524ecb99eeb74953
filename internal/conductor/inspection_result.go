package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// InventoryBackend says where new results of inspections are kept: the inventory and
// the plugin data of the hooks. Older results are read from where they are.
type InventoryBackend string

// Backends.
const (
	InDatabase    InventoryBackend = "database"
	InObjectStore InventoryBackend = "s3"
	Nowhere       InventoryBackend = "none"
)

// Inventories says where inspection results are kept.
type Inventories struct {
	Backend InventoryBackend // empty means InDatabase
	// Objects is the object store. With other backends than InObjectStore it may be nil. If it is
	// not, results that were stored there earlier are still served and removed.
	Objects ObjectStore
	Prefix  string        // beginning of the keys of objects
	Timeout time.Duration // bound of one call, which Objects enforces itself
	MaxWait time.Duration // how long an inspection waits while the object store fails
}

// writeTime is how long an object may still be written after its reservation, even by an attempt
// that has lost its lease since.
func (i Inventories) writeTime() time.Duration { return 2 * i.Timeout }

// removalDelay is how long an object is kept before its removal. It exceeds writeTime, so that an
// attempt that seemed dead cannot write the object after the removal.
func (i Inventories) removalDelay() time.Duration { return 2 * i.writeTime() }

// ObjectStore stores objects by key. Each call has a deadline of its own.
type ObjectStore interface {
	Put(ctx context.Context, key string, content []byte) error
	// Fetch returns node.ErrNotFound for an object that does not exist.
	Fetch(ctx context.Context, key string) ([]byte, error)
	// Delete succeeds for an object that does not exist.
	Delete(ctx context.Context, key string) error
}

// warnWithoutObjectStore logs a warning when the database lists inventories in an object store. It
// is for a conductor without an object store.
func (c *Conductor) warnWithoutObjectStore(ctx context.Context) error {
	count := 0
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		count, err = tx.CountObjects()
		return err
	})
	if err == nil && count > 0 {
		c.log.Warn("Inventories are in an object store that is not configured, they can be neither read nor removed", "inventories", count, "key", "inventory.s3_endpoint")
	}
	return err
}

// inspectionObject is the content of an object, as GET …/inventory shows it. Both
// parts are kept byte for byte.
type inspectionObject struct {
	Inventory  json.RawMessage `json:"inventory"`
	PluginData json.RawMessage `json:"plugin_data"`
}

// encode returns the content of the object. It does not use package json, which would
// remove the spaces that the inventory was posted with.
func (o inspectionObject) encode() []byte {
	content := make([]byte, 0, len(o.Inventory)+len(o.PluginData)+32)
	content = append(append(content, `{"inventory":`...), o.Inventory...)
	content = append(append(content, `,"plugin_data":`...), o.PluginData...)
	return append(content, '}')
}

// Inspection returns the result of the node's last successful inspection.
func (c *Conductor) Inspection(ctx context.Context, ident string) (*node.InspectionData, error) {
	n, data, err := c.lastResult(ctx, ident)
	var failure *objectsError
	switch {
	case !errors.As(err, &failure):
		return data, err
	case errors.Is(err, node.ErrNotFound):
		c.log.Warn("Inventory is no longer in the object store", "node", n.UUID, "err", err)
		return nil, &node.NotFoundError{Kind: "Inventory of node", Ident: n.UUID}
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	c.log.Warn("Inventory could not be read", "node", n.UUID, "err", err)
	return nil, &node.UnavailableError{Reason: fmt.Sprintf("The inventory of node %s cannot be read from the object store now; please retry. The engine's log has the reason.", n.UUID)}
}

// lastResult reads the result of a node's last successful inspection, wherever it is kept.
// A failure of the object store is an *objectsError.
func (c *Conductor) lastResult(ctx context.Context, ident string) (n *node.Node, data *node.InspectionData, err error) {
	var key string
	err = c.store.Read(ctx, func(tx *store.Tx) (err error) {
		if n, err = tx.Node(ident); err != nil {
			return err
		}
		data, key, err = storedInspection(tx, n)
		return err
	})
	if err != nil || data != nil {
		return n, data, err
	}
	if data, err = c.fetchInspection(ctx, n, key); err != nil {
		return n, nil, &objectsError{err}
	}
	return n, data, nil
}

// errNoObjectStore means that a result is in an object store that is not configured any more.
var errNoObjectStore = errors.New("no object store is configured (inventory.s3_endpoint)")

// storedInspection returns the result of the node's last successful inspection, or
// the key of the object that holds it, else node.ErrNotFound.
func storedInspection(tx *store.Tx, n *node.Node) (data *node.InspectionData, key string, err error) {
	if data, err = tx.Inspection(n); errors.Is(err, node.ErrNotFound) {
		key, err = tx.InspectionObject(n)
	}
	return data, key, err
}

// fetchInspection reads a result from the object store.
func (c *Conductor) fetchInspection(ctx context.Context, n *node.Node, key string) (*node.InspectionData, error) {
	objects := c.cfg.Inventories.Objects
	if objects == nil {
		return nil, fmt.Errorf("the result of node %s is object %s, and %w", n.UUID, key, errNoObjectStore)
	}
	content, err := objects.Fetch(ctx, key)
	if err != nil {
		return nil, err
	}
	var object inspectionObject
	if err := json.Unmarshal(content, &object); err != nil || object.Inventory == nil || object.PluginData == nil {
		return nil, fmt.Errorf("read object %s: it is no inspection result; other software must have written it", key)
	}
	return &node.InspectionData{Inventory: object.Inventory, PluginData: object.PluginData}, nil
}

// putResult writes the result of an inspection to the object store, when results are
// kept there. The object is listed in the database before it is written.
func (c *Conductor) putResult(ctx context.Context, w *store.Work, in *processing, result *inspect.Result) error {
	if c.cfg.Inventories.Backend != InObjectStore {
		return nil
	}
	began, wanted := time.Now(), c.cfg.Inventories.Prefix+in.node.UUID+"/"+strconv.FormatInt(in.documentID, 10)+".json"
	var key string
	err := c.store.Write(ctx, func(tx *store.Tx) (err error) {
		if err := tx.CheckLease(w.NodeID, w.Lease); err != nil {
			return err
		}
		key, err = tx.ReserveObject(in.node.ID, in.documentID, wanted)
		return err
	})
	if err != nil {
		return err
	}
	object := inspectionObject{Inventory: in.input.Document.Inventory, PluginData: result.PluginData}
	// A process that was paused here must not write after its successor has begun.
	ctx, cancel := context.WithDeadline(ctx, began.Add(c.cfg.Inventories.writeTime()))
	defer cancel()
	if err := c.cfg.Inventories.Objects.Put(ctx, key, object.encode()); err != nil {
		return &objectsError{err}
	}
	return nil
}

// storeResult stores the result of an inspection in the node.
func (c *Conductor) storeResult(tx *store.Tx, n *node.Node, in *processing, result *inspect.Result) error {
	kept := c.cfg.Inventories
	if kept.Backend == InObjectStore || kept.Backend == Nowhere {
		n.DriverInternalInfo = withAddresses(n.DriverInternalInfo, &in.input.Document.Hardware)
	} else if strings.Contains(string(n.DriverInternalInfo), addressesKey) { // rare, and a search is cheaper than parsing
		n.DriverInternalInfo = n.DriverInternalInfo.Without(addressesKey)
	}
	switch kept.Backend {
	case InObjectStore:
		return tx.KeepObject(n.ID, in.documentID, tx.Now().Add(kept.removalDelay()))
	case Nowhere:
		if err := tx.DropDocuments(n.ID, in.documentID); err != nil {
			return err
		}
		return tx.ReleaseObjects(n.ID)
	case InDatabase:
	}
	if kept.Objects != nil {
		if err := tx.ReleaseObjects(n.ID); err != nil {
			return err
		}
	}
	return tx.FinishInspection(n.ID, in.documentID, result.PluginData)
}

// addressesKey is the key of driver_internal_info for the IP addresses of the last
// inventory, when the inventory itself is not in the database.
const addressesKey = "inventory_addresses"

func withAddresses(info node.Object, hardware *inventory.Inventory) node.Object {
	addresses := inspect.Addresses(hardware)
	if addresses == nil {
		addresses = []netip.Addr{}
	}
	return info.With(map[string]any{addressesKey: addresses})
}

// inventoryAddresses returns the IP addresses in the last inspection document of the node, and none
// without such a document. A document in the database is newer than the addresses in
// driver_internal_info.
func inventoryAddresses(tx *store.Tx, n *node.Node) ([]netip.Addr, error) {
	document, err := tx.LastDocument(n)
	if errors.Is(err, node.ErrNotFound) {
		var addresses []netip.Addr
		n.DriverInternalInfo.Get(addressesKey, &addresses)
		return addresses, nil
	}
	if err != nil {
		return nil, err
	}
	hardware, err := inventory.ParseInventory(document.Inventory)
	if err != nil {
		return nil, err
	}
	return inspect.Addresses(hardware), nil
}
