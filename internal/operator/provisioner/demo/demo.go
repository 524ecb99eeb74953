// Package demo is a provisioner without an engine. Its nodes are in memory and
// take no time: a verb is done when it returns. The behaviour of a node depends on
// the name of its host, so that every state of a host can be shown and tested:
//
//	demo-unmanaged          the engine never knows a node for the host
//	demo-importing          its inspection never ends
//	demo-preparing          the verb manage never ends
//	demo-preparation-error  the verb provide fails
//	demo-disconnected       its ramdisk sent its last heartbeat a day ago
//	demo-delete-error       the engine refuses to delete it
//
// A name may continue after that ("demo-importing-3"), and every other name that
// begins with "demo-" becomes available: such a host gets a node as soon as it
// is looked up. Other hosts have none. Nodes of machines that nobody registered
// are added with [Engine.Discover] and behave by their host names.
package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Engine is an engine in memory. It is safe for concurrent use.
type Engine struct {
	now func() time.Time

	mu       sync.Mutex
	machines map[string]*machine
	down     error
}

var _ provisioner.Engine = (*Engine)(nil)

type machine struct {
	node      provisioner.Node
	behaviour behaviour
	macs      []string
	inventory *provisioner.Inventory
}

// New returns an engine without nodes; now is its clock.
func New(now func() time.Time) *Engine {
	return &Engine{now: now, machines: map[string]*machine{}}
}

// Machine is a machine that nobody registered.
type Machine struct {
	// Inventory is what its ramdisk reports.
	Inventory provisioner.Inventory
	// Change, if not nil, alters the node before it can be seen.
	Change func(*provisioner.Node)
}

// Discover adds the node of a machine, as auto-discovery does, and returns the
// node's ID.
func (e *Engine) Discover(m Machine) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	inv := m.Inventory
	return e.add(inv.Hardware.Hostname, &inv, func(n *provisioner.Node) {
		n.AutoDiscovered = &inv.AutoDiscovered
		if m.Change != nil {
			m.Change(n)
		}
	})
}

// Update alters a node, as other clients of a real engine would.
func (e *Engine) Update(id string, change func(*provisioner.Node)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.machines[id]; m != nil {
		change(&m.node)
		m.node.UpdatedAt = e.now()
	}
}

// Forget removes a node without the operator's knowledge.
func (e *Engine) Forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.machines, id)
}

// SetDown makes every call fail with provisioner.ErrUnreachable and the reason,
// until it is called with an empty one.
func (e *Engine) SetDown(reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = nil
	if reason != "" {
		e.down = fmt.Errorf("%w: %s", provisioner.ErrUnreachable, reason)
	}
}

// add is called with mu held.
func (e *Engine) add(key string, inv *provisioner.Inventory, change func(*provisioner.Node)) string {
	now := e.now()
	m := &machine{behaviour: behaviourOf(key), macs: inv.Hardware.MACs(), inventory: inv}
	m.node = provisioner.Node{
		ID: uuid.NewString(), Driver: "demo", State: node.Enroll,
		InspectedAt: now, CreatedAt: now, UpdatedAt: now,
		Agent: provisioner.Agent{URL: "https://192.0.2.1:9999", LastHeartbeat: now.Add(-m.behaviour.silence)},
	}
	if m.behaviour.noInventory {
		m.node.InspectedAt = time.Time{}
		m.inventory = nil
	}
	change(&m.node)
	e.machines[m.node.ID] = m
	return m.node.ID
}

// Nodes lists all nodes, or those that changed; see [provisioner.Reader].
func (e *Engine) Nodes(_ context.Context, opts provisioner.ListOptions) ([]provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down != nil {
		return nil, e.down
	}
	var all []provisioner.Node
	for _, m := range e.machines {
		if !m.node.UpdatedAt.Before(opts.ChangedSince) {
			all = append(all, e.snapshot(m))
		}
	}
	slices.SortFunc(all, func(a, b provisioner.Node) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return all, nil
}

// snapshot keeps the agents of machines that behave alive.
func (e *Engine) snapshot(m *machine) provisioner.Node {
	if m.behaviour.silence == 0 && !m.node.Agent.LastHeartbeat.IsZero() {
		m.node.Agent.LastHeartbeat = e.now()
	}
	return m.node
}

// Node reads one node; see [provisioner.Reader].
func (e *Engine) Node(_ context.Context, id string) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return provisioner.Node{}, err
	}
	return e.snapshot(m), nil
}

