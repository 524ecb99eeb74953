// Package discovery is the controller of BareMetalHostDiscovery: it polls the
// engine and creates a BareMetalHost for each unused node without
// one.
//
// It creates hosts and changes none, and it only reads from the engine.
// Three rules prevent two hosts for one machine: a node belongs to the oldest resource
// that is not suspended, each name is tried on the API server before the next one, and
// a node is read again before its host is created.
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
	"sigs.k8s.io/controller-runtime/pkg/log"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// defaultPollInterval is used where the schema's default was not applied.
	defaultPollInterval = 30 * time.Second
	// minPollInterval is the lower limit for the interval of a resource.
	minPollInterval = 5 * time.Second
	// freshness is the maximum age of the shared node cache in a poll.
	freshness = time.Second
	// workers is the number of nodes read and of hosts created at the
	// same time.
	workers = 16
)

// nodeCache is the shared cache of the engine's nodes.
type nodeCache interface {
	Refresh(ctx context.Context, maxAge time.Duration) error
	Nodes() []provisioner.Node
	Fetch(ctx context.Context, id string) (provisioner.Node, error)
	MACs(ctx context.Context, id string) ([]string, error)
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
	// Recorder publishes events.
	Recorder events.EventRecorder
	// Metrics counts outcomes.
	Metrics *Metrics
	// Now is the clock.
	Now func() time.Time
}

// Reconciler polls for one resource at a time.
type Reconciler struct {
	Config

	facts   *factReader
	created *recentHosts

	mu      sync.Mutex
	pending map[types.NamespacedName][]discoveryv1.Tombstone
	polled  map[types.NamespacedName]poll
}

// poll is the time and generation of the last poll for a resource.
type poll struct {
	uid        types.UID
	at         time.Time
	generation int64
}

// New returns a reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{
		Config:  config,
		facts:   newFactReader(config.NodeCache, config.Engine, config.Now),
		created: newRecentHosts(config.Now),
		pending: map[types.NamespacedName][]discoveryv1.Tombstone{},
		polled:  map[types.NamespacedName]poll{},
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
	before := resource.DeepCopy()
	interval := pollInterval(&resource)
	result := ctrl.Result{RequeueAfter: interval}

	switch wait := r.untilPoll(&resource, interval); {
	case resource.Spec.Suspend:
		r.suspend(&resource)
		result = ctrl.Result{}
	case wait > 0:
		result = ctrl.Result{RequeueAfter: wait}
	default:
		r.markPolled(&resource)
		if err := r.poll(ctx, &resource); err != nil {
			return ctrl.Result{}, fmt.Errorf("poll for discovery %s: %w", req.NamespacedName, err)
		}
	}
	added := r.addPending(&resource)
	if err := r.patchStatus(ctx, before, &resource); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: time.Second}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.dropPending(req.NamespacedName, added)
	return result, nil
}

// poll reads the engine once for the resource and fills its status. Errors
// of the engine go into the status; only errors of the API server come back.
func (r *Reconciler) poll(ctx context.Context, resource *discoveryv1.BareMetalHostDiscovery) error {
	if err := r.NodeCache.Refresh(ctx, freshness); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.recordUnreachable(resource, err)
		return nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	var resources discoveryv1.BareMetalHostDiscoveryList
	if err := r.Client.List(ctx, &resources); err != nil {
		return fmt.Errorf("list discovery resources: %w", err)
	}
	index := newHostIndex(r.created.with(hosts.Items))
	matched, free := index.split(r.NodeCache.Nodes())
	candidates := r.facts.read(ctx, free)
	result := outcome{
		engineNodes: len(matched) + len(free) + index.foreign,
		owner:       ownerOf(resources.Items),
	}
	decided := makePlan(resource, index, candidates)
	result.matched = len(matched) + decided.matched
	result.failed = len(decided.failed)
	if result.failed > 0 {
		log.FromContext(ctx).Error(decided.failed[0], "Nodes cannot be read", "count", result.failed)
	}

	switch templateErr := checkTemplate(resource.Spec.ResourceNameTemplate); {
	case templateErr != nil:
		result.templateErr = templateErr
	case !sameResource(result.owner, resource):
		result.left = len(decided.create)
	default:
		result.skipped = decided.skipped
		result.merge(r.createAll(ctx, resource, decided.create))
	}
	result.created += index.madeBy(resource)
	r.addDeletingHosts(resource, hosts.Items)
	r.record(resource, result)
	log.FromContext(ctx).V(1).Info("Polled the engine", "nodes", result.engineNodes, "created", result.made)
	return nil
}

func pollInterval(resource *discoveryv1.BareMetalHostDiscovery) time.Duration {
	interval := resource.Spec.PollInterval.Duration
	if interval == 0 {
		interval = defaultPollInterval
	}
	return max(interval, minPollInterval)
}

// untilPoll is the pause before the next poll. A changed spec is handled
// on at once.
func (r *Reconciler) untilPoll(resource *discoveryv1.BareMetalHostDiscovery, interval time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.polled[client.ObjectKeyFromObject(resource)]
	if !known || last.uid != resource.UID || last.generation != resource.Generation {
		return 0
	}
	return last.at.Add(interval).Sub(r.Now())
}

func (r *Reconciler) markPolled(resource *discoveryv1.BareMetalHostDiscovery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polled[client.ObjectKeyFromObject(resource)] = poll{uid: resource.UID, at: r.Now(), generation: resource.Generation}
}

// forget drops what is kept for a deleted resource.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, name)
	delete(r.polled, name)
}

// ownerOf returns the resource that all nodes belong to: the oldest that is not
// suspended or being deleted, or nil.
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
