package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// errOvertaken means that, since the plan was made, the node got a host, came into use or was
// deleted.
var errOvertaken = errors.New("node needs no host any more")

// recheckAge is the maximum age of the shared node cache when a host is created.
const recheckAge = 2 * time.Second

// creationResult is the outcome of creating hosts.
type creationResult struct {
	made      []madeHost
	overtaken int                       // nodes that no longer need a host
	refused   []discoveryv1.SkippedNode // for good, unless somebody changes something
	failed    int                       // tried again soon
	failure   error                     // errors of some of the failed ones
}

// madeHost is a new host and what it was created for.
type madeHost struct {
	creation
	host *v1alpha1.BareMetalHost
}

// createAll creates the planned hosts, several at a time.
func (r *Reconciler) createAll(ctx context.Context, resource *discoveryv1.BareMetalHostDiscovery, planned []creation) creationResult {
	var (
		mu     sync.Mutex
		result creationResult
		group  errgroup.Group
	)
	group.SetLimit(workers)
	for _, c := range planned {
		group.Go(func() error {
			host, err := r.create(ctx, resource, c)
			mu.Lock()
			defer mu.Unlock()
			result.add(c, host, err)
			return nil
		})
	}
	_ = group.Wait()
	return result
}

// add counts the outcome of creating one host.
func (r *creationResult) add(c creation, host *v1alpha1.BareMetalHost, err error) {
	switch {
	case err == nil:
		r.made = append(r.made, madeHost{c, host})
	case errors.Is(err, errOvertaken):
		r.overtaken++
	case apierrors.IsAlreadyExists(err):
		r.refused = append(r.refused, skipped(c.candidate, discoveryv1.SkipNameConflict,
			fmt.Sprintf("other hosts have the name %s and all its variants; rename or delete one", c.names[0])))
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		r.refused = append(r.refused, skipped(c.candidate, discoveryv1.SkipCreateForbidden, cut(err.Error())))
	default:
		r.failed++
		r.failure = fmt.Errorf("create host %s for node %s: %w", c.names[0], c.node.ID, err)
	}
}

// create creates one host with the first of its names that is free. It returns errOvertaken if the
// node no longer needs a host. Other errors come from the engine or the API server.
func (r *Reconciler) create(ctx context.Context, resource *discoveryv1.BareMetalHostDiscovery, c creation) (*v1alpha1.BareMetalHost, error) {
	if err := r.recheck(ctx, c); err != nil {
		return nil, err
	}
	if c.details == nil {
		inv, err := r.Engine.Inventory(ctx, c.node.ID)
		if errors.Is(err, provisioner.ErrNotFound) || errors.Is(err, provisioner.ErrNoInventory) {
			return nil, errOvertaken // the node is gone, or is inspected again
		}
		if err != nil {
			return nil, err
		}
		c.details = hardware.Details(inv)
	}
	r.Readings.Put(c.node.ID, c.node.InspectedAt, c.details)
	var err error
	for _, name := range c.names {
		var host *v1alpha1.BareMetalHost
		if host, err = hostFor(resource, c, name); err != nil {
			return nil, err
		}
		if err = r.Client.Create(ctx, host); err == nil {
			r.index.remember(host)
			return host, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if same, readErr := r.isSameMachine(ctx, host, c); readErr != nil || same {
			return nil, errors.Join(readErr, errOvertaken)
		}
	}
	return nil, err
}

// recheck returns errOvertaken if the node was deleted, came into use, or got a host since the plan
// was made.
func (r *Reconciler) recheck(ctx context.Context, c creation) error {
	if err := r.NodeCache.Refresh(ctx, recheckAge); err != nil {
		return err
	}
	n, known := r.NodeCache.Node(c.node.ID)
	if !known || n.BelongsTo() != "" || r.index.has(n) || r.index.hostWith(c.macs, r.hasPort(ctx)) != nil || r.index.awaits(c.facts.BMCAddresses) {
		return errOvertaken
	}
	return nil
}

// isSameMachine reports whether the host that already has the name is the host of this machine. An
// earlier attempt may have created it, whose answer was lost, or the cache may not show it yet.
func (r *Reconciler) isSameMachine(ctx context.Context, host *v1alpha1.BareMetalHost, c creation) (bool, error) {
	var existing v1alpha1.BareMetalHost
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(host), &existing); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	from, _ := originOf(&existing)
	return from.nodeID == c.node.ID || existing.Status.Provisioning.ID == c.node.ID ||
		slices.Contains(c.macs, strings.ToLower(existing.Spec.BootMACAddress)), nil
}

// hostFor builds the host of a machine. The host has no BMC. It has no owner either, so that it
// stays when the discovery resource is deleted.
func hostFor(resource *discoveryv1.BareMetalHostDiscovery, c creation, name string) (*v1alpha1.BareMetalHost, error) {
	status, err := statusAnnotation(c)
	if err != nil {
		return nil, err
	}
	template := &resource.Spec.HostTemplate
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: resource.Namespace, Name: name,
			Labels: map[string]string{}, Annotations: map[string]string{},
			// The host controller would add the finalizer before anything else.
			Finalizers: []string{v1alpha1.HostFinalizer},
		},
		Spec: v1alpha1.BareMetalHostSpec{
			BootMACAddress:                 c.facts.BootMAC,
			Online:                         template.Online == nil || *template.Online,
			Architecture:                   template.Architecture,
			AutomatedCleaningMode:          template.AutomatedCleaningMode,
			RootDeviceHints:                template.RootDeviceHints.DeepCopy(),
			BootMode:                       template.BootMode,
			PreprovisioningNetworkDataName: template.PreprovisioningNetworkDataName,
		},
	}
	if host.Spec.Architecture == "" {
		host.Spec.Architecture = c.facts.Architecture
	}
	if host.Spec.BootMode == "" && c.facts.BootMode == "bios" {
		// An empty mode means UEFI, and without a BMC nothing can switch the machine to it.
		host.Spec.BootMode = v1alpha1.BootModeLegacy
	}
	for k, v := range template.Labels {
		host.Labels[k] = v
	}
	host.Labels[v1alpha1.PowerManagementLabel] = v1alpha1.PowerManagementNone
	for k, v := range template.Annotations {
		host.Annotations[k] = v
	}
	from := origin{resource: types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}, nodeID: c.node.ID}
	host.Annotations[v1alpha1.DiscoverySourceAnnotation] = from.String()
	host.Annotations[v1alpha1.StatusAnnotation] = status
	return host, nil
}

// statusAnnotation returns the status that the host starts with: the link to its node, and the
// hardware details unless they are too long.
func statusAnnotation(c creation) (string, error) {
	status := v1alpha1.BareMetalHostStatus{
		OperationalStatus: v1alpha1.OperationalStatusDiscovered,
		Provisioning:      v1alpha1.ProvisionStatus{ID: c.node.ID},
		HardwareDetails:   c.details,
	}
	text, err := v1alpha1.EncodeStatus(status)
	if err != nil {
		return "", fmt.Errorf("encode status of node %s: %w", c.node.ID, err)
	}
	return text, nil
}
