package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// finish turns the outcome of the phases into status, conditions and a requeue,
// writes what changed, and publishes the events of what was written.
func (r *Reconciler) finish(ctx context.Context, s *scope, res result, err error) (ctrl.Result, error) {
	if err != nil && ctx.Err() != nil {
		return ctrl.Result{}, nil // the operator stops
	}
	if !errors.Is(err, provisioner.ErrBusy) {
		r.busy.forget(s.host.UID)
	}
	if !errors.Is(err, provisioner.ErrNotFound) {
		r.missing.forget(s.host.UID)
	}
	res, shown := r.showError(s, res, err)
	if !shown {
		return r.endUnwritten(ctx, s, err)
	}
	if s.requested || s.node != nil && atWork(*s.node) {
		r.NodeCache.Expect()
	}
	if pause := decideDeferral(s, err); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	// A host that the operator never managed is deleted unchanged.
	if !s.claimed && (s.host.DeletionTimestamp.IsZero() || decideDelete(s.before) != deleteIgnore) {
		summarize(s)
	}
	if err := r.write(ctx, s); err != nil {
		if apierrors.IsInvalid(err) && isDeferred(s.before) {
			if err = r.dropStatus(ctx, s, err); err == nil {
				return ctrl.Result{RequeueAfter: soon}, nil
			}
		}
		again, err := r.endUnwritten(ctx, s, err)
		return again, client.IgnoreNotFound(err)
	}
	r.publish(s)
	logPass(ctx, s, res)
	r.Metrics.observe(s)
	if s.engineReason == v1alpha1.EngineDeniedReason {
		count(r.Metrics.errors, s.host)
		return ctrl.Result{}, err // the pauses of the queue grow
	}
	return ctrl.Result{RequeueAfter: res.requeueAfter}, nil
}

// debugLevel is the verbosity of what only --log-level=debug shows.
const debugLevel = 4

// logPass logs a pass that was written, so that the log still tells the life of a host when its
// events have expired. A pass that changes neither the state, the operational status nor the error
// of the host is only logged for debugging.
func logPass(ctx context.Context, s *scope, res result) {
	logger, before, now := log.FromContext(ctx), &s.before.Status, &s.host.Status
	if before.Provisioning.State == now.Provisioning.State && before.OperationalStatus == now.OperationalStatus &&
		before.ErrorType == now.ErrorType && before.ErrorMessage == now.ErrorMessage {
		logger = logger.V(debugLevel)
	}
	// The error of a restored status was written by somebody else.
	logger.Info("Reconciled host", "host", client.ObjectKeyFromObject(s.host), "provisioningState", now.Provisioning.State,
		"operationalStatus", now.OperationalStatus, "errorMessage", node.CutText(now.ErrorMessage), "requeueAfter", res.requeueAfter)
}

// showError shows in the status why a pass could not go on, and sets when the next one comes. It
// returns false for errors of the API server, after which nothing is written.
func (r *Reconciler) showError(s *scope, res result, err error) (result, bool) {
	var failed *failure
	switch {
	case err == nil:
	case errors.As(err, &failed):
		s.fail(failed)
		count(r.Metrics.hostErrors, s.host, string(s.host.Status.ErrorType))
		if failed.operation == v1alpha1.OperationRegister && s.credentials != nil {
			count(r.Metrics.noAccess, s.host)
		}
		s.warn(eventOf[s.host.Status.ErrorType], "%s", s.host.Status.ErrorMessage)
		if res.requeueAfter == 0 {
			res.requeueAfter = requeue.Backoff(s.host.Status.ErrorCount, r.MaxBackoff, string(s.host.UID))
		}
	case errors.Is(err, provisioner.ErrBusy):
		res.requeueAfter = requeue.WhileBusy(r.busy.add(s.host.UID), string(s.host.UID))
	case errors.Is(err, provisioner.ErrUnreachable):
		s.engineReason, s.engineError = v1alpha1.EngineUnreachableReason, node.CutText(err.Error())
		wait := blipWait
		if conditionOf(s.before.Status.Conditions, v1alpha1.ManageableCondition).Reason == v1alpha1.EngineUnreachableReason {
			wait = requeue.Unreachable
		}
		res.requeueAfter = requeue.Spread(wait, wait/2, string(s.host.UID), 0)
		count(r.Metrics.notReady, s.host)
	case errors.Is(err, provisioner.ErrDenied):
		s.engineReason, s.engineError = v1alpha1.EngineDeniedReason, node.CutText(err.Error())
	case errors.Is(err, provisioner.ErrNotFound):
		// The node was deleted between two calls, and the next pass looks it up. If that pass gets
		// the same answer, the error does not end by itself.
		res.requeueAfter = soon
		if again := r.missing.add(s.host.UID) - 1; again > 0 {
			s.waiting("The engine does not find what it is asked for, and is asked again after a wait: %s", node.CutText(err.Error()))
			res.requeueAfter = requeue.Backoff(again, r.MaxBackoff, string(s.host.UID))
		}
	default:
		return res, false
	}
	return res, true
}

