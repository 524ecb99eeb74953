// Package reuse lets the machines of an owner, which is a control plane or a MachineDeployment,
// take over each other's hosts, so that the same disks come back after an upgrade. A host is
// reserved for the owner when its machine is deleted, and the next machine of the owner takes it.
// The controller frees a host that no machine of its owner will take.
//
// A reservation is in the host object alone: spec.consumerRef names the owner, NodeReuseLabel
// repeats it for other providers, ReservedAtAnnotation says since when, and
// ConsumerHostUIDAnnotation for which host object. Decisions (decide.go) depend only on what was
// read before (read.go). A decision that gives a host away has to be made from what the API server
// has now, not from the cache.
package reuse

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Reuse answers the questions of the controller of Metal3Machines. It writes nothing and is safe for
// concurrent use.
type Reuse struct {
	// Client reads from the cache; Live asks the API server.
	Client client.Client
	Live   client.Reader
	// Wait bounds how long a new machine waits for a host of its owner, counted from the
	// reservation of the host or the deletion of its machine; 0 means for ever.
	Wait time.Duration
	// Now is the clock.
	Now func() time.Time
}

// Reservation is whether a host is reserved when its machine is deleted, and for which owner. The
// zero value says that it is not reserved.
type Reservation struct {
	// Owner is the owner that the host is reserved for, and At the time of the reservation.
	Owner Owner
	At    time.Time
	// CleaningMode is the cleaning mode in the template that the owner makes machines of now, as
	// the API server has it; empty when the template has none.
	CleaningMode string
	// Refused says why the host is not reserved although its template wants reuse, and Message
	// the same as a sentence for an event.
	Refused Reason
	Message string
}

// Reserves reports whether the host is to be reserved.
func (r Reservation) Reserves() bool { return r.Owner != Owner{} }

// Apply sets the consumer, the label and the annotations of the reservation on a host object, which
// the caller writes with its resourceVersion, together with the removal of its image.
func (r Reservation) Apply(h *v1alpha1.BareMetalHost) { reserve(h, r.Owner, r.At) }

// Preference says which hosts a new machine may take.
type Preference struct {
	// Owner is the owner of the machine, or nil when it has none.
	Owner *Owner
	// Wanted says that hosts for which ReservedFor(Owner, host) holds are chosen first: those of
	// the failure domain, then the oldest by ReservedAt, then by name. If Wanted is false, hosts
	// for which IsReserved holds are not chosen.
	Wanted bool
	// Waiting says that the machine waits when none of these hosts can be chosen now. WaitingFor is
	// what it waits for, as a sentence for its condition. RequeueAfter is when to ask again; 0
	// means that only a change can end the wait.
	Waiting      bool
	WaitingFor   string
	RequeueAfter time.Duration
	// Skipped is a sentence that says why the template's nodeReuse has no effect for this
	// machine, or that its wait took too long; empty when there is nothing to say.
	Skipped string
}

// ownerOf returns the owner of a Machine, or nil when there is none: for a Machine that stands
// alone or belongs to a MachineSet without a MachineDeployment.
func ownerOf(ctx context.Context, r client.Reader, machine *clusterv1.Machine) (*Owner, error) {
	return owners{r, map[string]*Owner{}}.of(ctx, machine)
}

// Reserve decides whether the host of a machine that is being deleted is reserved for its owner.
// The caller asks before the first write of the deletion. The cache alone is not enough to give a
// host away or to wipe its disks: Reserve asks the API server before that. A reservation that the
// cache grants wrongly is freed later.
func (x Reuse) Reserve(ctx context.Context, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) (Reservation, error) {
	r, err := x.reserve(ctx, x.cached(), machine, m, h)
	if err != nil {
		return r, err
	}
	if !r.Reserves() {
		return x.reserve(ctx, x.live(), machine, m, h)
	}
	r.CleaningMode, err = x.live().cleaningMode(ctx, m, r.Owner)
	return r, err
}

func (x Reuse) reserve(ctx context.Context, v view, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) (Reservation, error) {
	owner, err := ownerOf(ctx, v, machine)
	if err != nil {
		return Reservation{}, err
	}
	if owner == nil {
		t, err := v.template(ctx, m.Namespace, clonedFrom(m))
		if err != nil || !t.reuse {
			return Reservation{}, err
		}
		return Reservation{Refused: reasonNoOwner, Message: refused(h, noOwner(machine))}, nil
	}
	f := &facts{now: x.Now(), host: h}
	if f.cluster, err = v.cluster(ctx, machine.Namespace, machine.Spec.ClusterName); err != nil {
		return Reservation{}, err
	}
	if f.owner, f.unreadable, err = v.ownerIfReadable(ctx, *owner); err != nil {
		return Reservation{}, err
	}
	if f.owner != nil && f.owner.UID != owner.UID {
		f.owner = nil
	}
	if f.template, err = v.templateAtDeletion(ctx, m, f.owner); err != nil {
		return Reservation{}, err
	}
	reason, text := f.against(atDeletion)
	if reason == "" {
		if err := v.count(ctx, f); err != nil {
			return Reservation{}, err
		}
		reason, text = f.against(atDeletion)
	}
	switch {
	case reason == "":
		return Reservation{Owner: f.owner.Owner, At: f.now, CleaningMode: f.template.cleaning}, nil
	case f.template.known && !f.template.reuse:
		return Reservation{}, nil
	case reason == reasonOwnerUnreadable:
		text += ": " + f.unreadable.Error()
	}
	return Reservation{Refused: reason, Message: refused(h, text)}, nil
}

