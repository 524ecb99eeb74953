// Package operator runs Ingot's Kubernetes side: groups of controllers that
// share one cache of the API server and one cache of the engine's nodes.
//
// It reaches the engine over the Bare Metal API only, so that the engine may be
// upstream Ironic.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	client "github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator/breaker"
	"github.com/ingot-metal/ingot/internal/operator/classification"
	"github.com/ingot-metal/ingot/internal/operator/firmware"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/ironic"
	"github.com/ingot-metal/ingot/internal/operator/watch"
	"github.com/ingot-metal/ingot/internal/webhook"
)

const (
	// apiQPS and apiBurst bound requests to the API server, unless the client configuration does.
	// If a thousand machines are powered on, they become hosts with some 6,000 requests within
	// seconds. The API server's own fairness takes care of the rest.
	apiQPS, apiBurst = 1000, 2000
	// stopTimeout bounds how long controllers may take to stop.
	stopTimeout = 10 * time.Second
	// readCluster waits at most namespaceTimeout for a namespace that every cluster has, and reads
	// it every namespacePoll.
	namespacePoll, namespaceTimeout = 100 * time.Millisecond, 30 * time.Second
)

// Operator is a set of controllers, ready to run.
type Operator struct {
	opts     Options
	config   *rest.Config
	manager  manager.Manager
	nodes    *nodecache.Cache
	engine   provisioner.Engine
	cluster  string // set by Run before the controllers are built
	registry *prometheus.Registry
	readings *hardware.Readings // discovery fills it, and the host controller reads it
}

// New builds an operator. It asks Kubernetes which kinds it serves, and sends nothing to the
// engine. An error means that opts cannot work or that the cluster does not answer.
func New(opts Options) (*Operator, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	o := &Operator{opts: opts, config: rest.CopyConfig(opts.Config), engine: opts.Engine, registry: prometheus.NewRegistry(), readings: hardware.NewReadings()}
	opts.limit(o.config)
	o.config.WarningHandlerWithContext = &warnings{logger: opts.Logger}
	needsEngine := NeedEngine(opts.Controllers)
	if needsEngine && o.engine == nil {
		if err := o.connect(); err != nil {
			return nil, err
		}
	}
	if err := o.newManager(); err != nil {
		return nil, err
	}
	if err := o.addWebhooks(); err != nil {
		return nil, err
	}
	if len(opts.Controllers) == 0 {
		return o, nil
	}
	if needsEngine {
		if err := o.addEngine(); err != nil {
			return nil, err
		}
	}
	for _, name := range groups {
		if !slices.Contains(opts.Controllers, name) {
			continue
		}
		if err := o.addGroup(name); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// connect makes the client of the engine. It sends no request.
func (o *Operator) connect() error {
	c, err := client.New(client.Options{
		Endpoint: o.opts.EngineURL, Username: o.opts.EngineUser, Password: o.opts.EnginePassword,
		CAFile: o.opts.EngineCAFile, Insecure: o.opts.EngineInsecure, UserAgent: "ingot-operator", Logger: o.opts.Logger,
	})
	if err != nil {
		return fmt.Errorf("reach the engine: %w", err)
	}
	o.engine = ironic.New(c, ironic.Options{Ramdisk: o.opts.Ramdisk, PersistentBoot: o.opts.PersistentBoot})
	return nil
}

// addEngine adds the breaker and the cache of nodes through which all controllers use the engine.
func (o *Operator) addEngine() error {
	guarded := breaker.New(o.engine, breaker.Options{})
	o.engine = guarded
	if !o.opts.LocalImages {
		o.engine = remoteImages{guarded}
	}
	o.nodes = nodecache.New(guarded, nodecache.Options{
		Interval: o.opts.PollInterval, AgentWindow: o.opts.AgentWindow, Logger: o.opts.Logger,
	})
	guarded.OnRecovery(o.nodes.Wake)
	return errors.Join(o.manager.Add(o.nodes), o.manager.Add(guarded))
}

// stripped removes from an object what the cache need not keep. It decides by the type of the
// object. If the options of the cache named a kind instead, the cluster would have to serve that
// kind when the manager is made, and checkKinds waits for kinds only later.
func stripped(object any) (any, error) {
	for _, strip := range []toolscache.TransformFunc{cache.TransformStripManagedFields(), firmware.StripSettings, classification.StripHardware} {
		var err error
		if object, err = strip(object); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func (o *Operator) newManager() error {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), v1beta2.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme), ipamv1.AddToScheme(scheme), storagev1.AddToScheme(scheme)); err != nil {
		return err
	}
	namespaces := map[string]cache.Config{}
	for _, ns := range o.opts.Namespaces {
		namespaces[ns] = cache.Config{}
	}
	served, err := o.opts.metricsOptions()
	if err != nil {
		return err
	}
	stop := stopTimeout
	mgr, err := manager.New(o.config, manager.Options{
		Scheme: scheme,
		Logger: logr.FromSlogHandler(o.opts.Logger.Handler()),
		Cache: cache.Options{
			DefaultNamespaces: namespaces, DefaultTransform: stripped,
			ByObject: map[ctrlclient.Object]cache.ByObject{&corev1.Secret{}: {Transform: watch.StripSecret}},
		},
		Metrics:                 served,
		HealthProbeBindAddress:  addrOrOff(o.opts.HealthAddr),
		GracefulShutdownTimeout: &stop,
		Controller:              ctrlconfig.Controller{},
	})
	if err != nil {
		return fmt.Errorf("reach Kubernetes at %s: %w", o.config.Host, err)
	}
	o.manager = mgr
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	)
}

