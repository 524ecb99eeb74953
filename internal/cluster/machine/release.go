package machine

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

// leaving are the states in which a host has, or is losing, what was deployed on it. A host without
// a state came from another cluster or from a backup, and no operator has said yet what runs on it.
var leaving = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateNone: true, v1alpha1.StatePreparing: true, v1alpha1.StateProvisioning: true, v1alpha1.StateProvisioned: true,
	v1alpha1.StateDeprovisioning: true, v1alpha1.StatePoweringOffBeforeDelete: true, v1alpha1.StateDeleting: true,
}

// starting are the states through which a host becomes available. A host that has lost its status
// goes through them again, and may still run what was deployed before.
var starting = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateRegistering: true, v1alpha1.StateImporting: true, v1alpha1.StateMatchProfile: true, v1alpha1.StateInspecting: true,
}

// releaseStep is what follows when a machine is deleted.
type releaseStep int

const (
	stepReturn releaseStep = iota // give the host back, so that what is deployed is removed
	stepWait                      // wait until that is done
	stepFree                      // let the host go
	stepEnd                       // there is no host: let the machine go
)

// decideRelease returns what follows for a deleted machine. h is nil when the machine has chosen no
// host, or the host is gone. returned is h with the changes that give it back.
func decideRelease(m *v1beta2.Metal3Machine, h, returned *v1alpha1.BareMetalHost) releaseStep {
	switch {
	case h == nil:
		return stepEnd
	case !related.Consumes(m, h):
		// The machine also waits for a host that has been reserved for its owner, or freed, in the
		// meantime. Until what was deployed there is removed, the host may run with the addresses
		// of this machine. The machine does not wait for a host of another consumer.
		if (reuse.IsReserved(h) || !isConsumed(h)) && !isSpecified(h) && isLeaving(m, h) {
			return stepWait
		}
		return stepEnd
	case !equality.Semantic.DeepEqual(h, returned):
		return stepReturn
	case isLeaving(m, h):
		return stepWait
	default:
		return stepFree
	}
}

// isLeaving reports whether a host may still run what was deployed on it for a Metal3Machine.
func isLeaving(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) bool {
	state := h.Status.Provisioning.State
	if state == v1alpha1.StateExternallyProvisioned {
		return h.Status.PoweredOn && !h.Spec.Online && h.SupportsPowerControl() && !isDetached(h)
	}
	return leaving[state] || starting[state] && m.Spec.ProviderID != ""
}

// onlineAfterRelease returns whether a host stays powered on when its machine is deleted. FastTrack
// does not apply to a host that is provisioned externally: no ramdisk boots there, and what runs
// there would go on.
func onlineAfterRelease(h *v1alpha1.BareMetalHost, fastTrack bool) bool {
	return h.Spec.DisablePowerOff || fastTrack && !h.Spec.ExternallyProvisioned && h.Spec.AutomatedCleaningMode != v1alpha1.CleaningModeDisabled
}

// cleaningOf returns the cleaning mode with which the host of a deleted machine is given back;
// empty leaves that of the host. For a host that is reserved, the template that its owner names now
// counts as well as the machine, which may be of an older template. If one of the two keeps the
// disks, they are kept: wiped disks do not come back.
func cleaningOf(m *v1beta2.Metal3Machine, r reuse.Reservation) string {
	own := m.Spec.AutomatedCleaningMode
	switch {
	case !r.Reserves():
		return own
	case own == v1beta2.CleaningModeDisabled, r.CleaningMode == v1beta2.CleaningModeDisabled:
		return v1beta2.CleaningModeDisabled
	default:
		return cmp.Or(own, r.CleaningMode)
	}
}

// giveBack removes from a host object what a machine had it deploy, and sets the mode of the
// cleaning that follows. Secrets that the machine did not set stay, and so does what is deployed on
// a host that is provisioned externally.
func giveBack(h *v1alpha1.BareMetalHost, m *v1beta2.Metal3Machine, s secrets, cleaning string, fastTrack bool) {
	if !h.Spec.ExternallyProvisioned {
		h.Spec.Image, h.Spec.CustomDeploy = nil, nil
	}
	h.Spec.UserData = unless(h.Spec.UserData, h.Namespace, m.Status.UserData, s.userData)
	h.Spec.MetaData = unless(h.Spec.MetaData, h.Namespace, m.Status.MetaData, s.metaData)
	h.Spec.NetworkData = unless(h.Spec.NetworkData, h.Namespace, m.Status.NetworkData, s.networkData)
	clean(h, cleaning)
	h.Spec.Online = onlineAfterRelease(h, fastTrack)
	related.Resume(h)
}

