// Package controlplane runs a real Kubernetes API on this machine: etcd, kube-apiserver and, on
// demand, kube-controller-manager and the managers of Cluster API, as children of this process.
// "ingot up" keeps one in its data folder; tests run one in a temporary folder.
//
// The data folder is persistent. It has etcd's data, the certificate authority and the service
// account key, so a stopped control plane starts again with the same objects, and the same
// kubeconfig works. All listeners are on loopback, except for those of Cluster API's webhooks,
// which cannot be bound to an address. etcd answers only clients with certificates of the
// authority, and every file is private to its owner.
//
// The children end with this process, even if it is killed. No pod ever runs here, because there is
// no scheduler and no kubelet. Machines may join a control plane that is made for them
// ([WorkloadOptions]); their kubelets run elsewhere.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// startTimeout limits the start of the whole control plane. It takes 3 s on an idle machine with 2
// cores, and longer with Cluster API.
const startTimeout = 90 * time.Second

// Options configure a control plane.
type Options struct {
	// DataDir is the data folder. It is created if it does not exist. The control plane uses its
	// subfolder "controlplane" and the file "kubeconfig", which gives full access to the cluster.
	// Required.
	DataDir string
	// AssetsDir contains the programs. Empty means AssetsDir().
	AssetsDir string
	// Port is the API server's TCP port on 127.0.0.1. 0 means the port of the last start if it is
	// free, else any free port.
	Port int
	// ControllerManager also starts kube-controller-manager. It runs the controllers that work
	// without nodes: garbage collection of dependants, end of namespaces, default service accounts,
	// aggregated roles.
	ControllerManager bool
	// ClusterAPI also installs Cluster API and starts its core, kubeadm bootstrap and kubeadm
	// control plane managers. They have the rights that their releases give them and the default
	// feature gates. It includes ControllerManager, because the managers need aggregated roles and
	// the collection of dependants.
	ClusterAPI bool
	// Workload makes this the control plane of a workload cluster, which machines join. Nil means
	// that it has no nodes. It includes ControllerManager.
	Workload *WorkloadOptions
	// Volatile is for tests, whose data is not needed afterwards: etcd answers before its data is
	// on disk, and Stop kills the programs at once.
	Volatile bool
}

// ControlPlane is a running control plane. Its methods may be used by several
// goroutines.
type ControlPlane struct {
	dir        dataDir
	assets     string
	ca         authority
	config     *rest.Config
	volatile   bool
	clusterAPI bool
	workload   *WorkloadOptions
	processes  []*process // in the order of their start
	watchers   sync.WaitGroup
	stopping   atomic.Bool
	failed     chan error
}

// Start starts a control plane. It returns when the API is ready, within 90 s or the end of ctx.
// The end of ctx after that does not stop the control plane: Stop does.
//
// Errors name the folder, port or program that they are about. They wrap ErrNoAssets if a program
// is missing, and ErrInUse if another process uses the data folder. After an error nothing is left
// running.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	assets, err := findAssets(opts)
	if err != nil {
		return nil, err
	}
	dir, err := openDataDir(opts.DataDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()

	c := &ControlPlane{dir: dir, assets: assets, volatile: opts.Volatile, clusterAPI: opts.ClusterAPI, workload: opts.Workload, failed: make(chan error, 1)}
	if err := c.start(ctx, opts); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	for _, p := range c.processes {
		c.watchers.Go(func() { c.watch(p) })
	}
	return c, nil
}

// needsControllerManager reports whether kube-controller-manager runs.
func (o Options) needsControllerManager() bool {
	return o.ControllerManager || o.ClusterAPI || o.Workload != nil
}

