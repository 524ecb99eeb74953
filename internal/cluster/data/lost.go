package data

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// hasNoHost reports whether a machine has chosen no host, and has run on none.
func hasNoHost(m *v1beta2.Metal3Machine) bool {
	return m.Annotations[v1beta2.HostAnnotation] == "" && m.Spec.ProviderID == ""
}

// leave gives back what data has for a host that its machine does not have any more: the Secrets,
// and the claims that are named after the host, because the next machine of the host needs these
// names. The Secrets go first: while all of them exist, the data counts as rendered with the
// addresses in them.
func (r *reconciler) leave(ctx context.Context, d *v1beta2.Metal3Data, host string) error {
	if err := r.removeSecrets(ctx, d); err != nil {
		return err
	}
	_, err := r.giveBack(ctx, d, host)
	return err
}

// forgetHost gives back what data has for a host that its machine has lost.
func (r *reconciler) forgetHost(ctx context.Context, d *v1beta2.Metal3Data, m *v1beta2.Metal3Machine) (ready bool, wait time.Duration, err error) {
	_, host, _ := strings.Cut(d.Annotations[v1beta2.HostAnnotation], "/")
	if lost, err := r.hasLost(ctx, m, host); err != nil || !lost {
		return d.Status.Ready, 0, err
	}
	if err := r.say(ctx, d, false, ""); err != nil {
		return false, 0, err
	}
	if err := r.leave(ctx, d, host); err != nil {
		return false, 0, err
	}
	return false, 0, r.patch(ctx, d, func() { delete(d.Annotations, v1beta2.HostAnnotation) })
}

// hasLost asks the API server whether a machine has no host, and the given host does not name the
// machine as its consumer. If the host does, the machine has lost only its annotation, and may
// start with the addresses.
func (r *reconciler) hasLost(ctx context.Context, m *v1beta2.Metal3Machine, host string) (bool, error) {
	var live v1beta2.Metal3Machine
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), &live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if live.UID != m.UID || !hasNoHost(&live) {
		return false, nil
	}
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: host}}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(h), h); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return true, nil
		}
		return false, fmt.Errorf("read host %s: %w", host, err)
	}
	return !related.Consumes(&live, h), nil
}