// unless returns a reference to a Secret, or nil when one of the others names the same Secret.
func unless(ref *corev1.SecretReference, namespace string, others ...*corev1.SecretReference) *corev1.SecretReference {
	for _, other := range others {
		if a, b := within(namespace, ref), within(namespace, other); a != nil && b != nil && *a == *b {
			return nil
		}
	}
	return ref
}

// free edits a host object so that nobody uses the host.
func free(h *v1alpha1.BareMetalHost) {
	reuse.Clear(h)
	related.ClearConsumer(h)
	delete(h.Labels, clusterv1.ClusterNameLabel)
	related.Resume(h)
}

// delete releases the host of a deleted machine, and lets the machine go.
func (p *pass) delete(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.m, v1beta2.MachineFinalizer) {
		p.gone = true
		return ctrl.Result{}, nil
	}
	p.ready, p.why = false, reason{v1beta2.DeletingReason, "The machine is being deleted."}
	result, err := p.release(ctx)
	if err != nil && !apierrors.IsConflict(err) {
		p.why = reason{v1beta2.DeletionFailedReason, err.Error()}
	}
	return result, err
}

func (p *pass) release(ctx context.Context) (ctrl.Result, error) {
	if err := p.blockMove(ctx); err != nil { // it is missing after a pause
		return ctrl.Result{}, err
	}
	// Cleaned disks do not come back, and the cache may not have the last edit of the template.
	if err := p.copyCleaningMode(ctx, p.Live); err != nil {
		return ctrl.Result{}, err
	}
	h, err := p.heldHost(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	var returned *v1alpha1.BareMetalHost
	var reservation reuse.Reservation
	if h != nil && related.Consumes(p.m, h) {
		if reservation, err = p.reserve(ctx, h); err != nil {
			return ctrl.Result{}, err
		}
		returned = h.DeepCopy()
		giveBack(returned, p.m, p.secrets(), cleaningOf(p.m, reservation), p.FastTrack)
		if reservation.Reserves() {
			reservation.Apply(returned)
		}
	}
	switch decideRelease(p.m, h, returned) {
	case stepReturn:
		// The controller that frees a reserved host later does not change the Secret.
		if err := p.labelSecret(ctx, h, false); err != nil {
			return ctrl.Result{}, err
		}
		if h, err = p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) { returned.DeepCopyInto(h) }); err != nil {
			return ctrl.Result{}, err
		}
		if reservation.Reserves() {
			p.tell(h, eventHostReserved, actionRelease, "Host %s is reserved for %s", h.Name, reservation.Owner)
			p.set(v1beta2.HostReservedCondition, true, reason{v1beta2.HostReservedReason, fmt.Sprintf("Host %s/%s is kept for %s.", h.Namespace, h.Name, reservation.Owner)})
		}
		p.waitFor(h)
		return ctrl.Result{RequeueAfter: poll}, nil
	case stepWait:
		p.waitFor(h)
		return ctrl.Result{RequeueAfter: poll}, nil
	case stepFree:
		if err := p.freeHost(ctx, h); err != nil {
			return ctrl.Result{}, err
		}
	case stepEnd:
		if h != nil && !isConsumed(h) && !reuse.IsReserved(h) { // somebody else has freed it
			if err := p.labelSecret(ctx, h, false); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	return ctrl.Result{}, p.end(ctx)
}

// heldHost reads the host of a machine from the API server: the host that the machine names, or
// another one that names this machine by UID. If no host has this machine as its consumer, it
// returns the one that the machine names, which may have another consumer or none.
func (p *pass) heldHost(ctx context.Context) (*v1alpha1.BareMetalHost, error) {
	reader := p.Live
	var named *v1alpha1.BareMetalHost
	if key, chosen := related.HostName(p.m); chosen {
		var err error
		if named, err = p.readHost(ctx, key); err != nil || named != nil && related.Consumes(p.m, named) {
			return named, err
		}
		// The cache is enough: another host is claimed only if somebody has changed the annotation.
		reader = p.Client
	}
	var list v1alpha1.BareMetalHostList
	if err := reader.List(ctx, &list, client.InNamespace(p.m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts of namespace %s: %w", p.m.Namespace, err)
	}
	if h := p.claimed(list.Items); h != nil {
		return p.readHost(ctx, client.ObjectKeyFromObject(h))
	}
	return named, nil
}

// reserve decides whether the host is kept for the owner of the machine. If so, the host itself
// shows that. If not, the condition HostReserved says so, and is stored before the host is changed:
// then an edit of the template while the host deprovisions does not change the decision.
func (p *pass) reserve(ctx context.Context, h *v1alpha1.BareMetalHost) (reuse.Reservation, error) {
	if meta.IsStatusConditionFalse(p.m.Status.Conditions, v1beta2.HostReservedCondition) {
		return reuse.Reservation{}, nil
	}
	var reservation reuse.Reservation
	var err error
	// The decision is final, and the cache may be behind.
	if p.machine == nil {
		if p.machine, err = related.Machine(ctx, p.Live, p.m); err != nil {
			return reservation, fmt.Errorf("read the Machine that owns Metal3Machine %s/%s: %w", p.m.Namespace, p.m.Name, err)
		}
	}
	if p.machine != nil {
		if reservation, err = p.Reuse.Reserve(ctx, p.machine, p.m, h); err != nil {
			return reservation, fmt.Errorf("find out whether host %s/%s is reserved for the owner of Machine %s: %w", h.Namespace, h.Name, p.machine.Name, err)
		}
	}
	if reservation.Reserves() {
		return reservation, nil
	}
	why := reason{v1beta2.HostReuseNotWantedReason, ""}
	if reservation.Refused != "" {
		why = reason{string(reservation.Refused), reservation.Message + "."}
	}
	p.set(v1beta2.HostReservedCondition, false, why)
	p.waitFor(h)
	if err := p.writeStatus(ctx); err != nil {
		return reservation, err
	}
	if reservation.Message != "" {
		p.warn(h, eventNodeReuseSkipped, actionRelease, "%s", reservation.Message)
	}
	return reservation, nil
}

// waitFor says what the machine waits for.
func (p *pass) waitFor(h *v1alpha1.BareMetalHost) {
	what := fmt.Sprintf("Waiting for host %s/%s, which is in state %q", h.Namespace, h.Name, h.Status.Provisioning.State)
	if h.Status.Provisioning.State == v1alpha1.StateNone {
		what = fmt.Sprintf("Waiting for host %s/%s, of which no host operator has said yet what runs on it", h.Namespace, h.Name)
	}
	switch {
	case isAnnotated(h, v1alpha1.PausedAnnotation):
		what += fmt.Sprintf(" and paused: remove its annotation %s", v1alpha1.PausedAnnotation)
	case isDetached(h):
		what += fmt.Sprintf(" and detached: remove its annotation %s", v1alpha1.DetachedAnnotation)
	case h.Status.ErrorMessage != "":
		what += ": " + h.Status.ErrorMessage
	}
	p.why = reason{v1beta2.DeletingReason, what + "."}
}

// freeHost frees the host. It removes the label from the Secret first, because once the host is
// free nothing says whose Secret it was.
func (p *pass) freeHost(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	if err := p.labelSecret(ctx, h, false); err != nil {
		return err
	}
	freed, err := p.patchHost(ctx, h, free)
	if err != nil {
		return err
	}
	p.tell(freed, eventHostReleased, actionRelease, "Host %s is released", freed.Name)
	return nil
}

// end lets the machine go.
func (p *pass) end(ctx context.Context) error {
	if err := p.dropDataClaim(ctx); err != nil {
		return err
	}
	if err := p.disownHosts(ctx); err != nil {
		return err
	}
	err := p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { controllerutil.RemoveFinalizer(m, v1beta2.MachineFinalizer) })
	p.gone = err == nil
	return err
}

// disownHosts removes the machine from the owners of all hosts, also of a host that somebody else
// has now, and of one that the machine does not name.
func (p *pass) disownHosts(ctx context.Context) error {
	hosts, err := p.hosts(ctx)
	if err != nil {
		return err
	}
	for i := range hosts {
		if !related.IsOwnedBy(&hosts[i], p.m) {
			continue
		}
		// The cache may not have the last writes of this pass.
		h, err := p.readHost(ctx, client.ObjectKeyFromObject(&hosts[i]))
		if err == nil && h != nil {
			_, err = p.patchHost(ctx, h, related.Disown)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
