package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

func (a *api) createPort(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	p := &node.Port{PXEEnabled: true}
	if err := readItem(w, r, portTable, p); err != nil {
		return err
	}
	if err := checkPort(p, c.version); err != nil {
		return err
	}
	created, err := a.engine.CreatePort(r.Context(), p)
	if err != nil {
		return fmt.Errorf("create port %s: %w", p.Address, err)
	}
	w.Header().Set("Location", c.base+"/v1/ports/"+created.UUID)
	return writeItem(a, w, r, http.StatusCreated, created, portTable.detail[c.version])
}

// checkPort checks the rules that involve several fields of a new port.
func checkPort(p *node.Port, version int) error {
	switch {
	case p.Address == "":
		return node.Invalid("A port needs an address.")
	case p.NodeUUID == "":
		return node.Invalid("A port needs a node_uuid.")
	}
	if err := checkName(p.Name, version); err != nil {
		return invalidField("name", err)
	}
	return checkPortLocalLink(p, version)
}

func checkPortLocalLink(p *node.Port, version int) error {
	err := checkLocalLink(p.LocalLinkConnection, version)
	var own *apiError
	if err == nil || errors.As(err, &own) {
		return err
	}
	return invalidField("local_link_connection", err)
}

func (a *api) patchPort(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	id, err := portIdent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	edits, err := parsePatch(body, portTable, c)
	if err != nil {
		return err
	}
	changed, err := a.engine.UpdatePort(r.Context(), id, portPatch{edits, c.version}.apply)
	if err != nil {
		return fmt.Errorf("patch port %s: %w", id, err)
	}
	return writeItem(a, w, r, http.StatusOK, changed, portTable.detail[c.version])
}

// portPatch is a checked patch of a port.
type portPatch struct {
	edits   []edit[node.Port]
	version int
}

// bindingChangeStates are the states of a node in which the connections of its ports to
// their networks may change without maintenance.
var bindingChangeStates = []node.State{node.Enroll, node.Inspecting, node.InspectWait, node.Manageable}

// apply applies the patch to p, a port of n. It can run more than once.
func (change portPatch) apply(p *node.Port, n *node.Node) error {
	old := *p
	if err := applyAll(change.edits, p); err != nil {
		return err
	}
	if p.NodeUUID == "" {
		return node.Invalid("A port needs a node_uuid.")
	}
	if !n.Maintenance {
		if err := checkPortState(&old, p, n); err != nil {
			return err
		}
	}
	if err := checkName(p.Name, change.version); err != nil && p.Name != old.Name {
		return invalidField("name", err)
	}
	if bytes.Equal(p.LocalLinkConnection, old.LocalLinkConnection) {
		return nil // an unchanged value may have a form that this version does not have
	}
	return checkPortLocalLink(p, change.version)
}

func checkPortState(old, p *node.Port, n *node.Node) error {
	if p.Address != old.Address && (n.ProvisionState == node.Active || n.InstanceUUID != "") {
		return node.Conflict("The address of port %s cannot be changed while node %s is active or has an instance_uuid; set maintenance first.", p.UUID, n.UUID)
	}
	if field := changedBinding(old, p); field != "" && !slices.Contains(bindingChangeStates, n.ProvisionState) {
		return node.Conflict("The field %q of port %s cannot be changed while node %s is in state %q; allowed are %s, or any state in maintenance.",
			field, p.UUID, n.UUID, n.ProvisionState, node.Choices(bindingChangeStates))
	}
	return nil
}

// changedBinding returns the first changed field among those that describe the connection of a port
// to its network, or "".
func changedBinding(old, p *node.Port) string {
	switch {
	case p.PortgroupUUID != old.PortgroupUUID:
		return "portgroup_uuid"
	case p.PXEEnabled != old.PXEEnabled:
		return "pxe_enabled"
	case !bytes.Equal(p.LocalLinkConnection, old.LocalLinkConnection) && !sameValue(p.LocalLinkConnection, old.LocalLinkConnection):
		return "local_link_connection"
	case p.PhysicalNetwork != old.PhysicalNetwork:
		return "physical_network"
	}
	return ""
}

func (a *api) deletePort(w http.ResponseWriter, r *http.Request) error {
	id, err := portIdent(r)
	if err != nil {
		return err
	}
	if err := a.engine.DeletePort(r.Context(), id); err != nil {
		return fmt.Errorf("delete port %s: %w", id, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
