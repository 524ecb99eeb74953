package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// enrollSince is the first microversion 1.N in which a new node is in state enroll
// instead of available.
const enrollSince = 11

func (a *api) createNode(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	n := &node.Node{ProvisionState: node.Enroll}
	if c.version < enrollSince {
		n.ProvisionState = node.Available
	}
	if err := readItem(w, r, nodeTable, n); err != nil {
		return err
	}
	if err := a.checkNewNode(n, c.version); err != nil {
		return fmt.Errorf("check new node: %w", err)
	}
	created, err := a.engine.CreateNode(r.Context(), n)
	if err != nil {
		return fmt.Errorf("create node: %w", err)
	}
	w.Header().Set("Location", c.base+"/v1/nodes/"+created.UUID)
	return writeItem(a, w, r, http.StatusCreated, created, nodeTable.detail[c.version])
}

// checkNewNode completes n and checks all rules for a new node.
func (a *api) checkNewNode(n *node.Node, version int) error {
	if n.Driver == "" {
		return node.Invalid("A node needs a driver; the drivers of this engine are %s.", node.Choices(a.drivers.Names()))
	}
	if err := checkNodeName(n.Name, version); err != nil {
		return invalidField("name", err)
	}
	var err error
	if n.Interfaces, err = a.drivers.Resolve(n.Driver, n.Interfaces); err != nil {
		return err
	}
	if err := restoreSecrets(&node.Node{}, n); err != nil {
		return err
	}
	mirrorInstanceName(&node.Node{}, n)
	return checkConsistent(nil, n)
}

// readItem reads the fields of a new item from the body of a POST.
func readItem[T any](w http.ResponseWriter, r *http.Request, t *table[T], item *T) error {
	var values map[string]json.RawMessage
	if err := decodeBody(w, r, maxBody, &values); err != nil {
		return err
	}
	if values == nil {
		return badRequest("The request body is null where a JSON object is expected.")
	}
	c := callOf(r)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f, err := t.find(name, c.version)
		switch {
		case err != nil:
			return err
		case f.access == readOnly:
			return badRequest("The field %q of %s is read-only.", name, t.one)
		case values[f.instead] != nil:
			return badRequest("The fields %q and %q of %s cannot be combined.", name, f.instead, t.one)
		}
		if err := t.checkRole(f, c); err != nil {
			return err
		}
		if err := f.read(item, values[name]); err != nil {
			return invalidField(name, err)
		}
	}
	return nil
}

// resetSince is the microversion 1.N that introduced the argument reset_interfaces.
const resetSince = 45

func (a *api) patchNode(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	reset, err := resetInterfaces(c)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	edits, err := parsePatch(body, nodeTable, c)
	if err != nil {
		return err
	}
	if reset && !touches(edits, "driver") {
		return badRequest("reset_interfaces needs a change of the driver in the same patch.")
	}
	p := nodePatch{edits: edits, reset: reset, version: c.version, drivers: a.drivers}
	slot := answerSlot{api: a, request: r}
	defer slot.end()
	changed, err := a.engine.UpdateNode(r.Context(), ident, func(n *node.Node) error {
		if err := p.apply(n); err != nil {
			return err
		}
		return slot.take(sizeOf(n)) // before anything is stored
	})
	if err != nil {
		return fmt.Errorf("patch node %s: %w", ident, err)
	}
	return writeItem(a, w, r, http.StatusOK, changed, nodeTable.detail[c.version])
}

// sizeOf returns about how many bytes clients have stored in a node.
func sizeOf(n *node.Node) int {
	return len(n.InstanceInfo) + len(n.DriverInfo) + len(n.Properties) + len(n.Extra) + len(n.NetworkData)
}

func resetInterfaces(c *call) (bool, error) {
	if c.query.Has("reset_interfaces") && c.version < resetSince {
		return false, notAcceptable("Argument reset_interfaces", resetSince)
	}
	return boolArg(c.query, "reset_interfaces", false)
}

// nodePatch is a checked patch of a node.
type nodePatch struct {
	edits   []edit[node.Node]
	reset   bool // interfaces that the patch does not set get their defaults
	version int
	drivers interface {
		InterfacesOf(n *node.Node) (node.Interfaces, error)
	}
}

// apply applies the patch to n. It depends only on p and n, so it can run more than once.
func (p nodePatch) apply(n *node.Node) error {
	old := *n
	if err := checkPatch(n, p.edits, p.version); err != nil {
		return err
	}
	if err := p.applyEdits(n); err != nil {
		return err
	}
	if err := checkHardware(&old, n); err != nil {
		return err
	}
	if n.Driver == "" {
		return node.Invalid("The driver of a node cannot be removed.")
	}
	if err := checkNodeName(n.Name, p.version); err != nil && n.Name != old.Name {
		return invalidField("name", err)
	}
	if n.Driver != old.Driver || n.Interfaces != old.Interfaces {
		resolved, err := p.drivers.InterfacesOf(n)
		if err != nil {
			return err
		}
		n.Interfaces = resolved
	}
	dropReasons(&old, n)
	if err := restoreSecrets(&old, n); err != nil {
		return err
	}
	mirrorInstanceName(&old, n)
	return checkConsistent(&old, n)
}

// applyEdits applies the edits alone. Interfaces are reset only with a new driver.
func (p nodePatch) applyEdits(n *node.Node) error {
	old := *n
	if err := applyAll(p.edits, n); err != nil || !p.reset || n.Driver == old.Driver {
		return err
	}
	*n = old
	n.Interfaces = node.Interfaces{}
	return applyAll(p.edits, n)
}

func (a *api) deleteNode(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	if err := a.engine.DeleteNode(r.Context(), ident); err != nil {
		return fmt.Errorf("delete node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
