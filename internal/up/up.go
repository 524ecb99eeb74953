// Package up runs all of Ingot on one machine: a Kubernetes API, the engine, the
// operator and simulated machines, with all data in one folder. It is for trials,
// demonstrations and story tests, not for production.
package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ingot-metal/ingot/config"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/lifecycle"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/instance"
)

// Simulated machines boot within seconds, and end with the process. So machines whose ramdisk is
// gone are soon started again, or their work fails and is repeated.
const (
	bootRetryTimeout = time.Minute
	callbackTimeout  = 3 * time.Minute
)

// defaultAgentTimeout is short, so that machines soon get a new token after a restart.
const defaultAgentTimeout = 30 * time.Second

// Options say what to run.
type Options struct {
	Machines   int    // simulated machines that nobody registered; 0 for none
	BMCs       int    // simulated machines with BMCs, powered off; 0 for none
	Seed       uint64 // of the machines' hardware
	DataDir    string
	Kubeconfig string // of a cluster to use; empty starts one
	Listen     string // of the engine; empty means 127.0.0.1:6385, port 0 any free port
	// Network is the network of the machines' and BMCs' addresses on loopback: IPv4, with a prefix
	// of at most 22 bits. The zero value means the simulator's default. Two runs at a time need two
	// networks.
	Network netip.Prefix
	// AgentTimeout is how long a ramdisk may be silent before it counts as gone;
	// 0 means 30s.
	AgentTimeout time.Duration
	// Speed is how many times faster than a real machine each machine works. Heartbeats are not
	// accelerated. 0 means 1.
	Speed float64
	// Cluster makes a workload cluster of the machines that nobody registered, which must be at
	// least two. It includes ClusterAPI.
	Cluster bool
	// ClusterAPI also runs Cluster API and the controllers of its infrastructure. Deployed machines
	// become Nodes of the cluster that their user data names. It needs a control plane of its own.
	ClusterAPI bool
	// Heartbeat is how often such Nodes report that they are alive; 0 means 10 s.
	Heartbeat time.Duration
	// WithoutOperator leaves out the operator, for tests that run it in a process of its own.
	// Follow cannot be used then.
	WithoutOperator bool
	// Metrics is the loopback address, with its port, on which the operator serves its metrics to
	// everybody; empty means that it serves none.
	Metrics string
	// Volatile is the same as in controlplane.Options: for tests, which may share a slow disk.
	Volatile bool
	// RouteLogs gets the log for the Kubernetes libraries as soon as it is open. It affects the
	// whole process. nil leaves those logs where they go.
	RouteLogs func(*slog.Logger)
	Output    io.Writer
}

// errGivenCluster means that Cluster API is not installed in a cluster that belongs to somebody.
var errGivenCluster = errors.New("a given cluster gets no Cluster API; leave the kubeconfig out, or install Cluster API there yourself")

// errFewMachines means that there are too few machines for a control plane and a worker.
var errFewMachines = errors.New("a cluster needs at least 2 machines, one for its control plane")

// validate returns an error for options that cannot work.
func (o Options) validate() error {
	switch {
	case o.ClusterAPI && o.Kubeconfig != "":
		return errGivenCluster
	case o.Cluster && o.Machines < 2:
		return errFewMachines
	default:
		return nil
	}
}

// Up is a running Ingot.
type Up struct {
	opts     Options
	progress progress
	log      *slog.Logger
	parts    lifecycle.Stack
	failed   chan error

	config     *rest.Config
	kubeconfig string
	engine     *engine.Engine
	operator   *operator.Operator
	machines   *sim.Machines

	image    string // URL of an image for machines
	imageSum string // its SHA-256 checksum

	bmcMachines *sim.Machines // nil if there are none
	authority   string        // file with the CA of their BMCs
	manifest    string        // file with a host for the first machine that has a BMC

	instances *instance.Instances        // nil without Cluster API
	workload  *controlplane.ControlPlane // control plane of the cluster of Options.Cluster; nil without
}

