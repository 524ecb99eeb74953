// Package subscription is the controller of BMCEventSubscription. It asks the BMC of a host once
// for each subscription. The request is recorded before it is sent. If its answer got lost, the BMC
// is first asked which subscriptions it has.
package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

const (
	// busyWait is the wait while the engine works on the node or does not answer.
	busyWait = 10 * time.Second
	// refusedWait is the wait after a refusal, unless a change of the host ends it earlier.
	refusedWait = 5 * time.Minute
	// releaseAfter is how long a deleted object stays if its BMC may have a subscription and fails to
	// say so.
	releaseAfter = 3 * refusedWait
)

const (
	// eventNotEnded is the reason of the event about an object that is released although the BMC
	// may still have its subscription.
	eventNotEnded = "SubscriptionNotEnded"
	// actionRelease is the action of that event.
	actionRelease = "Release"
	// maxNote is the longest note that the API server accepts, in bytes.
	maxNote = 1024
)

// nodeReader reads nodes from the engine.
type nodeReader interface {
	Fetch(ctx context.Context, id string) (provisioner.Node, error)
}

// Config is what a reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server. The cache needs the
	// index that IndexFields registers.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Nodes reads nodes.
	Nodes nodeReader
	// Engine asks BMCs.
	Engine provisioner.Subscriber
	// Cluster identifies the Kubernetes cluster in the marks of nodes.
	Cluster string
	// Recorder publishes events.
	Recorder events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// Reconciler keeps subscriptions.
type Reconciler struct{ Config }

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{config} }

// Reconcile makes the next step for one subscription.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var s v1alpha1.BMCEventSubscription
	if err := r.Client.Get(ctx, req.NamespacedName, &s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	err := r.reconcile(ctx, &s)
	switch {
	case err == nil:
		return ctrl.Result{}, nil
	case ctx.Err() != nil:
		return ctrl.Result{}, nil // the operator stops
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil
	case errors.Is(err, provisioner.ErrBusy):
		return ctrl.Result{RequeueAfter: busyWait}, nil
	}
	var refused *refusal
	if !errors.As(err, &refused) && !isOfEngine(err) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pause := busyWait
	text := node.CutText(node.MaskURLs(err.Error()))
	err = r.write(ctx, &s, func(status *v1alpha1.BMCEventSubscriptionStatus) {
		status.Error = text
		if refused != nil && refused.ended {
			status.RequestedAt = nil
		}
	})
	if refused != nil {
		pause = refusedWait
	}
	return ctrl.Result{RequeueAfter: pause}, client.IgnoreNotFound(err)
}

// refusal is an error that lasts until a person or a change of the machine removes its cause.
type refusal struct {
	err error
	// ended is true if the BMC was asked for the subscription and certainly does not have it.
	ended bool
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// isOfEngine reports whether an error only says that the engine cannot be asked now.
func isOfEngine(err error) bool {
	return errors.Is(err, provisioner.ErrUnreachable) || errors.Is(err, provisioner.ErrDenied) || errors.Is(err, provisioner.ErrNotFound)
}

func (r *Reconciler) reconcile(ctx context.Context, s *v1alpha1.BMCEventSubscription) error {
	var found v1alpha1.BareMetalHost
	host := &found
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Spec.HostName}, host); apierrors.IsNotFound(err) {
		host = nil
	} else if err != nil {
		return fmt.Errorf("read host %s: %w", s.Spec.HostName, err)
	}
	next, why := decide(s, host)
	if next == release {
		return r.finalize(ctx, s, controllerutil.RemoveFinalizer)
	}
	if s.DeletionTimestamp.IsZero() {
		if err := r.finalize(ctx, s, controllerutil.AddFinalizer); err != nil {
			return err
		}
	}
	switch next {
	case stay, wait:
		return r.write(ctx, s, func(status *v1alpha1.BMCEventSubscriptionStatus) { status.Error = why })
	case subscribe:
		return r.subscribe(ctx, s, host)
	default:
		return r.unsubscribe(ctx, s, host)
	}
}

// nodeOf returns the ID of a host's node. The ID in the host's status only says where to look: the
// node has to have the host's mark.
func (r *Reconciler) nodeOf(ctx context.Context, h *v1alpha1.BareMetalHost) (string, error) {
	n, err := r.Nodes.Fetch(ctx, h.Status.Provisioning.ID)
	if err != nil {
		return "", err
	}
	if n.Mark != provisioner.MarkOf(r.Cluster, h.Namespace, h.Name) {
		return "", &refusal{err: fmt.Errorf("node %s does not belong to host %s", n.ID, h.Name)}
	}
	return n.ID, nil
}

// subscribe asks the BMC for the subscription, unless an earlier request has already made it.
func (r *Reconciler) subscribe(ctx context.Context, s *v1alpha1.BMCEventSubscription, h *v1alpha1.BareMetalHost) error {
	headers, err := r.headers(ctx, s)
	if err != nil {
		return err
	}
	id, err := r.nodeOf(ctx, h)
	if err != nil {
		return err
	}
	made := ""
	if s.Status.RequestedAt != nil {
		made, err = r.find(ctx, s, id)
	} else {
		err = r.recordRequested(ctx, s)
	}
	if err == nil && made == "" {
		made, err = r.Engine.Subscribe(ctx, id, provisioner.Subscription{
			Destination: s.Spec.Destination, Context: s.Spec.Context, Headers: headers,
		})
		err = refused("subscribe to the events of", id, err, !errors.Is(err, provisioner.ErrFailed))
		if err == nil && made == "" {
			err = fmt.Errorf("%w: it returned no ID for the subscription of node %s", provisioner.ErrUnreachable, id)
		}
	}
	if err != nil {
		return err
	}
	return r.write(ctx, s, func(status *v1alpha1.BMCEventSubscriptionStatus) {
		*status = v1alpha1.BMCEventSubscriptionStatus{SubscriptionID: made}
	})
}

