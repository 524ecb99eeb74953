package pxefilter

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// bootNodes are all nodes, kept up to date by the changes since the last read.
type bootNodes struct {
	nodes map[int64]store.BootNode // without addresses that cannot name a file
	ports map[int64]int            // number of ports by node, whatever their addresses
	total int                      // of ports
	mark  store.BootMark
	bad   map[string]bool // addresses of ports that cannot name a file
}

func newBootNodes() *bootNodes {
	return &bootNodes{nodes: map[int64]store.BootNode{}, ports: map[int64]int{}, bad: map[string]bool{}}
}

// merged is the outcome of a merge.
type merged struct {
	changed  bool     // something that decides rulings has changed
	complete bool     // nothing was deleted; otherwise everything must be read again
	useless  []string // addresses that cannot name a file, seen for the first time
}

// merge applies the changes since the mark.
func (f *bootNodes) merge(c store.BootChanges) (m merged) {
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

// sameForBoot reports whether two versions of a node have the same rulings. Most changes of a node,
// such as heartbeats, do not change rulings.
func sameForBoot(a, b store.BootNode) bool {
	return a.State == b.State && a.InspectInterface == b.InspectInterface && a.Doubtful == b.Doubtful && a.Provisional == b.Provisional && slices.Equal(a.MACs, b.MACs)
}

// isMAC reports whether an address is an Ethernet address in the engine's form, aa:bb:cc:dd:ee:ff.
// Only such a text is ever used as a file name.
func isMAC(address string) bool {
	mac, ok := node.ParseMAC(address)
	return ok && mac == address
}

func isNoMAC(address string) bool { return !isMAC(address) }
