package discovery

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// cacheLag is how long the cache may take to show a host that was just created.
const cacheLag = 30 * time.Second

// hostIndex answers whether a node has a host, in any namespace. Hosts that are being deleted
// count, so that their nodes are not discovered before the deletion is complete.
//
// The index is told of each host that changed and keeps only what identifies its machine. A change
// therefore costs the same, however many hosts there are. The index is safe for concurrent use.
type hostIndex struct {
	now func() time.Time

	mu         sync.Mutex
	generation uint64 // changes with every entry
	hosts      map[types.UID]*hostEntry
	nodeIDs    map[string]int               // hosts by the IDs of their nodes
	nodeNames  map[string]int               // hosts by the names that their nodes would have
	macs       map[string][]*hostEntry      // hosts by MAC address
	names      map[types.NamespacedName]int // hosts by name
	origins    map[types.NamespacedName]int // hosts by the discovery resource that created them
	bmcs       map[netip.Addr]int           // hosts without a node by the addresses of their BMCs
	// unseen are hosts that discovery has created and that the cache has not shown yet.
	unseen map[types.UID]time.Time
}

// hostEntry is what the index knows about a host.
type hostEntry struct {
	name types.NamespacedName
	// linked is the ID of the host's node; sourced is the ID of the node that the host was created
	// for.
	linked, sourced string
	origin          types.NamespacedName // the discovery resource; empty for none
	// bootMAC is the host's claim to a machine. macs are bootMAC and, once the host has a node, the
	// addresses of its NICs. Users can write the latter, so each of them counts only if the node
	// really has it.
	bootMAC  string
	macs     []string
	deleting bool
	// chassis is set for a host without a BMC, which only its NICs identify.
	chassis chassis
	// bmc is the address of the BMC of a host without a node. The host looks for its node by it.
	bmc netip.Addr
}

func newHostIndex(now func() time.Time) *hostIndex {
	return &hostIndex{
		now: now, hosts: map[types.UID]*hostEntry{},
		nodeIDs: map[string]int{}, nodeNames: map[string]int{}, macs: map[string][]*hostEntry{},
		names: map[types.NamespacedName]int{}, origins: map[types.NamespacedName]int{}, bmcs: map[netip.Addr]int{},
		unseen: map[types.UID]time.Time{},
	}
}

// put stores a host as the cache shows it. It reports whether the host's deletion is new.
func (x *hostIndex) put(h *v1alpha1.BareMetalHost) (deleted bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.unseen, h.UID)
	return x.replace(h.UID, entryOf(h))
}

// remember stores a host that was just created.
func (x *hostIndex) remember(h *v1alpha1.BareMetalHost) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, shown := x.hosts[h.UID]; !shown {
		x.unseen[h.UID] = x.now()
		x.replace(h.UID, entryOf(h))
	}
}

// remove drops a host that is gone. It reports whether the host's deletion is new.
func (x *hostIndex) remove(uid types.UID) (deleted bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.unseen, uid)
	old := x.hosts[uid]
	x.replace(uid, nil)
	return old == nil || !old.deleting
}

// expire drops hosts that discovery created, but that the cache never showed because they were
// deleted at once.
func (x *hostIndex) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for uid, at := range x.unseen {
		if x.now().Sub(at) > cacheLag {
			delete(x.unseen, uid)
			x.replace(uid, nil)
		}
	}
}

// replace stores the entry of a host; nil drops the host. It reports whether the host is being
// deleted and was not before. The caller holds mu.
func (x *hostIndex) replace(uid types.UID, entry *hostEntry) (deleted bool) {
	old := x.hosts[uid]
	if reflect.DeepEqual(old, entry) {
		return false
	}
	x.generation++
	if old != nil {
		x.count(old, -1)
		for _, mac := range old.macs {
			x.macs[mac] = slices.DeleteFunc(x.macs[mac], func(e *hostEntry) bool { return e == old })
			if len(x.macs[mac]) == 0 {
				delete(x.macs, mac)
			}
		}
		delete(x.hosts, uid)
	}
	if entry == nil {
		return false
	}
	x.hosts[uid] = entry
	x.count(entry, 1)
	for _, mac := range entry.macs {
		x.macs[mac] = append(x.macs[mac], entry)
	}
	return entry.deleting && (old == nil || !old.deleting)
}

func (x *hostIndex) count(e *hostEntry, by int) {
	add(x.names, e.name, by)
	add(x.nodeNames, provisioner.NodeName(e.name.Namespace, e.name.Name), by)
	add(x.nodeIDs, e.linked, by)
	add(x.nodeIDs, e.sourced, by)
	add(x.origins, e.origin, by)
	add(x.bmcs, e.bmc, by)
}

