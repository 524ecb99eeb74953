package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// busyField and queuedField are indexes of hosts: busyField has those that take a slot, queuedField
// those that wait for one.
const (
	busyField   = "status.provisioning.busy"
	queuedField = "status.operation.queued"
)

// queuePoll is how often a host that waits for a slot is reconciled. A host whose turn has come is
// woken earlier, except when a slot becomes free without a change of a host.
const queuePoll = time.Minute

// busyStates are the states in which a host can take a slot.
var busyStates = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateInspecting:     true,
	v1alpha1.StateProvisioning:   true,
	v1alpha1.StateDeprovisioning: true,
	v1alpha1.StatePreparing:      true,
}

// isBusy reports whether a host takes a slot: the engine works on its node or is about to, and the
// ramdisk boots over the network, which is what the limit protects. The state alone does not tell:
// the host may have no node, wait for somebody, or pause after a failure.
func isBusy(h *v1alpha1.BareMetalHost) bool {
	record, begins := h.Status.Operation, h.Status.Operation.Name == ""
	return busyStates[h.Status.Provisioning.State] && h.Status.Provisioning.ID != "" &&
		(begins || record.Request != "") && record.QueuedAt == nil && takesSlot(h)
}

// isQueued reports whether a host waits for a slot and can take one.
func isQueued(h *v1alpha1.BareMetalHost) bool {
	return h.Status.Operation.QueuedAt != nil && h.Status.Provisioning.ID != "" && !h.IsPaused() && !isHeldFree(h)
}

// isHeldFree reports whether a host is available and held off, so that nothing begins on it.
func isHeldFree(h *v1alpha1.BareMetalHost) bool {
	return h.Status.Provisioning.State == v1alpha1.StateAvailable && h.IsHeldOff()
}

// takesSlot reports whether work on a host counts towards the limit.
func takesSlot(h *v1alpha1.BareMetalHost) bool {
	if !h.HasBMC() {
		return false // its ramdisk runs already
	}
	access, err := bmc.Parse(h.Spec.BMC)
	return err == nil && !access.Abilities.BootsISO
}

// capacity bounds how many machines the engine works on at once. Hosts wait in the order
// in which they asked.
type capacity struct {
	client  client.Client
	nodes   nodeView
	metrics *Metrics
	limit   int // 0 is no limit
	granted *granted
	// maxBackoff is the longest pause of a host after a failure.
	maxBackoff time.Duration
	now        func() time.Time
}

// granted remembers the hosts that got a slot until the cache shows them in a busy state, so that
// hosts which ask at the same moment do not share a slot. It is safe for concurrent use.
type granted struct {
	mu    sync.Mutex
	hosts map[types.UID]time.Time
}

// grantTimeout is how long a grant counts while the cache does not show the host in a busy state.
// After that, the write of the host has failed.
const grantTimeout = 30 * time.Second

// add grants a slot to a host if free accepts the number of slots in use: those of the busy hosts,
// and those granted to other hosts that the cache does not show as busy yet.
func (g *granted) add(host types.UID, now time.Time, busy []v1alpha1.BareMetalHost, free func(busy int) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range busy {
		delete(g.hosts, busy[i].UID)
	}
	maps.DeleteFunc(g.hosts, func(other types.UID, at time.Time) bool { return other == host || now.Sub(at) > grantTimeout })
	if !free(len(busy) + len(g.hosts)) {
		return false
	}
	g.hosts[host] = now
	return true
}

// shown forgets the grant of a host that the cache has shown in a busy state.
func (g *granted) shown(host types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.hosts, host)
}

// take reports whether a host may begin an operation. A host that may not is delayed, and res says
// for how long.
func (c capacity) take(ctx context.Context, s *scope, operation v1alpha1.OperationName) (free bool, res result, err error) {
	if c.limit <= 0 || !takesSlot(s.host) {
		return true, result{}, nil
	}
	busy, err := c.busy(ctx)
	if err != nil {
		return false, stopped(), err
	}
	queued, err := c.hosts(ctx, queuedField)
	if err != nil {
		return false, stopped(), err
	}
	record := &s.host.Status.Operation
	if record.Name != v1alpha1.OperationPower { // the power may change while the host waits
		record = s.operation(operation)
	}
	if record.QueuedAt == nil {
		now := metav1.NewTime(s.now)
		record.QueuedAt = &now
	}
	ahead := 0
	for i := range queued {
		other := &queued[i]
		if pause := pauseOf(other.Status.Operation, s.now, c.maxBackoff, other.UID); pause == 0 && other.UID != s.host.UID && before(other, s.host) {
			ahead++
		}
	}
	if c.granted.add(s.host.UID, s.now, busy, func(busy int) bool { return decideSlot(c.limit, busy, ahead) }) {
		record.QueuedAt, s.hasSlot = nil, true
		return true, result{}, nil
	}
	s.delayed = true
	waits := c.metrics.queued
	if operation == v1alpha1.OperationDeprovision {
		waits = c.metrics.queuedToEnd
	}
	count(waits, s.host)
	s.progress = &progress{reason: v1alpha1.QueuedReason, message: fmt.Sprintf(
		"Waiting for a slot since %s: the engine works on as many machines as it may (%d)", record.QueuedAt.UTC().Format(time.RFC3339), c.limit)}
	return false, stoppedFor(queuePoll), nil
}

// keep is take for a host that is in a busy state already. A host that took no slot meanwhile, as
// after a failure, has to wait for one again.
func (c capacity) keep(ctx context.Context, s *scope, operation v1alpha1.OperationName) (free bool, res result, err error) {
	if s.hasSlot || !busyStates[s.state()] || isBusy(s.before) {
		return true, result{}, nil
	}
	return c.take(ctx, s, operation)
}

// decideSlot reports whether a host with `ahead` hosts before it in the queue may begin.
func decideSlot(limit, busy, ahead int) bool { return busy+ahead < limit }

// before reports whether a is ahead of b in the queue.
func before(a, b *v1alpha1.BareMetalHost) bool {
	x, y := a.Status.Operation.QueuedAt, b.Status.Operation.QueuedAt
	if !x.Equal(y) {
		return x.Before(y)
	}
	return a.UID < b.UID
}

// busy returns the hosts that take a slot. A paused host takes one only while the engine still does
// what it was asked before the pause: nobody knows when the pause ends.
func (c capacity) busy(ctx context.Context) ([]v1alpha1.BareMetalHost, error) {
	all, err := c.hosts(ctx, busyField)
	return slices.DeleteFunc(all, func(h v1alpha1.BareMetalHost) bool {
		if !h.IsPaused() {
			return false
		}
		n, known := c.nodes.Node(h.Status.Provisioning.ID)
		return !known || !atWork(n)
	}), err
}

func (c capacity) hosts(ctx context.Context, field string) ([]v1alpha1.BareMetalHost, error) {
	var list v1alpha1.BareMetalHostList
	if err := c.client.List(ctx, &list, client.MatchingFields{field: indexed}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return list.Items, nil
}

// indexed is the only value of an index that says yes or no.
const indexed = "true"

// yes returns the index function of an index of the hosts that satisfy is.
func yes(is func(*v1alpha1.BareMetalHost) bool) client.IndexerFunc {
	return func(obj client.Object) []string {
		if h, ok := obj.(*v1alpha1.BareMetalHost); ok && is(h) {
			return []string{indexed}
		}
		return nil
	}
}
