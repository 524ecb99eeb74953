package agent

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Clock is the clock of an agent.
type Clock interface {
	Now() time.Time
	// Since returns the time that has passed since t, which came from Now, as the timers of the
	// clock measure it.
	Since(t time.Time) time.Duration
	// NewTimer returns a timer that fires once after d.
	NewTimer(d time.Duration) Timer
}

// Timer fires once on its channel unless it is stopped before.
type Timer interface {
	C() <-chan time.Time
	Stop() bool
}

// RealClock is the system's clock.
var RealClock Clock = Accelerated(1)

// Accelerated returns a clock on which every pause takes 1/factor of its real
// time. The time of day stays real, because certificates need it.
func Accelerated(factor float64) Clock { return acceleratedClock(factor) }

type acceleratedClock float64

func (acceleratedClock) Now() time.Time { return time.Now() }

func (f acceleratedClock) Since(t time.Time) time.Duration {
	return time.Duration(float64(time.Since(t)) * float64(f))
}

func (f acceleratedClock) NewTimer(d time.Duration) Timer {
	return realTimer{time.NewTimer(time.Duration(float64(d) / float64(f)))}
}

type realTimer struct{ timer *time.Timer }

func (t realTimer) C() <-chan time.Time { return t.timer.C }
func (t realTimer) Stop() bool          { return t.timer.Stop() }

// Sleep waits for d on the clock. When ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, clock Clock, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}

// jitter is a random source that the goroutines of an agent share.
type jitter struct {
	mu     sync.Mutex
	random *rand.Rand
}

// between returns a duration in [low, high).
func (j *jitter) between(low, high time.Duration) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return low + time.Duration(j.random.Float64()*float64(high-low))
}

// uuid returns a random (version 4) UUID.
func (j *jitter) uuid() string {
	var id uuid.UUID
	j.mu.Lock()
	for i := range id {
		id[i] = byte(j.random.Uint32())
	}
	j.mu.Unlock()
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
