package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Default times of the leader leases, the same as in Kubernetes' own components.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// group runs the controllers of one group. With a lease, they run only while it is held.
type group struct {
	name  string
	build builds
	lease *leaseOptions // nil: without a lease
}

type leaseOptions struct {
	config          *rest.Config
	namespace, name string

	duration, renewDeadline, retryPeriod time.Duration
}

// NeedLeaderElection returns false: the group elects with its own lease, not with the manager's.
func (g *group) NeedLeaderElection() bool { return false }

// Start runs the controllers until ctx ends. It returns an error when the lease
// is lost, because another replica may then run them.
func (g *group) Start(ctx context.Context) error {
	controllers, err := g.build()
	if err != nil {
		return fmt.Errorf("build controllers %s: %w", g.name, err)
	}
	start := func(ctx context.Context) error { return startAll(ctx, controllers) }
	if g.lease == nil {
		return start(ctx)
	}
	lock, err := g.lease.lock()
	if err != nil {
		return fmt.Errorf("prepare lease %s/%s: %w", g.lease.namespace, g.lease.name, err)
	}
	return g.lease.lead(ctx, lock, start)
}

func (l *leaseOptions) lock() (resourcelock.Interface, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	identity := resourcelock.ResourceLockConfig{Identity: hostname + "_" + uuid.NewString()}
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, l.namespace, l.name, identity, l.config, l.renewDeadline)
}

// lead waits for the lease and runs work while the lease is held. It gives the lease up when ctx
// ends or work returns by itself, but only after work has returned, so that no other replica begins
// too early. The elector's own ReleaseOnCancel would give the lease up before work has ended.
//
// A lost lease is left to expire. Then lead waits for work, for at most stopTimeout, and returns an
// error that ends the operator, because an operator without the lease would do nothing for ever. A
// controller may fail to return, because the queue of controller-runtime 0.24 can keep a worker
// that comes back during shutdown (kubernetes-sigs/controller-runtime#3538).
func (l *leaseOptions) lead(ctx context.Context, lock resourcelock.Interface, work func(context.Context) error) error {
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	var workErr error
	started, done := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: l.name,
		LeaseDuration: l.duration, RenewDeadline: l.renewDeadline, RetryPeriod: l.retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				close(started)
				defer close(done)
				working, stop := context.WithCancel(held)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				workErr = work(working)
				endElection()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("join election for lease %s: %w", l.name, err)
	}
	// A replica that never led has nothing to finish.
	defer context.AfterFunc(ctx, func() {
		select {
		case <-started:
		default:
			endElection()
		}
	})()
	elector.Run(election)
	select {
	case <-started:
	default:
		return nil
	}
	select {
	case <-done:
	case <-time.After(stopTimeout):
		return fmt.Errorf("lease %s was lost, and its controllers have not ended within %s", l.name, stopTimeout)
	}
	if errors.Is(workErr, context.Canceled) {
		workErr = nil
	}
	if workErr == nil && ctx.Err() == nil {
		return fmt.Errorf("lease %s was lost", l.name)
	}
	if err := l.release(context.WithoutCancel(ctx), lock); err != nil {
		log.FromContext(ctx).Error(err, "Lease could not be given up, and has to expire", "lease", l.name)
	}
	return workErr
}

// release gives the lease up if this process still holds it.
func (l *leaseOptions) release(ctx context.Context, lock resourcelock.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, l.renewDeadline)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != lock.Identity() {
		return err
	}
	record.HolderIdentity = ""
	return lock.Update(ctx, *record)
}
