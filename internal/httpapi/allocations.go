package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func allocationUUID(a *node.Allocation) string { return a.UUID }

// allocationTable is every field of an allocation, in the order of output. Lists show all.
var allocationTable = newTable("allocation", inLists([]field[node.Allocation]{
	{name: "uuid", since: 1, access: atCreate, value: uuidOf(func(a *node.Allocation) *string { return &a.UUID })},
	{name: "name", since: 1, access: patchable, value: textOf(func(a *node.Allocation) *string { return &a.Name })},
	{name: "node", since: 58, access: atCreate, noSort: true, value: identOf(func(a *node.Allocation) *string { return &a.NodeUUID })},
	{name: "node_uuid", since: 1, noSort: true, value: textOf(func(a *node.Allocation) *string { return &a.NodeUUID })},
	{name: "resource_class", since: 1, access: atCreate, value: textUpTo(80, func(a *node.Allocation) *string { return &a.ResourceClass })},
	{name: "state", since: 1, value: computed(func(dst []byte, _ *view, a *node.Allocation) []byte { return appendText(dst, string(a.State)) })},
	{name: "last_error", since: 1, value: textOf(func(a *node.Allocation) *string { return &a.LastError })},
	{name: "candidate_nodes", since: 1, access: atCreate, noSort: true, value: wordListOf(func(a *node.Allocation) *node.Words { return &a.CandidateNodes }, checkReference)},
	{name: "traits", since: 1, access: atCreate, noSort: true, value: wordListOf(func(a *node.Allocation) *node.Words { return &a.Traits }, node.CheckTrait)},
	{name: "owner", since: 60, access: atCreate, value: textOf(func(a *node.Allocation) *string { return &a.Owner })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(a *node.Allocation) *node.Object { return &a.Extra })},
}), inLists(stampsOf("allocations", allocationUUID,
	func(a *node.Allocation) *time.Time { return &a.CreatedAt }, func(a *node.Allocation) *time.Time { return &a.UpdatedAt })))

func (a *api) allocations() *collection[node.Allocation] {
	return &collection[node.Allocation]{
		api: a, table: allocationTable, path: "allocations", name: "allocations", named: true,
		since: 52, patchSince: 57, writeBelow: http.StatusMethodNotAllowed, all: Engine.Allocations, uuid: allocationUUID,
		filters: []filter{
			{name: "node", since: 1, find: allocatedNodeFilter},
			{name: "resource_class", since: 1, parse: textFilter("resource_class")},
			{name: "state", since: 1, parse: allocationStateFilter},
			{name: "owner", since: 60, parse: textFilter("owner")},
		},
		check: checkAllocation,
	}
}

// allocatedNodeFilter is nodeFilter, but an unknown node is a 400, as in a new allocation.
func allocatedNodeFilter(a *api, r *http.Request, ident string) (node.Filter, error) {
	filter, err := nodeFilter(a, r, ident)
	if errors.Is(err, node.ErrNotFound) {
		err = badRequest("Invalid value for argument node: %v", err)
	}
	return filter, err
}

func allocationStateFilter(text string) (node.Filter, error) {
	if !slices.Contains(node.AllocationStates(), node.AllocationState(text)) {
		return node.Filter{}, badRequest("Invalid value for argument state: want one of %s, got %q", node.Choices(node.AllocationStates()), text)
	}
	return node.Filter{Field: "state", Value: text}, nil
}

// checkAllocation checks the rules that involve several fields of an allocation.
func checkAllocation(a *node.Allocation, version int) error {
	if err := checkName(a.Name, version); err != nil {
		return invalidField("name", err)
	}
	switch {
	case a.State != "": // a patch of an allocation that the engine has accepted
		return nil
	case a.NodeUUID == "" && a.ResourceClass == "":
		return node.Invalid("An allocation needs a resource_class.")
	}
	return nil
}

// allocationRoutes are the routes of allocations and of the allocation of a node.
func (a *api) allocationRoutes() []route {
	return append(a.allocations().routes(),
		route{method: get, pattern: "/v1/nodes/{ident}/allocation", role: reader, since: 52, args: []string{"fields"}, handler: a.showNodeAllocation},
		route{method: remove, pattern: "/v1/nodes/{ident}/allocation", role: admin, since: 52, handler: a.deleteNodeAllocation},
	)
}

func (a *api) showNodeAllocation(w http.ResponseWriter, r *http.Request) error {
	fields, err := itemFields(callOf(r), allocationTable)
	if err != nil {
		return err
	}
	uuid, err := a.nodeAllocation(r)
	if err != nil {
		return err
	}
	allocation, err := a.engine.Allocations().Get(r.Context(), uuid)
	if err != nil {
		return fmt.Errorf("read allocation %s: %w", uuid, err)
	}
	return showItem(a, w, r, allocation, fields)
}

func (a *api) deleteNodeAllocation(w http.ResponseWriter, r *http.Request) error {
	uuid, err := a.nodeAllocation(r)
	if err != nil {
		return err
	}
	if err := a.engine.Allocations().Delete(r.Context(), uuid); err != nil {
		return fmt.Errorf("delete allocation %s: %w", uuid, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// nodeAllocation returns the UUID of the allocation of the node in the path.
func (a *api) nodeAllocation(r *http.Request) (string, error) {
	n, err := a.pathNode(r)
	if err != nil {
		return "", err
	}
	if n.AllocationUUID == "" {
		return "", &node.NotFoundError{Kind: "Allocation of node", Ident: n.UUID}
	}
	return n.AllocationUUID, nil
}
