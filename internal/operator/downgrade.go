package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Downgrade prepares the hosts of a cluster for an operator that does not know the state
// "importing": Metal3's own, or an earlier Ingot.
type Downgrade struct {
	// Config says how to reach Kubernetes. Required.
	Config *rest.Config
	// Namespaces are the namespaces whose hosts are prepared; empty means all.
	Namespaces []string
	// Apply changes the hosts. Without it, Run only says what it would do.
	Apply bool
	// Output gets one line for each host.
	Output io.Writer
}

// Run moves each host in the state "importing" to "unmanaged". The link to the host's node stays in
// status.provisioning.ID, so that Ingot finds the node again after an upgrade. Run leaves all other
// fields and hosts as they are, and a second run finds nothing to do. Run also names the hosts
// without a BMC for which Metal3's operator will show an error.
//
// Run changes nothing while an operator of Ingot holds its leader lease, because that operator
// would import the hosts again. Run cannot see an operator without leader election.
func (d Downgrade) Run(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(d.Config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("reach Kubernetes at %s: %w", d.Config.Host, err)
	}
	if d.Apply {
		if err := d.checkStopped(ctx); err != nil {
			return err
		}
	}
	all, err := d.hosts(ctx, c)
	if err != nil {
		return err
	}
	var hosts []*v1alpha1.BareMetalHost
	for i := range all {
		h := &all[i]
		switch state := h.Status.Provisioning.State; {
		case state == v1alpha1.StateImporting:
			hosts = append(hosts, h)
		case !h.HasBMC() && state != v1alpha1.StateNone && state != v1alpha1.StateUnmanaged:
			fmt.Fprintf(d.Output, "Metal3's operator will show a registration error for host %s/%s, which has no BMC; its machine is not touched.\n", h.Namespace, h.Name)
		}
	}
	if len(hosts) == 0 {
		fmt.Fprintln(d.Output, "No host is in the state importing: there is nothing to do.")
		return nil
	}
	var failed []error
	for _, h := range hosts {
		failed = append(failed, d.reset(ctx, c, h))
	}
	if !d.Apply {
		fmt.Fprintln(d.Output, "Nothing was changed: stop Ingot's operator, then run this again with --yes.")
	}
	return errors.Join(failed...)
}

// checkStopped returns an error if an operator of Ingot holds its leader lease.
func (d Downgrade) checkStopped(ctx context.Context) error {
	lease, err := findHeld(ctx, d.Config, hostLease, d.Namespaces, time.Now())
	switch {
	case errors.Is(err, errLeasesUnseen):
		fmt.Fprintln(d.Output, "The leases of operators may not be read here. Make sure that Ingot's operator is stopped.")
		return nil
	case err != nil:
		return err
	case lease != nil:
		return fmt.Errorf("an operator of Ingot runs and would import the hosts again: %s; scale its Deployment to 0 and try again when the lease has ended", lease)
	}
	return nil
}

// hosts returns all hosts of the namespaces.
func (d Downgrade) hosts(ctx context.Context, c client.Client) ([]v1alpha1.BareMetalHost, error) {
	namespaces := d.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var found []v1alpha1.BareMetalHost
	for _, ns := range namespaces {
		var list v1alpha1.BareMetalHostList
		if err := c.List(ctx, &list, client.InNamespace(ns)); err != nil {
			return nil, fmt.Errorf("list the hosts at %s: %w", d.Config.Host, err)
		}
		found = append(found, list.Items...)
	}
	return found, nil
}

// reset moves one host to "unmanaged" and prints what it did. If somebody else changed the host
// meanwhile, reset leaves it alone and returns an error.
func (d Downgrade) reset(ctx context.Context, c client.Client, h *v1alpha1.BareMetalHost) error {
	name := h.Namespace + "/" + h.Name
	link := "without a link to a node"
	if id := h.Status.Provisioning.ID; id != "" {
		link = "its link to node " + id + " stays"
	}
	verb := "Would reset"
	if d.Apply {
		before := h.DeepCopy()
		h.Status.Provisioning.State = v1alpha1.StateUnmanaged
		err := c.Status().Patch(ctx, h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err != nil {
			return fmt.Errorf("reset host %s, which stays in the state importing: %w", name, err)
		}
		verb = "Reset"
	}
	fmt.Fprintf(d.Output, "%s host %s from importing to unmanaged; %s.\n", verb, name, link)
	return nil
}
