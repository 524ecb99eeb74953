// Package host is the controller of BareMetalHost. It manages hosts from their creation to their
// deletion, with or without a BMC.
//
// A pass loads the host and runs the guards in their order until one of them stops the pass. Then
// it runs the handler of the host's provisioning state. A deletion that gets no further goes on
// without the phase that failed. A machine that has to be off is powered off if none of these has
// looked after its power. Finally the pass computes the conditions and writes the host with at most
// two patches: first the status, then labels, annotations, finalizers and spec. Other objects, such
// as HardwareData, Secrets and HostFirmwareComponents, are written before that.
//
// Requests to the engine are repeatable, because a pass whose write is refused starts over. What
// must not be repeated is recorded in the status before it is requested. Decisions are functions of
// values without side effects and are called decide…; effects are in the phases.
package host

import (
	"context"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// nodeView is the shared cache of the engine's nodes.
type nodeView interface {
	AgentWindow() time.Duration
	Node(id string) (provisioner.Node, bool)
	Fetch(ctx context.Context, id string) (provisioner.Node, error)
	Reread(ctx context.Context, id string) (provisioner.Node, error)
	Note(n provisioner.Node)
	Expect()
	Forget(id string)
	Find(ctx context.Context, identity provisioner.Identity, claimed func(id string) bool) (provisioner.Node, error)
	WithBMC(ctx context.Context, addr netip.Addr) ([]string, error)
}

// inventoryReader reads the inventory of a node.
type inventoryReader interface {
	Inventory(ctx context.Context, id string) (*provisioner.Inventory, error)
}

// engine is the part of an engine that the phases use.
type engine interface {
	inventoryReader
	provisioner.Registrar
	provisioner.Identifier
	provisioner.Lifecycle
	provisioner.Worker
	provisioner.PowerController
	provisioner.MediaController
	provisioner.FirmwareReader
	// Version is as in [provisioner.Reader].
	Version(ctx context.Context) (string, error)
}

// Config is what a reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server. The cache needs the indexes
	// that IndexFields registers.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// NodeCache is the shared cache of the engine's nodes.
	NodeCache nodeView
	// Cluster identifies the Kubernetes cluster in the marks of nodes: the UID of
	// its namespace kube-system.
	Cluster string
	// Engine changes nodes.
	Engine engine
	// Readings are the hardware details that discovery has read in this process; nil for none.
	Readings *hardware.Readings
	// Recorder publishes events.
	Recorder events.EventRecorder
	// Metrics counts outcomes.
	Metrics *Metrics
	// MaxBackoff is the longest wait between two attempts after errors.
	MaxBackoff time.Duration
	// MaxProvisioningFailures is how often the same image is tried; 0 is no limit.
	MaxProvisioningFailures int
	// MaxServicingAttempts is how often the same live update is tried; 0 is no limit.
	MaxServicingAttempts int
	// Capacity is the number of machines that the engine works on at once; 0 is no limit.
	Capacity int
	// PreprovisioningImages makes hosts ask for their ramdisk with a PreprovisioningImage. They do
	// not use the engine's own ramdisk then.
	PreprovisioningImages bool
	// ImageController says that somebody serves PreprovisioningImages: this operator or another
	// program. If it is false, nobody else removes the finalizer of the image controller from the
	// images of deleted hosts.
	ImageController bool
	// Now is the clock.
	Now func() time.Time
}

// phase is one step of a pass. It changes the scope's host and may stop the
// pass.
type phase interface {
	reconcile(ctx context.Context, s *scope) (result, error)
}

// Reconciler brings hosts to the state that their specs ask for.
type Reconciler struct {
	Config
	memos

	guards    []phase
	handlers  map[v1alpha1.ProvisioningState]phase
	ending    ending
	holding   holding
	heldWork  heldWork
	slots     capacity
	releasing releasing
	data      hardwareData
	secrets   credentials
}

