// Package discovery is the controller of BareMetalHostDiscovery: it compares the engine's nodes
// with the hosts and creates a BareMetalHost for each unused node without one.
//
// It creates hosts, but changes none, and it only reads from the engine. Three rules prevent two
// hosts for one machine. All nodes belong to the oldest resource that is not suspended. Each name
// is tried on the API server before the next one. Node and hosts are read again before a host
// is created.
//
// A poll costs a few comparisons if nothing has changed: the nodes come from the shared cache,
// hosts are in an index that follows the watch of the API server, and facts about nodes that cannot
// become hosts are kept until the nodes change.
package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// defaultPollInterval is used where the schema's default was not applied.
	defaultPollInterval = 30 * time.Second
	// minPollInterval is the shortest poll interval of a resource. It is also the pause between two
	// polls when nodes or other resources have changed.
	minPollInterval = 5 * time.Second
	// freshness is how old the shared node cache may be in a poll. By default the cache polls the
	// engine more often than that, so that a poll causes no request.
	freshness = 10 * time.Second
	// workers is how many nodes are read, and how many hosts created, at the same time.
	workers = 16
)

// nodeCache is the shared cache of the engine's nodes.
type nodeCache interface {
	Refresh(ctx context.Context, maxAge time.Duration) error
	Generation() uint64
	Nodes() []provisioner.Node
	Node(id string) (provisioner.Node, bool)
	Fetch(ctx context.Context, id string) (provisioner.Node, error)
	MACs(ctx context.Context, id string) ([]string, error)
	LoadPorts(ctx context.Context, ids []string)
}

// inventoryReader reads the inventory of a node.
type inventoryReader interface {
	Inventory(ctx context.Context, id string) (*provisioner.Inventory, error)
}

// Config is what a reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// NodeCache is the shared cache of the engine's nodes.
	NodeCache nodeCache
	// Engine reads inventories.
	Engine inventoryReader
	// Readings remembers the hardware details of machines that become hosts; nil remembers nothing.
	Readings *hardware.Readings
	// Recorder publishes events.
	Recorder events.EventRecorder
	// Metrics counts outcomes.
	Metrics *Metrics
	// Now is the clock.
	Now func() time.Time
}

// Reconciler reconciles one discovery resource at a time.
type Reconciler struct {
	Config

	facts *factReader
	index *hostIndex
	// evaluated is what the last poll of each resource worked with. Only the single worker uses it.
	evaluated map[types.NamespacedName]*evaluation

	mu      sync.Mutex
	pending map[types.NamespacedName][]discoveryv1.Tombstone
	polled  map[types.NamespacedName]poll
}

// poll says when a resource was last polled, for which generation, and when its next poll is due.
type poll struct {
	uid        types.UID
	next       time.Time // when the next one is due
	at         time.Time
	generation int64
	changed    bool // nodes or other resources changed since
}

// pass is one reconciliation of a resource.
type pass struct {
	// resource is changed by the pass. before is the resource as it was read.
	resource, before *discoveryv1.BareMetalHostDiscovery
}

// New returns a reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{
		Config:    config,
		facts:     newFactReader(config.NodeCache, config.Engine, config.Now),
		index:     newHostIndex(config.Now),
		evaluated: map[types.NamespacedName]*evaluation{},
		pending:   map[types.NamespacedName][]discoveryv1.Tombstone{},
		polled:    map[types.NamespacedName]poll{},
	}
}

// Reconcile polls the engine if a poll is due, and records the outcome.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var resource discoveryv1.BareMetalHostDiscovery
	if err := r.Client.Get(ctx, req.NamespacedName, &resource); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !resource.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	p := &pass{resource: &resource, before: resource.DeepCopy()}
	result, err := r.run(ctx, p)
	if err != nil {
		r.repeat(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	added := r.addPending(p.resource)
	if err := r.patchStatus(ctx, p.before, p.resource); err != nil {
		r.repeat(req.NamespacedName)
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: again}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.dropPending(req.NamespacedName, added)
	r.facts.wait()
	return result, nil
}

// run polls for a resource if a poll is due.
func (r *Reconciler) run(ctx context.Context, p *pass) (ctrl.Result, error) {
	if p.resource.Spec.Suspend {
		r.suspend(p.resource)
		return ctrl.Result{}, nil
	}
	if wait := r.untilPoll(p.resource); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	at := r.Now()
	r.markPolled(p.resource, at, at.Add(pollInterval(p.resource)))
	next, err := r.poll(ctx, p)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("poll for discovery %s: %w", client.ObjectKeyFromObject(p.resource), err)
	}
	r.scheduled(p.resource, r.Now().Add(next))
	return ctrl.Result{RequeueAfter: next}, nil
}

func pollInterval(resource *discoveryv1.BareMetalHostDiscovery) time.Duration {
	interval := resource.Spec.PollInterval.Duration
	if interval == 0 {
		interval = defaultPollInterval
	}
	return max(interval, minPollInterval)
}

// ownerOf returns the resource that all nodes belong to: the oldest one that is neither suspended
// nor being deleted. It returns nil if there is none.
func ownerOf(resources []discoveryv1.BareMetalHostDiscovery) *discoveryv1.BareMetalHostDiscovery {
	var owner *discoveryv1.BareMetalHostDiscovery
	for i := range resources {
		candidate := &resources[i]
		if candidate.Spec.Suspend || !candidate.DeletionTimestamp.IsZero() {
			continue
		}
		if owner == nil || older(candidate, owner) {
			owner = candidate
		}
	}
	return owner
}

func older(a, b *discoveryv1.BareMetalHostDiscovery) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return client.ObjectKeyFromObject(a).String() < client.ObjectKeyFromObject(b).String()
}

func sameResource(a, b *discoveryv1.BareMetalHostDiscovery) bool {
	return a != nil && a.Namespace == b.Namespace && a.Name == b.Name
}