// Start starts every part, one after the other, and returns when machines are being powered on.
// After an error, it leaves nothing running.
func Start(ctx context.Context, opts Options) (*Up, error) {
	if opts.AgentTimeout == 0 {
		opts.AgentTimeout = defaultAgentTimeout
	}
	if opts.Speed == 0 {
		opts.Speed = 1
	}
	if !opts.Network.IsValid() {
		opts.Network = hardware.DefaultNetwork
	}
	opts.ClusterAPI = opts.ClusterAPI || opts.Cluster
	if err := opts.validate(); err != nil {
		return nil, err
	}
	u := &Up{opts: opts, progress: newProgress(opts.Output), failed: make(chan error, 4)}
	for _, part := range []struct {
		name  string
		start func(context.Context) (string, error)
	}{
		{"Data folder", u.openData},
		{"Engine", u.startEngine},         // before the slow parts, because its port is often taken
		{"Workload API", u.startWorkload}, // before everything that connects to it, so that it stops last
		{"Kubernetes API", u.startCluster},
		{"Operator", u.startOperator},
		{"Discovery", u.applyDiscovery},
		{"Image", u.serveImage},
		{"Machines", u.startMachines},
		{"BMCs", u.startBMCs},
		{"Cluster", u.makeCluster},
	} {
		if err := u.start(ctx, part.name, part.start); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// start starts one part and prints the part's description, if there is one. If it fails, all parts
// that were started before are stopped.
func (u *Up) start(ctx context.Context, name string, start func(context.Context) (string, error)) error {
	begin := time.Now()
	return u.parts.Start(ctx, lifecycle.Part{Name: name, Start: func(ctx context.Context) error {
		detail, err := start(ctx)
		if err == nil && detail != "" {
			u.progress.ready(name, detail, time.Since(begin))
		}
		return err
	}})
}

// Config returns the client configuration of the cluster's administrator.
func (u *Up) Config() *rest.Config { return rest.CopyConfig(u.config) }

// EngineURL returns the URL of the engine.
func (u *Up) EngineURL() string { return u.engine.URL() }

// Machines returns the simulated machines without a BMC; nil if there are none.
func (u *Up) Machines() *sim.Machines { return u.machines }

// MachinesWithBMC returns the simulated machines with a BMC; nil if there are none.
func (u *Up) MachinesWithBMC() *sim.Machines { return u.bmcMachines }

// Instances returns the operating systems that run on the machines; nil without Cluster API.
func (u *Up) Instances() *instance.Instances { return u.instances }

// Image returns the URL of an image that machines boot from, and the image's SHA-256 checksum.
func (u *Up) Image() (url, checksum string) { return u.image, u.imageSum }

// Failed delivers an error if a part ends by itself. The other parts continue until Stop.
func (u *Up) Failed() <-chan error { return u.failed }

// Stop stops every part, in reverse order of their start, even if ctx has ended. The data stays.
func (u *Up) Stop(ctx context.Context) error { return u.parts.Stop(context.WithoutCancel(ctx)) }

// onStop registers a function for Stop to call, in reverse order of registration.
func (u *Up) onStop(name string, stop func(context.Context) error) {
	u.parts.Push(lifecycle.Part{Name: name, Stop: stop})
}

// openData creates the data folder and the log file. The log has everything that the terminal does
// not show.
func (u *Up) openData(context.Context) (string, error) {
	dir, err := filepath.Abs(u.opts.DataDir)
	if err != nil {
		return "", fmt.Errorf("find data folder: %w", err)
	}
	u.opts.DataDir = dir
	if _, err := os.Stat(u.manifestOfCluster()); u.opts.Cluster && err == nil {
		return "", fmt.Errorf("%w: %s", errEarlierCluster, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create data folder: %w", err)
	}
	path := filepath.Join(dir, "ingot.log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", fmt.Errorf("open log: %w", err)
	}
	u.onStop("log", func(context.Context) error { return file.Close() })
	u.log = slog.New(slog.NewTextHandler(file, nil))
	if u.opts.RouteLogs != nil {
		u.opts.RouteLogs(u.log.With("part", "operator"))
	}
	return path, nil
}

// startCluster starts the control plane, or connects to the cluster of
// Options.Kubeconfig, and installs the kinds.
func (u *Up) startCluster(ctx context.Context) (string, error) {
	lack := ""
	if u.opts.Kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", u.opts.Kubeconfig)
		if err != nil {
			return "", fmt.Errorf("read kubeconfig %s: %w", u.opts.Kubeconfig, err)
		}
		u.config, u.kubeconfig = cfg, u.opts.Kubeconfig
	} else {
		var err error
		if lack, err = u.startControlPlane(ctx); err != nil {
			return "", err
		}
	}
	if err := controlplane.InstallCRDs(ctx, u.config, config.CRDs); err != nil {
		return "", fmt.Errorf("install the kinds of Ingot in the cluster at %s: %w", u.config.Host, err)
	}
	return u.config.Host + lack, nil
}

// startControlPlane starts the installed programs of a control plane. Without
// kube-controller-manager, lack says what does not work.
func (u *Up) startControlPlane(ctx context.Context) (lack string, err error) {
	assets, err := controlplane.AssetsDir()
	if err != nil {
		return "", err
	}
	opts := controlplane.Options{
		DataDir: u.opts.DataDir, AssetsDir: assets, ControllerManager: controlplane.HasControllerManager(assets), ClusterAPI: u.opts.ClusterAPI,
		Volatile: u.opts.Volatile,
	}
	if !opts.ControllerManager && !opts.ClusterAPI {
		lack = " (without kube-controller-manager: a deleted namespace stays; `make controller-manager` builds it)"
	}
	plane, err := controlplane.Start(ctx, opts)
	if err != nil {
		return "", err
	}
	u.onStop("control plane", func(context.Context) error { return plane.Stop() })
	u.watch("Kubernetes API", plane.Failed())
	u.config, u.kubeconfig = plane.Config(), plane.Kubeconfig()
	return lack, nil
}

// engineConfig returns the configuration of the engine.
func (u *Up) engineConfig() engine.Config {
	cfg := engine.DefaultConfig()
	if u.opts.Listen != "" {
		cfg.API.Listen = u.opts.Listen
	}
	cfg.Database.Dir = filepath.Join(u.opts.DataDir, "engine")
	cfg.Agent.HeartbeatTimeout = u.opts.AgentTimeout
	cfg.Conductor.BootRetryTimeout, cfg.Conductor.CallbackTimeout = bootRetryTimeout, callbackTimeout
	cfg.Driver.EnabledHardwareTypes = []string{"manual-management", "redfish", "ipmi", "fake-hardware"}
	cfg.AutoDiscovery.Enabled = true
	cfg.AutoDiscovery.Driver = "manual-management"
	cfg.Inspector.RequireManagedBoot = false // the simulator starts ramdisks, not the engine
	cfg.Inspector.LoopbackNetworks = []string{u.opts.Network.String()}
	// The cleaning mode "metadata" of hosts must not erase whole disks.
	cfg.Conductor.EraseDevicesPriority, cfg.Conductor.EraseDevicesMetadataPriority = new(0), new(10)
	return cfg
}

func (u *Up) startEngine(ctx context.Context) (string, error) {
	cfg := u.engineConfig()
	if err := cfg.Validate(); err != nil {
		return "", err
	}
	var err error
	if u.engine, err = engine.Start(ctx, engine.Options{Config: cfg, Logger: u.log.With("part", "engine")}); err != nil {
		return "", err
	}
	u.onStop("engine", u.engine.Stop)
	u.watch("Engine", u.engine.Done())
	return u.engine.URL(), nil
}

func (u *Up) startOperator(ctx context.Context) (string, error) {
	if u.opts.WithoutOperator {
		return "left out", nil
	}
	groups, detail := operator.DefaultGroups(), "hosts, discovery, firmware"
	if u.opts.ClusterAPI {
		groups = append(groups, operator.GroupCluster, operator.GroupRemediation, operator.GroupAutoscale)
		detail += ", machines, recovery, scaling"
	}
	op, err := operator.New(operator.Options{
		Config: u.Config(), Controllers: groups, EngineURL: u.engine.URL(), AgentWindow: u.opts.AgentTimeout, PollInterval: pollInterval,
		MaxProvisioningFailures: maxProvisioningFailures, MaxServicingAttempts: maxServicingAttempts, Capacity: capacity,
		LocalImages: true, // everything is on this machine
		MetricsAddr: u.opts.Metrics, MetricsInsecure: u.opts.Metrics != "",
		Logger: u.log.With("part", "operator"),
	})
	if err != nil {
		return "", err
	}
	u.operator = op
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	ended := make(chan error, 1)
	u.onStop("operator", func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	go func() {
		err := <-done
		if err != nil && running.Err() == nil {
			u.failed <- fmt.Errorf("operator ended: %w", err)
		}
		ended <- nil
	}()
	return detail, nil
}

// watch forwards the first failure of a part to Failed.
func (u *Up) watch(name string, failed <-chan error) {
	stopped := make(chan struct{})
	u.onStop(name+" watch", func(context.Context) error { close(stopped); return nil })
	go func() {
		select {
		case err := <-failed:
			u.failed <- fmt.Errorf("%s ended: %w", name, err)
		case <-stopped:
		}
	}()
}
