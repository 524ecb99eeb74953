// Package ironic is the provisioner for engines with the Bare Metal API: Ingot's
// own, and upstream Ironic from API version 1.81 on.
package ironic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// nodeFields are the fields of a node that the operator reads. An engine
// without auto_discovered gets a request without it.
var nodeFields = []string{
	"uuid", "name", "driver", "provision_state", "last_error",
	"maintenance", "maintenance_reason", "instance_uuid", "owner",
	"reservation", "inspection_finished_at", "created_at", "updated_at",
	"driver_internal_info", "auto_discovered", "extra",
}

// Engine is an engine behind the Bare Metal API.
type Engine struct {
	client *ironic.Client
}

var _ provisioner.Engine = (*Engine)(nil)

// New returns the provisioner for the engine that client reaches.
func New(client *ironic.Client) *Engine { return &Engine{client: client} }

// Nodes lists nodes; see [provisioner.Reader].
func (e *Engine) Nodes(ctx context.Context, opts provisioner.ListOptions) ([]provisioner.Node, error) {
	query := ironic.NodeQuery{Fields: nodeFields, PageSize: opts.Limit}
	if !opts.ChangedSince.IsZero() {
		query.SortKey, query.SortDir = "updated_at", ironic.Descending
	}
	var found []provisioner.Node
	for n, err := range e.client.Nodes(ctx, query) {
		if err != nil {
			return nil, translate(err)
		}
		snapshot := snapshotOf(n)
		// A node without a time of change may be old or brand new; it does not
		// end the list.
		if !snapshot.UpdatedAt.IsZero() && snapshot.UpdatedAt.Before(opts.ChangedSince) {
			break
		}
		found = append(found, snapshot)
	}
	return found, nil
}

// Node reads one node; see [provisioner.Reader].
func (e *Engine) Node(ctx context.Context, id string) (provisioner.Node, error) {
	n, err := e.client.Node(ctx, id, nodeFields...)
	if err != nil {
		return provisioner.Node{}, translate(err)
	}
	return snapshotOf(n), nil
}

// Find looks a node up by what identifies it; see [provisioner.Reader].
func (e *Engine) Find(ctx context.Context, identity provisioner.Identity) (provisioner.Node, error) {
	for _, ident := range []string{identity.ID, identity.Name} {
		if ident == "" {
			continue
		}
		n, err := e.Node(ctx, ident)
		if !errors.Is(err, provisioner.ErrNotFound) {
			return n, err
		}
	}
	return provisioner.Node{}, fmt.Errorf("find node: %w", provisioner.ErrNotFound)
}

// MACs returns the addresses of the node's ports; see [provisioner.Reader].
func (e *Engine) MACs(ctx context.Context, id string) ([]string, error) {
	ports, err := e.client.Ports(ctx, id)
	if err != nil {
		return nil, translate(err)
	}
	macs := make([]string, len(ports))
	for i, port := range ports {
		macs[i] = strings.ToLower(port.Address)
	}
	return macs, nil
}

// Inventory reads the inventory; see [provisioner.Reader].
func (e *Engine) Inventory(ctx context.Context, id string) (*provisioner.Inventory, error) {
	raw, err := e.client.Inventory(ctx, id)
	if errors.Is(err, ironic.ErrNotFound) {
		// The API answers 404 both for the node and for its inventory.
		return nil, fmt.Errorf("read inventory of node %s: %w", id, provisioner.ErrNoInventory)
	}
	if err != nil {
		return nil, translate(err)
	}
	inv, err := provisioner.DecodeInventory(raw.Inventory, raw.PluginData)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", id, err)
	}
	return inv, nil
}

// Claim writes the mark; see [provisioner.Lifecycle].
func (e *Engine) Claim(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	n, err := e.client.UpdateNode(ctx, id, nodes.UpdateOperation{
		Op: nodes.AddOp, Path: "/extra/" + v1alpha1.NodeMarkKey, Value: string(mark),
	})
	if err != nil {
		return provisioner.Node{}, translate(err)
	}
	return snapshotOf(n), nil
}

