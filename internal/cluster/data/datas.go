package data

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// reconciler renders Metal3Data into Secrets, and gives back the addresses of deleted data.
type reconciler struct{ Config }

// newReconciler returns the reconciler of data.
func newReconciler(config Config) *reconciler { return &reconciler{config} }

// Reconcile makes one pass over a Metal3Data.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var d v1beta2.Metal3Data
	if err := r.Client.Get(ctx, req.NamespacedName, &d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.keepFilter(ctx, &d); err != nil {
		return resultOf(err)
	}
	if leave, err := r.isLeftAlone(ctx, d.Labels[clusterv1.ClusterNameLabel], &d); leave || err != nil {
		return ctrl.Result{}, err
	}
	work := r.fill
	if !d.DeletionTimestamp.IsZero() {
		work = r.release
	}
	ready, wait, err := work(ctx, &d)
	text, known := problemText(err)
	if err != nil && !known {
		return resultOf(err)
	}
	if known {
		wait = requeue.Spread(retryPause, retryPause/4, req.String(), 0)
	}
	before := d.Status.ErrorMessage
	if err := r.say(ctx, &d, ready, text); err != nil {
		return resultOf(err)
	}
	if !isExpected(err) {
		r.warn(&d, "RenderingFailed", "Render", before, text)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// keepFilter gives data the filter label of its claim, if the controller works on the claim.
func (r *reconciler) keepFilter(ctx context.Context, d *v1beta2.Metal3Data) error {
	var claim v1beta2.Metal3DataClaim
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Claim.Name}, &claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !related.IsOwnedBy(d, &claim) || related.IsPaused(nil, d) {
		return nil
	}
	if leave, err := r.isLeftAlone(ctx, d.Labels[clusterv1.ClusterNameLabel], &claim); leave || err != nil {
		return err
	}
	return related.KeepFilter(ctx, r.Client, d, &claim)
}

// say writes the status of data if it has changed. It returns NotFound if the data is gone.
func (r *reconciler) say(ctx context.Context, d *v1beta2.Metal3Data, ready bool, text string) error {
	before := d.DeepCopy()
	d.Status = v1beta2.Metal3DataStatus{Ready: ready, ErrorMessage: message(text)}
	if equality.Semantic.DeepEqual(before.Status, d.Status) {
		return nil
	}
	return r.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// objects are what data is rendered from, beside the pools.
type objects struct {
	template *v1beta2.Metal3DataTemplate
	machine  *clusterv1.Machine
	m3m      *v1beta2.Metal3Machine
	host     *v1alpha1.BareMetalHost
}

// fill renders data for the host of its machine, unless that is done.
func (r *reconciler) fill(ctx context.Context, d *v1beta2.Metal3Data) (ready bool, wait time.Duration, err error) {
	o, err := r.read(ctx, d)
	if err == nil && o.host == nil && o.m3m != nil && d.Annotations[v1beta2.HostAnnotation] != "" && hasNoHost(o.m3m) {
		return r.forgetHost(ctx, d, o.m3m)
	}
	if err != nil || o.host == nil {
		return d.Status.Ready, 0, err // nothing to render while the machine has no host
	}
	host := o.host.Namespace + "/" + o.host.Name
	if d.Status.Ready && d.Annotations[v1beta2.HostAnnotation] != "" && d.Annotations[v1beta2.HostAnnotation] != host {
		if err := r.say(ctx, d, false, ""); err != nil {
			return false, 0, err
		}
	}
	missing, err := r.missing(ctx, d, host)
	if err != nil {
		return false, 0, err
	}
	// Data can lack its status after a move or a restore. Then its Secrets tell whether it is
	// rendered: a machine may run with them, and the template may have changed since. Data of
	// Metal3's provider names no host; if its machine is deployed, the machine has read the data.
	noted := d.Annotations[v1beta2.HostAnnotation]
	rendered := len(secretsOf(d)) > 0 && (noted == host || noted == "" && o.m3m.Spec.ProviderID != "")
	if (d.Status.Ready || rendered) && len(missing) == 0 {
		return true, 0, r.prepare(ctx, d, nil, host)
	}
	if o.template == nil {
		return false, 0, problemf("Metal3DataTemplate %s does not exist; create it", d.Spec.Template.Name)
	}
	if err := r.prepare(ctx, d, o.template, host); err != nil {
		return false, 0, err
	}
	made, wait, err := r.render(ctx, d, o)
	if err != nil || wait > 0 {
		return false, wait, err
	}
	for _, s := range secretsOf(d) {
		if err := r.store(ctx, d, s, made.of(s.key), host); err != nil {
			return false, 0, err
		}
	}
	return true, 0, nil
}

// read reads what data is rendered from. The host is nil when the machine does not have one.
func (r *reconciler) read(ctx context.Context, d *v1beta2.Metal3Data) (objects, error) {
	var o objects
	var claim v1beta2.Metal3DataClaim
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Claim.Name}, &claim)
	if apierrors.IsNotFound(err) {
		return o, nil // the controller of templates deletes the data
	}
	if err != nil {
		return o, fmt.Errorf("read Metal3DataClaim %s: %w", d.Spec.Claim.Name, err)
	}
	if o.m3m, err = machineOf(ctx, r.Client, &claim); err != nil {
		return o, err
	}
	if o.m3m == nil {
		return o, r.ownerless(ctx, client.ObjectKeyFromObject(&claim))
	}
	if o.machine, err = related.Machine(ctx, r.Client, o.m3m); err != nil || o.machine == nil {
		return o, err
	}
	if o.host, err = related.Host(ctx, r.Client, o.m3m); err != nil || o.host == nil {
		return o, err
	}
	var t v1beta2.Metal3DataTemplate
	if err = r.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Template.Name}, &t); err == nil {
		o.template = &t
	}
	return o, client.IgnoreNotFound(err)
}

