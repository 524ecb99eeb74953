package demo

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// WrongPassword is a password that no BMC accepts.
const WrongPassword = "wrong"

// Create creates a node; see [provisioner.Registrar].
func (e *Engine) Create(_ context.Context, r provisioner.Registration) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing != nil {
		return provisioner.Node{}, e.failing
	}
	if err := e.free(r, nil); err != nil {
		return provisioner.Node{}, fmt.Errorf("create demo node %s: %w", r.Name, err)
	}
	inv := inventoryWith(hostOf(r.Name), r.BootMAC)
	inv.AutoDiscovered = false
	m := e.newMachine(hostOf(r.Name), inv)
	m.node.AutoDiscovered = &inv.AutoDiscovered
	if r.BootMAC != "" {
		m.macs = []string{strings.ToLower(r.BootMAC)}
	}
	e.addPorts(m, r.NICs)
	m.register(r)
	e.machines[m.node.ID] = m
	e.recordRequest(m, VerbCreate, r)
	return e.snapshot(m), nil
}

// free returns ErrConflict if another machine has the name or the boot MAC address of the
// registration.
func (e *Engine) free(r provisioner.Registration, self *machine) error {
	mac := strings.ToLower(r.BootMAC)
	for _, other := range e.machines {
		switch {
		case other == self:
		case other.node.Name != "" && other.node.Name == r.Name:
			return fmt.Errorf("%w: a node with name %s already exists", provisioner.ErrConflict, r.Name)
		case mac != "" && slices.Contains(other.macs, mac):
			return fmt.Errorf("%w: a port with MAC address %s already exists", provisioner.ErrConflict, mac)
		}
	}
	return nil
}

// addPorts gives a machine the addresses of its NICs that no other machine has.
func (e *Engine) addPorts(m *machine, nics []provisioner.NIC) {
	for _, nic := range nics {
		if e.free(provisioner.Registration{BootMAC: nic.MAC}, m) == nil && !slices.Contains(m.macs, nic.MAC) {
			m.macs = append(m.macs, nic.MAC)
		}
	}
}

func (m *machine) register(r provisioner.Registration) {
	r.NICs = nil // only their ports are kept
	if r.Access == nil {
		r.Access, r.CredentialsVersion = m.registration.Access, m.registration.CredentialsVersion
	}
	m.registration = r
	m.node.CredentialsVersion = r.CredentialsVersion
	m.node.Name, m.node.Mark = r.Name, r.Mark
	m.node.Cleans, m.node.SkipsCleaning = !r.SkipAutomatedCleaning, r.SkipAutomatedCleaning
	if r.Access != nil {
		m.node.Driver = r.Access.Driver
	}
}

// Update changes what differs; see [provisioner.Registrar].
func (e *Engine) Update(_ context.Context, id string, r provisioner.Registration, opts provisioner.UpdateOptions) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return provisioner.Node{}, err
	}
	if m.node.Mark != r.Mark {
		return provisioner.Node{}, fmt.Errorf("update demo node %s: %w", id, provisioner.ErrNotOwned)
	}
	if err := e.free(r, m); err != nil {
		return provisioner.Node{}, fmt.Errorf("update demo node %s: %w", id, err)
	}
	e.addPorts(m, r.NICs)
	r.NICs = nil
	before := m.registration
	moved := r.Access != nil && !reflect.DeepEqual(before.Access, r.Access)
	rotated := r.Access != nil && m.node.CredentialsVersion != r.CredentialsVersion
	if !opts.WithCredentials && !moved && !rotated {
		r.Credentials = before.Credentials
	}
	if r.KeepRamdisk {
		r.RamdiskImage, r.NetworkData, r.KeepRamdisk = before.RamdiskImage, before.NetworkData, before.KeepRamdisk
	}
	now := r
	if now.Access == nil {
		now.Access, now.CredentialsVersion = before.Access, before.CredentialsVersion
	}
	same := m.node.Name == r.Name && m.node.SkipsCleaning == r.SkipAutomatedCleaning
	if !opts.WithCredentials && !rotated && reflect.DeepEqual(before, now) && same {
		return e.snapshot(m), nil
	}
	m.register(r)
	if before.Access == nil && r.Access != nil && m.node.State != node.Enroll {
		m.node.Power = node.PowerOn // it runs the ramdisk, or what was deployed
	}
	if r.BootMAC != "" && !slices.Contains(m.macs, strings.ToLower(r.BootMAC)) {
		m.macs = append(m.macs, strings.ToLower(r.BootMAC))
	}
	e.recordRequest(m, VerbUpdate, r)
	return e.snapshot(m), nil
}

