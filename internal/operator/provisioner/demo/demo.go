// Package demo is a provisioner without an engine. Its machines are in memory and take no time: a
// verb is done when it returns, unless [Options] give it a duration. The behaviour of a machine
// depends on the name of its host, so that every state of a host can be shown and tested:
//
//	demo-unmanaged               the engine never knows a node for the host
//	demo-importing               it was never inspected
//	demo-disconnected            its ramdisk sent its last heartbeat a day ago
//	demo-registering             the verb manage never ends
//	demo-registration-error      the verb manage fails
//	demo-validation-error        the engine refuses to deploy it
//	demo-inspecting              its inspection never ends
//	demo-inspection-error        its inspection fails
//	demo-preparing               its cleaning never ends
//	demo-preparation-error       its cleaning fails
//	demo-preparation-fault       the same, and the engine puts it into maintenance
//	demo-available               becomes available
//	demo-provisioning            its deployment never ends
//	demo-provisioning-error      its deployment fails
//	demo-provisioned             can be deployed
//	demo-externally-provisioned  can be adopted
//	demo-adoption-error          its adoption fails
//	demo-deprovisioning          removing its deployment never ends
//	demo-deprovisioning-error    removing its deployment fails
//	demo-power-error             its power does not change
//	demo-no-soft-power           it has no soft power actions
//	demo-servicing               its service never ends
//	demo-service-error           its service fails
//	demo-media-error             its virtual drive takes no image
//	demo-media-fault             the same, after the engine has accepted the request
//	demo-delete-error            the engine refuses to delete it
//
// A name may go on after that ("demo-importing-3"). A machine with any other name works. The verb
// manage fails as long as the password is [WrongPassword].
//
// Nodes come into being in three ways. [Engine.Create] creates a node for a host with a BMC.
// [Engine.Discover] adds a node for a machine that nobody registered, which behaves by its host
// name. And [Engine.Find] creates a node for a name that begins with "demo-", as if the machine had
// been discovered and named. It does not if the name is about something that only machines with a
// BMC do.
//
// [Engine.Effects] tells what was asked of which machine.
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

// Options configure an engine. The zero value means an engine without nodes that works at once.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Durations say how long the work of each verb takes. Work ends when the node is first read or
	// changed after that time.
	Durations map[Verb]time.Duration
	// NoService makes the engine unable to service deployed nodes.
	NoService bool
}

// Engine is an engine in memory. It is safe for concurrent use.
type Engine struct {
	opts Options

	mu       sync.Mutex
	machines map[string]*machine
	effects  []Effect
	failing  error
}

var _ provisioner.Engine = (*Engine)(nil)

// machine is a node and its machine.
type machine struct {
	node          provisioner.Node
	behaviour     behaviour
	registration  provisioner.Registration // zero for a machine that was discovered
	macs          []string
	hardware      provisioner.Inventory  // what an inspection finds
	inventory     *provisioner.Inventory // nil until an inspection
	settings      []provisioner.Setting
	components    []provisioner.Component
	subscriptions map[string]provisioner.Subscription
	image         bool  // there is an image in its virtual drive
	work, power   *work // nil while no work is under way
}

// New returns an engine without nodes.
func New(opts Options) *Engine {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Engine{opts: opts, machines: map[string]*machine{}}
}

// Machine is a machine that nobody has registered.
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
	added := e.discover(m.Inventory.Hardware.Hostname, m.Inventory)
	flag := m.Inventory.AutoDiscovered
	added.node.AutoDiscovered = &flag
	if m.Change != nil {
		m.Change(&added.node)
	}
	e.machines[added.node.ID] = added
	return added.node.ID
}

// Change alters a node, as other clients of a real engine would. Changing its state ends the work
// that was under way.
func (e *Engine) Change(id string, change func(*provisioner.Node)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.machines[id]
	if m == nil {
		return
	}
	before := m.node.State
	change(&m.node)
	m.node.UpdatedAt = e.opts.Now()
	if m.node.State != before {
		m.work = nil
	}
}

// Forget removes a node without the operator's knowledge.
func (e *Engine) Forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.machines, id)
}

// Backup returns a function that restores the nodes as they are now, as an older database does. The
// machines themselves do not go back in time: their power stays as it is.
func (e *Engine) Backup() (restore func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := map[string]machine{}
	for id, m := range e.machines {
		kept[id] = *m
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		before := e.machines
		e.machines = map[string]*machine{}
		for id, m := range kept {
			if now := before[id]; now != nil {
				m.node.Power = now.node.Power
			}
			e.machines[id] = &m
		}
	}
}

