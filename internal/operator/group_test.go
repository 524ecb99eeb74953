package operator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// memoryLock is the lease of one replica. Once the lease is taken away, the replica can no longer
// renew it, but could still give it up: the API server answers again just after the replica has
// stopped trying to renew.
type memoryLock struct {
	record atomic.Pointer[resourcelock.LeaderElectionRecord]
	taken  atomic.Bool
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	stored := l.record.Load()
	if stored == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "hosts")
	}
	record := *stored
	return &record, []byte(record.HolderIdentity + record.RenewTime.String()), nil
}

func (l *memoryLock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record.Store(&record)
	return nil
}

func (l *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.taken.Load() && record.HolderIdentity != "" {
		return errors.New("the API server is away")
	}
	l.record.Store(&record)
	return nil
}

func (*memoryLock) RecordEvent(string) {}
func (*memoryLock) Identity() string   { return "replica-1" }
func (*memoryLock) Describe() string   { return "hosts" }

// newOptions returns the options of a lease with the default times.
func newOptions() leaseOptions {
	return leaseOptions{name: "hosts", duration: leaseDuration, renewDeadline: renewDeadline, retryPeriod: retryPeriod}
}

func (l *memoryLock) wantHolder(t *testing.T, want, when string) {
	t.Helper()
	if got := l.record.Load().HolderIdentity; got != want {
		t.Errorf("the lease is held by %q %s, want %q", got, when, want)
	}
}

func TestALeaseThatIsLostIsNotGivenUpWhileItsControllersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock, options := &memoryLock{}, newOptions()
		err := options.lead(t.Context(), lock, func(ctx context.Context) error {
			lock.taken.Store(true)
			<-ctx.Done()
			lock.wantHolder(t, "replica-1", "when the controllers are told to end")
			return ctx.Err()
		})
		if err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("error = %v, want that the lease was lost", err)
		}
	})
}

func TestALeaseIsGivenUpWhenItsControllersHaveEnded(t *testing.T) {
	broken := errors.New("a controller cannot start")
	for name, fail := range map[string]error{"after a stop": nil, "after an error": broken} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				lock, options := &memoryLock{}, newOptions()
				err := options.lead(ctx, lock, func(ctx context.Context) error {
					if fail == nil {
						stop()
						<-ctx.Done()
					}
					lock.wantHolder(t, "replica-1", "while a controller ends")
					return fail
				})
				if !errors.Is(err, fail) {
					t.Errorf("error = %v, want %v", err, fail)
				}
				lock.wantHolder(t, "", "after the end")
			})
		})
	}
}

func TestALeaseThatAnotherReplicaHasTakenIsLeftToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		lock, options := &memoryLock{}, newOptions()
		err := options.lead(ctx, lock, func(ctx context.Context) error {
			synctest.Wait()
			stop()
			<-ctx.Done()
			lock.record.Store(&resourcelock.LeaderElectionRecord{HolderIdentity: "replica-2"})
			return nil
		})
		if err != nil {
			t.Errorf("error = %v", err)
		}
		lock.wantHolder(t, "replica-2", "after the end")
	})
}

func TestOperatorEndsWhenALeaseIsLostAndItsControllersDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock, release, led := &memoryLock{}, make(chan struct{}), make(chan error, 1)
		options := newOptions()
		go func() {
			led <- options.lead(t.Context(), lock, func(context.Context) error {
				lock.taken.Store(true)
				<-release
				return nil
			})
		}()
		select {
		case err := <-led:
			if err == nil || !strings.Contains(err.Error(), "lost") {
				t.Errorf("error = %v, want that the lease was lost", err)
			}
			lock.wantHolder(t, "replica-1", "beside its controllers")
		case <-time.After(leaseDuration + stopTimeout + time.Minute):
			t.Error("the operator goes on without lease and controllers")
		}
		close(release)
	})
}