// Manage makes the node manageable; see [provisioner.Lifecycle].
func (e *Engine) Manage(ctx context.Context, id string) error {
	return e.provision(ctx, id, ironic.Manage, node.Verifying, node.Manageable)
}

// Provide makes the node available; see [provisioner.Lifecycle].
func (e *Engine) Provide(ctx context.Context, id string, opts provisioner.ProvideOptions) error {
	if opts.SkipCleaning {
		if _, err := e.client.UpdateNode(ctx, id, nodes.UpdateOperation{
			Op: nodes.AddOp, Path: "/automated_clean", Value: false,
		}); err != nil {
			return translate(err)
		}
	}
	return e.provision(ctx, id, ironic.Provide, node.Cleaning, node.CleanWait, node.Available)
}

// provision sends a verb. When the engine refuses it, an earlier request whose answer
// was lost may already have had that effect.
func (e *Engine) provision(ctx context.Context, id string, verb ironic.Verb, done ...node.State) error {
	err := e.client.Provision(ctx, id, verb)
	if !errors.Is(err, ironic.ErrRejected) && !errors.Is(err, ironic.ErrConflict) {
		return translate(err)
	}
	n, readErr := e.Node(ctx, id)
	if readErr == nil && slices.Contains(done, n.State) {
		return nil
	}
	return translate(err)
}

// Delete deletes the node from the engine; see [provisioner.Lifecycle]. In
// most states engines delete a node only in maintenance.
func (e *Engine) Delete(ctx context.Context, id string, mark provisioner.Mark) error {
	err := e.client.DeleteNode(ctx, id)
	if !errors.Is(err, ironic.ErrConflict) {
		return ignoreNotFound(translate(err))
	}
	n, readErr := e.Node(ctx, id)
	switch {
	case readErr != nil:
		return ignoreNotFound(readErr)
	case n.Mark != mark:
		return fmt.Errorf("delete node %s: %w", id, provisioner.ErrNotOwned)
	case n.Busy:
		return &kindError{kind: provisioner.ErrBusy, err: err}
	case n.Maintenance:
		return translate(err) // maintenance does not help, so the refusal is final
	}
	if _, err := e.client.UpdateNode(ctx, id, nodes.UpdateOperation{
		Op: nodes.AddOp, Path: "/maintenance", Value: true,
	}); err != nil {
		return ignoreNotFound(translate(err))
	}
	return ignoreNotFound(translate(e.client.DeleteNode(ctx, id)))
}

func ignoreNotFound(err error) error {
	if errors.Is(err, provisioner.ErrNotFound) {
		return nil
	}
	return err
}

func snapshotOf(n ironic.Node) provisioner.Node {
	s := provisioner.Node{
		ID: n.UUID, Name: n.Name, Mark: markIn(n.Extra), Driver: n.Driver,
		State: node.State(n.ProvisionState), LastError: n.LastError,
		Maintenance: n.Maintenance, MaintenanceReason: n.MaintenanceReason,
		InstanceID: n.InstanceUUID, Owner: n.Owner,
		Busy:           n.Reservation != "",
		AutoDiscovered: n.AutoDiscovered,
		CreatedAt:      n.CreatedAt.UTC(), UpdatedAt: n.UpdatedAt.UTC(),
		InspectedAt: value(n.InspectionFinishedAt),
	}
	s.Agent.URL, _ = n.DriverInternalInfo["agent_url"].(string)
	s.Agent.LastHeartbeat = n.AgentLastHeartbeat()
	return s
}

// markIn returns the mark in a node's extra data. A value that is no text counts as the
// mark of somebody else; null counts as none.
func markIn(extra map[string]any) provisioner.Mark {
	switch mark := extra[v1alpha1.NodeMarkKey].(type) {
	case nil:
		return ""
	case string:
		return provisioner.Mark(mark)
	default:
		return provisioner.Mark(fmt.Sprint(mark))
	}
}

func value(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
