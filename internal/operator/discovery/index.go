package discovery

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// hostIndex answers whether a node has a host, in any namespace. A host that is
// being deleted counts, so that its node is not discovered before that is complete.
type hostIndex struct {
	nodeIDs   map[string]bool               // status.provisioning.ID
	nodeNames map[string]bool               // names of nodes made for hosts
	bootMACs  map[string]bool               // spec.bootMACAddress
	nicMACs   map[string]bool               // NICs of hosts with a node
	names     map[types.NamespacedName]bool // the hosts
	origins   map[types.NamespacedName]int  // hosts per discovery resource
	foreign   int                           // nodes that belong to somebody, counted by split
}

func newHostIndex(hosts []v1alpha1.BareMetalHost) *hostIndex {
	x := &hostIndex{
		nodeIDs: map[string]bool{}, nodeNames: map[string]bool{}, bootMACs: map[string]bool{},
		nicMACs: map[string]bool{}, names: map[types.NamespacedName]bool{}, origins: map[types.NamespacedName]int{},
	}
	for i := range hosts {
		x.add(&hosts[i])
	}
	return x
}

func (x *hostIndex) add(h *v1alpha1.BareMetalHost) {
	x.names[types.NamespacedName{Namespace: h.Namespace, Name: h.Name}] = true
	x.nodeNames[provisioner.NodeName(h.Namespace, h.Name)] = true
	if mac := strings.ToLower(h.Spec.BootMACAddress); mac != "" {
		x.bootMACs[mac] = true
	}
	if id := h.Status.Provisioning.ID; id != "" {
		x.nodeIDs[id] = true
		if h.Status.HardwareDetails != nil {
			x.addNICs(h.Status.HardwareDetails.NICs)
		}
	}
	if from, ok := originOf(h); ok {
		x.nodeIDs[from.nodeID] = true
		x.origins[from.resource]++
	}
}

// addNICs leaves out locally administered addresses: USB links to BMCs have the
// same one in many machines.
func (x *hostIndex) addNICs(nics []v1alpha1.NIC) {
	for i := range nics {
		if mac := strings.ToLower(nics[i].MAC); mac != "" && !hardware.IsLocallyAdministered(mac) {
			x.nicMACs[mac] = true
		}
	}
}

// hasMAC reports whether a host has one of the machine's MAC addresses.
func (x *hostIndex) hasMAC(macs []string) bool {
	for _, mac := range macs {
		if x.bootMACs[mac] || x.nicMACs[mac] {
			return true
		}
	}
	return false
}

// split sorts nodes into those that have a host by ID or name and those that
// are unused. It counts the rest, which are in use.
func (x *hostIndex) split(nodes []provisioner.Node) (matched, free []provisioner.Node) {
	for _, n := range nodes {
		switch {
		case x.nodeIDs[n.ID], n.Name != "" && x.nodeNames[n.Name]:
			matched = append(matched, n)
		case n.BelongsTo() != "":
			x.foreign++
		default:
			free = append(free, n)
		}
	}
	return matched, free
}

// madeBy is the number of existing hosts that the resource created.
func (x *hostIndex) madeBy(resource *discoveryv1.BareMetalHostDiscovery) int {
	return x.origins[types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}]
}

// origin is the discovery resource that created a host.
type origin struct {
	resource types.NamespacedName
	nodeID   string
}

func (o origin) String() string {
	return o.resource.Namespace + "/" + o.resource.Name + "/" + o.nodeID
}

// originOf reads the annotation with the origin of a host.
func originOf(h *v1alpha1.BareMetalHost) (origin, bool) {
	parts := strings.Split(h.Annotations[v1alpha1.DiscoverySourceAnnotation], "/")
	if len(parts) != 3 {
		return origin{}, false
	}
	return origin{resource: types.NamespacedName{Namespace: parts[0], Name: parts[1]}, nodeID: parts[2]}, true
}

// cacheLag is how long a host that was just created may be missing in the cache.
const cacheLag = 30 * time.Second

// recentHosts remembers hosts until the cache must have them. It is safe for
// concurrent use.
type recentHosts struct {
	now func() time.Time

	mu    sync.Mutex
	hosts map[types.UID]recentHost
}

type recentHost struct {
	host v1alpha1.BareMetalHost
	at   time.Time
}

func newRecentHosts(now func() time.Time) *recentHosts {
	return &recentHosts{now: now, hosts: map[types.UID]recentHost{}}
}

func (r *recentHosts) remember(h *v1alpha1.BareMetalHost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts[h.UID] = recentHost{host: *h.DeepCopy(), at: r.now()}
}

func (r *recentHosts) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.hosts, uid)
}

// with returns listed and the remembered hosts that are not in it. The slice
// is not changed.
func (r *recentHosts) with(listed []v1alpha1.BareMetalHost) []v1alpha1.BareMetalHost {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range listed {
		delete(r.hosts, listed[i].UID)
	}
	all := slices.Clip(listed)
	for uid, recent := range r.hosts {
		if r.now().Sub(recent.at) > cacheLag {
			delete(r.hosts, uid)
			continue
		}
		all = append(all, recent.host)
	}
	return all
}
