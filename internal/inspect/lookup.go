package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// Claimant is a node that claims an address which a machine posted.
type Claimant struct {
	UUID  string
	State node.State
	// Provisional says that no person has accepted the node: nodes that people registered or
	// accepted take the addresses that it claims.
	Provisional bool
	Port        bool // the node has a port with such an address, not only an inventory
}

// Prevailing returns the claimants whose claims count. If all are provisional, that is all of them.
// Otherwise it is those that are not provisional or, if one of these alone has ports with the
// addresses, that one.
func Prevailing(claimants []Claimant) []Claimant {
	if slices.ContainsFunc(claimants, firm) {
		return ownerOfPorts(slices.DeleteFunc(slices.Clone(claimants), provisional))
	}
	return claimants
}

// ownerOfPorts returns the one claimant that has ports with the addresses, or all claimants when
// none or several have. No two ports have the same address. But an inventory may list an address
// that has moved to another machine since, or that several machines have, such as those of the
// network interfaces of BMCs.
func ownerOfPorts(claimants []Claimant) []Claimant {
	owners := slices.DeleteFunc(slices.Clone(claimants), portless)
	if len(owners) == 1 {
		return owners
	}
	return claimants
}

func provisional(c Claimant) bool { return c.Provisional }
func firm(c Claimant) bool        { return !c.Provisional }
func portless(c Claimant) bool    { return !c.Port }

// Facts are what is known about an inspection post before a decision.
type Facts struct {
	AskedUUID string     // node_uuid of the request; empty when absent
	Asked     *Claimant  // the node of AskedUUID; nil when there is none
	ByMAC     []Claimant // nodes that claim one of the MAC addresses, each once
	// Inspected are the nodes in inspection whose BMC had one of the posted BMC addresses when the
	// inspection began, each once.
	Inspected []Claimant
	// BMCOwners are the nodes that have one of the BMC addresses, inspected or not. A machine with
	// such an address is not unknown, but the address alone does not identify its node.
	BMCOwners []Claimant
	Discovery bool // whether unknown machines are enrolled
}

// Verdict is what to do with an inspection post.
type Verdict struct {
	Accept string // UUID of the node whose inspection goes on; "" for none
	// TakeFrom are the provisional nodes that claim some of the machine's MAC addresses. The
	// accepted node takes these addresses.
	TakeFrom []string
	// Shared says that inventories of other registered nodes list some of the machine's MAC
	// addresses. Those addresses stay theirs.
	Shared bool
	Enrol  bool   // the machine is unknown: create a node for it
	Known  string // UUID of the node that was identified but does not wait for a post
	Refuse string // reason, only for the operator's log; set when the post is neither accepted nor enrolled
}

func refuse(format string, args ...any) Verdict { return Verdict{Refuse: fmt.Sprintf(format, args...)} }

// Decide finds the one node that an inspection post belongs to. It enrols only a machine that
// matches no node at all, and refuses one that is known in any way, or ambiguous.
//
// If UUID, MAC address or inspection identifies a registered or accepted node, provisional nodes do
// not count. If one registered node has ports with the addresses, nodes that claim an address only
// by an inventory do not count either.
func Decide(f Facts) Verdict {
	if f.AskedUUID != "" && f.Asked == nil {
		return refuse("no node has the requested UUID %s", f.AskedUUID)
	}
	all := f.ByMAC
	if f.identifiesFirmly() {
		f.ByMAC = ownerOfPorts(slices.DeleteFunc(slices.Clone(f.ByMAC), provisional))
		f.Inspected = slices.DeleteFunc(slices.Clone(f.Inspected), provisional)
	}
	v := decide(f)
	if v.Accept != "" {
		for _, c := range all {
			switch {
			case c.UUID == v.Accept:
			case c.Provisional:
				v.TakeFrom = append(v.TakeFrom, c.UUID)
			default:
				v.Shared = true
			}
		}
	}
	return v
}

// identifiesFirmly reports whether the facts identify a node that is not provisional.
func (f Facts) identifiesFirmly() bool {
	return f.Asked != nil && firm(*f.Asked) || slices.ContainsFunc(f.ByMAC, firm) || slices.ContainsFunc(f.Inspected, firm)
}

func decide(f Facts) Verdict {
	if len(f.ByMAC) > 1 {
		return refuse("its MAC addresses belong to several nodes: %s", uuids(f.ByMAC))
	}
	known := f.Asked
	if len(f.ByMAC) == 1 {
		if known != nil && known.UUID != f.ByMAC[0].UUID {
			return refuse("its MAC addresses belong to node %s, but it asked for node %s", f.ByMAC[0].UUID, known.UUID)
		}
		known = &f.ByMAC[0]
	}
	waiting := slices.DeleteFunc(slices.Clone(f.Inspected), func(c Claimant) bool { return c.State != node.InspectWait })
	if known != nil {
		return decideKnown(*known, waiting)
	}
	switch {
	case len(waiting) == 1:
		return Verdict{Accept: waiting[0].UUID}
	case len(waiting) > 1:
		return refuse("its BMC address belongs to several nodes in inspection: %s", uuids(waiting))
	case len(f.Inspected) > 0:
		v := refuse("its BMC address belongs to node %s, whose inspection does not wait for it", uuids(f.Inspected))
		if len(f.Inspected) == 1 {
			v.Known = f.Inspected[0].UUID
		}
		return v
	case len(f.BMCOwners) > 0:
		return refuse("its BMC address belongs to node %s, which is not being inspected. If that is another machine, or exists no more, "+
			"delete the node, or give each machine a BMC address of its own", uuids(f.BMCOwners))
	case !f.Discovery:
		return refuse("no node matches and auto-discovery is off")
	default:
		return Verdict{Enrol: true}
	}
}

// decideKnown compares a node that a UUID or MAC address identified with the nodes in inspection
// that share the BMC address. Several systems may share one BMC.
func decideKnown(known Claimant, waitingByBMC []Claimant) Verdict {
	if known.State != node.InspectWait {
		v := refuse("node %s is in state %q, not %q", known.UUID, known.State, node.InspectWait)
		v.Known = known.UUID
		return v
	}
	same := func(c Claimant) bool { return c.UUID == known.UUID }
	if len(waitingByBMC) > 0 && !slices.ContainsFunc(waitingByBMC, same) {
		return refuse("it is node %s, but its BMC address belongs to %s", known.UUID, uuids(waitingByBMC))
	}
	return Verdict{Accept: known.UUID}
}

// shownNodes is how many nodes a reason names. It keeps the log line short when somebody posts the
// addresses of many nodes.
const shownNodes = 8

func uuids(claimants []Claimant) string {
	names := make([]string, 0, shownNodes)
	for _, c := range claimants[:min(len(claimants), shownNodes)] {
		names = append(names, c.UUID)
	}
	text := strings.Join(names, ", ")
	if more := len(claimants) - shownNodes; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Addresses returns every IP address of the machine's interfaces. The engine may call the machine's
// agent at these addresses.
func Addresses(inv *inventory.Inventory) []netip.Addr {
	var addresses []netip.Addr
	for _, i := range inv.Interfaces {
		for _, text := range []string{i.IPv4Address, i.IPv6Address} {
			if address, err := netip.ParseAddr(text); err == nil {
				addresses = append(addresses, address.Unmap().WithZone(""))
			}
		}
	}
	return addresses
}
