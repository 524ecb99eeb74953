package classification

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// namespaces compares the profiles of a namespace. Its requests have a namespace and no name.
type namespaces struct {
	client client.Client
	failed *failures
	label  func(ctrl.Request) // labels a host

	mu sync.Mutex
	// seen says what each profile looked like when it was last compared with all hosts. After a
	// restart, all profiles are compared again.
	seen map[string]map[types.UID]string
}

// contents is what the cache has of a namespace. The objects are shared and must not be changed.
type contents struct {
	hosts    []v1alpha1.BareMetalHost
	hardware map[string]*v1alpha1.HardwareDetails // by the name of the host
}

// Reconcile compares the changed profiles of a namespace with all hosts, and counts hosts for all
// profiles.
func (r *namespaces) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var profiles v1alpha1.HardwareClassificationList
	if err := r.client.List(ctx, &profiles, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list classifications: %w", err)
	}
	if len(profiles.Items) == 0 {
		return ctrl.Result{}, nil
	}
	all, err := r.read(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.compare(req.Namespace, profiles.Items, all)
	numbers := count(all.hosts, all.hardware)
	failed := r.failed.in(req.Namespace)
	var errs []error
	for i := range profiles.Items {
		p := &profiles.Items[i]
		if err := r.write(ctx, p, numbers.statusOf(p, failed)); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return ctrl.Result{}, errors.Join(errs...)
}

func (r *namespaces) read(ctx context.Context, namespace string) (contents, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.client.List(ctx, &hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return contents{}, fmt.Errorf("list hosts: %w", err)
	}
	var data v1alpha1.HardwareDataList
	if err := r.client.List(ctx, &data, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return contents{}, fmt.Errorf("list hardware data: %w", err)
	}
	hardware := make(map[string]*v1alpha1.HardwareDetails, len(data.Items))
	for i := range data.Items {
		hardware[data.Items[i].Name] = data.Items[i].Spec.HardwareDetails
	}
	return contents{hosts.Items, hardware}, nil
}

// compare requests a pass for each host whose label from a profile is wrong. It leaves out a
// profile that it has already compared, unless the profile is being deleted: its finalizer waits
// until no host has the label.
func (r *namespaces) compare(namespace string, profiles []v1alpha1.HardwareClassification, all contents) {
	now := map[types.UID]string{}
	r.mu.Lock()
	before := r.seen[namespace]
	r.seen[namespace] = now
	r.mu.Unlock()
	for i := range profiles {
		p := &profiles[i]
		key, value, _ := labelOf(p, nil)
		now[p.UID] = fmt.Sprint(p.Generation, value)
		if before[p.UID] == now[p.UID] && p.DeletionTimestamp.IsZero() {
			continue
		}
		for j := range all.hosts {
			h := &all.hosts[j]
			_, _, wanted := labelOf(p, all.hardware[h.Name])
			present, there := h.Labels[key]
			if h.DeletionTimestamp.IsZero() && (there != wanted || wanted && present != value) {
				r.label(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h)})
			}
		}
	}
}

// write stores what differs. The finalizer of a deleted profile is removed with its last label.
func (r *namespaces) write(ctx context.Context, p *v1alpha1.HardwareClassification, status v1alpha1.HardwareClassificationStatus) error {
	before := p.DeepCopy()
	changed := false
	if p.DeletionTimestamp.IsZero() {
		changed = controllerutil.AddFinalizer(p, v1alpha1.ClassificationFinalizer)
	} else if status.MatchedCount == 0 {
		changed = controllerutil.RemoveFinalizer(p, v1alpha1.ClassificationFinalizer)
	}
	if changed {
		if err := r.client.Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("write classification %s: %w", p.Name, err)
		}
	}
	if !p.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	before = p.DeepCopy()
	p.Status = status
	if err := r.client.Status().Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status of classification %s: %w", p.Name, err)
	}
	return nil
}