// New returns a reconciler.
func New(config Config) *Reconciler {
	r := &Reconciler{Config: config}
	owners := ownership{
		links:   links{client: config.Client, nodes: config.NodeCache},
		cluster: config.Cluster, engine: config.Engine,
	}
	data := hardwareData{client: config.Client, live: config.Live}
	r.data = data
	others := otherHosts{hosts: duplicate.Finder{Cache: config.Client, Live: config.Live}, owners: owners}
	secrets := credentials{client: config.Client, live: config.Live, maxBackoff: config.MaxBackoff, metrics: config.Metrics}
	r.secrets = secrets
	register := registration{
		engine: config.Engine, others: others,
		inputs: deploymentInputs{live: config.Live, metrics: config.Metrics}, images: config.ramdisks(),
		nodes: config.NodeCache, owners: owners, applied: &r.applied, metrics: config.Metrics, maxBackoff: config.MaxBackoff,
		identity: identity{engine: config.Engine, turns: &turns{taken: map[string]int{}}, answers: &r.answers, maxBackoff: config.MaxBackoff},
		details:  details{engine: config.Engine, readings: config.Readings},
	}
	r.ending = ending{metrics: config.Metrics, maxBackoff: config.MaxBackoff}
	r.releasing = releasing{owners: owners, client: config.Client}
	r.guards = []phase{
		dataVersions{client: config.Client},
		restoring{data: data, owners: owners, readings: config.Readings, maxBackoff: config.MaxBackoff, metrics: config.Metrics},
		claiming{},
		deletion{metrics: config.Metrics},
		detaching{owners: owners, maxBackoff: config.MaxBackoff},
		entering{},
		secrets,
		register,
		rebootRequests{},
		suppliedDetails{data: data},
		linked{owners: owners},
	}
	r.handlers = r.handlersOf(owners, data, secrets, register)
	return r
}

// handlersOf are the handlers of the provisioning states.
func (r *Reconciler) handlersOf(owners ownership, data hardwareData, secrets credentials, register registration) map[v1alpha1.ProvisioningState]phase {
	config := r.Config
	slots := capacity{
		client: config.Client, nodes: config.NodeCache, metrics: config.Metrics, limit: config.Capacity, maxBackoff: config.MaxBackoff,
		granted: &granted{hosts: map[types.UID]time.Time{}}, now: config.Now,
	}
	r.slots = slots
	engineWork := work{engine: config.Engine, slots: slots, maxBackoff: config.MaxBackoff, metrics: config.Metrics}
	drives := media{client: config.Client, live: config.Live, engine: config.Engine, nodes: config.NodeCache, maxBackoff: config.MaxBackoff}
	steer := power{engine: config.Engine, media: drives, maxBackoff: config.MaxBackoff, metrics: config.Metrics}
	collector := details{engine: config.Engine, readings: config.Readings}
	r.holding = holding{owners: owners, power: steer}
	r.heldWork = heldWork{live: config.Live, maxBackoff: config.MaxBackoff}
	find := lookup{owners: owners, others: register.others, metrics: config.Metrics}
	updates := updater{client: config.Client, engine: config.Engine}
	prepare := preparing{work: engineWork, updater: updates}
	idle := available{power: steer, slots: slots, updater: updates, maxFailures: config.MaxProvisioningFailures}
	live := liveUpdate{work: engineWork, updater: updates, media: drives, maxAttempts: config.MaxServicingAttempts, metrics: config.Metrics}
	use := provisioned{work: engineWork, power: steer, live: live}
	return map[v1alpha1.ProvisioningState]phase{
		v1alpha1.StateNone:                    find,
		v1alpha1.StateUnmanaged:               find,
		v1alpha1.StateImporting:               importing{details: collector, maxBackoff: config.MaxBackoff},
		v1alpha1.StateRegistering:             registering{work: engineWork, registration: register},
		v1alpha1.StateInspecting:              inspecting{work: engineWork, details: collector},
		v1alpha1.StateMatchProfile:            prepare,
		v1alpha1.StatePreparing:               prepare,
		v1alpha1.StateReady:                   idle,
		v1alpha1.StateAvailable:               idle,
		v1alpha1.StateProvisioning:            provisioning{work: engineWork, inputs: deploymentInputs{live: config.Live, metrics: config.Metrics}, media: drives},
		v1alpha1.StateProvisioned:             use,
		v1alpha1.StateExternallyProvisioned:   use,
		v1alpha1.StateDeprovisioning:          deprovisioning{work: engineWork, nodes: config.NodeCache},
		v1alpha1.StatePoweringOffBeforeDelete: poweringOff{engineWork},
		v1alpha1.StateDeleting: deleting{
			owners: owners, data: data,
			credentials: secrets, images: config.ramdisks(), metrics: config.Metrics, maxBackoff: config.MaxBackoff,
		},
	}
}

