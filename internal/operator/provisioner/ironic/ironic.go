// Package ironic is the provisioner for engines with the Bare Metal API: Ingot's
// own, and upstream Ironic from API version 1.81 on.
package ironic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// nodeFields are the fields of a node that the operator reads. The client leaves out
// auto_discovered for an engine that does not have it. An engine that refuses another field is
// asked for whole nodes, because that is the only other way in which Ironic shows created_at and
// updated_at.
var nodeFields = []string{
	"uuid", "name", "driver", "provision_state", "provision_updated_at", "target_provision_state", "power_state", "target_power_state",
	"last_error", "maintenance", "maintenance_reason", "fault", "instance_uuid", "owner", "clean_step", "deploy_step",
	"reservation", "inspection_finished_at", "created_at", "updated_at",
	"driver_internal_info", "auto_discovered", "automated_clean", "extra",
}

// laterFields are further fields, with the microversions 1.N that introduced them.
var laterFields = []struct {
	since int
	name  string
}{{serviceSince, "service_step"}, {healthSince, "health"}}

// Options configure the provisioner. The zero value leaves everything to the engine.
type Options struct {
	// Ramdisk is what the ramdisk boots from on nodes with a BMC. It is for engines that do not
	// have it in their own configuration. Images of a host take precedence.
	Ramdisk Ramdisk
	// PersistentBoot says which boot devices of deployed machines are set persistently.
	PersistentBoot PersistentBoot
}

// Ramdisk are the URLs of the ramdisk's images. Machines that boot from an image get the
// ISO, others the kernel and the initial ramdisk.
type Ramdisk struct {
	Kernel, Ramdisk, ISO string
	// Bootloader is the image of an EFI system partition that the engine makes bootable images
	// with.
	Bootloader string
}

// Engine is an engine behind the Bare Metal API.
type Engine struct {
	client *ironic.Client
	opts   Options
	// whole is the API version, as a string, at which this engine refused nodeFields.
	whole atomic.Value
}

var _ provisioner.Engine = (*Engine)(nil)

// New returns the provisioner for the engine that client reaches.
func New(client *ironic.Client, opts Options) *Engine { return &Engine{client: client, opts: opts} }

// fields returns nodeFields and those of laterFields that the engine's version has.
func (e *Engine) fields(ctx context.Context) ([]string, error) {
	fields := slices.Clone(nodeFields)
	for _, later := range laterFields {
		serves, err := e.client.Supports(ctx, later.since)
		if err != nil {
			return nil, translate(err)
		}
		if serves {
			fields = append(fields, later.name)
		}
	}
	return fields, nil
}

// choosing runs a request with the fields that the engine has. nil fields mean whole nodes.
func (e *Engine) choosing(ctx context.Context, request func(fields []string) error) error {
	version, err := e.client.Microversion(ctx)
	if err != nil {
		return translate(err)
	}
	if e.whole.Load() == version {
		return translate(request(nil))
	}
	fields, err := e.fields(ctx)
	if err != nil {
		return err
	}
	err = request(fields)
	if refusesFields(err) {
		e.whole.Store(version)
		err = request(nil)
	}
	return translate(err)
}

