package inspect

import (
	"bytes"

	"github.com/ingot-metal/ingot/internal/node"
)

// Port is the part of a node's port that inspection reads and changes.
type Port struct {
	UUID       string // empty until the port is stored
	Address    string // MAC, lower case with colons
	PXEEnabled bool
	Extra      node.Object
	// LocalLinkConnection is the switch port that the cable leads to.
	LocalLinkConnection node.Object
	PhysicalNetwork     string
	PortgroupUUID       string // read-only; empty for a port on its own
}

// equal reports whether all stored fields of two ports are equal.
func (p Port) equal(other Port) bool {
	return p.PXEEnabled == other.PXEEnabled && p.PhysicalNetwork == other.PhysicalNetwork &&
		bytes.Equal(p.Extra, other.Extra) && bytes.Equal(p.LocalLinkConnection, other.LocalLinkConnection)
}

// Ports are the node's ports while hooks change them, at most one for each address.
type Ports struct {
	byAddress map[string]*Port
	order     []*Port
	before    []Port
	deleted   []Port
}

func newPorts(existing []Port) *Ports {
	p := &Ports{byAddress: make(map[string]*Port, len(existing)), before: existing}
	for i := range existing {
		port := existing[i]
		p.insert(&port)
	}
	return p
}

func (p *Ports) insert(port *Port) {
	p.byAddress[port.Address] = port
	p.order = append(p.order, port)
}

// Find returns the port with an address, or nil. Changes that hooks make to the port are stored.
func (p *Ports) Find(address string) *Port { return p.byAddress[address] }

// All returns the ports, existing ones first. The caller may change the slice.
func (p *Ports) All() []*Port {
	all := make([]*Port, 0, len(p.order))
	for _, port := range p.order {
		if p.byAddress[port.Address] == port {
			all = append(all, port)
		}
	}
	return all
}

// Add adds a port, without a UUID, unless the address already has one. It returns the port of the
// address.
func (p *Ports) Add(port Port) *Port {
	if existing := p.byAddress[port.Address]; existing != nil {
		return existing
	}
	p.insert(&port)
	return &port
}

// Delete removes the port with an address, if there is one.
func (p *Ports) Delete(address string) {
	port := p.byAddress[address]
	if port == nil {
		return
	}
	delete(p.byAddress, address)
	if port.UUID != "" {
		p.deleted = append(p.deleted, *port)
	}
}

// changes returns the differences from the ports before the run.
func (p *Ports) changes() (created, updated, deleted []Port) {
	stored := make(map[string]Port, len(p.before))
	for _, port := range p.before {
		stored[port.UUID] = port
	}
	for _, port := range p.All() {
		was, exists := stored[port.UUID]
		switch {
		case !exists:
			created = append(created, *port)
		case !was.equal(*port):
			updated = append(updated, *port)
		}
	}
	return created, updated, p.deleted
}