// ramdisks asks for the ramdisks of hosts.
func (c Config) ramdisks() ramdiskImages {
	return ramdiskImages{enabled: c.PreprovisioningImages, served: c.ImageController, client: c.Client, live: c.Live}
}

// Reconcile runs one pass for one host.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var host v1alpha1.BareMetalHost
	if err := r.Client.Get(ctx, req.NamespacedName, &host); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.written.after(&host) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if host.IsPaused() {
		return r.releasing.reconcile(ctx, &host)
	}
	count(r.Metrics.reconciles, &host)
	s := newScope(&host, r.Now(), r.NodeCache.AgentWindow())
	s.failedRegistration, _ = r.hiddenFailures.get(host.UID)
	res, err := r.run(ctx, s)
	return r.finish(ctx, s, res, err)
}

func (r *Reconciler) run(ctx context.Context, s *scope) (result, error) {
	res, err := r.phases(ctx, s)
	res, err = r.ending.reconcile(s, res, err)
	return r.holding.reconcile(ctx, s, res, err)
}

// phases runs the guards and the handlers.
func (r *Reconciler) phases(ctx context.Context, s *scope) (result, error) {
	var res result
	for _, p := range r.guards {
		next, err := p.reconcile(ctx, s)
		res.requeueAfter = requeue.Soonest(res.requeueAfter, next.requeueAfter)
		if err != nil || next.stop {
			return res, err
		}
	}
	for {
		from := s.state()
		next, err := r.handle(ctx, s)
		if err != nil || !s.goesOn(from) {
			res.requeueAfter = requeue.Soonest(res.requeueAfter, next.requeueAfter)
			return res, err
		}
		s.progress = nil
	}
}

// handle runs the handler of the host's state.
func (r *Reconciler) handle(ctx context.Context, s *scope) (result, error) {
	handler, known := r.handlers[s.state()]
	if deletedStates[s.state()] && s.host.DeletionTimestamp.IsZero() {
		s.waiting("State %q is that of a host which is deleted, and this one is not; the host is not changed", s.state())
		return result{}, nil
	}
	if !known {
		s.waiting("State %q is not known to this version; the host is not changed", s.state())
		return result{}, nil
	}
	if waits, res, err := r.heldWork.waits(ctx, s); waits {
		return res, err
	}
	if s.fulfilsFirst() {
		return stoppedFor(soon), nil
	}
	return handler.reconcile(ctx, s)
}

// joined are the changes of state after which a pass goes on with the handler of the new state.
// Nothing has to be stored between the two: the engine knows what the old state found, and the
// first request of the new state can be repeated or is recorded by this write before it is sent.
// The end of an inspection is not among them. It has to be stored before the disks are cleaned: the
// node is available afterwards, and a host that still shows the inspection would be inspected and
// cleaned once more.
var joined = map[v1alpha1.ProvisioningState]v1alpha1.ProvisioningState{
	v1alpha1.StateNone:         v1alpha1.StateImporting, // only if the annotation of the stored host names its node
	v1alpha1.StateImporting:    v1alpha1.StatePreparing,
	v1alpha1.StateRegistering:  v1alpha1.StateInspecting,
	v1alpha1.StateMatchProfile: v1alpha1.StatePreparing,
	v1alpha1.StatePreparing:    v1alpha1.StateAvailable,
	v1alpha1.StateReady:        v1alpha1.StateAvailable,
}

// goesOn reports whether a pass that was in a state goes on in the one that the host is in now. It
// does not when the pass changed the architecture of a host with a BMC: the node may need another
// ramdisk then, which a guard asks for.
func (s *scope) goesOn(from v1alpha1.ProvisioningState) bool {
	to, known := joined[from]
	if s.host.HasBMC() && s.host.Spec.Architecture != s.before.Spec.Architecture {
		return false
	}
	return known && s.state() == to && s.node != nil && s.host.DeletionTimestamp.IsZero()
}

// deletedStates are the states of hosts that are being deleted, and of no others.
var deletedStates = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StatePoweringOffBeforeDelete: true,
	v1alpha1.StateDeleting:                true,
}
