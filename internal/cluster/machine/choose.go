package machine

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

// wanted is what a machine wants of its host.
type wanted struct {
	machine *v1beta2.Metal3Machine
	// selector has to match the labels of the host.
	selector labels.Selector
	// domain is the failure domain in which the host should stand; empty means anywhere.
	domain string
	// owner is the owner whose reserved hosts may be chosen; nil means that no reserved host may
	// be.
	owner *reuse.Owner
}

// obstacle is a reason why a machine cannot have a host that other machines may have.
type obstacle struct {
	// what describes the hosts with this obstacle; it follows their number.
	what  string
	holds func(wanted, *v1alpha1.BareMetalHost) bool
}

// obstacles are in the order in which they are looked for; a host counts under the first one that
// holds. The reasons why no machine can have a host are looked for after them.
var obstacles = []obstacle{
	{"not selected by spec.hostSelector", func(w wanted, h *v1alpha1.BareMetalHost) bool {
		return !w.selector.Matches(labels.Set(h.Labels))
	}},
	{"reserved for other owners", func(w wanted, h *v1alpha1.BareMetalHost) bool {
		return reuse.IsReserved(h) && !related.Consumes(w.machine, h) && !reuse.ReservedFor(w.owner, h)
	}},
	{"of an earlier machine of the same name", func(w wanted, h *v1alpha1.BareMetalHost) bool { return isOfNamesake(w.machine, h) }},
	{"with another consumer", func(w wanted, h *v1alpha1.BareMetalHost) bool {
		return isConsumed(h) && !related.Consumes(w.machine, h) && !reuse.IsReserved(h)
	}},
	{"reserved by another provider", func(w wanted, h *v1alpha1.BareMetalHost) bool {
		return reuse.IsForeign(h) && !related.Consumes(w.machine, h)
	}},
}

// firstObstacle returns why a machine cannot have a host; empty means that it can.
func firstObstacle(w wanted, h *v1alpha1.BareMetalHost) string {
	for _, o := range obstacles {
		if o.holds(w, h) {
			return o.what
		}
	}
	return eligible.Unusable(h)
}

// choice are the hosts that a machine can have, the best first, and why it cannot have the
// others.
type choice struct {
	// reserved are the hosts that are kept for the machine's owner; they come before the free ones.
	reserved, free []*v1alpha1.BareMetalHost
	// refused counts the hosts under each obstacle.
	refused map[string]int
}

// choose ranks the hosts of a namespace for a machine. Hosts of the wanted failure domain come
// first. Reserved hosts are ordered by the time of their reservation. The order of free hosts is
// always the same for one machine and differs between machines, so that machines that are made
// together seldom choose the same host.
func choose(w wanted, hosts []v1alpha1.BareMetalHost) choice {
	c := choice{refused: map[string]int{}}
	for i := range hosts {
		h := &hosts[i]
		switch what := firstObstacle(w, h); {
		case what != "":
			c.refused[what]++
		case reuse.ReservedFor(w.owner, h):
			c.reserved = append(c.reserved, h)
		default:
			c.free = append(c.free, h)
		}
	}
	slices.SortFunc(c.reserved, func(a, b *v1alpha1.BareMetalHost) int {
		return cmp.Or(w.byDomain(a, b), reuse.ReservedAt(a).Compare(reuse.ReservedAt(b)), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.free, func(a, b *v1alpha1.BareMetalHost) int {
		return cmp.Or(w.byDomain(a, b), cmp.Compare(w.lot(a), w.lot(b)), cmp.Compare(a.Name, b.Name))
	})
	return c
}

// byDomain compares two hosts; those of the wanted failure domain come first.
func (w wanted) byDomain(a, b *v1alpha1.BareMetalHost) int {
	rank := func(h *v1alpha1.BareMetalHost) int {
		if w.domain != "" && h.Labels[v1beta2.FailureDomainLabel] == w.domain {
			return 0
		}
		return 1
	}
	return cmp.Compare(rank(a), rank(b))
}

// lot returns the place of a free host in the order of this machine.
func (w wanted) lot(h *v1alpha1.BareMetalHost) uint64 {
	sum := sha256.Sum256([]byte(string(w.machine.UID) + "/" + string(h.UID)))
	return binary.BigEndian.Uint64(sum[:])
}

// none returns why no host can be used, with the number of hosts under each obstacle.
func (c choice) none(namespace string) string {
	if len(c.refused) == 0 {
		return fmt.Sprintf("There are no hosts in namespace %s.", namespace)
	}
	total := 0
	var parts []string
	count := func(what string) {
		if n := c.refused[what]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	for _, o := range obstacles {
		count(o.what)
	}
	for _, what := range eligible.Reasons() {
		count(what)
	}
	return fmt.Sprintf("No host of %d in namespace %s can be used: %s.", total, namespace, strings.Join(parts, ", "))
}

func isAnnotated(h *v1alpha1.BareMetalHost, key string) bool {
	_, there := h.Annotations[key]
	return there
}

// isOfNamesake reports whether the consumer of a host is an earlier machine of the same name, which
// is gone and has not released the host.
func isOfNamesake(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) bool {
	if !isConsumed(h) || related.Consumes(m, h) {
		return false
	}
	named := *m
	named.UID = h.Spec.ConsumerRef.UID
	return related.Consumes(&named, h)
}

func isConsumed(h *v1alpha1.BareMetalHost) bool {
	return h.Spec.ConsumerRef != nil && h.Spec.ConsumerRef.Name != ""
}

func isDetached(h *v1alpha1.BareMetalHost) bool {
	return isAnnotated(h, v1alpha1.DetachedAnnotation) || h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
}

// isFree reports whether nothing is deployed on a host and something can be.
func isFree(h *v1alpha1.BareMetalHost) bool {
	return h.Status.Provisioning.State == v1alpha1.StateAvailable || h.Status.Provisioning.State == v1alpha1.StateReady
}

// isSpecified reports whether the spec of a host says what is deployed. Empty values count as
// absent.
func isSpecified(h *v1alpha1.BareMetalHost) bool {
	return h.Spec.Image != nil && h.Spec.Image.URL != "" || h.Spec.CustomDeploy != nil && h.Spec.CustomDeploy.Method != ""
}
