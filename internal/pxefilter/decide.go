package pxefilter

import (
	"cmp"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Verdict says whether a machine's DHCP requests are answered.
type Verdict string

// Verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// ruling is a verdict with its reason.
type ruling struct {
	verdict Verdict
	node    string     // UUID of the node it is about; may be empty
	state   node.State // of that node
	because string
}

// Reasons, as the log shows them.
const (
	becausePhase       = "the phase of its node is served"
	becauseNoPhase     = "its node is in no phase that is served"
	becauseDiscovery   = "auto-discovery is on"
	becausePortless    = "a node in inspection has no port"
	becauseNobody      = "no node in inspection lacks a port"
	becauseNoPort      = "no node that people registered or accepted has a port with this address any more"
	becauseDoubtful    = "the database was restored, and a person has to decide about its node"
	becauseNoInterface = "its node has an inspect interface that is not supported"
)

// policy decides rulings from the nodes.
type policy struct {
	served            map[node.State]Phase
	inspectInterfaces []string
	discovery         bool // unknown machines are enrolled
	maxPorts          int  // limit of files for a node that no person has accepted
}

// rule returns the ruling for the ports of a node.
func (p policy) rule(n store.BootNode) ruling {
	r := ruling{verdict: Deny, node: n.UUID, state: n.State, because: becauseNoPhase}
	phase, served := p.served[n.State]
	switch {
	case n.Doubtful: // applies if a file says nothing better
		r.because = becauseDoubtful
	case !served:
	case phase.inspects && !slices.Contains(p.inspectInterfaces, n.InspectInterface):
		r.because = becauseNoInterface
	default:
		r.verdict, r.because = Allow, becausePhase
	}
	return r
}

// findsByPost reports whether only the inspection post can identify the machine of a node, because
// the node is in inspection and has no port.
func (p policy) findsByPost(n store.BootNode) bool {
	return len(n.MACs) == 0 && !n.Doubtful && p.served[n.State].inspects && slices.Contains(p.inspectInterfaces, n.InspectInterface)
}

// wanted is what the folder of hosts should contain.
type wanted struct {
	unknown ruling
	ports   map[string]ruling // by MAC
	// portsWithoutFile counts the ports of nodes that no person has accepted. They follow the rule
	// for unknown machines.
	portsWithoutFile int
}

// decide returns what the folder should contain. It depends only on the nodes and the policy.
func (p policy) decide(nodes map[int64]store.BootNode) wanted {
	w := wanted{ports: make(map[string]ruling, len(nodes)), unknown: ruling{verdict: Deny, because: becauseNobody}}
	if p.discovery {
		w.unknown = ruling{verdict: Allow, because: becauseDiscovery}
	}
	for _, n := range nodes {
		if w.unknown.verdict == Deny && p.findsByPost(n) {
			w.unknown = ruling{verdict: Allow, node: n.UUID, state: n.State, because: becausePortless}
		}
	}
	for _, n := range nodes {
		r := p.rule(n)
		own := p.ownRules(n, r, w.unknown)
		w.portsWithoutFile += len(n.MACs) - own
		for _, mac := range n.MACs[:own] {
			w.ports[mac] = r
		}
	}
	return w
}

// ownRules returns how many ports of a node get their own rule. Anybody can have a node discovered
// with any address. So until a person has accepted the node, its ports must not take away another
// machine's DHCP: they get a rule, up to a limit, only where that allows more than the rule for
// unknown machines. A node that a restore has made doubtful may have been accepted after the copy
// was made.
func (p policy) ownRules(n store.BootNode, r, unknown ruling) int {
	switch {
	case !n.Provisional || n.Doubtful:
		return len(n.MACs)
	case r.verdict == Deny || unknown.verdict == Allow:
		return 0
	}
	return min(len(n.MACs), p.maxPorts)
}

// change is a file to write.
type change struct {
	name string
	ruling
}

// changes returns the files to write so that the folder contains what is wanted. files are the
// present verdicts by name. A machine that somebody may be switching on right now comes first.
// Files of addresses that no port has follow the rule for unknown machines. If that rule allows, it
// comes last, because a port that has no file yet counts as unknown.
func (w wanted) changes(files map[string]Verdict) []change {
	var list []change
	note := func(name string, r ruling) {
		// A doubtful port keeps the verdict from when more was known.
		if files[name] != r.verdict && (r.because != becauseDoubtful || files[name] == "") {
			list = append(list, change{name, r})
		}
	}
	for mac, r := range w.ports {
		note(mac, r)
	}
	for _, name := range w.filesWithoutPort(files) {
		note(name, ruling{verdict: w.unknown.verdict, because: becauseNoPort})
	}
	note(unknownFile, w.unknown)
	slices.SortFunc(list, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), compareNames(a.name, b.name))
	})
	return list
}

// rank is lower for files that are written earlier.
func (c change) rank() int {
	switch {
	case c.verdict == Deny:
		return 1
	case c.name == unknownFile:
		return 2
	}
	return 0
}

// filesWithoutPort returns the sorted names of files whose address no port has.
func (w wanted) filesWithoutPort(files map[string]Verdict) []string {
	var names []string
	for name := range files {
		if _, known := w.ports[name]; !known && name != unknownFile {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// compareNames sorts the rule for unknown machines before the rules of ports.
func compareNames(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == unknownFile, b != unknownFile && a < b:
		return -1
	}
	return 1
}
