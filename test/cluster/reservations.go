package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Reservations is what a watch has seen of node reuse in a namespace: nothing of it is missed, however short it was.
type Reservations struct {
	mu       sync.Mutex
	reserved map[string]string // hosts that are reserved now, by what says so
	begun    []string
	freed    []string
	waits    []string
	broken   error
}

// WatchReservations watches the hosts and the Metal3Machines of the cluster until the end of the test.
func (c *Cluster) WatchReservations(tb testing.TB) *Reservations {
	tb.Helper()
	kube, err := client.NewWithWatch(c.Config(), client.Options{Scheme: c.Kube.Scheme()})
	if err != nil {
		tb.Fatal(err)
	}
	r := &Reservations{reserved: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	var watches sync.WaitGroup
	tb.Cleanup(func() { cancel(); watches.Wait() })
	for _, list := range []client.ObjectList{&v1alpha1.BareMetalHostList{}, &v1beta2.Metal3MachineList{}} {
		w, err := kube.Watch(ctx, list, client.InNamespace(c.Name))
		if err != nil {
			tb.Fatalf("watch %T: %v", list, err)
		}
		watches.Go(func() {
			defer w.Stop()
			for event := range w.ResultChan() {
				switch object := event.Object.(type) {
				case *v1alpha1.BareMetalHost:
					r.host(object)
				case *v1beta2.Metal3Machine:
					r.machine(object)
				default:
					r.fail(apierrors.FromObject(object))
				}
			}
			if ctx.Err() == nil {
				r.fail(errors.New("the watch has ended"))
			}
		})
	}
	return r
}

func (r *Reservations) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = errors.Join(r.broken, err)
}

func (r *Reservations) host(h *v1alpha1.BareMetalHost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, before := reservation(h), r.reserved[h.Name]
	r.reserved[h.Name] = now
	switch {
	case now != "" && before == "":
		r.begun = append(r.begun, h.Name)
	case now == "" && before != "" && h.Spec.ConsumerRef == nil:
		r.freed = append(r.freed, h.Name)
	}
}

func (r *Reservations) machine(m *v1beta2.Metal3Machine) {
	c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.AssociateBareMetalHostCondition)
	if c == nil || c.Reason != v1beta2.WaitingForReservedHostReason {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.waits, m.Name) {
		r.waits = append(r.waits, m.Name)
	}
}

// reservation says what of a reservation a host has; empty if there is nothing.
func reservation(h *v1alpha1.BareMetalHost) (what string) {
	if ref := h.Spec.ConsumerRef; ref != nil && ref.Kind != "Metal3Machine" {
		what += fmt.Sprintf("consumer %s %s ", ref.Kind, ref.Name)
	}
	if label, ok := h.Labels[v1beta2.NodeReuseLabel]; ok {
		what += fmt.Sprintf("label %q ", label)
	}
	if at, ok := h.Annotations[v1beta2.ReservedAtAnnotation]; ok {
		what += "reserved at " + at
	}
	return what
}

// Begun are the hosts in the order in which they were reserved, each as often as it was.
func (r *Reservations) Begun(tb testing.TB) []string {
	tb.Helper()
	return r.read(tb, &r.begun)
}

// Freed are the hosts whose reservation ended without a machine that took them.
func (r *Reservations) Freed(tb testing.TB) []string {
	tb.Helper()
	return r.read(tb, &r.freed)
}

// Waits are the Metal3Machines that have waited for a reserved host.
func (r *Reservations) Waits(tb testing.TB) []string {
	tb.Helper()
	return r.read(tb, &r.waits)
}

// IsReservedFor returns a check whether a host is reserved for a MachineDeployment and available.
func IsReservedFor(d *clusterv1.MachineDeployment) func(*v1alpha1.BareMetalHost) bool {
	return func(h *v1alpha1.BareMetalHost) bool {
		ref := h.Spec.ConsumerRef
		return ref != nil && ref.Kind == "MachineDeployment" && ref.Name == d.Name && h.Status.Provisioning.State == v1alpha1.StateAvailable
	}
}

// ReservationsLeft says of each host that is reserved what of a reservation it has.
func (c *Cluster) ReservationsLeft(tb testing.TB) (left []string) {
	tb.Helper()
	var hosts v1alpha1.BareMetalHostList
	if err := c.Kube.List(tb.Context(), &hosts, client.InNamespace(c.Name)); err != nil {
		tb.Fatal(err)
	}
	for i := range hosts.Items {
		if what := reservation(&hosts.Items[i]); what != "" {
			left = append(left, hosts.Items[i].Name+": "+what)
		}
	}
	return left
}

func (r *Reservations) read(tb testing.TB, list *[]string) []string {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		tb.Fatalf("watch reservations: %v", r.broken)
	}
	return slices.Clone(*list)
}
