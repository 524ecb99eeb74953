package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Names of leader leases.
const (
	// upstreamLease is the lease of Metal3's own BareMetalHost operator.
	upstreamLease = "baremetal-operator"
	// hostLease is the lease of Ingot's host controllers.
	hostLease = leasePrefix + GroupHost
	// leasePrefix precedes the name of a group of controllers.
	leasePrefix = "ingot-"
)

// errLeasesUnseen means that the operator may not read the leases of any namespace.
var errLeasesUnseen = errors.New("leases of other operators may not be read")

// heldLease is a leader lease that somebody holds.
type heldLease struct {
	namespace, name string
	holder          string
	until           time.Time // unless it is renewed
}

func (l heldLease) String() string {
	return fmt.Sprintf("lease %s/%s is held by %s until %s", l.namespace, l.name, l.holder, l.until.UTC().Format(time.RFC3339))
}

// held reports whether somebody holds a lease at the time now, and who. A lease that was given up
// has no holder.
func held(l *coordinationv1.Lease, now time.Time) (heldLease, bool) {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return heldLease{}, false
	}
	until := s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)
	return heldLease{namespace: l.Namespace, name: l.Name, holder: *s.HolderIdentity, until: until}, now.Before(until)
}

// findHeld returns a held lease with the given name from any namespace of the cluster, or nil. If
// the operator may not list the leases of the whole cluster, findHeld looks into the given
// namespaces. If it may not look into any of those either, it returns errLeasesUnseen.
func findHeld(ctx context.Context, config *rest.Config, name string, namespaces []string, now time.Time) (*heldLease, error) {
	c, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to read leases: %w", err)
	}
	seen := false
	for _, namespace := range append([]string{metav1.NamespaceAll}, namespaces...) {
		// With this selector, a role can restrict the verb "list" to one name.
		list, err := c.Leases(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		})
		if apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for lease %s of another operator: %w", name, err)
		}
		for i := range list.Items {
			if l, ok := held(&list.Items[i], now); ok {
				return &l, nil
			}
		}
		if seen = true; namespace == metav1.NamespaceAll {
			break
		}
	}
	if !seen {
		return nil, errLeasesUnseen
	}
	return nil, nil //nolint:nilnil // nobody holds such a lease
}

// checkUpstream returns an error when Metal3's own operator leads in the cluster. It
// works on the same hosts, so each of the two would undo what the other does.
func (o *Operator) checkUpstream(ctx context.Context) error {
	namespaces := o.opts.Namespaces
	if ns := o.opts.LeaderElectionNamespace; ns != "" {
		namespaces = append([]string{ns}, namespaces...)
	}
	lease, err := findHeld(ctx, o.config, upstreamLease, namespaces, time.Now())
	switch {
	case ctx.Err() != nil:
		return nil // it was asked to stop
	case errors.Is(err, errLeasesUnseen):
		o.opts.Logger.WarnContext(ctx, "Cannot see whether another operator manages the hosts", "lease", upstreamLease, "err", err)
		return nil
	case err != nil:
		return err
	case lease != nil:
		return fmt.Errorf("another operator manages the hosts of this cluster: %s; scale its Deployment to 0, "+
			"delete its ValidatingWebhookConfiguration, which keeps hosts from being changed while nobody answers it, and start again when the lease has ended, or, if the two watch different namespaces, start with --allow-upstream-operator", lease)
	}
	return nil
}
