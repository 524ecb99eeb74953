package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// claimTries is how often a claim is tried. A try fails when somebody else writes the host at the
// same time.
const claimTries = 5

// noOther is what follows when a machine has lost the host that it ran on. The machine is not
// replaced without a person, because nothing proves any more that it is off.
const noOther = "the machine cannot get another one; delete its Machine when it is certain to be off"

// claimStep is what follows for a machine and the host that its annotation names.
type claimStep int

const (
	stepHold   claimStep = iota // the machine has the host
	stepClaim                   // the host was chosen, and can be claimed
	stepRetry                   // the host cannot be claimed any more: choose again
	stepBeLost                  // the machine has lost the host that it ran on, and gets no other one
)

// decideClaim returns what follows for a machine whose annotation names the host h, which is nil
// when it does not exist.
func decideClaim(w wanted, h *v1alpha1.BareMetalHost) claimStep {
	switch {
	case h != nil && related.Consumes(w.machine, h):
		return stepHold
	case w.machine.Spec.ProviderID != "":
		return stepBeLost
	case h != nil && firstObstacle(w, h) == "":
		return stepClaim
	default:
		return stepRetry
	}
}

// associate returns the host of the machine. If the machine has none, the condition says why, and
// the result says when to try again.
func (p *pass) associate(ctx context.Context) (*v1alpha1.BareMetalHost, ctrl.Result, error) {
	held, err := related.Host(ctx, p.Client, p.m)
	if err != nil {
		return nil, ctrl.Result{}, fmt.Errorf("read the host of Metal3Machine %s/%s: %w", p.m.Namespace, p.m.Name, err)
	}
	var hosts []v1alpha1.BareMetalHost
	if held == nil {
		if hosts, err = p.hosts(ctx); err != nil {
			return nil, ctrl.Result{}, err
		}
		held = p.claimed(hosts) // the annotation was lost, or names another host
	}
	if held != nil {
		return held, ctrl.Result{}, p.holds(ctx, held)
	}
	if why := gate(p.machine, p.cluster, p.infrastructure); why.reason != "" && p.m.Spec.ProviderID == "" {
		p.notAssociated(why.reason, "%s", why.message)
		return nil, ctrl.Result{}, nil
	}
	w, preference, err := p.wants(ctx, hosts)
	if err != nil {
		return nil, ctrl.Result{}, err
	}
	if w.selector == nil {
		return nil, ctrl.Result{}, nil
	}
	key, chosen := related.HostName(p.m)
	if !chosen {
		return p.chooseHost(ctx, w, preference, hosts)
	}
	h, err := p.readHost(ctx, key)
	if err != nil {
		return nil, ctrl.Result{}, err
	}
	switch decideClaim(w, h) {
	case stepHold:
		return h, ctrl.Result{}, p.holds(ctx, h)
	case stepClaim:
		if is, err := p.isCurrent(ctx); err != nil || !is {
			return nil, ctrl.Result{RequeueAfter: requeue.Soon}, err
		}
		return p.claim(ctx, w, h)
	case stepBeLost:
		p.lose(h, key.String(), noOther)
		return nil, ctrl.Result{RequeueAfter: poll}, nil
	default: // stepRetry
		if p.isTrue(v1beta2.AssociateBareMetalHostCondition) {
			p.lose(h, key.String(), "another host is chosen")
		} else {
			p.conflict(h, key.String())
		}
		return nil, ctrl.Result{RequeueAfter: requeue.Soon}, p.dropChoice(ctx)
	}
}

// isCurrent reports whether the API server has the machine and the machine is not being deleted. An
// operator that has just started may read a machine that is gone from an API server that is behind;
// nobody could release the host of such a machine. A caller that writes the machine first need not
// ask.
func (p *pass) isCurrent(ctx context.Context) (bool, error) {
	var now v1beta2.Metal3Machine
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.m), &now)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Metal3Machine %s/%s: %w", p.m.Namespace, p.m.Name, err)
	}
	return now.UID == p.m.UID && now.DeletionTimestamp.IsZero(), nil
}

// holds sets the condition that the machine holds a host. If the pass that claimed the host failed
// before it did so, holds says what that pass would have said.
func (p *pass) holds(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	c := meta.FindStatusCondition(p.m.Status.Conditions, v1beta2.AssociateBareMetalHostCondition)
	why := v1beta2.AssociateBareMetalHostSuccessReason
	switch {
	case c != nil && c.Status == metav1.ConditionTrue:
		return nil
	case c != nil && c.Reason == v1beta2.ReservedHostSelectedReason:
		why = v1beta2.AssociateBareMetalHostViaNodeReuseSuccessReason
	case p.machine != nil && p.m.Spec.ProviderID == "":
		if _, err := p.prefers(ctx, nil); err != nil {
			return err
		}
	}
	p.associated(why, h.Namespace+"/"+h.Name)
	return nil
}