// ownerless returns the problem of a claim whose Metal3Machine is gone. It returns nil if the claim
// is gone or being deleted, too, which the cache may not know yet.
func (r *reconciler) ownerless(ctx context.Context, key client.ObjectKey) error {
	var claim v1beta2.Metal3DataClaim
	err := r.Live.Get(ctx, key, &claim)
	switch {
	case apierrors.IsNotFound(err), err == nil && !claim.DeletionTimestamp.IsZero():
		return nil
	case err != nil:
		return fmt.Errorf("read Metal3DataClaim %s: %w", key.Name, err)
	default:
		return problemf("Metal3DataClaim %s has no Metal3Machine that exists as its owner, so it is not known whose data this is", key.Name)
	}
}

// machineOf returns the Metal3Machine that owns a claim, or nil when there is none or it is gone.
func machineOf(ctx context.Context, reader client.Reader, claim *v1beta2.Metal3DataClaim) (*v1beta2.Metal3Machine, error) {
	name, uid := machineOwner(claim)
	if name == "" {
		return nil, nil
	}
	var m v1beta2.Metal3Machine
	err := reader.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: name}, &m)
	if apierrors.IsNotFound(err) || err == nil && m.UID != uid {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Metal3Machine %s: %w", name, err)
	}
	return &m, nil
}

// machineOwner returns the name and the UID of the Metal3Machine among the owners of a claim.
func machineOwner(claim *v1beta2.Metal3DataClaim) (string, types.UID) {
	for _, ref := range claim.OwnerReferences {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && version.Group == v1beta2.GroupVersion.Group && ref.Kind == metal3MachineKind {
			return ref.Name, ref.UID
		}
	}
	return "", ""
}

// inUse reports whether a Metal3Machine may still run with the data of a claim that is being
// deleted, by a person or with its owners: the machine has not released its host. If the machine is
// not being deleted either, text says what to do.
func (c Config) inUse(ctx context.Context, claim *v1beta2.Metal3DataClaim) (used bool, text string, err error) {
	m, err := machineOf(ctx, c.Live, claim)
	if err != nil || m == nil || !mayRun(m) {
		return false, "", err
	}
	if m.DeletionTimestamp.IsZero() {
		text = waitsFor(m.Name)
	}
	return true, text, nil
}

func waitsFor(machine string) string {
	return fmt.Sprintf("The deletion waits for the end of Metal3Machine %s, whose index and addresses would go to other machines; delete its Machine", machine)
}

// prepare notes the host that data is rendered for and, if t is not nil, its Secrets. If the host
// changes, prepare first gives back what the data has for the former host; the data must not be
// ready then.
func (r *reconciler) prepare(ctx context.Context, d *v1beta2.Metal3Data, t *v1beta2.Metal3DataTemplate, host string) error {
	if _, before, _ := strings.Cut(d.Annotations[v1beta2.HostAnnotation], "/"); before != "" && d.Annotations[v1beta2.HostAnnotation] != host {
		if err := r.leave(ctx, d, before); err != nil {
			return err
		}
	}
	return r.patch(ctx, d, func() {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1beta2.HostAnnotation, host)
		if t != nil {
			d.Spec.MetaData, d.Spec.NetworkData = secretRefs(d, t)
		}
	})
}

// render renders the documents. It returns a wait when an address is not there yet.
func (r *reconciler) render(ctx context.Context, d *v1beta2.Metal3Data, o objects) (documents, time.Duration, error) {
	in := input{namespace: d.Namespace, index: d.Spec.Index, machine: o.machine, m3m: o.m3m, host: o.host}
	made, needs, err := render(&o.template.Spec, in)
	if err != nil || len(needs) == 0 {
		return made, 0, err
	}
	pools, wait, err := r.obtain(ctx, d, o.host.Name, needs)
	if err != nil || wait > 0 {
		return documents{}, wait, err
	}
	in.pools = pools
	made, needs, err = render(&o.template.Spec, in)
	if err == nil && len(needs) > 0 {
		err = fmt.Errorf("rendering %s wants more pools than before: %v", d.Name, needs)
	}
	return made, 0, err
}