// addrOrOff replaces an empty address by "0", controller-runtime's value for no address.
func addrOrOff(addr string) string {
	if addr == "" {
		return "0"
	}
	return addr
}

// addGroup adds the controllers of a group, with their own lease if leader election is on.
func (o *Operator) addGroup(name string) error {
	build, err := o.builder(name)
	if err != nil {
		return err
	}
	g := &group{name: name, build: build}
	if o.opts.LeaderElection {
		g.lease = &leaseOptions{
			config: o.config, namespace: o.opts.LeaderElectionNamespace, name: leasePrefix + name,
			duration: o.opts.LeaseDuration, renewDeadline: o.opts.RenewDeadline, retryPeriod: o.opts.RetryPeriod,
		}
	}
	return o.manager.Add(g)
}

// Run runs the controllers until ctx ends, and then returns nil. It returns an error if it cannot
// continue: an address is in use, a CRD is missing, another operator manages the hosts, or a lease
// was lost. Run may be called once.
func (o *Operator) Run(ctx context.Context) error {
	if err := o.checkKinds(ctx); err != nil {
		return err
	}
	if o.opts.Webhook.Port != 0 || slices.Contains(o.opts.Controllers, GroupHost) {
		if err := webhook.IndexFields(ctx, o.manager.GetFieldIndexer()); err != nil {
			return err
		}
	}
	if slices.Contains(o.opts.Controllers, GroupHost) {
		if err := o.prepareHosts(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(o.opts.Controllers, marksNodes) {
		if err := o.readCluster(ctx); err != nil {
			return err
		}
	}
	// The metrics server serves controller-runtime's registry, which is global. If a process has
	// several operators, the metrics of the first one are shown.
	if metrics.Registry.Register(o.registry) == nil {
		defer metrics.Registry.Unregister(o.registry)
	}
	err := o.manager.Start(ctx)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		o.opts.Logger.Warn("Stopped before all controllers had ended", slog.Any("error", err)) // see lead
		return nil
	}
	if err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

// prepareHosts checks that the host controllers may run in this cluster, and registers the indexes
// that they need.
func (o *Operator) prepareHosts(ctx context.Context) error {
	if !o.opts.AllowUpstream {
		if err := o.checkUpstream(ctx); err != nil {
			return err
		}
	}
	if err := o.checkDefinition(ctx); err != nil {
		return err
	}
	return o.indexChildren(ctx)
}

// readCluster reads the UID that identifies the cluster in the marks of nodes. A new API server
// creates the namespace some moments after its start.
func (o *Operator) readCluster(ctx context.Context) error {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	err := wait.PollUntilContextTimeout(ctx, namespacePoll, namespaceTimeout, true, func(ctx context.Context) (bool, error) {
		err := o.manager.GetAPIReader().Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, namespace)
		return err == nil, ctrlclient.IgnoreNotFound(err)
	})
	switch {
	case ctx.Err() != nil:
		return nil // the manager ends at once
	case err != nil:
		return fmt.Errorf("read namespace %s, whose UID marks the nodes of this cluster: %w", metav1.NamespaceSystem, err)
	}
	o.cluster = string(namespace.UID)
	return nil
}

// RouteLogs makes the Kubernetes libraries log through logger. It affects the whole process. Call
// it once, early.
func RouteLogs(logger *slog.Logger) {
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetSlogLogger(logger)
}