// unsubscribe makes the BMC end the subscription, and releases the object.
func (r *Reconciler) unsubscribe(ctx context.Context, s *v1alpha1.BMCEventSubscription, h *v1alpha1.BareMetalHost) error {
	id, err := r.nodeOf(ctx, h)
	if err != nil {
		return err
	}
	failed := r.end(ctx, s, id)
	if failed != nil && !r.cannotEnd(s, failed) {
		return failed
	}
	if err := r.finalize(ctx, s, controllerutil.RemoveFinalizer); err != nil || failed == nil {
		return err
	}
	note := fmt.Sprintf("The object is released, and the BMC may go on sending events: %v", failed)
	r.Recorder.Eventf(s, nil, corev1.EventTypeWarning, eventNotEnded, actionRelease, "%s", node.CutTextTo(node.MaskURLs(note), maxNote))
	return nil
}

// end makes the BMC end the subscription, if there is one.
func (r *Reconciler) end(ctx context.Context, s *v1alpha1.BMCEventSubscription, id string) error {
	made := s.Status.SubscriptionID
	if made == "" {
		var err error
		if made, err = r.find(ctx, s, id); err != nil || made == "" {
			return err
		}
	}
	return refused("end the subscription to the events of", id, r.Engine.Unsubscribe(ctx, id, made), false)
}

// cannotEnd reports whether nobody can end the subscription of a deleted object, if there is one at
// all. That is so if the host's BMC does not support subscriptions, or if the BMC never said that
// it made this one and has failed for releaseAfter.
func (r *Reconciler) cannotEnd(s *v1alpha1.BMCEventSubscription, failed error) bool {
	if errors.Is(failed, provisioner.ErrUnsupported) {
		return true
	}
	return errors.Is(failed, provisioner.ErrFailed) && s.Status.SubscriptionID == "" && r.Now().Sub(s.DeletionTimestamp.Time) >= releaseAfter
}

// find returns the ID of the subscription that an earlier request has made, or "" if there is none.
// The BMC does not know to which object a subscription belongs, so find leaves out those of other
// objects.
func (r *Reconciler) find(ctx context.Context, s *v1alpha1.BMCEventSubscription, id string) (string, error) {
	active, err := r.Engine.Subscriptions(ctx, id)
	if err != nil {
		// The recorded request stays, because it may have arrived.
		return "", refused("list the subscriptions of", id, err, false)
	}
	var others v1alpha1.BMCEventSubscriptionList
	if err := r.Client.List(ctx, &others, client.InNamespace(s.Namespace), client.MatchingFields{hostField: s.Spec.HostName}); err != nil {
		return "", fmt.Errorf("list subscriptions of host %s: %w", s.Spec.HostName, err)
	}
	taken := map[string]bool{}
	for i := range others.Items {
		taken[others.Items[i].Status.SubscriptionID] = true
	}
	for _, a := range active {
		if a.Destination == s.Spec.Destination && a.Context == s.Spec.Context && !taken[a.ID] {
			return a.ID, nil
		}
	}
	return "", nil
}

// refused turns a refusal of the engine into a refusal that the status shows.
func refused(what, id string, err error, ended bool) error {
	if err == nil || errors.Is(err, provisioner.ErrBusy) || isOfEngine(err) {
		return err
	}
	return &refusal{err: fmt.Errorf("%s node %s: %w", what, id, err), ended: ended}
}

// headers returns the headers in the Secret that spec.httpHeadersRef names.
func (r *Reconciler) headers(ctx context.Context, s *v1alpha1.BMCEventSubscription) ([]map[string]string, error) {
	ref := s.Spec.HTTPHeadersRef
	if ref == nil || ref.Name == "" {
		return nil, nil
	}
	if ref.Namespace != "" && ref.Namespace != s.Namespace {
		return nil, &refusal{err: fmt.Errorf("spec.httpHeadersRef: Secret %s/%s is in another namespace; only namespace %s is allowed", ref.Namespace, ref.Name, s.Namespace)}
	}
	var secret corev1.Secret
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, &refusal{err: fmt.Errorf("spec.httpHeadersRef: Secret %s does not exist; create it", ref.Name)}
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", ref.Name, err)
	}
	return headersOf(secret.Data), nil
}

// recordRequested records that the BMC is asked next. It fails if the object is deleted at the same
// moment.
func (r *Reconciler) recordRequested(ctx context.Context, s *v1alpha1.BMCEventSubscription) error {
	before := s.DeepCopy()
	now := metav1.NewTime(r.Now())
	s.Status.RequestedAt = &now
	if err := r.Client.Status().Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write subscription %s: %w", s.Name, err)
	}
	return nil
}
