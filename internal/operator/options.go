package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/ironic"
)

// Options configure an operator. Config is required. EngineURL or Engine is required for
// controllers that use the engine (see NeedEngine). Zero values of the other fields mean their
// defaults.
type Options struct {
	// Config says how to reach Kubernetes. It is copied.
	Config *rest.Config
	// Namespaces are the namespaces to watch; empty means all.
	Namespaces []string

	// EngineURL is the engine's address, such as http://127.0.0.1:6385.
	EngineURL string
	// EngineUser and EnginePassword switch HTTP basic authentication on.
	EngineUser, EnginePassword string
	// EngineCAFile is a PEM file of the authorities that may sign the engine's
	// certificate; empty means the system's. It is read again when it changes.
	EngineCAFile string
	// EngineInsecure turns verification of the engine's certificate off.
	EngineInsecure bool
	// Ramdisk is what the ramdisk boots from. It is for engines that do not have it in their own
	// configuration.
	Ramdisk ironic.Ramdisk
	// PersistentBoot says which boot devices of deployed machines are set persistently.
	PersistentBoot ironic.PersistentBoot
	// PreprovisioningImages has hosts ask for their ramdisk with a PreprovisioningImage.
	PreprovisioningImages bool
	// ExternalImageController says that another program serves the PreprovisioningImages.
	// Otherwise, the operator serves them with the images of Ramdisk, if it has any.
	ExternalImageController bool
	// LocalImages passes URLs of images and firmware to the engine even if they lead to the
	// engine's own machine or its link. Everybody who may write hosts can then read what that
	// machine serves, with the engine's rights.
	LocalImages bool
	// Engine is used instead of the engine at EngineURL.
	Engine provisioner.Engine

	// Controllers are the groups of controllers to run; empty means those of
	// DefaultGroups.
	Controllers []string
	// LeaderElection runs each group in one replica only.
	LeaderElection bool
	// LeaderElectionNamespace is where the leases are. It is required with
	// LeaderElection.
	LeaderElectionNamespace string
	// LeaseDuration is how long others respect a lease that its holder does not renew; 15 s.
	// RenewDeadline is how long the holder tries to renew it before it stops; 10 s. RetryPeriod is
	// the time between two tries; 2 s. Each has to be longer than the next.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// AllowUpstream starts the host controllers although Metal3's own operator leads in
	// the cluster.
	AllowUpstream bool

	// KubeQPS and KubeBurst bound the requests to the API server: per second, and at once. 0 means
	// what Config says or, if it says nothing, 1,000 and 2,000.
	KubeQPS   float32
	KubeBurst int

	// Webhook says how webhooks are served.
	Webhook WebhookOptions

	// PollInterval is the time between two polls of the engine; 5 s.
	PollInterval time.Duration
	// AgentWindow is how long after its last heartbeat a ramdisk can be given work; 5 min. It
	// should equal the engine's own fast-track timeout.
	AgentWindow time.Duration
	// MaxBackoff is the longest wait between two attempts after errors; 30 min.
	MaxBackoff time.Duration
	// MaxProvisioningFailures is how often the same image may fail to deploy before the host is
	// left available with an error; 0 means no limit.
	MaxProvisioningFailures int
	// MaxServicingAttempts is how often the same live update is tried before the host is left as it
	// is until something changes; 0 means no limit.
	MaxServicingAttempts int
	// Capacity is the number of machines with a network-booted ramdisk that the engine works on at
	// once; 0 means no limit.
	Capacity int
	// Concurrency is the number of hosts reconciled at the same time; 16.
	Concurrency int

	// WatchFilter is the value that the label cluster.x-k8s.io/watch-filter of an object needs for
	// the groups of Cluster API to work on that object; empty means all objects.
	WatchFilter string
	// AddressClaimsByHost names claims for IP addresses after the host and the pool, so that pools
	// can keep addresses for hosts. Otherwise they are named after the Metal3Data and the pool.
	AddressClaimsByHost bool
	// FastTrack leaves hosts powered on when Metal3Machines release them, unless cleaning is
	// disabled for the host.
	FastTrack bool
	// NodeReuseWait is how long a machine waits for a host that is reserved for its owner, and how
	// long such a host waits for a machine; 0 means no limit.
	NodeReuseWait time.Duration
	// RemediationBudget is how many hosts of a cluster may be fenced at once; 0 means 1.
	RemediationBudget int
	// RemediationNodeTimeout is how long health checks stay suspended while the Node of a fenced
	// machine is to come back; 0 means 20 min.
	RemediationNodeTimeout time.Duration
	// RemediationExtraActions allows actions beyond the specification of recovery by annotation.
	RemediationExtraActions bool

	// MetricsAddr and HealthAddr are the addresses on which metrics and probes are served; empty
	// means that they are not served.
	MetricsAddr, HealthAddr string
	// MetricsInsecure serves metrics over plain HTTP and without authentication. This works on
	// loopback only.
	MetricsInsecure bool
	// MetricsCertDir is a folder with tls.crt and tls.key for metrics. They are read again when
	// they change. Empty means a self-signed certificate, a new one at each start.
	MetricsCertDir string
	// Logger gets the log; nil means slog's default.
	Logger *slog.Logger
}

