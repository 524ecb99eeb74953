// Package capacity is the controller of the status of Metal3MachineTemplates. From this status, the
// cluster autoscaler learns what a machine of a template will have, as long as there is no such
// machine. The controller derives it from the hardware of the hosts that the template selects.
//
// A pass covers a whole namespace, because its templates select among the same hosts. The pass
// reads everything from the shared cache, and writes a template only when its status changes. It
// writes the processors, memory and architecture that the hardware tells (least.go). Everything
// else in the status belongs to whoever wrote it. While no hardware is known, so does the whole
// status.
package capacity

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// Config is what the reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server.
	Client client.Client
	// Filter says which templates the controller writes.
	Filter related.Filter
}

// Reconciler writes the status of templates.
type Reconciler struct{ Config }

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{config} }

// Reconcile handles a namespace. The request has no name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var templates v1beta2.Metal3MachineTemplateList
	if err := r.list(ctx, req.Namespace, "Metal3MachineTemplates", &templates); err != nil || len(templates.Items) == 0 {
		return ctrl.Result{}, err
	}
	hosts, err := r.inspected(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	var errs []error
	for i := range templates.Items {
		if err := r.write(ctx, &templates.Items[i], hosts); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// list reads the objects of a kind in a namespace. They are shared with the cache and must not be
// changed.
func (r *Reconciler) list(ctx context.Context, namespace, what string, into client.ObjectList) error {
	if err := r.Client.List(ctx, into, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

// inspected is a host that nobody has withdrawn and whose hardware is known.
type inspected struct {
	labels   labels.Set
	hardware *v1alpha1.HardwareDetails
}

// inspected returns the inspected hosts of a namespace, whether they are in use or not.
func (r *Reconciler) inspected(ctx context.Context, namespace string) ([]inspected, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.list(ctx, namespace, "BareMetalHosts", &hosts); err != nil {
		return nil, err
	}
	var data v1alpha1.HardwareDataList
	if err := r.list(ctx, namespace, "HardwareData", &data); err != nil {
		return nil, err
	}
	hardware := make(map[string]*v1alpha1.HardwareDetails, len(data.Items))
	for i := range data.Items {
		hardware[data.Items[i].Name] = data.Items[i].Spec.HardwareDetails
	}
	var found []inspected
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if known := hardware[h.Name]; known != nil && eligible.Withdrawn(h) == "" {
			found = append(found, inspected{labels.Set(h.Labels), known})
		}
	}
	return found, nil
}

// write writes to the status of a template what the hosts that it selects have, if the status
// differs. A template whose selector cannot be used selects no host.
func (r *Reconciler) write(ctx context.Context, t *v1beta2.Metal3MachineTemplate, hosts []inspected) error {
	selector, err := t.Spec.Template.Spec.HostSelector.Selector()
	if err != nil || !r.Filter.Allows(t) || related.IsPaused(nil, t) || !t.DeletionTimestamp.IsZero() {
		return nil
	}
	var l least
	for _, h := range hosts {
		if selector.Matches(h.labels) {
			l.add(h.hardware)
		}
	}
	after := t.DeepCopy()
	l.tell(&after.Status)
	if equality.Semantic.DeepEqual(t.Status, after.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, after, client.MergeFrom(t)); err != nil {
		return fmt.Errorf("write the status of Metal3MachineTemplate %s/%s: %w", t.Namespace, t.Name, err)
	}
	return nil
}
