package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Event is the state of an object of the management API server from a resource version on. The API
// server counts resource versions over all kinds, so events of several kinds have one order.
type Event struct {
	Version uint64
	// Since and At enclose the time of the write: Since is the start of the second in which it was
	// made, and At is when the watch heard of it.
	Since, At time.Time
	Host      *Host    // either this
	Machine   *Machine // or this is set
}

// Host is a host with the reference to its consumer.
type Host struct {
	Namespace, Name string
	UID             types.UID
	// Consumer is the name of the Metal3Machine that has claimed the host; empty if there is none.
	// The host is then free, or reserved for an owner of machines. ConsumerUID may be empty.
	Consumer    string
	ConsumerUID types.UID
	// Carried says that the reference was written for another object of the host, in another
	// management cluster.
	Carried bool
	// State is the provisioning state, and Specified says that the spec names something to deploy.
	State     string
	Specified bool
	BootMAC   string
	Gone      bool
}

// Machine is a Metal3Machine.
type Machine struct {
	Namespace, Name string
	UID             types.UID
	// Chosen is the host that the machine has chosen, as NAMESPACE/NAME.
	Chosen string
	// ProviderID is empty until the machine is provisioned.
	ProviderID string
	// Over says that the machine is in deletion or gone: it leaves its host then.
	Over bool
	Gone bool
}

// Shared is a host that had two machines at the same time.
type Shared struct {
	Host     string // NAMESPACE/NAME
	Machines [2]string
	// Version is the resource version with which that began.
	Version uint64
}

// String says what was broken.
func (s Shared) String() string {
	return fmt.Sprintf("the host %s had two machines, %s and %s, from resource version %d on", s.Host, s.Machines[0], s.Machines[1], s.Version)
}

// SharedHosts returns the hosts that had two machines at the same time. A machine is on a host
// while it is the host's consumer, while it was once the consumer and has still chosen the host, or
// while its provider ID names the host. A machine in deletion is on no host.
func SharedHosts(events []Event) []Shared {
	h := history{hosts: map[string]*occupied{}, machines: map[string]Machine{}}
	var found []Shared
	for _, event := range inOrder(events) {
		h.apply(event)
		for _, name := range h.affected(event) {
			on := h.on(name)
			if len(on) < 2 {
				continue
			}
			shared := Shared{Host: name, Machines: [2]string{on[0], on[1]}, Version: event.Version}
			if !slices.ContainsFunc(found, func(s Shared) bool { return s.Host == name && s.Machines == shared.Machines }) {
				found = append(found, shared)
			}
		}
	}
	return found
}

// inOrder returns the events in the order of their resource versions.
func inOrder(events []Event) []Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b Event) int { return cmp.Compare(a.Version, b.Version) })
}

// history is the state at one resource version.
type history struct {
	hosts    map[string]*occupied
	machines map[string]Machine
}

// occupied is a host with its consumer, and the UIDs of all machines that were ever its consumer.
type occupied struct {
	consumer string
	ever     map[string]types.UID
}

func (h history) apply(e Event) {
	if m := e.Machine; m != nil {
		h.machines[m.Namespace+"/"+m.Name] = *m
	}
	if e.Host == nil {
		return
	}
	name := e.Host.Namespace + "/" + e.Host.Name
	if e.Host.Gone {
		delete(h.hosts, name)
		return
	}
	host, ok := h.hosts[name]
	if !ok {
		host = &occupied{ever: map[string]types.UID{}}
		h.hosts[name] = host
	}
	host.consumer = ""
	if e.Host.Consumer != "" {
		host.consumer = e.Host.Namespace + "/" + e.Host.Consumer
		host.ever[host.consumer] = h.machines[host.consumer].UID
	}
}

// affected returns the hosts that may have another machine after an event.
func (h history) affected(e Event) (hosts []string) {
	for _, name := range slices.Sorted(maps.Keys(h.hosts)) {
		switch m := e.Machine; {
		case e.Host != nil && name == e.Host.Namespace+"/"+e.Host.Name,
			m != nil && (h.hosts[name].consumer == m.Namespace+"/"+m.Name || m.Chosen == name || m.has(name)):
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// has reports whether the provider ID of a machine names a host.
func (m Machine) has(host string) bool {
	return strings.HasPrefix(m.ProviderID, providerIDPrefix+host+"/")
}

// on returns the machines that are on a host.
func (h history) on(name string) (on []string) {
	host := h.hosts[name]
	for _, machine := range slices.Sorted(maps.Keys(h.machines)) {
		m := h.machines[machine]
		uid, was := host.ever[machine]
		claimed := was && uid == m.UID && m.Chosen == name
		if !m.Over && (host.consumer == machine || claimed || m.has(name)) {
			on = append(on, machine)
		}
	}
	return on
}

// providerIDPrefix comes before the namespace, the host and the machine in a provider ID.
const providerIDPrefix = "metal3://"