// wants returns what the machine wants of its host. If the selector cannot be used, it is nil in
// the result, and the condition says what is wrong with it.
func (p *pass) wants(ctx context.Context, hosts []v1alpha1.BareMetalHost) (wanted, reuse.Preference, error) {
	w := wanted{machine: p.m, domain: p.m.Spec.FailureDomain}
	selector, err := p.m.Spec.HostSelector.Selector()
	if err != nil {
		p.notAssociated(v1beta2.AssociateBareMetalHostFailedReason, "spec.hostSelector cannot be used: %v; make a template without this error and name it in the owner of the machine", err)
		return w, reuse.Preference{}, nil
	}
	w.selector = selector
	if p.machine == nil {
		return w, reuse.Preference{}, nil
	}
	if w.domain == "" {
		w.domain = p.machine.Spec.FailureDomain
	}
	preference, err := p.prefers(ctx, hosts)
	if preference.Wanted {
		w.owner = preference.Owner
	}
	return w, preference, err
}

// prefers returns which hosts the machine may take. hosts are those of its namespace; nil stands
// for all that are reserved.
func (p *pass) prefers(ctx context.Context, hosts []v1alpha1.BareMetalHost) (reuse.Preference, error) {
	preference, err := p.Reuse.Preference(ctx, p.machine, p.m, hosts)
	if err != nil {
		return preference, fmt.Errorf("find out which hosts are reserved for the owner of Machine %s/%s: %w", p.machine.Namespace, p.machine.Name, err)
	}
	p.skipped = preference.Skipped
	return preference, nil
}

// chooseHost chooses a host and claims it. It reads the host from the API server before the machine
// names it, because the cache may be behind.
func (p *pass) chooseHost(ctx context.Context, w wanted, preference reuse.Preference, hosts []v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, ctrl.Result, error) {
	if p.m.Spec.ProviderID != "" {
		p.lose(nil, "of provider ID "+p.m.Spec.ProviderID, noOther)
		return nil, ctrl.Result{RequeueAfter: poll}, nil
	}
	c := choose(w, hosts)
	ranked := c.reserved
	if !preference.Waiting {
		ranked = append(ranked, c.free...)
	}
	for _, candidate := range ranked {
		h, err := p.readHost(ctx, client.ObjectKeyFromObject(candidate))
		if err != nil {
			return nil, ctrl.Result{}, err
		}
		if h == nil || firstObstacle(w, h) != "" {
			continue // the cache is behind
		}
		return p.claim(ctx, w, h)
	}
	switch {
	case len(ranked) > 0:
		p.notAssociated(v1beta2.NoMatchingHostReason, "The hosts that could be used were taken meanwhile; choosing again.")
		return nil, ctrl.Result{RequeueAfter: requeue.Soon}, nil
	case preference.Waiting:
		p.notAssociated(v1beta2.WaitingForReservedHostReason, "%s", preference.WaitingFor)
		return nil, ctrl.Result{RequeueAfter: requeue.Soonest(poll, preference.RequeueAfter)}, nil
	default:
		p.notAssociated(v1beta2.NoMatchingHostReason, "%s", c.none(p.m.Namespace))
		return nil, ctrl.Result{RequeueAfter: poll}, nil
	}
}

