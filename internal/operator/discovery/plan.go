package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// plan is what one poll has to do.
type plan struct {
	// matched is how many candidates turned out to have a host: one with their MAC address, or one
	// that looks for its node by their BMC's address.
	matched int
	create  []creation
	skipped []discoveryv1.SkippedNode
	// beyond are the candidates that get no host because of spec.maxHosts.
	beyond []candidate
}

// creation is a host to be made.
type creation struct {
	candidate
	// names are the names to try, in this order.
	names []string
	// older is an existing host of what may be the same machine with other NICs; empty means none.
	older types.NamespacedName
}

// planner holds what was decided so far in one poll.
type planner struct {
	resource   *discoveryv1.BareMetalHostDiscovery
	index      *hostIndex
	exists     func(nodeID string) bool
	hasPort    func(nodeID, mac string) bool
	ignored    map[string]bool
	tombstones map[string]bool
	taken      map[string]string // IDs of nodes in the plan, by MAC address
	names      map[string]bool   // names in the plan
	plan
}

// makePlan decides about each candidate. The same candidates in the same order and the same hosts
// give the same plan. exists reports whether the engine has a node, and hasPort whether a node has
// a MAC address.
func makePlan(resource *discoveryv1.BareMetalHostDiscovery, index *hostIndex, candidates []candidate, exists func(nodeID string) bool, hasPort func(nodeID, mac string) bool) plan {
	p := &planner{
		resource: resource, index: index, exists: exists, hasPort: hasPort,
		ignored: lowerSet(resource.Spec.IgnoredMACAddresses), tombstones: map[string]bool{},
		taken: map[string]string{}, names: map[string]bool{},
	}
	if resource.Spec.Rediscovery == discoveryv1.RediscoveryDeny {
		for _, t := range resource.Status.Tombstones {
			p.tombstones[strings.ToLower(t.MAC)] = true
		}
	}
	for _, c := range candidates {
		p.decide(c)
	}
	return p.plan
}

func (p *planner) decide(c candidate) {
	if host := p.index.hostWith(c.macs, p.hasPort); host != nil {
		p.match(c, host)
		return
	}
	if c.facts != nil && p.index.awaits(c.facts.BMCAddresses) {
		p.matched++
		return
	}
	if p.unwanted(c) {
		return
	}
	if reason, message := p.obstacle(c); reason != "" {
		p.skip(c, reason, message)
		if reason == discoveryv1.SkipLimitReached {
			p.beyond = append(p.beyond, c)
		}
		return
	}
	base, err := baseName(p.resource.Spec.ResourceNameTemplate, c.facts.nameFacts)
	if err != nil {
		reason := discoveryv1.SkipNameInvalid
		if errors.Is(err, errMissingDetail) {
			reason = discoveryv1.SkipMissingDetail
		}
		p.skip(c, reason, err.Error()+"; change spec.resourceNameTemplate")
		return
	}
	names := slices.DeleteFunc(candidateNames(base, c.facts.nameFacts), p.isTaken)
	if len(names) == 0 {
		p.skip(c, discoveryv1.SkipNameConflict, fmt.Sprintf("other hosts have the name %s and all its variants; rename or delete one", base))
		return
	}
	p.names[names[0]] = true
	for _, mac := range c.facts.MACs {
		p.taken[mac] = c.node.ID
	}
	p.create = append(p.create, creation{candidate: c, names: names, older: p.index.withChassis(c.facts.Chassis)})
}

// match decides about a machine with a MAC address that a host has. The host takes the node, or has
// already taken it. If the host has another node, two nodes have the address, and the candidate is
// skipped.
func (p *planner) match(c candidate, host *hostEntry) {
	if host.linked != "" && host.linked != c.node.ID && p.exists(host.linked) {
		p.skip(c, discoveryv1.SkipDuplicateMAC, fmt.Sprintf("host %s with node %s has one of the machine's MAC addresses; delete one of the two nodes from the engine", host.name, host.linked))
		return
	}
	p.matched++
}

