package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// pollTimeout bounds one poll.
	pollTimeout = time.Minute
	// again is the pause before a poll that has more to do.
	again = 100 * time.Millisecond
)

// inputs are what the outcome of a poll depends on. If they equal those of the last poll, and no
// node is due to be read again, there is nothing to do.
type inputs struct {
	uid        types.UID
	generation int64
	owner      types.UID
	nodes      uint64
	hosts      uint64
}

// evaluation is what a poll worked with and what it leaves for the next one.
type evaluation struct {
	inputs
	tombstones []discoveryv1.Tombstone
	// due is when the outcome may differ although the inputs are the same.
	due time.Time
	// skipped are all skipped nodes, including those that the status has no room for.
	skipped skipMemory
}

// poll compares the nodes with the hosts, creates the missing hosts and fills the status. It
// returns how long the next poll can wait at most. Errors of the engine go into the status; poll
// returns only errors of the API server.
func (r *Reconciler) poll(parent context.Context, p *pass) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(parent, pollTimeout)
	defer cancel()
	interval := pollInterval(p.resource)
	if err := r.NodeCache.Refresh(ctx, freshness); err != nil {
		if parent.Err() != nil {
			return 0, parent.Err()
		}
		r.unreachable(p.resource, overdue(ctx, err))
		return minPollInterval, nil
	}
	var resources discoveryv1.BareMetalHostDiscoveryList
	if err := r.Client.List(ctx, &resources); err != nil {
		return 0, fmt.Errorf("list discovery resources: %w", err)
	}
	r.index.expire()
	owner := ownerOf(resources.Items)
	now := r.inputs(p.resource, owner)
	last := r.lastEvaluation(p.resource)
	if last != nil && last.inputs == now && sameTombstones(last.tombstones, p.resource) && r.Now().Before(last.due) {
		r.recordReached(p.resource)
		return min(interval, last.due.Sub(r.Now())), nil
	}
	if err := r.readAfresh(ctx, p); err != nil {
		return 0, err
	}
	result, err := r.evaluate(parent, ctx, p, owner)
	if err != nil {
		return 0, err
	}
	if result.engineErr != nil {
		r.unreachable(p.resource, result.engineErr)
		return minPollInterval, nil
	}
	skipped := r.recordOutcome(p.resource, result, last)
	r.evaluated[client.ObjectKeyFromObject(p.resource)] = &evaluation{
		inputs: now, tombstones: p.resource.Status.Tombstones, due: result.due, skipped: skipped,
	}
	log.FromContext(ctx).V(1).Info("Compared nodes and hosts", "nodes", result.engineNodes, "created", len(result.made))
	return max(min(interval, result.due.Sub(r.Now())), again), nil
}

// unreachable notes that the engine gave no answer. The next poll that gets an answer decides about
// all nodes again.
func (r *Reconciler) unreachable(resource *discoveryv1.BareMetalHostDiscovery, err error) {
	r.recordUnreachable(resource, err)
	if last := r.lastEvaluation(resource); last != nil {
		last.due = time.Time{}
	}
}

// overdue replaces an error that the poll's own deadline caused by one that names this cause.
func overdue(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, provisioner.ErrUnreachable) {
		return fmt.Errorf("%w: the list of nodes was not complete within %s", provisioner.ErrUnreachable, pollTimeout)
	}
	return err
}

func (r *Reconciler) inputs(resource, owner *discoveryv1.BareMetalHostDiscovery) inputs {
	now := inputs{
		uid: resource.UID, generation: resource.Generation,
		nodes: r.NodeCache.Generation(), hosts: r.index.version(),
	}
	if owner != nil {
		now.owner = owner.UID
	}
	return now
}

// lastEvaluation returns the evaluation of the last poll of this resource, or nil. A resource of
// the same name with another UID does not count.
func (r *Reconciler) lastEvaluation(resource *discoveryv1.BareMetalHostDiscovery) *evaluation {
	last := r.evaluated[client.ObjectKeyFromObject(resource)]
	if last == nil || last.uid != resource.UID {
		return nil
	}
	return last
}

// sameTombstones reports whether the resource still has the same tombstones.
func sameTombstones(before []discoveryv1.Tombstone, resource *discoveryv1.BareMetalHostDiscovery) bool {
	return slices.EqualFunc(before, resource.Status.Tombstones, func(a, b discoveryv1.Tombstone) bool { return a.MAC == b.MAC })
}

// readAfresh reads the resource from the API server itself, because the cache may lack two things:
// what the last poll wrote, and a tombstone that was written just before its host went.
func (r *Reconciler) readAfresh(ctx context.Context, p *pass) error {
	var now discoveryv1.BareMetalHostDiscovery
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(p.resource), &now); err != nil {
		return fmt.Errorf("read the resource: %w", err)
	}
	p.resource, p.before = &now, now.DeepCopy()
	r.addPending(p.resource)
	return nil
}

