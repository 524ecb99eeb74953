// Package firmware keeps the objects about the firmware of hosts with a BMC: HostFirmwareSettings
// with its FirmwareSchema, and HostFirmwareComponents. It creates them and shows what the engine
// has read from the machine. It also says whether their specs ask for something else, and whether
// that is possible. It changes no machine: the host controller does, for changes that this package
// has found valid.
//
// One pass is about one host. The engine is asked only if the host's node or the spec has changed.
// The status says which reading of the node an object shows. Functions called decide… only decide;
// the types around them have the effects.
package firmware

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// nodeView is the shared cache of the engine's nodes.
type nodeView interface {
	Node(id string) (provisioner.Node, bool)
}

// Config is what a reconciler depends on.
type Config struct {
	// Client reads from the shared cache, whose HostFirmwareSettings StripSettings has
	// shortened, and writes to the API server.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// NodeCache is the shared cache of the engine's nodes.
	NodeCache nodeView
	// Cluster identifies the Kubernetes cluster in the marks of nodes: the UID of its
	// namespace kube-system.
	Cluster string
	// Namespaces are the namespaces whose hosts are watched; empty means all. Nodes of other
	// namespaces may be in the same engine.
	Namespaces []string
	// Engine reads settings and firmware.
	Engine provisioner.FirmwareReader
	// Recorder publishes events.
	Recorder events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// Reconciler keeps the firmware objects of hosts.
type Reconciler struct {
	Config

	objects    objects
	settings   settings
	components components
	memory     *memory
}

// New returns a reconciler.
func New(config Config) *Reconciler {
	objects := objects{client: config.Client, live: config.Live}
	return &Reconciler{
		Config: config, objects: objects,
		settings: settings{
			objects: objects, engine: config.Engine, recorder: config.Recorder,
			schemas: schemas{client: config.Client, live: config.Live},
		},
		components: components{objects: objects, engine: config.Engine, recorder: config.Recorder},
		memory:     &memory{hosts: map[types.NamespacedName]recollection{}},
	}
}

// pass is what the reconciler knows of a host in one pass.
type pass struct {
	// host is the cache's own object and must not be changed.
	host *v1alpha1.BareMetalHost
	// node is the node of the host.
	node provisioner.Node
	// now is the time of the pass.
	now time.Time
}

// Reconcile runs one pass for the host of that name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var host v1alpha1.BareMetalHost
	if err := r.Client.Get(ctx, req.NamespacedName, &host, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.memory.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if host.IsPaused() || !host.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	retryPolicy, policyErr := outcome(host.UID, r.adoptPolicy(ctx, &host))
	n, linked := r.nodeOf(&host)
	if !linked {
		return ctrl.Result{RequeueAfter: retryPolicy}, policyErr
	}
	p := pass{host: &host, node: n, now: r.Now()}
	known := r.memory.of(req.NamespacedName)
	known.note(n)
	settingsWait, settingsErr := r.settings.reconcile(ctx, p, &known.settings)
	componentsWait, componentsErr := r.components.reconcile(ctx, p, &known.components)
	r.memory.put(req.NamespacedName, known)
	retrySettings, settingsErr := outcome(host.UID, settingsErr)
	retryComponents, componentsErr := outcome(host.UID, componentsErr)
	wait := requeue.Soonest(retryPolicy, settingsWait, componentsWait, retrySettings, retryComponents)
	if err := errors.Join(policyErr, settingsErr, componentsErr); err != nil {
		return ctrl.Result{}, fmt.Errorf("firmware of host %s: %w", req, err)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// nodeOf returns the node of a host with a BMC. Others may write the node's ID into the host's
// status, so the node counts only if it has the host's mark.
func (r *Reconciler) nodeOf(host *v1alpha1.BareMetalHost) (provisioner.Node, bool) {
	id := host.Status.Provisioning.ID
	if !host.HasBMC() || id == "" {
		return provisioner.Node{}, false
	}
	n, known := r.NodeCache.Node(id)
	return n, known && n.Mark == provisioner.MarkOf(r.Cluster, host.Namespace, host.Name)
}

// adoptPolicy makes the host the owner of its HostUpdatePolicy.
func (r *Reconciler) adoptPolicy(ctx context.Context, host *v1alpha1.BareMetalHost) error {
	var policy v1alpha1.HostUpdatePolicy
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(host), &policy); err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.objects.adopt(ctx, &policy, host)
}

// outcome turns an error that passes by itself into the wait before the next attempt. It returns
// all other errors.
func outcome(host types.UID, err error) (time.Duration, error) {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, provisioner.ErrNotFound):
		return 0, nil // the operator stops, or the next change of the node brings a pass
	case apierrors.IsConflict(err):
		return requeue.Soon, nil
	case errors.Is(err, provisioner.ErrBusy):
		return requeue.WhileBusy(1, string(host)), nil
	case errors.Is(err, provisioner.ErrUnreachable):
		return requeue.Spread(requeue.Unreachable, requeue.Unreachable/2, string(host), 0), nil
	default:
		return 0, err
	}
}