// CheckAccess tries the credentials; see [provisioner.Registrar].
func (e *Engine) CheckAccess(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	if reason, fails := m.refusesAccess(); fails {
		return fmt.Errorf("%w: %s", provisioner.ErrFailed, reason)
	}
	return nil
}

// refusesAccess reports whether the BMC refuses the node's credentials, and why.
func (m *machine) refusesAccess() (reason string, refuses bool) {
	if m.registration.Credentials.Password == WrongPassword {
		return "demo: the BMC refuses the credentials", true
	}
	reason, refuses = m.behaviour.fails[VerbManage]
	return reason, refuses
}

// Version never changes; see [provisioner.Reader].
func (e *Engine) Version(context.Context) (string, error) { return "demo", nil }

// Lock makes the lock the node's instance; see [provisioner.Lifecycle].
func (e *Engine) Lock(_ context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	switch {
	case err != nil:
		return provisioner.Node{}, err
	case m.node.InstanceID != "" && m.node.InstanceID != mark.Lock(id):
		return provisioner.Node{}, fmt.Errorf("lock demo node %s: %w", id, provisioner.ErrNotOwned)
	}
	m.node.InstanceID = mark.Lock(id)
	return e.snapshot(m), nil
}

// Unlock removes the lock; see [provisioner.Lifecycle].
func (e *Engine) Unlock(_ context.Context, id string, _ provisioner.Mark) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err == nil {
		m.node.InstanceID = ""
	}
	return err
}

// Claim writes the mark; see [provisioner.Lifecycle].
func (e *Engine) Claim(_ context.Context, id string, mark provisioner.Mark, opts provisioner.ClaimOptions) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return provisioner.Node{}, err
	}
	if opts.Unlock {
		m.node.InstanceID = ""
	}
	m.node.Mark = mark
	e.recordRequest(m, VerbClaim, mark)
	return e.snapshot(m), nil
}

// Release writes that the node's host moves; see [provisioner.Lifecycle].
func (e *Engine) Release(_ context.Context, id string, mark provisioner.Mark, released string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	switch {
	case err != nil:
		return err
	case m.node.Mark != mark:
		return fmt.Errorf("release demo node %s: %w", id, provisioner.ErrNotOwned)
	case m.node.Released == released:
		return nil
	}
	m.node.Released = released
	e.recordRequest(m, VerbRelease, released)
	return nil
}

// TakeReleased takes a released node; see [provisioner.Lifecycle].
func (e *Engine) TakeReleased(_ context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	switch {
	case err != nil:
		return provisioner.Node{}, err
	case m.node.Released == "" && m.node.Mark != mark:
		return provisioner.Node{}, fmt.Errorf("take demo node %s: %w", id, provisioner.ErrNotOwned)
	}
	m.node.Mark, m.node.Released = mark, ""
	e.recordRequest(m, VerbClaim, mark)
	return e.snapshot(m), nil
}

// Delete deletes the node; see [provisioner.Lifecycle].
func (e *Engine) Delete(_ context.Context, id string, mark provisioner.Mark) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	text, fails := "", false
	if m != nil {
		text, fails = m.behaviour.fails[VerbDelete]
	}
	switch {
	case e.failing != nil:
		return err
	case err != nil:
		return nil
	case m.node.Mark != mark:
		return fmt.Errorf("delete demo node %s: %w", id, provisioner.ErrNotOwned)
	case m.node.Suspended:
		return suspended(id)
	case fails:
		return fmt.Errorf("delete demo node %s: %w: %s", id, provisioner.ErrConflict, text)
	}
	e.recordRequest(m, VerbDelete, mark)
	delete(e.machines, id)
	return nil
}

// abilities returns what the machine's BMC can do: nothing without a BMC.
func (m *machine) abilities() bmc.Abilities {
	if m.registration.Access == nil {
		return bmc.Abilities{}
	}
	return m.registration.Access.Abilities
}
