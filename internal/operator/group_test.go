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

// memoryLock is a lease of one replica that can no longer be renewed when it is taken away.
type memoryLock struct {
	record *resourcelock.LeaderElectionRecord
	taken  atomic.Bool
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "hosts")
	}
	record := *l.record
	return &record, []byte(record.HolderIdentity + record.RenewTime.String()), nil
}

func (l *memoryLock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = &record
	return nil
}

func (l *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.taken.Load() {
		return errors.New("the API server is away")
	}
	l.record = &record
	return nil
}

func (*memoryLock) RecordEvent(string) {}
func (*memoryLock) Identity() string   { return "replica-1" }
func (*memoryLock) Describe() string   { return "hosts" }

func TestOperatorEndsWhenALeaseIsLostAndItsControllersDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock, release, led := &memoryLock{}, make(chan struct{}), make(chan error, 1)
		options := leaseOptions{name: "hosts", duration: leaseDuration, renewDeadline: renewDeadline, retryPeriod: retryPeriod}
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
		case <-time.After(leaseDuration + stopTimeout + time.Minute):
			t.Error("the operator goes on without lease and controllers")
		}
		close(release)
	})
}