// findAssets returns the folder that has every program that opts need.
func findAssets(opts Options) (string, error) {
	dir := opts.AssetsDir
	if dir == "" {
		var err error
		if dir, err = AssetsDir(); err != nil {
			return "", err
		}
	}
	needed := []string{etcdProgram, apiServerProgram}
	if opts.needsControllerManager() {
		needed = append(needed, controllerManagerProgram)
	}
	if opts.ClusterAPI {
		for _, manager := range clusterAPIManagers {
			needed = append(needed, filepath.Join(clusterAPIFolder, manager))
		}
	}
	return dir, requireAssets(dir, needed...)
}

// start starts one program after the other. If it fails halfway, the programs that it has started
// are in c.processes.
func (c *ControlPlane) start(ctx context.Context, opts Options) error {
	choose := func() (int, error) { return choosePort(opts.Port, c.dir.lastPort()) }
	if _, err := choose(); err != nil {
		return err // before anything is started
	}
	if err := c.prepareWorkload(); err != nil {
		return fmt.Errorf("prepare the control plane of a workload cluster: %w", err)
	}
	if err := c.prepareKeys(time.Now()); err != nil {
		return fmt.Errorf("prepare certificates: %w; delete %s to start with an empty cluster", err, c.dir.own())
	}
	etcdPort, err := c.startOnPort(func() (int, error) { return freePort(0) }, func(port int) error {
		return c.startEtcd(ctx, port)
	})
	if err != nil {
		return fmt.Errorf("%w; if the data is damaged, delete %s to start with an empty cluster", err, c.dir.own())
	}
	port, err := c.startOnPort(choose, func(port int) error {
		return c.startAPIServer(ctx, etcdPort, port)
	})
	if err != nil {
		return err
	}
	if err := c.admitAdmin(port); err != nil {
		return err
	}
	if err := c.dir.savePort(port); err != nil {
		return err
	}
	if opts.needsControllerManager() {
		if err := c.startControllerManager(); err != nil {
			return err
		}
	}
	if opts.ClusterAPI {
		return c.startClusterAPI(ctx)
	}
	return nil
}

// startOnPort starts a program on a port. The program opens the port some time after the port was
// found free, and another program may have taken it meanwhile. Then the program ends, and is
// started again on another port.
func (c *ControlPlane) startOnPort(choose func() (int, error), start func(port int) error) (int, error) {
	for attempt := 1; ; attempt++ {
		port, err := choose()
		if err != nil {
			return 0, err
		}
		running := len(c.processes)
		if err = start(port); err == nil {
			return port, nil
		}
		if attempt == portAttempts || !portTaken(err) {
			return 0, err
		}
		c.processes = c.processes[:running]
	}
}

// run starts a program of the assets folder and registers it for Stop.
func (c *ControlPlane) run(program string, args ...string) (*process, error) {
	p, err := startProcess(filepath.Join(c.assets, program), c.dir.log(filepath.Base(program)), args...)
	if err != nil {
		return nil, err
	}
	c.processes = append(c.processes, p)
	return p, nil
}

// watch reports the unexpected end of a program.
func (c *ControlPlane) watch(p *process) {
	<-p.done
	if c.stopping.Load() {
		return
	}
	select {
	case c.failed <- p.failure():
	default: // one report is enough, because the control plane is unusable now
	}
}

// Config returns a copy of the administrator's client configuration, which permits everything. The
// client does not throttle its requests.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return c.dir.kubeconfig() }

// Failed delivers one error if a program ends before Stop is called. The control plane is then
// unusable, and Stop ends what is left of it. Stop closes the channel.
func (c *ControlPlane) Failed() <-chan error { return c.failed }

// Stop ends the programs, last started first, and releases the data folder. A program that does not
// end within 10 s is killed, and the error reports that. Call it once.
func (c *ControlPlane) Stop() error {
	c.stopping.Store(true)
	var errs []error
	for i := len(c.processes) - 1; i >= 0; i-- {
		if c.volatile {
			c.processes[i].kill()
			continue
		}
		errs = append(errs, c.processes[i].stop(stopGrace))
	}
	c.watchers.Wait()
	close(c.failed)
	return errors.Join(append(errs, c.dir.unlock())...)
}
