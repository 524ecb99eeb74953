// Package classification is the controller of HardwareClassification: it labels the hosts whose
// hardware matches, and counts them.
//
// One reconciler labels a host: it compares the host's hardware with all profiles of the namespace.
// Another one handles a namespace. It compares a profile that is new or has changed with all
// hosts, and hands the hosts with a wrong label to the first reconciler. It also counts labels and
// errors of hosts, at most once per second. So a change of one host reads no other host's hardware.
// Everything is read from the shared cache, and each object is written only if it changes.
package classification

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Config is what the reconcilers depend on.
type Config struct {
	// Client reads from the shared cache and writes to the API server.
	Client client.Client
}

// Reconcilers keep labels and counts.
type Reconcilers struct {
	hosts      *hosts
	namespaces *namespaces
}

// New returns the reconcilers.
func New(config Config) *Reconcilers {
	failed := &failures{hosts: map[types.NamespacedName]failure{}}
	return &Reconcilers{
		hosts:      &hosts{client: config.Client, failed: failed},
		namespaces: &namespaces{client: config.Client, failed: failed, seen: map[string]map[types.UID]string{}},
	}
}

// hosts labels hosts.
type hosts struct {
	client client.Client
	failed *failures
	wake   func(namespace string) // requests a count of a namespace
}

// Reconcile labels one host.
func (r *hosts) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var h v1alpha1.BareMetalHost
	if err := r.client.Get(ctx, req.NamespacedName, &h); err != nil || !h.DeletionTimestamp.IsZero() {
		r.failed.put(req.NamespacedName, failure{})
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var data v1alpha1.HardwareData
	if err := r.client.Get(ctx, req.NamespacedName, &data); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read hardware data of host %s: %w", h.Name, err)
	}
	var profiles v1alpha1.HardwareClassificationList
	if err := r.client.List(ctx, &profiles, client.InNamespace(h.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list classifications: %w", err)
	}
	before := h.DeepCopy()
	removed := relabel(&h, labelsOf(profiles.Items, data.Spec.HardwareDetails))
	if maps.Equal(before.Labels, h.Labels) {
		r.put(req.NamespacedName, failure{})
		return ctrl.Result{}, nil
	}
	err := r.client.Patch(ctx, &h, client.MergeFrom(before))
	switch {
	case err == nil, apierrors.IsNotFound(err):
		r.put(req.NamespacedName, failure{})
		return ctrl.Result{}, nil
	case ctx.Err() != nil:
		return ctrl.Result{}, nil // the operator stops
	}
	kind := v1alpha1.ClassificationErrorLabelUpdate
	if removed {
		kind = v1alpha1.ClassificationErrorLabelDelete
	}
	r.put(req.NamespacedName, failure{kind, fmt.Sprintf("label host %s: %v", h.Name, err)})
	return ctrl.Result{}, fmt.Errorf("label host %s: %w", h.Name, err)
}

func (r *hosts) put(host types.NamespacedName, f failure) {
	if r.failed.put(host, f) {
		r.wake(host.Namespace)
	}
}

// Pending reports whether a host does not have the labels of these profiles yet. The profiles are
// all profiles of the host's namespace; without any, no host is pending. data is nil if there is no
// hardware data yet. Then a host whose inspection is not disabled is pending.
func Pending(h *v1alpha1.BareMetalHost, profiles []v1alpha1.HardwareClassification, data *v1alpha1.HardwareData) bool {
	switch {
	case len(profiles) == 0:
		return false
	case data != nil:
		return !maps.Equal(ours(h), labelsOf(profiles, data.Spec.HardwareDetails))
	default:
		return h.Spec.InspectionMode != v1alpha1.InspectionModeDisabled && h.Annotations[v1alpha1.InspectAnnotation] != v1alpha1.InspectDisabled
	}
}

// labelsOf returns the labels that the profiles give to hardware.
func labelsOf(profiles []v1alpha1.HardwareClassification, d *v1alpha1.HardwareDetails) map[string]string {
	labels := map[string]string{}
	for i := range profiles {
		if key, value, ok := labelOf(&profiles[i], d); ok {
			labels[key] = value
		}
	}
	return labels
}

// labelOf returns the label that a profile gives to matching hardware. ok reports whether this
// hardware matches.
func labelOf(p *v1alpha1.HardwareClassification, d *v1alpha1.HardwareDetails) (key, value string, ok bool) {
	key, value = v1alpha1.ClassificationLabelPrefix+p.Name, v1alpha1.ClassificationLabelValue
	if own, there := p.Labels[key]; there {
		value = own
	}
	return key, value, p.DeletionTimestamp.IsZero() && len(p.Name) <= longestName && matches(p.Spec.HardwareCharacteristics, d)
}

// longestName is the longest name that the key of a label can have.
const longestName = 63

// relabel gives a host these labels and removes all other labels of classifications. It reports
// whether it removed any.
func relabel(h *v1alpha1.BareMetalHost, wanted map[string]string) (removed bool) {
	for key := range h.Labels {
		if _, keep := wanted[key]; isOurs(key) && !keep {
			delete(h.Labels, key)
			removed = true
		}
	}
	if h.Labels == nil && len(wanted) > 0 {
		h.Labels = map[string]string{}
	}
	maps.Copy(h.Labels, wanted)
	return removed
}

func isOurs(key string) bool { return strings.HasPrefix(key, v1alpha1.ClassificationLabelPrefix) }

// failure says why a label could not be written. An empty kind means that there is no failure.
type failure struct {
	kind v1alpha1.ClassificationErrorType
	text string
}

// failures are the hosts whose labels could not be written yet. These hosts are tried again, also
// after a restart. It is safe for concurrent use.
type failures struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]failure
}

// put records the outcome for a host and reports whether it differs from the last one.
func (f *failures) put(host types.NamespacedName, outcome failure) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.hosts[host]
	if outcome.kind == v1alpha1.ClassificationErrorNone {
		delete(f.hosts, host)
	} else {
		f.hosts[host] = outcome
	}
	return before != outcome
}

// in is the failure of the first host of a namespace that has one, by name.
func (f *failures) in(namespace string) failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, found := "", failure{}
	for host, failed := range f.hosts {
		if host.Namespace == namespace && (first == "" || host.Name < first) {
			first, found = host.Name, failed
		}
	}
	return found
}
