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

// InventoryBackend says where the results of inspections are kept: the inventory
// and the plugin data that hooks left. It is about new results; older ones are
// read from where they are.
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
	// Objects is the object store. With other backends than InObjectStore it may
	// be nil; it serves and removes what is there from earlier.
	Objects  ObjectStore
	Prefix   string        // what keys of objects begin with
	Timeout  time.Duration // bound of one call of Objects, which the store itself keeps
	Patience time.Duration // how long an inspection waits for an object store that fails
}

// writing is how long after its reservation an object may be being written, also by
// an attempt that has lost its lease since.
func (i Inventories) writing() time.Duration { return 2 * i.Timeout }

// settled is how long an object is left alone before it is removed: an attempt that
// was taken for dead must not write it afterwards.
func (i Inventories) settled() time.Duration { return 2 * i.writing() }

// ObjectStore keeps objects by their key. Each call has a deadline of its own.
type ObjectStore interface {
	Put(ctx context.Context, key string, content []byte) error
	// Fetch returns node.ErrNotFound for an object that does not exist.
	Fetch(ctx context.Context, key string) ([]byte, error)
	// Delete succeeds for an object that does not exist.
	Delete(ctx context.Context, key string) error
}

// missObjects warns when inventories are in an object store and none is configured.
func (c *Conductor) missObjects(ctx context.Context) error {
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

// inspectionObject is what an object holds, as GET …/inventory shows it. Both
// parts are kept byte for byte.
type inspectionObject struct {
	Inventory  json.RawMessage `json:"inventory"`
	PluginData json.RawMessage `json:"plugin_data"`
}

// encode returns the content of the object. It is put together by hand: package
// json would strip the spaces that the inventory was posted with.
func (o inspectionObject) encode() []byte {
	content := make([]byte, 0, len(o.Inventory)+len(o.PluginData)+32)
	content = append(append(content, `{"inventory":`...), o.Inventory...)
	content = append(append(content, `,"plugin_data":`...), o.PluginData...)
	return append(content, '}')
}

// Inspection returns the result of the node's last successful inspection.
func (c *Conductor) Inspection(ctx context.Context, ident string) (*node.InspectionData, error) {
	var data *node.InspectionData
	var n *node.Node
	var key string
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		if n, err = tx.Node(ident); err != nil {
			return err
		}
		data, key, err = storedInspection(tx, n)
		return err
	})
	if err != nil || data != nil {
		return data, err
	}
	if data, err = c.fetchInspection(ctx, n, key); err == nil {
		return data, nil
	}
	if errors.Is(err, node.ErrNotFound) {
		c.log.Warn("Inventory is no longer in the object store", "node", n.UUID, "err", err)
		return nil, &node.NotFoundError{Kind: "Inventory of node", Ident: n.UUID}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.log.Warn("Inventory could not be read", "node", n.UUID, "err", err)
	return nil, &node.UnavailableError{Reason: fmt.Sprintf("The inventory of node %s is in the object store, which does not give it now: please retry. The engine's log has the reason.", n.UUID)}
}

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
		return nil, fmt.Errorf("the result of node %s is object %s, and no object store is configured (inventory.s3_endpoint)", n.UUID, key)
	}
	content, err := objects.Fetch(ctx, key)
	if err != nil {
		return nil, err
	}
	var object inspectionObject
	if err := json.Unmarshal(content, &object); err != nil || object.Inventory == nil || object.PluginData == nil {
		return nil, fmt.Errorf("read object %s: it is no inspection result: something else has written it", key)
	}
	return &node.InspectionData{Inventory: object.Inventory, PluginData: object.PluginData}, nil
}

// putResult writes the result of an inspection to the object store, when results
// are kept there. What the database knows of the object comes first.
func (c *Conductor) putResult(ctx context.Context, j job, in *inspection, result *inspect.Result) error {
	if c.cfg.Inventories.Backend != InObjectStore {
		return nil
	}
	began, key := time.Now(), c.cfg.Inventories.Prefix+in.node.UUID+"/"+strconv.FormatInt(in.documentID, 10)+".json"
	err := c.store.Write(ctx, func(tx *store.Tx) (err error) {
		if err := tx.CheckLease(j.NodeID, j.Lease); err != nil {
			return err
		}
		key, err = tx.ReserveObject(in.node.ID, in.documentID, key)
		return err
	})
	if err != nil {
		return err
	}
	object := inspectionObject{Inventory: in.input.Document.Inventory, PluginData: result.PluginData}
	// A process that was paused here must not write behind the back of its successor.
	ctx, cancel := context.WithDeadline(ctx, began.Add(c.cfg.Inventories.writing()))
	defer cancel()
	if err := c.cfg.Inventories.Objects.Put(ctx, key, object.encode()); err != nil {
		return &objectsError{err}
	}
	return nil
}

// storeResult makes the result of an inspection the node's.
func (c *Conductor) storeResult(tx *store.Tx, n *node.Node, in *inspection, result *inspect.Result) error {
	kept := c.cfg.Inventories
	if kept.Backend == InObjectStore || kept.Backend == Nowhere {
		n.DriverInternalInfo = withAddresses(n.DriverInternalInfo, &in.input.Document.Hardware)
	} else if strings.Contains(string(n.DriverInternalInfo), addressesKey) { // rare, and cheaper to ask than to parse
		n.DriverInternalInfo = n.DriverInternalInfo.Without(addressesKey)
	}
	switch kept.Backend {
	case InObjectStore:
		return tx.KeepObject(n.ID, in.documentID, tx.Now().Add(kept.settled()))
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

// addressesKey of driver_internal_info has the IP addresses of the last inventory
// when the inventory itself is not in the database.
const addressesKey = "inventory_addresses"

func withAddresses(info node.Object, hardware *inventory.Inventory) node.Object {
	addresses := inspect.Addresses(hardware)
	if addresses == nil {
		addresses = []netip.Addr{}
	}
	return info.With(map[string]any{addressesKey: addresses})
}

// inventoryAddresses returns the IP addresses of the machine as it last posted
// them; none when it never did. A document in the database is newer than what the
// node has.
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