// claim makes the machine name the host, and then the host name the machine as its consumer. If the
// host is reserved, claim stores a condition that says so between the two writes: once the host is
// claimed, nothing else says that it was reserved.
func (p *pass) claim(ctx context.Context, w wanted, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, ctrl.Result, error) {
	if err := p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { name(m, h) }); err != nil {
		return nil, ctrl.Result{}, err
	}
	why := v1beta2.AssociateBareMetalHostSuccessReason
	if reuse.IsReserved(h) {
		why = v1beta2.AssociateBareMetalHostViaNodeReuseSuccessReason
		p.notAssociated(v1beta2.ReservedHostSelectedReason, "Host %s/%s, which is reserved for the owner of the machine, is chosen.", h.Namespace, h.Name)
		if err := p.writeStatus(ctx); err != nil {
			return nil, ctrl.Result{}, err
		}
	}
	key := client.ObjectKeyFromObject(h)
	for range claimTries {
		claimed, err := p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) { take(h, p.m, p.machine.Spec.ClusterName) })
		if err == nil {
			p.tell(claimed, eventHostClaimed, actionClaim, "Host %s is claimed", claimed.Name)
			if p.skipped != "" {
				p.warn(claimed, eventNodeReuseSkipped, actionClaim, "%s", p.skipped)
			}
			p.associated(why, key.String())
			return claimed, ctrl.Result{}, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			p.notAssociated(v1beta2.AssociateBareMetalHostFailedReason, "Host %s could not be claimed; it is tried again: %v", key, err)
			return nil, ctrl.Result{}, err
		}
		if h, err = p.readHost(ctx, key); err != nil {
			return nil, ctrl.Result{}, err
		}
		if step := decideClaim(w, h); step == stepHold {
			p.associated(why, key.String())
			return h, ctrl.Result{}, nil
		} else if step != stepClaim {
			break
		}
	}
	p.conflict(h, key.String())
	return nil, ctrl.Result{RequeueAfter: requeue.Soon}, p.dropChoice(ctx)
}

// name makes a machine name its host. From then on, clusterctl does not move the machine before its
// host is paused.
func name(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) {
	controllerutil.AddFinalizer(m, v1beta2.MachineFinalizer)
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.HostAnnotation, h.Namespace+"/"+h.Name)
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, related.BlockMoveAnnotation, "")
}

// take makes a machine the consumer of a host.
func take(h *v1alpha1.BareMetalHost, m *v1beta2.Metal3Machine, cluster string) {
	reuse.Clear(h)
	consume(h, m)
	metav1.SetMetaDataLabel(&h.ObjectMeta, clusterv1.ClusterNameLabel, cluster)
}

// consume makes a host object name a machine as its consumer, by UID. A move changes the UIDs. The
// same call corrects them in the other cluster.
func consume(h *v1alpha1.BareMetalHost, m *v1beta2.Metal3Machine) {
	related.SetConsumer(h, &corev1.ObjectReference{
		APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: m.Namespace, Name: m.Name, UID: m.UID,
	})
}

// dropChoice makes the machine name no host.
func (p *pass) dropChoice(ctx context.Context) error {
	return p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) {
		delete(m.Annotations, v1beta2.HostAnnotation)
		delete(m.Annotations, related.BlockMoveAnnotation)
	})
}

// conflict reports that the machine could not claim the host that it had chosen.
func (p *pass) conflict(h *v1alpha1.BareMetalHost, key string) {
	p.Metrics.conflict()
	p.notAssociated(v1beta2.ClaimConflictReason, "Host %s %s; another host is chosen.", key, p.holder(h))
	p.tell(h, eventClaimConflict, actionClaim, "Host %s %s; another host is chosen", key, p.holder(h))
}

// lose reports that the machine has lost its host: the host is gone, belongs to somebody else, or
// cannot be used. then says what follows.
func (p *pass) lose(h *v1alpha1.BareMetalHost, key, then string) {
	format, args := "Host %s of the machine %s; %s.", []any{key, p.holder(h), then}
	if p.isTrue(v1beta2.AssociateBareMetalHostCondition) {
		p.warn(h, eventHostLost, actionClaim, format, args...)
	}
	p.notAssociated(v1beta2.HostLostReason, format, args...)
	p.noNode(p.why.message)
}

// holder returns why the machine does not have a host, as the end of a sentence about the host.
func (p *pass) holder(h *v1alpha1.BareMetalHost) string {
	switch {
	case h == nil:
		return "does not exist"
	case isOfNamesake(p.m, h):
		return fmt.Sprintf("has the consumer Metal3Machine %s of UID %s, which is an earlier one of this name; if it is the same machine, remove spec.consumerRef.uid from the host",
			p.m.Name, h.Spec.ConsumerRef.UID)
	case isConsumed(h):
		return fmt.Sprintf("has the consumer %s %s", h.Spec.ConsumerRef.Kind, h.Spec.ConsumerRef.Name)
	default:
		return "cannot be used any more"
	}
}

// keepHost corrects what a machine and its host say about each other: the machine names the host,
// and the host names the machine by its UID. It also ends a pause of the host for its Cluster, and
// gives the host the cleaning mode of the machine.
func (p *pass) keepHost(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	if err := p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { name(m, h) }); err != nil {
		return nil, err
	}
	return p.resumeHost(ctx, h)
}