// secret is a Secret of data, and the key of the document in it.
type secret struct{ name, key string }

// Keys of the Secrets, as hosts read them.
const metaDataKey, networkDataKey = "metaData", "networkData"

// secretsOf returns the Secrets that data has, or is to have.
func secretsOf(d *v1beta2.Metal3Data) []secret {
	var all []secret
	for _, s := range []struct {
		ref *corev1.SecretReference
		key string
	}{{d.Spec.MetaData, metaDataKey}, {d.Spec.NetworkData, networkDataKey}} {
		if s.ref != nil {
			all = append(all, secret{s.ref.Name, s.key})
		}
	}
	return all
}

func (made documents) of(key string) []byte {
	if key == metaDataKey {
		return made.metaData
	}
	return made.networkData
}

// missing returns the Secrets of data that do not exist or are for another host. A Secret that
// names no host counts as one for this host: it is from before hosts were noted.
func (r *reconciler) missing(ctx context.Context, d *v1beta2.Metal3Data, host string) ([]secret, error) {
	var all []secret
	for _, s := range secretsOf(d) {
		meta, err := r.secretMeta(ctx, d, s)
		if err != nil {
			return nil, err
		}
		if meta == nil || !isFor(meta, host) {
			all = append(all, s)
		}
	}
	return all, nil
}

func isFor(meta *metav1.PartialObjectMetadata, host string) bool {
	noted := meta.Annotations[v1beta2.HostAnnotation]
	return noted == "" || noted == host
}

// secretMeta reads the metadata of a Secret, or returns nil when it does not exist. A Secret that
// the data does not own is a problem: its contents are never read or changed.
func (r *reconciler) secretMeta(ctx context.Context, d *v1beta2.Metal3Data, s secret) (*metav1.PartialObjectMetadata, error) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: s.name}, meta)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", s.name, err)
	}
	if !related.IsOwnedBy(meta, d) {
		return nil, problemf("Secret %s exists and does not belong to this Metal3Data; delete it, or give it another name", s.name)
	}
	return meta, nil
}

// store writes a document into its Secret. A Secret that exists for this host stays as it is.
func (r *reconciler) store(ctx context.Context, d *v1beta2.Metal3Data, s secret, document []byte, host string) error {
	meta, err := r.secretMeta(ctx, d, s)
	if err != nil || meta != nil && isFor(meta, host) {
		return err
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: s.name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: d.Labels[clusterv1.ClusterNameLabel]},
			Annotations:     map[string]string{v1beta2.HostAnnotation: host},
			OwnerReferences: []metav1.OwnerReference{ownerReference(d, dataKind)},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{s.key: document},
	}
	related.CarryFilter(made, d)
	if meta == nil {
		err = r.Client.Create(ctx, made)
	} else {
		made.UID, made.ResourceVersion = meta.UID, meta.ResourceVersion
		err = r.Client.Update(ctx, made)
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write Secret %s: %w", s.name, err)
	}
	return err
}

// release gives back the addresses and Secrets of deleted data when its claim has no use for them
// any more.
func (r *reconciler) release(ctx context.Context, d *v1beta2.Metal3Data) (ready bool, wait time.Duration, err error) {
	if !hasAny(d, dataFinalizers) {
		return d.Status.Ready, 0, nil
	}
	var claim v1beta2.Metal3DataClaim
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Claim.Name}, &claim)
	if client.IgnoreNotFound(err) != nil {
		return false, 0, fmt.Errorf("read Metal3DataClaim %s: %w", d.Spec.Claim.Name, err)
	}
	if err == nil && isRendered(&claim, d) {
		if claim.DeletionTimestamp.IsZero() {
			return d.Status.Ready, 0, &problem{text: waitsFor(claim.Name)}
		}
		if used, text, err := r.inUse(ctx, &claim); err != nil || used {
			if text != "" {
				err = &problem{text: text}
			}
			return d.Status.Ready, 0, err
		}
	}
	left, err := r.giveBack(ctx, d, "")
	if err != nil || left {
		return d.Status.Ready, 0, err
	}
	if err := r.removeSecrets(ctx, d); err != nil {
		return d.Status.Ready, 0, err
	}
	return d.Status.Ready, 0, r.patch(ctx, d, func() { removeAll(d, dataFinalizers) })
}

// removeSecrets deletes the Secrets of data. Kubernetes would delete them, too, but not before the
// next data with the same index needs their names.
func (r *reconciler) removeSecrets(ctx context.Context, d *v1beta2.Metal3Data) error {
	for _, s := range secretsOf(d) {
		meta, err := r.secretMeta(ctx, d, s)
		if _, foreign := problemText(err); foreign || err == nil && meta == nil {
			continue
		}
		if err == nil {
			err = client.IgnoreNotFound(r.Client.Delete(ctx, meta, client.Preconditions{UID: &meta.UID}))
		}
		if err != nil {
			return fmt.Errorf("delete Secret %s: %w", s.name, err)
		}
	}
	return nil
}
