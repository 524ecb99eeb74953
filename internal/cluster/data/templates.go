package data

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// templateReconciler answers the claims of a Metal3DataTemplate. It also runs for the name of a
// template that does not exist, because its claims have to be told so, or to be let go.
type templateReconciler struct{ Config }

// newTemplateReconciler returns the reconciler of templates and claims.
func newTemplateReconciler(config Config) *templateReconciler { return &templateReconciler{config} }

// Reconcile makes one pass over a template, its claims and its data.
func (r *templateReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, err := r.template(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if t != nil {
		if leave, err := r.isLeftAlone(ctx, t.Spec.ClusterName, t); leave || err != nil {
			return ctrl.Result{}, err
		}
		if err := r.prepare(ctx, t); err != nil {
			return resultOf(err)
		}
	}
	claims, err := r.claims(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	existing, err := listData(ctx, r.Client, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	a := assign(req.Name, t, claims, existing)
	deleting := t != nil && !t.DeletionTimestamp.IsZero()
	if deleting || a.needsCertainty() {
		if existing, err = listData(ctx, r.Live, req.Namespace); err != nil {
			return ctrl.Result{}, err
		}
		a = assign(req.Name, t, claims, existing)
	}
	made, err := r.apply(ctx, t, a)
	existing = append(existing, made...)
	if t != nil {
		err = errors.Join(err, r.recordIndexes(ctx, t, existing))
	}
	if deleting && err == nil && len(indexes(req.Name, existing)) == 0 {
		err = r.patch(ctx, t, func() { controllerutil.RemoveFinalizer(t, v1beta2.DataTemplateFinalizer) })
	}
	return resultOf(err)
}

// resultOf returns the result of a pass. If somebody else wrote, made or deleted an object first,
// the next pass comes soon.
func resultOf(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil
	}
	return ctrl.Result{}, err
}

// template reads the template of a request, or returns nil when it does not exist.
func (r *templateReconciler) template(ctx context.Context, req ctrl.Request) (*v1beta2.Metal3DataTemplate, error) {
	var t v1beta2.Metal3DataTemplate
	err := r.Client.Get(ctx, req.NamespacedName, &t)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Metal3DataTemplate %s: %w", req, err)
	}
	return &t, nil
}

// prepare gives a template its finalizer, the label of its Cluster and, once the Cluster exists,
// the Cluster as an owner, so that the template is deleted with it.
func (r *templateReconciler) prepare(ctx context.Context, t *v1beta2.Metal3DataTemplate) error {
	if !t.DeletionTimestamp.IsZero() {
		return nil
	}
	owned := t.DeepCopy()
	var cluster clusterv1.Cluster
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Spec.ClusterName}, &cluster)
	if err == nil {
		err = controllerutil.SetOwnerReference(&cluster, owned, r.Client.Scheme())
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("make Cluster %s an owner: %w", t.Spec.ClusterName, err)
	}
	return r.patch(ctx, t, func() {
		controllerutil.AddFinalizer(t, v1beta2.DataTemplateFinalizer)
		metav1.SetMetaDataLabel(&t.ObjectMeta, clusterv1.ClusterNameLabel, t.Spec.ClusterName)
		t.OwnerReferences = owned.OwnerReferences
	})
}