func refused(h *v1alpha1.BareMetalHost, why string) string {
	return "Host " + h.Namespace + "/" + h.Name + " is not kept for reuse: " + why
}

func noOwner(machine *clusterv1.Machine) string {
	return "no control plane and no MachineDeployment owns Machine " + machine.Namespace + "/" + machine.Name
}

// templateAtDeletion reads the template that the owner makes machines of now. If that does not
// exist, it reads the template that the machine was made of.
func (v view) templateAtDeletion(ctx context.Context, m *v1beta2.Metal3Machine, owner *ownerState) (template, error) {
	if owner != nil {
		if t, err := v.template(ctx, m.Namespace, owner.infrastructure); err != nil || t.known {
			return t, err
		}
	}
	return v.template(ctx, m.Namespace, clonedFrom(m))
}

// cleaningMode returns how the host of a deleted machine is cleaned before a machine of its owner
// gets it; empty when no template says so.
func (v view) cleaningMode(ctx context.Context, m *v1beta2.Metal3Machine, owner Owner) (string, error) {
	state, _, err := v.ownerIfReadable(ctx, owner)
	if err != nil {
		return "", err
	}
	t, err := v.templateAtDeletion(ctx, m, state)
	return t.cleaning, err
}

// Preference decides which hosts a new machine may take; hosts are those of its namespace. A
// machine goes without a host of its owner only if the API server, too, has nothing that the cache
// lacks.
func (x Reuse) Preference(ctx context.Context, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, hosts []v1alpha1.BareMetalHost) (Preference, error) {
	var p Preference
	var t template
	for _, v := range []view{x.cached(), x.live()} {
		var err error
		if p.Owner == nil {
			if p.Owner, err = ownerOf(ctx, v, machine); err != nil {
				return Preference{}, err
			}
		}
		if !t.known {
			if t, err = v.templateAtCreation(ctx, m, p.Owner); err != nil {
				return Preference{}, err
			}
		}
		if !t.reuse {
			t = template{} // the API server may have a newer one
			continue
		}
		if p.Owner == nil {
			continue
		}
		p.Wanted = true
		if err := x.wait(ctx, v, &p, machine, m, t, hosts); err != nil || p.Waiting {
			return p, err
		}
		hosts = nil // have wait read them from the API server
	}
	if t.reuse && p.Owner == nil {
		p.Skipped = "The nodeReuse of the template has no effect: " + noOwner(machine)
	}
	return p, nil
}

// templateAtCreation reads the template that the machine was made of. If that does not exist, it
// reads the template that its owner makes machines of now.
func (v view) templateAtCreation(ctx context.Context, m *v1beta2.Metal3Machine, owner *Owner) (template, error) {
	if t, err := v.template(ctx, m.Namespace, clonedFrom(m)); err != nil || t.known || owner == nil {
		return t, err
	}
	state, _, err := v.ownerIfReadable(ctx, *owner)
	if state == nil || err != nil {
		return template{}, err
	}
	return v.template(ctx, m.Namespace, state.infrastructure)
}

// wait sets what a machine that wants a host of its owner waits for. If hosts is nil, wait reads
// those that are reserved for the owner.
func (x Reuse) wait(ctx context.Context, v view, p *Preference, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, t template, hosts []v1alpha1.BareMetalHost) error {
	if hosts == nil {
		var err error
		if hosts, err = v.reserved(ctx, p.Owner); err != nil {
			return err
		}
	}
	blockers, err := v.leaving(ctx, *p.Owner, machine.Spec.ClusterName)
	if err != nil {
		return err
	}
	for i := range hosts {
		if ReservedFor(p.Owner, &hosts[i]) {
			blockers = append(blockers, blocker{host: &hosts[i]})
		}
	}
	q := queue{now: x.Now(), wait: x.Wait, template: t, from: m.CreationTimestamp.Time}
	if x.Wait > 0 && len(blockers) > 0 {
		owner, _, err := v.ownerIfReadable(ctx, *p.Owner)
		if err != nil {
			return err
		}
		cluster, err := v.cluster(ctx, machine.Namespace, machine.Spec.ClusterName)
		if err != nil {
			return err
		}
		q.from = later(q.from, clusterResumed(cluster))
		if owner != nil {
			q.from = later(q.from, owner.resumed)
		}
	}
	q.waiting(p, blockers)
	return nil
}

func (x Reuse) cached() view { return view{x.Client, x.Client.RESTMapper()} }
func (x Reuse) live() view   { return view{x.Live, x.Client.RESTMapper()} }
