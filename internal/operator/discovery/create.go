package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// maxStatusAnnotation is the most that the status annotation of a new host may
// hold, in bytes. All annotations of an object together may have 256 KiB.
const maxStatusAnnotation = 128 << 10

// errOvertaken means that the node got a host or is in use since the plan was made.
var errOvertaken = errors.New("node needs no host any more")

// creationResult is the outcome of creating hosts.
type creationResult struct {
	made    int
	matched int
	skipped []discoveryv1.SkippedNode
	failed  int
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
			switch {
			case err == nil:
				result.made++
				r.announce(resource, host, c)
			case errors.Is(err, errOvertaken):
				result.matched++
			case apierrors.IsAlreadyExists(err):
				result.skipped = append(result.skipped, skipped(c.candidate, discoveryv1.SkipNameConflict,
					fmt.Sprintf("other hosts have the name %s and all its variants; rename or delete one", c.names[0])))
			case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
				result.skipped = append(result.skipped, skipped(c.candidate, discoveryv1.SkipCreateForbidden, cut(err.Error())))
			default:
				result.failed++
				log.FromContext(ctx).Error(err, "Host was not created", "node", c.node.ID)
			}
			return nil
		})
	}
	_ = group.Wait()
	return result
}

// create creates one host with the first of its names that is free. It returns
// errOvertaken when no host is needed, or the API server's last error.
func (r *Reconciler) create(ctx context.Context, resource *discoveryv1.BareMetalHostDiscovery, c creation) (*v1alpha1.BareMetalHost, error) {
	n, err := r.NodeCache.Fetch(ctx, c.node.ID)
	if errors.Is(err, provisioner.ErrNotFound) || err == nil && n.BelongsTo() != "" {
		return nil, errOvertaken
	}
	if err != nil {
		return nil, err
	}
	if c.inventory == nil {
		if c.inventory, err = r.Engine.Inventory(ctx, c.node.ID); err != nil {
			return nil, err
		}
	}
	for _, name := range c.names {
		var host *v1alpha1.BareMetalHost
		host, err = hostFor(resource, c, name)
		if err != nil {
			return nil, err
		}
		err = r.Client.Create(ctx, host)
		if err == nil {
			r.created.remember(host)
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

// isSameMachine reports whether the host that already has the name is this very
// machine's: an earlier attempt whose answer was lost, or that the cache does
// not show yet.
func (r *Reconciler) isSameMachine(ctx context.Context, host *v1alpha1.BareMetalHost, c creation) (bool, error) {
	var existing v1alpha1.BareMetalHost
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(host), &existing); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	from, _ := originOf(&existing)
	return from.nodeID == c.node.ID || existing.Status.Provisioning.ID == c.node.ID ||
		strings.EqualFold(existing.Spec.BootMACAddress, c.facts.BootMAC), nil
}

// hostFor builds the host of a machine. It has no BMC and no owner: it stays
// when the discovery resource is deleted.
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
			// The host controller would add it before anything else.
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

// statusAnnotation is the status that the host starts with: the link to the
// node, and the hardware details unless they are too long.
func statusAnnotation(c creation) (string, error) {
	status := v1alpha1.BareMetalHostStatus{
		OperationalStatus: v1alpha1.OperationalStatusDiscovered,
		Provisioning:      v1alpha1.ProvisionStatus{ID: c.node.ID},
		HardwareDetails:   hardware.Details(c.inventory),
	}
	text, err := json.Marshal(status)
	if err == nil && len(text) > maxStatusAnnotation {
		status.HardwareDetails = nil
		text, err = json.Marshal(status)
	}
	if err != nil {
		return "", fmt.Errorf("encode status of node %s: %w", c.node.ID, err)
	}
	return string(text), nil
}