// Groups of controllers. Each has its own leader lease and uses its own
// service account when it runs alone.
const (
	// GroupHost is the controllers of BareMetalHost and of the kinds that belong to hosts:
	// DataImage, PreprovisioningImage, BMCEventSubscription and HardwareClassification.
	GroupHost = "host"
	// GroupDiscovery is the controller of BareMetalHostDiscovery.
	GroupDiscovery = "discovery"
	// GroupFirmware is the controller of HostFirmwareSettings and HostFirmwareComponents.
	GroupFirmware = "firmware"
	// GroupCluster is the controllers of Cluster API's infrastructure: of Metal3Cluster,
	// Metal3Machine, Metal3Data and its templates and claims, of the status of
	// Metal3MachineTemplate, and of reservations of hosts.
	GroupCluster = "cluster"
	// GroupRemediation is the controllers that recover machines.
	GroupRemediation = "remediation"
	// GroupAutoscale is the controller that scales MachineSets and MachineDeployments to hosts.
	GroupAutoscale = "autoscale"
	// NoControllers, as the only name, is for a process that only serves webhooks. It needs no
	// engine.
	NoControllers = "none"
)

var (
	// groups are all groups in the order in which they start.
	groups = []string{GroupHost, GroupDiscovery, GroupFirmware, GroupCluster, GroupRemediation, GroupAutoscale}
	// engineGroups are the groups that use the engine. The others need Cluster API's kinds instead.
	engineGroups = []string{GroupHost, GroupDiscovery, GroupFirmware}
)

// DefaultGroups returns the groups of controllers that run if none are chosen: those that need no
// kinds but Ingot's own.
func DefaultGroups() []string { return slices.Clone(engineGroups) }

// NeedEngine reports whether one of these groups of controllers uses the engine.
func NeedEngine(controllers []string) bool {
	return slices.ContainsFunc(controllers, func(name string) bool { return slices.Contains(engineGroups, name) })
}

// setDefaults sets missing values and returns an error for options that cannot work.
func (o *Options) setDefaults() error {
	if o.Config == nil {
		return errors.New("the operator needs to know how to reach Kubernetes")
	}
	withoutControllers := slices.Equal(o.Controllers, []string{NoControllers})
	if withoutControllers && o.Webhook.Port == 0 {
		return errors.New("an operator without controllers needs a port for webhooks; it has nothing to do")
	}
	if o.LeaderElection && o.LeaderElectionNamespace == "" {
		return errors.New("leader election needs a namespace for its leases")
	}
	switch {
	case withoutControllers:
		o.Controllers = nil
	case len(o.Controllers) == 0:
		o.Controllers = DefaultGroups()
	}
	if err := checkControllers(o.Controllers); err != nil {
		return err
	}
	if NeedEngine(o.Controllers) && o.EngineURL == "" && o.Engine == nil {
		return errors.New("the operator needs the URL of an engine, such as http://127.0.0.1:6385")
	}
	o.setLeaseDefaults()
	if err := errors.Join(o.checkLeases(), o.checkLimits(), o.checkMetrics(), o.PersistentBoot.Check(), o.Webhook.setDefaults()); err != nil {
		return err
	}
	setDefault(&o.PollInterval, 5*time.Second)
	setDefault(&o.AgentWindow, 5*time.Minute)
	setDefault(&o.MaxBackoff, 30*time.Minute)
	if o.Concurrency <= 0 {
		o.Concurrency = 16
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}

func (o *Options) setLeaseDefaults() {
	setDefault(&o.LeaseDuration, leaseDuration)
	setDefault(&o.RenewDeadline, renewDeadline)
	setDefault(&o.RetryPeriod, retryPeriod)
}

// checkLeases returns an error for times with which no leader can be elected. The API counts lease
// durations in whole seconds.
func (o *Options) checkLeases() error {
	switch {
	case o.LeaseDuration < time.Second:
		return fmt.Errorf("the duration of leader leases, %s, has to be at least a second", o.LeaseDuration)
	case o.LeaseDuration <= o.RenewDeadline:
		return fmt.Errorf("the duration of leader leases, %s, has to be longer than the deadline for their renewal, %s", o.LeaseDuration, o.RenewDeadline)
	case float64(o.RenewDeadline) <= leaderelection.JitterFactor*float64(o.RetryPeriod):
		return fmt.Errorf("the deadline for the renewal of leader leases, %s, has to be longer than %v times the time between two tries, %s",
			o.RenewDeadline, leaderelection.JitterFactor, o.RetryPeriod)
	}
	return nil
}

// checkLimits returns an error for negative limits and for a watch filter that no label can have.
func (o *Options) checkLimits() error {
	if o.KubeQPS < 0 || o.KubeBurst < 0 {
		return fmt.Errorf("limits of requests to the API server: want more than 0, got %v in a second and %d at once", o.KubeQPS, o.KubeBurst)
	}
	if errs := validation.IsValidLabelValue(o.WatchFilter); len(errs) > 0 {
		return fmt.Errorf("watch filter %q: no label can have this value: %s", o.WatchFilter, strings.Join(errs, "; "))
	}
	if o.RemediationBudget < 0 || o.RemediationNodeTimeout < 0 {
		return fmt.Errorf("limits of remediation: want more than 0, got %d hosts at once and %s for a Node", o.RemediationBudget, o.RemediationNodeTimeout)
	}
	return nil
}

// limit sets the limits of requests to the API server in a client configuration.
func (o *Options) limit(config *rest.Config) {
	if config.QPS == 0 {
		config.QPS, config.Burst = apiQPS, apiBurst
	}
	if o.KubeQPS > 0 {
		config.QPS = o.KubeQPS
	}
	if o.KubeBurst > 0 {
		config.Burst = o.KubeBurst
	}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// checkControllers returns an error for names that are no groups of controllers.
func checkControllers(names []string) error {
	for _, name := range names {
		if !slices.Contains(groups, name) {
			return fmt.Errorf("there are no controllers %q; this version has %s", name, strings.Join(groups, ", "))
		}
	}
	return nil
}