// get is called with mu held.
func (e *Engine) get(id string) (*machine, error) {
	if e.down != nil {
		return nil, e.down
	}
	m := e.machines[id]
	if m == nil {
		return nil, fmt.Errorf("demo node %s: %w", id, provisioner.ErrNotFound)
	}
	return m, nil
}

// Find returns the node with the identity's ID or name. For a name that it does
// not know it creates a node, unless the behaviour of the name differs.
func (e *Engine) Find(_ context.Context, identity provisioner.Identity) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down != nil {
		return provisioner.Node{}, e.down
	}
	for _, m := range e.machines {
		if m.node.ID == identity.ID || identity.Name != "" && m.node.Name == identity.Name {
			return e.snapshot(m), nil
		}
	}
	_, host, _ := strings.Cut(identity.Name, "~")
	if !strings.HasPrefix(host, "demo-") || behaviourOf(host).unknown {
		return provisioner.Node{}, fmt.Errorf("demo node of host %s: %w", host, provisioner.ErrNotFound)
	}
	inv := SampleInventory(host)
	if identity.MAC != "" {
		inv.Hardware.Interfaces[0].MACAddress = strings.ToLower(identity.MAC)
	}
	id := e.add(host, &inv, func(n *provisioner.Node) { n.Name = identity.Name })
	return e.snapshot(e.machines[id]), nil
}

// MACs returns the node's MAC addresses; see [provisioner.Reader].
func (e *Engine) MACs(_ context.Context, id string) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return nil, err
	}
	return slices.Clone(m.macs), nil
}

// Inventory returns the node's inventory; see [provisioner.Reader].
func (e *Engine) Inventory(_ context.Context, id string) (*provisioner.Inventory, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return nil, err
	}
	if m.inventory == nil {
		return nil, fmt.Errorf("demo node %s: %w", id, provisioner.ErrNoInventory)
	}
	return m.inventory, nil
}

// Claim writes the mark; see [provisioner.Lifecycle].
func (e *Engine) Claim(_ context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	var marked provisioner.Node
	err := e.move(id, func(m *machine) {
		m.node.Mark = mark
		marked = e.snapshot(m)
	})
	return marked, err
}

// Manage brings an enrolled node to manageable; see [provisioner.Lifecycle].
func (e *Engine) Manage(_ context.Context, id string) error {
	return e.move(id, func(m *machine) {
		m.node.State = node.Manageable
		if m.behaviour.stuck {
			m.node.State = node.Verifying
		}
	})
}

// Provide brings a manageable node to available; see [provisioner.Lifecycle].
func (e *Engine) Provide(_ context.Context, id string, _ provisioner.ProvideOptions) error {
	return e.move(id, func(m *machine) {
		m.node.State, m.node.LastError = node.Available, ""
		if m.behaviour.cleanFails {
			m.node.State, m.node.LastError = node.CleanFailed, "demo: the disk cannot be wiped"
		}
	})
}

func (e *Engine) move(id string, effect func(*machine)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	effect(m)
	m.node.UpdatedAt = e.now()
	return nil
}

// Delete deletes the node; see [provisioner.Lifecycle].
func (e *Engine) Delete(_ context.Context, id string, mark provisioner.Mark) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	switch {
	case e.down != nil:
		return err
	case err != nil:
		return nil
	case m.node.Mark != mark:
		return fmt.Errorf("delete demo node %s: %w", id, provisioner.ErrNotOwned)
	case m.behaviour.undeletable:
		return fmt.Errorf("delete demo node %s: it is set not to be deleted", id)
	}
	delete(e.machines, id)
	return nil
}