// claims lists the claims of a template.
func (r *templateReconciler) claims(ctx context.Context, req ctrl.Request) ([]*v1beta2.Metal3DataClaim, error) {
	var list v1beta2.Metal3DataClaimList
	if err := r.Client.List(ctx, &list, client.InNamespace(req.Namespace)); err != nil {
		return nil, fmt.Errorf("list Metal3DataClaims in %s: %w", req.Namespace, err)
	}
	var all []*v1beta2.Metal3DataClaim
	for i := range list.Items {
		if list.Items[i].Spec.Template.Name == req.Name {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}

// listData lists all data of a namespace.
func listData(ctx context.Context, reader client.Reader, namespace string) ([]*v1beta2.Metal3Data, error) {
	var list v1beta2.Metal3DataList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Metal3Data in %s: %w", namespace, err)
	}
	all := make([]*v1beta2.Metal3Data, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}

// apply does what was decided, and returns the data that it made. A failure for one claim does not
// stop the others.
func (r *templateReconciler) apply(ctx context.Context, t *v1beta2.Metal3DataTemplate, a assignment) (made []*v1beta2.Metal3Data, err error) {
	var failures []error
	for _, s := range a.steps {
		d, err := r.perform(ctx, t, s)
		if d != nil {
			made = append(made, d)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("Metal3DataClaim %s: %w", s.claim.Name, err))
		}
	}
	for _, d := range a.extra {
		if err := r.removeExtra(ctx, d); err != nil {
			failures = append(failures, fmt.Errorf("Metal3Data %s: %w", d.Name, err))
		}
	}
	if len(failures) == 1 {
		return made, failures[0]
	}
	return made, errors.Join(failures...)
}

// perform does one step, and returns the data that it made.
func (r *templateReconciler) perform(ctx context.Context, t *v1beta2.Metal3DataTemplate, s step) (*v1beta2.Metal3Data, error) {
	if leave, err := r.isLeftAlone(ctx, s.claim.Labels[clusterv1.ClusterNameLabel], s.claim); leave || err != nil {
		return nil, err
	}
	switch s.action {
	case actionNone, actionWait:
		return nil, nil
	case actionPoint:
		return nil, r.say(ctx, s.claim, s.data, "")
	case actionRefuse:
		return nil, r.say(ctx, s.claim, nil, s.text)
	case actionRemove:
		if used, text, err := r.inUse(ctx, s.claim); err != nil || used {
			if text != "" {
				err = r.say(ctx, s.claim, s.data, text)
			}
			return nil, err
		}
		return nil, r.remove(ctx, s.data)
	case actionRelease:
		return nil, client.IgnoreNotFound(r.patch(ctx, s.claim, func() { removeAll(s.claim, claimFinalizers) }))
	default: // actionCreate
		return r.create(ctx, t, s.claim, s.index)
	}
}

// create makes the data of a claim. The creation takes the index: it fails when other data has the
// index already.
func (r *templateReconciler) create(ctx context.Context, t *v1beta2.Metal3DataTemplate, claim *v1beta2.Metal3DataClaim, index int32) (*v1beta2.Metal3Data, error) {
	if err := r.patch(ctx, claim, func() { controllerutil.AddFinalizer(claim, v1beta2.DataClaimFinalizer) }); err != nil {
		return nil, err
	}
	d := &v1beta2.Metal3Data{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: dataName(t.Name, index),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: t.Spec.ClusterName},
			Finalizers:      []string{v1beta2.DataFinalizer},
			OwnerReferences: []metav1.OwnerReference{ownerReference(claim, claimKind)},
		},
		Spec: v1beta2.Metal3DataSpec{Index: index, Claim: reference(claim, claimKind), Template: reference(t, templateKind)},
	}
	d.Spec.MetaData, d.Spec.NetworkData = secretRefs(d, t)
	if host := r.chosenHost(ctx, claim); host != "" {
		d.Annotations = map[string]string{v1beta2.HostAnnotation: host}
	}
	related.CarryFilter(d, claim)
	if err := r.Client.Create(ctx, d); err != nil {
		return nil, err
	}
	return d, r.say(ctx, claim, d, "")
}

// chosenHost returns the host that the machine of a claim has in its annotation, or nothing if it
// is not known. It only saves the controller of data a write.
func (r *templateReconciler) chosenHost(ctx context.Context, claim *v1beta2.Metal3DataClaim) string {
	m, err := machineOf(ctx, r.Client, claim)
	if err != nil || m == nil {
		return ""
	}
	return m.Annotations[v1beta2.HostAnnotation]
}

// reference returns a reference to an object of this group. It has no UID, because the UID changes
// when the object moves to another cluster.
func reference(obj client.Object, kind string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// say writes the status of a claim.
func (r *templateReconciler) say(ctx context.Context, claim *v1beta2.Metal3DataClaim, d *v1beta2.Metal3Data, text string) error {
	before := claim.DeepCopy()
	claim.Status = v1beta2.Metal3DataClaimStatus{ErrorMessage: message(text)}
	if d != nil {
		ref := reference(d, dataKind)
		claim.Status.RenderedData = &ref
	}
	if equality.Semantic.DeepEqual(before.Status, claim.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.warn(claim, "DataRefused", "AssignIndex", before.Status.ErrorMessage, text)
	return nil
}

// remove deletes data. The data's finalizer lets the controller of data give back addresses and
// Secrets first.
func (r *templateReconciler) remove(ctx context.Context, d *v1beta2.Metal3Data) error {
	return client.IgnoreNotFound(r.Client.Delete(ctx, d, client.Preconditions{UID: &d.UID}))
}

// removeExtra deletes data that no claim has, if that is so on the API server, too.
func (r *templateReconciler) removeExtra(ctx context.Context, d *v1beta2.Metal3Data) error {
	if !d.DeletionTimestamp.IsZero() {
		return nil
	}
	if leave, err := r.isLeftAlone(ctx, d.Labels[clusterv1.ClusterNameLabel], d); leave || err != nil {
		return err
	}
	var claim v1beta2.Metal3DataClaim
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Claim.Name}, &claim)
	switch {
	case apierrors.IsNotFound(err):
		return r.remove(ctx, d)
	case err != nil:
		return err
	case claim.Status.RenderedData == nil || isRendered(&claim, d):
		return nil // the cache is behind
	default:
		return r.remove(ctx, d)
	}
}

// recordIndexes writes to the status of a template which indexes are in use.
func (r *templateReconciler) recordIndexes(ctx context.Context, t *v1beta2.Metal3DataTemplate, existing []*v1beta2.Metal3Data) error {
	now := indexes(t.Name, existing)
	if equality.Semantic.DeepEqual(t.Status.Indexes, now) {
		return nil
	}
	before := t.DeepCopy()
	t.Status.Indexes, t.Status.LastUpdated = now, &metav1.Time{Time: r.Now()}
	return r.Client.Status().Patch(ctx, t, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// patch changes an object, if there is something to change. It returns a conflict if somebody has
// changed the object since it was read.
func (c Config) patch(ctx context.Context, obj client.Object, change func()) error {
	before, _ := obj.DeepCopyObject().(client.Object)
	change()
	if equality.Semantic.DeepEqual(before, obj) {
		return nil
	}
	return c.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