// evaluate decides about all nodes and creates hosts for the nodes that need one. ctx ends with the
// poll. parent outlives it, so that readings of slow nodes may take longer.
func (r *Reconciler) evaluate(parent, ctx context.Context, p *pass, owner *discoveryv1.BareMetalHostDiscovery) (outcome, error) {
	resource := p.resource
	nodes := r.NodeCache.Nodes()
	divided := r.index.divide(nodes)
	result := outcome{
		engineNodes: len(nodes), matched: divided.matched, owner: owner,
		templateErr: checkTemplate(resource.Spec.ResourceNameTemplate),
		due:         r.Now().Add(refreshAfter),
	}
	mine := sameResource(owner, resource) && result.templateErr == nil
	var found findings
	if mine {
		found = r.facts.read(parent, divided.free)
	} else {
		found = r.facts.peek(divided.free)
	}
	if parent.Err() != nil {
		return result, parent.Err()
	}
	if found.failed {
		if err := r.NodeCache.Refresh(ctx, 0); err != nil {
			result.engineErr = overdue(ctx, err)
			return result, nil
		}
	}
	decided, err := r.decide(ctx, p, found.candidates)
	if err != nil {
		return result, err
	}
	if mine {
		if err := r.carryOut(ctx, p, decided, &result); err != nil {
			return result, err
		}
		result.dueBy(found, r.Now())
	} else {
		result.matched += decided.matched
		result.left = len(decided.create) + found.unread
	}
	result.created = r.index.madeBy(p.resource)
	return result, nil
}

// decide makes the plan. A host that goes while nodes are read leaves a tombstone first. Where
// tombstones count, decide therefore reads them after it has read the hosts, and makes the
// plan again if they have changed.
func (r *Reconciler) decide(ctx context.Context, p *pass, candidates []candidate) (plan, error) {
	for {
		decided := makePlan(p.resource, r.index, candidates, func(id string) bool { return r.exists(ctx, id) }, r.hasPort(ctx))
		if p.resource.Spec.Rediscovery != discoveryv1.RediscoveryDeny || len(decided.create) == 0 {
			return decided, nil
		}
		used := p.resource
		if err := r.readAfresh(ctx, p); err != nil {
			return plan{}, err
		}
		if used.Generation == p.resource.Generation && sameTombstones(used.Status.Tombstones, p.resource) {
			return decided, nil
		}
	}
}

// carryOut creates the planned hosts. If the API server refuses one of them, carryOut decides again
// about the machines that spec.maxHosts kept out, and one of them gets the free place. This can
// happen several times. It does not give away the place of a host whose creation failed, because
// that host may exist nevertheless.
func (r *Reconciler) carryOut(ctx context.Context, p *pass, decided plan, result *outcome) error {
	for {
		created := r.createAll(ctx, p.resource, decided.create)
		result.merge(decided, created)
		if len(created.refused) == 0 || created.failed > 0 || len(decided.beyond) == 0 {
			return nil
		}
		result.skipped = slices.DeleteFunc(result.skipped, func(s discoveryv1.SkippedNode) bool { return s.Reason == discoveryv1.SkipLimitReached })
		next, err := r.decide(ctx, p, decided.beyond)
		if err != nil {
			return err
		}
		decided = next
	}
}

// dueBy moves the next poll forward to when there is something to read or to create again.
func (o *outcome) dueBy(found findings, now time.Time) {
	if !found.due.IsZero() && found.due.Before(o.due) {
		o.due = found.due
	}
	if found.unread > 0 {
		o.due = now
	}
	if o.failed > 0 && o.due.After(now.Add(minPollInterval)) {
		o.due = now.Add(minPollInterval)
	}
}

// exists reports whether the engine has a node. It asks the engine, because the cache may still
// show a node that is gone.
func (r *Reconciler) exists(ctx context.Context, id string) bool {
	if _, known := r.NodeCache.Node(id); !known {
		return false
	}
	_, err := r.NodeCache.Fetch(ctx, id)
	return !errors.Is(err, provisioner.ErrNotFound)
}

// hasPort returns a function that reports whether a node has a MAC address. The function returns
// true for a node that is gone or cannot be read now, because that node may have the address.
func (r *Reconciler) hasPort(ctx context.Context) func(nodeID, mac string) bool {
	return func(nodeID, mac string) bool {
		if _, known := r.NodeCache.Node(nodeID); !known {
			return true
		}
		macs, err := r.NodeCache.MACs(ctx, nodeID)
		return err != nil || slices.Contains(macs, mac)
	}
}
