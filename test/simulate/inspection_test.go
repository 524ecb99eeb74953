package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// processWork is the kind of work that processes what a ramdisk has posted.
const processWork store.WorkKind = "inspect"

// postedDocument is the name of requests that post an inspection document.
const postedDocument = "continue_inspection"

// document returns an inspection document that differs from those with other numbers, and its
// inventory.
func document(mac string, number int) (body []byte, inventory string) {
	inventory = fmt.Sprintf(`{"interfaces":[{"name":"eno1","mac_address":%q,"has_carrier":true}],`+
		`"cpu":{"count":8,"architecture":"x86_64"},"memory":{"physical_mb":%d},"boot":{"current_boot_mode":"uefi"},`+
		`"disks":[{"name":"/dev/sda","size":1000000000}]}`, mac, 8192+number)
	return []byte(`{"inventory":` + inventory + `,"root_disk":{"name":"/dev/sda","size":1000000000}}`), inventory
}

// postDocument has the ramdisk of a fake machine post its document.
func (w *world) postDocument(r *replica, uuid string) {
	body, inventory := document(fmt.Sprintf("52:54:00:12:35:%02x", slices.Index(w.nodes, uuid)), len(w.requests))
	w.sendRequest(r, &request{node: uuid, name: postedDocument, inventory: inventory}, func(ctx context.Context) error {
		_, err := r.ContinueInspection(ctx, node.InspectionPost{Body: body, NodeUUID: uuid})
		return err
	})
}

// notePost notes what an agent posts to the engine. It returns nil for other requests.
func (c *computer) notePost(q *http.Request) *request {
	if requestName(q) != postedDocument {
		return nil
	}
	body, err := io.ReadAll(q.Body)
	var posted struct{ Inventory json.RawMessage }
	if err = errors.Join(err, json.Unmarshal(body, &posted)); err != nil {
		panic(err)
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	noted := &request{node: c.uuid, name: postedDocument, inventory: string(posted.Inventory)}
	c.w.register(noted)
	return noted
}

// noteAnswer notes the answer to a post; received says whether the agent has received it.
func (w *world) noteAnswer(q *request, status int, received bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.answered, q.answeredAt = true, time.Now()
	succeeded := status < http.StatusBadRequest
	q.accepted, q.answerUnknown = succeeded && received && !q.lost, !received || status >= http.StatusInternalServerError || q.lost
}

// checkInventory checks the processing of a post that went well: the node must have the inventory.
func (w *world) checkInventory(tx *store.Tx, n *node.Node, q *request) error {
	data, err := tx.Inspection(n)
	switch {
	case errors.Is(err, node.ErrNotFound):
		w.violated("%s: the inventory of request %d is said to be processed, and the node has none", n.Name, q.id)
	case err != nil:
		return err
	case string(data.Inventory) != q.inventory:
		w.violated("%s: the inventory of request %d is said to be processed, and the node has another one: %s", n.Name, q.id, data.Inventory)
	}
	return nil
}

// checkLastInventory checks that a node still has the inventory that was processed last.
func (w *world) checkLastInventory(n *node.Node) {
	var last *request
	for _, q := range w.requests {
		if q.node == n.UUID && q.inventory != "" && q.work.succeeded && (last == nil || q.work.row > last.work.row) {
			last = q
		}
	}
	if last != nil {
		w.must(w.db.Read(context.Background(), func(tx *store.Tx) error { return w.checkInventory(tx, n, last) }))
	}
}

// checkMaintenance checks that the last end of maintenance that a client was promised has lasted,
// unless work has failed since.
func (w *world) checkMaintenance(n *node.Node, events []*node.Event) {
	q := w.lastAccepted(n.UUID, func(q *request) bool { return q.name == "maintenance off" })
	if q == nil || !n.Maintenance {
		return
	}
	failed := slices.ContainsFunc(events, func(e *node.Event) bool {
		return e.Severity == node.SeverityError && !e.CreatedAt.Before(q.sentAt.Truncate(time.Microsecond))
	})
	if !failed {
		w.violated("%s: request %d (%s) was answered and is lost: %s", n.Name, q.id, q.name, n.MaintenanceReason)
	}
}
