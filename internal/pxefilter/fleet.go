package pxefilter

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/store"
)

// fleet is a picture of all nodes, put together from what changed.
type fleet struct {
	nodes map[int64]store.BootNode // with addresses that a file can be named by
	ports map[int64]int            // by node, whatever their address
	total int                      // of ports
	mark  store.BootMark
	bad   map[string]bool // addresses of ports that no file can be named by
}

func newFleet() *fleet {
	return &fleet{nodes: map[int64]store.BootNode{}, ports: map[int64]int{}, bad: map[string]bool{}}
}

// merged is what merging found.
type merged struct {
	changed  bool     // something that rulings follow from
	complete bool     // nothing was deleted; else everything has to be read again
	useless  []string // addresses that no file can be named by, seen for the first time
}

// merge takes what changed since the mark of the fleet.
func (f *fleet) merge(c store.BootChanges) (m merged) {
	for _, n := range c.Nodes {
		f.total += len(n.MACs) - f.ports[n.ID]
		f.ports[n.ID] = len(n.MACs)
		if i := slices.IndexFunc(n.MACs, isNoMAC); i >= 0 {
			for _, address := range slices.DeleteFunc(slices.Clone(n.MACs[i:]), isMAC) {
				if !f.bad[address] {
					f.bad[address] = true
					m.useless = append(m.useless, address)
				}
			}
			n.MACs = slices.DeleteFunc(n.MACs, isNoMAC)
		}
		before, known := f.nodes[n.ID]
		m.changed = m.changed || !known || !sameForBoot(before, n)
		f.nodes[n.ID] = n
	}
	f.mark = c.Mark
	m.complete = len(f.nodes) == c.NodeCount && f.total == c.PortCount
	return m
}

// sameForBoot reports whether the same rulings follow from both. Most changes of
// a node, such as heartbeats, change none.
func sameForBoot(a, b store.BootNode) bool {
	return a.State == b.State && a.InspectInterface == b.InspectInterface && slices.Equal(a.MACs, b.MACs)
}

// isMAC reports whether an address is an Ethernet address as the engine stores
// it, aa:bb:cc:dd:ee:ff. Only such a text is ever used as a file name.
func isMAC(address string) bool {
	if len(address) != len("aa:bb:cc:dd:ee:ff") {
		return false
	}
	for i, c := range []byte(address) {
		switch {
		case i%3 == 2:
			if c != ':' {
				return false
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
		default:
			return false
		}
	}
	return true
}

func isNoMAC(address string) bool { return !isMAC(address) }
