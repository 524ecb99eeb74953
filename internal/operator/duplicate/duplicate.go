// Package duplicate finds hosts that claim the machine of another host: by its boot MAC address or
// by its BMC.
//
// Two hosts with one machine would power it and write its disks against each other, so admission
// refuses the second host. But admission decides from a cache, which may lag behind, and different
// replicas can decide about two requests at the same moment: the API server has neither unique
// fields nor transactions over several objects. Therefore the registration of a host, which follows
// when both are stored, asks again.
package duplicate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// Finder looks for duplicates among all hosts that the operator sees, in all namespaces.
type Finder struct {
	// Cache has the indexes of [IndexFields].
	Cache client.Reader
	// Live reads hosts from the API server itself. A duplicate in the cache counts only if it still
	// exists, because hosts that were just deleted must not stand in the way.
	Live client.Reader
}

// Reason says what two hosts have in common.
type Reason int

// What two hosts can have in common.
const (
	// SameMAC means that both have the same boot MAC address.
	SameMAC Reason = iota
	// SameBMC means that both have the same BMC and the same system behind it.
	SameBMC
	// SharedBMC means that both have the same BMC, and the address of one of them does not say
	// which system behind it. Either the BMC has a single system, which the hosts share, or that
	// host cannot be registered.
	SharedBMC
	// DiscoveredBMC means that one host has a BMC whose address the machine of the other host
	// reported. The other host has no BMC. Only the BMC can tell whether both hosts have one
	// machine, because some BMCs have several.
	DiscoveredBMC
	// OtherNIC means that the boot MAC address of one host belongs to another NIC of the other
	// host.
	OtherNIC
)

// Certain reports whether two hosts with this in common are certain to have the same machine.
func (r Reason) Certain() bool { return r == SameMAC || r == SameBMC }

// Match is another host that has something in common with a host.
type Match struct {
	Host   *v1alpha1.BareMetalHost
	Reason Reason
	advice string
}

// Advice says in a few words what to do about a host whose machine another host has.
func Advice(h, other *v1alpha1.BareMetalHost) string {
	if h.HasBMC() && !other.HasBMC() {
		return "add spec.bmc to that host and delete this one"
	}
	return "delete one of the two hosts, or correct the address"
}

// String says what the hosts have in common and what to do about it.
func (m Match) String() string {
	name := m.Host.Namespace + "/" + m.Host.Name
	switch {
	case m.Reason == SharedBMC:
		return fmt.Sprintf("host %s has the same BMC, and one of the two addresses does not say which system behind it; add the path of the system, such as /redfish/v1/Systems/1", name)
	case m.Reason == DiscoveredBMC && m.Host.DeletionTimestamp.IsZero():
		return fmt.Sprintf("the machine of host %s was discovered with this BMC; %s. If they are different machines behind one BMC, set the annotation %s here", name, m.advice, v1alpha1.AllowDuplicateAnnotation)
	case m.Reason == OtherNIC:
		return fmt.Sprintf("the machine of host %s has a NIC with this address; check that they are different machines", name)
	case !m.Host.DeletionTimestamp.IsZero():
		return fmt.Sprintf("host %s has the same and is being deleted; wait until it is gone", name)
	}
	return fmt.Sprintf("host %s has the same; %s. While a host moves, the annotation %s allows both", name, m.advice, v1alpha1.AllowDuplicateAnnotation)
}

// maxMatches bounds how many hosts are named and read from the API server itself.
const maxMatches = 4

// Find returns up to maxMatches hosts that have something in common with h, each with its strongest
// reason. It returns none for a host with the annotation that allows duplicates.
func (f Finder) Find(ctx context.Context, h *v1alpha1.BareMetalHost) ([]Match, error) {
	if _, allowed := h.Annotations[v1alpha1.AllowDuplicateAnnotation]; allowed {
		return nil, nil
	}
	var matches []Match
	seen := map[client.ObjectKey]bool{client.ObjectKeyFromObject(h): true}
	for _, q := range queries(h) {
		var hosts v1alpha1.BareMetalHostList
		if err := f.Cache.List(ctx, &hosts, client.MatchingFields{q.field: q.value}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list hosts by %s: %w", q.field, err)
		}
		for i := range hosts.Items {
			other := &hosts.Items[i]
			key := client.ObjectKeyFromObject(other)
			if seen[key] || len(matches) == maxMatches {
				continue
			}
			seen[key] = true
			m, err := f.match(ctx, h, other)
			if err != nil {
				return nil, err
			}
			if m != nil {
				matches = append(matches, *m)
			}
		}
	}
	return matches, nil
}

// match compares h with a host of the cache. Before it returns anything that h may be refused for,
// it reads that host from the API server. It returns nil if the hosts have nothing in common.
func (f Finder) match(ctx context.Context, h, cached *v1alpha1.BareMetalHost) (*Match, error) {
	reason, found := Compare(h, cached)
	if !found {
		return nil, nil
	}
	if reason == SharedBMC || reason == OtherNIC {
		return &Match{Host: cached, Reason: reason}, nil
	}
	key := client.ObjectKeyFromObject(cached)
	var other v1alpha1.BareMetalHost
	switch err := f.Live.Get(ctx, key, &other); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read host %s: %w", key, err)
	}
	if reason, found = Compare(h, &other); !found {
		return nil, nil
	}
	return &Match{Host: &other, Reason: reason, advice: Advice(h, &other)}, nil
}

// Compare returns the strongest reason to believe that h and another host have the same machine.
// The second result is false if there is none.
func Compare(h, other *v1alpha1.BareMetalHost) (Reason, bool) {
	mac := strings.ToLower(h.Spec.BootMACAddress)
	if mac != "" && mac == strings.ToLower(other.Spec.BootMACAddress) {
		return SameMAC, true
	}
	a, b := endpointOf(h), endpointOf(other)
	switch {
	case a != nil && slices.Contains(discoveredBMCs(other), a.Host):
		return DiscoveredBMC, true
	case a == nil || b == nil || a.BMC() != b.BMC():
	case a.System == b.System:
		return SameBMC, true
	case a.System == "" || b.System == "":
		return SharedBMC, true
	}
	for _, nic := range otherNICs(other) {
		if nic == mac {
			return OtherNIC, true
		}
	}
	return 0, false
}

// endpointOf returns the endpoint of the host's BMC, or nil without a usable address.
func endpointOf(h *v1alpha1.BareMetalHost) *bmc.Endpoint {
	access, err := bmc.Parse(h.Spec.BMC)
	if err != nil {
		return nil
	}
	return &access.Endpoint
}