// Nodes lists nodes; see [provisioner.Reader].
func (e *Engine) Nodes(ctx context.Context, opts provisioner.ListOptions) ([]provisioner.Node, error) {
	query := ironic.NodeQuery{PageSize: opts.Limit}
	if !opts.ChangedSince.IsZero() {
		query.SortKey, query.SortDir = "updated_at", ironic.Descending
	}
	var found []provisioner.Node
	err := e.choosing(ctx, func(fields []string) error {
		query.Fields, query.Detail, found = fields, fields == nil, nil
		for n, err := range e.client.Nodes(ctx, query) {
			if err != nil {
				return err
			}
			snapshot := snapshotOf(n)
			// A node without a time of change may be old or brand new, so it does not end the list.
			if !snapshot.UpdatedAt.IsZero() && snapshot.UpdatedAt.Before(opts.ChangedSince) {
				break
			}
			found = append(found, snapshot)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Node reads one node; see [provisioner.Reader].
func (e *Engine) Node(ctx context.Context, id string) (provisioner.Node, error) {
	var n ironic.Node
	err := e.choosing(ctx, func(fields []string) (err error) {
		n, err = e.client.Node(ctx, id, fields...)
		return err
	})
	if err != nil {
		return provisioner.Node{}, err
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

// AllMACs returns the addresses of all ports; see [provisioner.Reader].
func (e *Engine) AllMACs(ctx context.Context) (map[string][]string, error) {
	macs := map[string][]string{}
	for port, err := range e.client.AllPorts(ctx) {
		if err != nil {
			return nil, translate(err)
		}
		macs[port.NodeUUID] = append(macs[port.NodeUUID], strings.ToLower(port.Address))
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

// Lock makes the lock the node's instance; see [provisioner.Lifecycle]. Engines refuse the lock in
// the transaction that would write it, unless the node has no instance or this one.
func (e *Engine) Lock(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	n, err := e.client.UpdateNode(ctx, id, nodes.UpdateOperation{Op: nodes.AddOp, Path: instancePath, Value: mark.Lock(id)})
	if err == nil {
		return snapshotOf(n), nil
	}
	refusal := translate(err)
	if !errors.Is(refusal, provisioner.ErrConflict) {
		return provisioner.Node{}, refusal
	}
	present, err := e.Node(ctx, id)
	switch {
	case err != nil:
		return provisioner.Node{}, err
	case present.InstanceID != "":
		return provisioner.Node{}, fmt.Errorf("lock node %s: %w: %s", id, provisioner.ErrNotOwned, present.UsedFor())
	default:
		// Another host had the lock until now.
		return provisioner.Node{}, &kindError{kind: provisioner.ErrBusy, err: refusal}
	}
}

// Unlock removes the lock; see [provisioner.Lifecycle].
func (e *Engine) Unlock(ctx context.Context, id string, _ provisioner.Mark) error {
	_, err := e.client.UpdateNode(ctx, id, unlock)
	return translate(err)
}

// Claim writes the mark; see [provisioner.Lifecycle].
func (e *Engine) Claim(ctx context.Context, id string, mark provisioner.Mark, opts provisioner.ClaimOptions) (provisioner.Node, error) {
	changes := []nodes.UpdateOperation{{Op: nodes.AddOp, Path: markPath, Value: string(mark)}}
	if opts.Unlock {
		changes = append(changes, unlock)
	}
	n, err := e.client.UpdateNode(ctx, id, changes...)
	if err != nil {
		return provisioner.Node{}, translate(err)
	}
	return snapshotOf(n), nil
}

// Places in a node that say whom it belongs to.
const (
	instancePath = "/instance_uuid"
	markPath     = "/extra/" + v1alpha1.NodeMarkKey
	releasePath  = "/extra/" + v1alpha1.NodeReleaseKey
)

// credentialsPath is the place in a node that says which version of the credentials it has.
const credentialsPath = "/extra/" + v1alpha1.NodeCredentialsKey

// unlock removes the lock of a node.
var unlock = nodes.UpdateOperation{Op: nodes.RemoveOp, Path: instancePath}

// Release writes that the node's host moves; see [provisioner.Lifecycle].
func (e *Engine) Release(ctx context.Context, id string, mark provisioner.Mark, released string) error {
	n, err := e.Node(ctx, id)
	switch {
	case err != nil:
		return err
	case n.Mark != mark:
		return fmt.Errorf("release node %s: %w", id, provisioner.ErrNotOwned)
	case n.Released == released:
		return nil
	}
	_, err = e.client.UpdateNode(ctx, id, nodes.UpdateOperation{Op: nodes.AddOp, Path: releasePath, Value: released})
	return translate(err)
}

// TakeReleased takes a released node; see [provisioner.Lifecycle]. The API has no operation that
// tests a value. But it refuses to remove a key that is not there, and then makes none of the
// changes.
func (e *Engine) TakeReleased(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	n, err := e.client.UpdateNode(ctx, id,
		nodes.UpdateOperation{Op: nodes.RemoveOp, Path: releasePath},
		nodes.UpdateOperation{Op: nodes.AddOp, Path: markPath, Value: string(mark)})
	if err == nil {
		return snapshotOf(n), nil
	}
	if !errors.Is(err, ironic.ErrRejected) {
		return provisioner.Node{}, translate(err)
	}
	present, readErr := e.Node(ctx, id)
	if readErr == nil && present.Released == "" {
		if present.Mark == mark { // an earlier request whose answer was lost
			return present, nil
		}
		return provisioner.Node{}, fmt.Errorf("take node %s: %w", id, provisioner.ErrNotOwned)
	}
	return provisioner.Node{}, translate(err)
}

// Delete deletes the node from the engine; see [provisioner.Lifecycle]. In most states, engines
// delete a node only if it is in maintenance.
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
	// The engine would refuse to set maintenance with a patch while the node waits in its work.
	if err := e.client.SetMaintenance(ctx, id, "its host is deleted or detached"); err != nil {
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
		ID: n.UUID, Name: n.Name, Mark: markIn(n.Extra), Released: textIn(n.Extra, v1alpha1.NodeReleaseKey), Driver: n.Driver,
		CredentialsVersion: textIn(n.Extra, v1alpha1.NodeCredentialsKey),
		State:              node.State(n.ProvisionState), TargetState: node.State(n.TargetProvisionState),
		Power: powerOf(n.PowerState), TargetPower: node.PowerState(n.TargetPowerState),
		Step: stepOf(n), Fault: n.Fault, LastError: node.CutText(n.LastError),
		Maintenance: n.Maintenance, MaintenanceReason: node.CutText(n.MaintenanceReason),
		InstanceID: n.InstanceUUID, Owner: n.Owner,
		Busy:           n.Reservation != "",
		Suspended:      n.Reservation == node.SuspendedHolder,
		Cleans:         n.AutomatedClean != nil && *n.AutomatedClean,
		SkipsCleaning:  n.AutomatedClean != nil && !*n.AutomatedClean,
		AutoDiscovered: n.AutoDiscovered,
		Health:         n.Health,
		StateChangedAt: n.ProvisionUpdatedAt.UTC(),
		CreatedAt:      n.CreatedAt.UTC(), UpdatedAt: n.UpdatedAt.UTC(),
		InspectedAt: value(n.InspectionFinishedAt),
	}
	s.Agent.URL, _ = n.DriverInternalInfo["agent_url"].(string)
	_, s.GuardsFirmware = n.DriverInternalInfo[node.FirmwareUpdatesKey]
	s.Agent.LastHeartbeat = n.AgentLastHeartbeat()
	return s
}

// powerOf returns the power state, or "" if the engine could not read it.
func powerOf(state string) node.PowerState {
	if state == "error" {
		return ""
	}
	return node.PowerState(state)
}

// stepOf returns the name of the running step, or "".
func stepOf(n ironic.Node) string {
	for _, step := range []map[string]any{n.CleanStep, n.DeployStep, n.ServiceStep} {
		if name, _ := step["step"].(string); name != "" {
			return name
		}
	}
	return ""
}

// markIn returns the mark in a node's extra data. A value that is not text counts as somebody
// else's mark; null counts as none.
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

// textIn returns the value of a key in a node's extra data, or "".
func textIn(extra map[string]any, key string) string {
	if text, there := extra[key]; there {
		return fmt.Sprint(text)
	}
	return ""
}

func value(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