// endUnwritten ends a pass of which nothing more is written.
func (r *Reconciler) endUnwritten(ctx context.Context, s *scope, err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: soon}, nil
	case ctx.Err() != nil:
		return ctrl.Result{}, nil // the operator stops
	default:
		count(r.Metrics.errors, s.host)
		r.tell(ctx, s, err)
		return ctrl.Result{}, err
	}
}

// tell writes into the condition Progressing that the API server refuses a request for a host, such
// as a write of an object that belongs to it. Nothing else of the pass is written, and the pass
// starts over.
func (r *Reconciler) tell(ctx context.Context, s *scope, refusal error) {
	if !isRefused(refusal) {
		return
	}
	told := newScope(s.before.DeepCopy(), s.now, s.agentWindow)
	told.waiting("The API server refuses what this host needs, and is asked again: %s", node.CutText(refusal.Error()))
	told.set(progressing(told))
	if equality.Semantic.DeepEqual(told.before.Status, told.host.Status) {
		return
	}
	if err := r.Client.Status().Patch(ctx, told.host, locked(told.before)); err == nil {
		r.written.note(told.host)
	}
}

// isRefused reports whether the API server refused a request for a reason that a person has to
// remove: missing rights, a quota, a policy or an invalid value.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		code != http.StatusNotFound && code != http.StatusConflict && code != http.StatusTooManyRequests
}

// write stores the hardware details and releases the Secrets that the host does not refer to any
// more. Then it patches the status, and after that the rest of the host, each only if it changed.
// The API server refuses both patches if the host was written since it was read.
func (r *Reconciler) write(ctx context.Context, s *scope) error {
	if s.collected != nil {
		if err := r.data.write(ctx, s.host, s.collected); err != nil {
			return err
		}
	}
	if err := r.secrets.releaseLeft(ctx, s.before, s.host); err != nil {
		return err
	}
	version := s.before.ResourceVersion
	if !equality.Semantic.DeepEqual(s.before.Status, s.host.Status) {
		if !s.unrestored {
			now := metav1.NewTime(s.now)
			s.host.Status.LastUpdated = &now
		}
		changed := s.before.DeepCopy()
		changed.Status = *s.host.Status.DeepCopy()
		if err := r.Client.Status().Patch(ctx, changed, locked(s.before)); err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		if !keepsRecords(changed.Status, s.host.Status) {
			return errOldDefinition
		}
		version = changed.ResourceVersion
	}
	base := s.before.DeepCopy()
	base.ResourceVersion = version
	changed := base.DeepCopy()
	changed.Spec = *s.host.Spec.DeepCopy()
	changed.Labels, changed.Annotations, changed.Finalizers = s.host.Labels, s.host.Annotations, s.host.Finalizers
	if !equality.Semantic.DeepEqual(base, changed) {
		if err := r.Client.Patch(ctx, changed, locked(base)); err != nil {
			return fmt.Errorf("write host: %w", err)
		}
	}
	r.remember(s, changed)
	return nil
}

// dropStatus removes the annotation with a status that the API server does not accept, so that the
// host goes on without that status and can be deleted.
func (r *Reconciler) dropStatus(ctx context.Context, s *scope, refusal error) error {
	changed := s.before.DeepCopy()
	delete(changed.Annotations, v1alpha1.StatusAnnotation)
	if err := r.Client.Patch(ctx, changed, locked(s.before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove annotation %s: %w", v1alpha1.StatusAnnotation, err)
	}
	r.remember(s, changed)
	s.events = nil
	s.warn(eventInvalidAnnotationValue, "Annotation %s was removed: %v", v1alpha1.StatusAnnotation, refusal)
	r.publish(s)
	return nil
}

// keepsRecords reports whether the API server has stored the records that were written.
func keepsRecords(stored, written v1alpha1.BareMetalHostStatus) bool {
	return stored.Operation.Name == written.Operation.Name && stored.Updates.Service.Name == written.Updates.Service.Name &&
		keepsVersions(stored.Updates.Settings, written.Updates.Settings) && keepsVersions(stored.Updates.Components, written.Updates.Components) &&
		stored.GoodBMC == written.GoodBMC
}

// keepsVersions leaves out the digests. They matter only after a move, and nothing is repeated
// before that because a definition does not know them.
func keepsVersions(stored, written v1alpha1.UpdateRecord) bool {
	return stored.UID == written.UID && stored.Requested == written.Requested && stored.Applied == written.Applied
}

// errOldDefinition means that the API server does not keep the records without which
// requests, or writes of the status, would be repeated for ever.
var errOldDefinition = errors.New("the CustomResourceDefinition of BareMetalHost in this cluster does not know status.operation, status.updates or status.goodBMC: " +
	"install the definitions of this version (config/crd)")

// remember keeps what the next pass needs, and drops it with the host.
func (r *Reconciler) remember(s *scope, written *v1alpha1.BareMetalHost) {
	if !written.DeletionTimestamp.IsZero() && len(written.Finalizers) == 0 {
		r.forget(written.UID)
		return
	}
	r.hiddenFailures.note(s)
	if written.ResourceVersion != s.before.ResourceVersion {
		r.written.note(written)
	}
}

func locked(base *v1alpha1.BareMetalHost) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}