// unwanted reports whether the resource does not ask for such nodes at all. It returns false for a
// node whose inventory is still missing and that may turn out to be wanted.
func (p *planner) unwanted(c candidate) bool {
	if !p.resource.Spec.OnlyAutoDiscovered {
		return false
	}
	if c.facts == nil {
		return c.node.AutoDiscovered != nil && !*c.node.AutoDiscovered
	}
	return !c.facts.AutoDiscovered
}

// obstacle says why the candidate cannot become a host now. It returns "" if nothing is in the way.
func (p *planner) obstacle(c candidate) (discoveryv1.SkipReason, string) {
	limit := int(p.resource.Spec.MaxHosts)
	duplicate := ""
	if c.facts != nil {
		duplicate = p.taken[c.facts.BootMAC]
	}
	switch {
	case anyIn(p.ignored, c.macs):
		return discoveryv1.SkipIgnored, "spec.ignoredMACAddresses lists this machine"
	case anyIn(p.tombstones, c.macs):
		return discoveryv1.SkipTombstone, "a host of this machine was deleted; remove it from status.tombstones to allow a new one"
	case c.err != nil:
		return discoveryv1.SkipNoInventory, messageUnreadable + cut(c.err.Error())
	case c.node.State == node.Inspecting, c.node.State == node.InspectWait, c.facts == nil && c.node.Busy:
		return discoveryv1.SkipNodeBusy, "the engine is still inspecting this machine"
	case c.facts == nil && node.IsStoreWait(c.node.LastError):
		return discoveryv1.SkipNodeBusy, cut(c.node.LastError)
	case c.facts == nil && c.node.LastError != "":
		return discoveryv1.SkipNoInventory, "inspection failed: " + strings.TrimSuffix(cut(c.node.LastError), ".") + "; " + reinspection(c.node)
	case c.facts == nil:
		return discoveryv1.SkipNoInventory, "inspection has left no inventory; " + reinspection(c.node)
	case c.facts.BootMAC == "":
		return discoveryv1.SkipMissingMAC, "the machine reports no usable MAC address"
	case duplicate != "":
		return discoveryv1.SkipDuplicateMAC, fmt.Sprintf("node %s, which is older, has the same MAC address; delete one of the two from the engine", duplicate)
	case limit > 0 && p.index.madeBy(p.resource)+len(p.create) >= limit:
		return discoveryv1.SkipLimitReached, fmt.Sprintf("spec.maxHosts allows %d hosts", limit)
	default:
		return "", ""
	}
}

// reinspection says how a node gets an inventory. The engine accepts the inventory of a machine
// that it knows only while the node waits for it, and a node in enroll cannot wait.
func reinspection(n provisioner.Node) string {
	if n.State == node.Enroll && n.AutoDiscovered != nil && *n.AutoDiscovered {
		return "delete the node from the engine, and boot the machine into the ramdisk"
	}
	return "inspect the node"
}

func (p *planner) isTaken(name string) bool {
	return p.names[name] || p.index.isTaken(types.NamespacedName{Namespace: p.resource.Namespace, Name: name})
}

func (p *planner) skip(c candidate, reason discoveryv1.SkipReason, message string) {
	p.skipped = append(p.skipped, skipped(c, reason, message))
}

func skipped(c candidate, reason discoveryv1.SkipReason, message string) discoveryv1.SkippedNode {
	s := discoveryv1.SkippedNode{NodeID: c.node.ID, Reason: reason, Message: message}
	if c.facts != nil {
		s.MAC = c.facts.BootMAC
	} else if len(c.macs) > 0 {
		s.MAC = c.macs[0]
	}
	return s
}

func anyIn(set map[string]bool, macs []string) bool {
	return slices.ContainsFunc(macs, func(mac string) bool { return set[mac] })
}

func lowerSet(texts []string) map[string]bool {
	set := make(map[string]bool, len(texts))
	for _, t := range texts {
		set[strings.ToLower(t)] = true
	}
	return set
}

// maxMessage limits the length of text from outside in a status, in bytes.
const maxMessage = 512

func cut(text string) string { return node.CutTextTo(text, maxMessage) }