// SetDown makes every call fail with provisioner.ErrUnreachable and the reason,
// until it is called with an empty one.
func (e *Engine) SetDown(reason string) {
	if reason == "" {
		e.SetFailing(nil)
		return
	}
	e.SetFailing(fmt.Errorf("%w: %s", provisioner.ErrUnreachable, reason))
}

// SetFailing makes every call fail with err, until it is called with nil.
func (e *Engine) SetFailing(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failing = err
}

// discover makes the machine of a node that runs the ramdisk.
func (e *Engine) discover(host string, inv provisioner.Inventory) *machine {
	m := e.newMachine(host, inv)
	m.macs = inv.Hardware.MACs()
	m.node.Agent = provisioner.Agent{URL: "https://192.0.2.1:9999", LastHeartbeat: e.opts.Now().Add(-m.behaviour.silence)}
	if !m.behaviour.noInventory {
		m.inspected(e.opts.Now())
	}
	return m
}

func (e *Engine) newMachine(host string, inv provisioner.Inventory) *machine {
	now := e.opts.Now()
	return &machine{
		behaviour: behaviourOf(host), hardware: inv,
		settings: sampleSettings(), components: sampleComponents(),
		subscriptions: map[string]provisioner.Subscription{},
		node: provisioner.Node{
			ID: uuid.NewString(), Driver: "demo", State: node.Enroll, CreatedAt: now, UpdatedAt: now,
		},
	}
}

// inspected stores what an inspection finds.
func (m *machine) inspected(now time.Time) {
	found := m.hardware
	m.inventory, m.macs = &found, found.Hardware.MACs()
	m.node.InspectedAt = now
}

// Nodes lists all nodes, or those that changed; see [provisioner.Reader].
func (e *Engine) Nodes(_ context.Context, opts provisioner.ListOptions) ([]provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing != nil {
		return nil, e.failing
	}
	var all []provisioner.Node
	for _, m := range e.machines {
		e.endDueWork(m)
		if !m.node.UpdatedAt.Before(opts.ChangedSince) {
			all = append(all, e.snapshot(m))
		}
	}
	slices.SortFunc(all, func(a, b provisioner.Node) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return all, nil
}

// snapshot returns the node. The agents of machines that behave send a heartbeat just now.
func (e *Engine) snapshot(m *machine) provisioner.Node {
	if m.behaviour.silence == 0 && !m.node.Agent.LastHeartbeat.IsZero() {
		m.node.Agent.LastHeartbeat = e.opts.Now()
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

// get ends the work of a node that is due and returns its machine. The caller holds mu.
func (e *Engine) get(id string) (*machine, error) {
	if e.failing != nil {
		return nil, e.failing
	}
	m := e.machines[id]
	if m == nil {
		return nil, fmt.Errorf("demo node %s: %w", id, provisioner.ErrNotFound)
	}
	e.endDueWork(m)
	return m, nil
}

// Find returns the node with the identity's ID or name. It creates a node for some unknown names;
// see the package.
func (e *Engine) Find(_ context.Context, identity provisioner.Identity) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing != nil {
		return provisioner.Node{}, e.failing
	}
	for _, m := range e.machines {
		if m.node.ID == identity.ID || identity.Name != "" && m.node.Name == identity.Name {
			e.endDueWork(m)
			return e.snapshot(m), nil
		}
	}
	host := hostOf(identity.Name)
	if b := behaviourOf(host); !strings.HasPrefix(host, "demo-") || b.unknown || b.registered {
		return provisioner.Node{}, fmt.Errorf("demo node of host %s: %w", host, provisioner.ErrNotFound)
	}
	m := e.discover(host, inventoryWith(host, identity.MAC))
	m.node.Name = identity.Name
	e.machines[m.node.ID] = m
	return e.snapshot(m), nil
}

// hostOf returns the host's name from the name of its node.
func hostOf(name string) string {
	_, host, _ := strings.Cut(name, "~")
	return host
}

// inventoryWith returns the inventory of a host's machine. Its first interface has the given MAC
// address, unless that is empty.
func inventoryWith(host, mac string) provisioner.Inventory {
	inv := SampleInventory(host)
	if mac != "" {
		inv.Hardware.Interfaces[0].MACAddress = strings.ToLower(mac)
	}
	return inv
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

// AllMACs returns all MAC addresses; see [provisioner.Reader].
func (e *Engine) AllMACs(context.Context) (map[string][]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing != nil {
		return nil, e.failing
	}
	macs := map[string][]string{}
	for id, m := range e.machines {
		if len(m.macs) > 0 {
			macs[id] = slices.Clone(m.macs)
		}
	}
	return macs, nil
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
