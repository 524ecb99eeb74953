package discovery

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

// untilPoll returns the pause before the next poll. A resource with a changed spec is polled at
// once. If nodes or other resources have changed, minPollInterval has to pass since the last poll.
func (r *Reconciler) untilPoll(resource *discoveryv1.BareMetalHostDiscovery) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.polled[client.ObjectKeyFromObject(resource)]
	if !known || last.uid != resource.UID || last.generation != resource.Generation {
		return 0
	}
	next := last.next
	if soon := last.at.Add(minPollInterval); last.changed && soon.Before(next) {
		next = soon
	}
	return next.Sub(r.Now())
}

// markPolled notes that a poll begins, and when the next one is due if it fails.
func (r *Reconciler) markPolled(resource *discoveryv1.BareMetalHostDiscovery, at, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polled[client.ObjectKeyFromObject(resource)] = poll{uid: resource.UID, at: at, next: next, generation: resource.Generation}
}

// scheduled notes when the next poll is due.
func (r *Reconciler) scheduled(resource *discoveryv1.BareMetalHostDiscovery, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(resource)
	last := r.polled[name]
	last.next = next
	r.polled[name] = last
}

// markChanged records that other resources, or nodes without a host, have changed.
func (r *Reconciler) markChanged(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, known := r.polled[name]; known {
		last.changed = true
		r.polled[name] = last
	}
}

// repeat makes the next pass poll at once and decide about all nodes again, because the outcome of
// the last poll was not written.
func (r *Reconciler) repeat(name types.NamespacedName) {
	if last := r.evaluated[name]; last != nil {
		last.due = time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.polled, name)
}

// forget drops everything that is kept about a deleted resource.
func (r *Reconciler) forget(name types.NamespacedName) {
	delete(r.evaluated, name)
	r.Metrics.forget(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, name)
	delete(r.polled, name)
}