// add changes a count; the empty key is not counted.
func add[K comparable](counts map[K]int, key K, by int) {
	var none K
	if key == none {
		return
	}
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

func entryOf(h *v1alpha1.BareMetalHost) *hostEntry {
	e := &hostEntry{
		name:   types.NamespacedName{Namespace: h.Namespace, Name: h.Name},
		linked: h.Status.Provisioning.ID, deleting: !h.DeletionTimestamp.IsZero(),
	}
	if from, ok := originOf(h); ok {
		e.origin, e.sourced = from.resource, from.nodeID
	}
	if e.bootMAC = strings.ToLower(h.Spec.BootMACAddress); e.bootMAC != "" {
		e.macs = append(e.macs, e.bootMAC)
	}
	if e.linked != "" && h.Status.HardwareDetails != nil {
		e.macs = append(e.macs, identifying(h.Status.HardwareDetails.NICs)...)
	}
	slices.Sort(e.macs)
	e.macs = slices.Compact(e.macs)
	if access, err := bmc.Parse(h.Spec.BMC); err == nil && e.linked == "" && !e.deleting {
		e.bmc = access.Endpoint.Addr()
	}
	if d := h.Status.HardwareDetails; d != nil && !h.HasBMC() && !e.deleting {
		e.chassis = chassisOf(d.SystemVendor.Manufacturer, d.SystemVendor.SerialNumber)
	}
	return e
}

// identifying returns the MAC addresses of NICs, without those that several machines may share: USB
// links to BMCs have the same address in many machines.
func identifying(nics []v1alpha1.NIC) []string {
	var macs []string
	for i := range nics {
		if mac := strings.ToLower(nics[i].MAC); mac != "" && !node.MayBeShared(mac) {
			macs = append(macs, mac)
		}
	}
	return macs
}

// hostWith returns a host that has one of the machine's MAC addresses, or nil. It prefers a host
// without a node, which may be the machine's own. hasPort reports whether a node has an address.
func (x *hostIndex) hostWith(macs []string, hasPort func(nodeID, mac string) bool) *hostEntry {
	var found *hostEntry
	for _, mac := range macs {
		for _, e := range x.claiming(mac) {
			if better := found == nil || found.linked != "" && e.linked == ""; better && (e.bootMAC == mac || hasPort(e.linked, mac)) {
				found = e
			}
		}
	}
	return found
}

// awaits reports whether a host without a node has one of these BMC addresses. Such a host takes
// over the node of that machine, or gets a node of its own if its machine is another one.
func (x *hostIndex) awaits(bmcs []netip.Addr) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(bmcs, func(addr netip.Addr) bool { return x.bmcs[addr] > 0 })
}

// withChassis returns the name of a host without a BMC that shows the chassis. It returns the first
// by name, and an empty name if there is none.
func (x *hostIndex) withChassis(c chassis) (found types.NamespacedName) {
	if c == (chassis{}) {
		return found
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.hosts {
		if e.chassis == c && (found.Name == "" || e.name.String() < found.String()) {
			found = e.name
		}
	}
	return found
}

// claiming returns the hosts that show a MAC address. Their entries are never modified.
func (x *hostIndex) claiming(mac string) []*hostEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.macs[mac])
}

// has reports whether a host has the node, by the node's ID or name.
func (x *hostIndex) has(n provisioner.Node) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.hasLocked(n)
}

func (x *hostIndex) hasLocked(n provisioner.Node) bool {
	return x.nodeIDs[n.ID] > 0 || n.Name != "" && x.nodeNames[n.Name] > 0
}

// division is the result of dividing nodes by who has them.
type division struct {
	matched int                // have a host by ID or name
	foreign int                // belong to somebody else
	free    []provisioner.Node // are unused
}

// divide divides nodes by who has them.
func (x *hostIndex) divide(nodes []provisioner.Node) division {
	x.mu.Lock()
	defer x.mu.Unlock()
	var d division
	for i := range nodes {
		switch {
		case x.hasLocked(nodes[i]):
			d.matched++
		case nodes[i].BelongsTo() != "":
			d.foreign++
		default:
			d.free = append(d.free, nodes[i])
		}
	}
	return d
}

// madeBy returns the number of existing hosts that the resource created.
func (x *hostIndex) madeBy(resource *discoveryv1.BareMetalHostDiscovery) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.origins[types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}]
}

// isTaken reports whether a host has the name.
func (x *hostIndex) isTaken(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.names[name] > 0
}

// version returns a number that changes whenever the index does.
func (x *hostIndex) version() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.generation
}

// origin says for which node, and by which discovery resource, a host was created.
type origin struct {
	resource types.NamespacedName
	nodeID   string
}

func (o origin) String() string {
	return o.resource.Namespace + "/" + o.resource.Name + "/" + o.nodeID
}

// originOf reads the annotation with the origin of a host. Whoever may write hosts may write the
// annotation. A resource creates hosts only in its own namespace, so originOf ignores an annotation
// that names another namespace.
func originOf(h *v1alpha1.BareMetalHost) (origin, bool) {
	parts := strings.Split(h.Annotations[v1alpha1.DiscoverySourceAnnotation], "/")
	if len(parts) != 3 || parts[0] != h.Namespace {
		return origin{}, false
	}
	return origin{resource: types.NamespacedName{Namespace: parts[0], Name: parts[1]}, nodeID: parts[2]}, true
}
