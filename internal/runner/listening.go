package runner

import (
	"sync"
	"time"
)

// listening is the time since which this process has used its database without a break. Before that
// time it could not hear any agent.
type listening struct {
	mu       sync.Mutex
	since    time.Time // by the database's clock
	lastTick time.Time // by the clock of the engine's machine; zero before the first tick
	broken   bool
	resumed  bool // true when since is the end of a break
}

// begin starts that time anew.
func (l *listening) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.broken, l.resumed = now, false, false
}

// interrupt says that the database does not answer or refuses changes.
func (l *listening) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
}

// resume says that the database answers.
func (l *listening) resume(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		l.since, l.broken, l.resumed = now, false, true
	}
}

// recovering reports whether a break lasts, or ended less than while ago.
func (l *listening) recovering(now time.Time, while time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken || l.resumed && now.Sub(l.since) < while
}

// tick is called at short intervals. After a longer interval, the process or its machine must have
// been suspended, which is a break. Wall is the machine's clock, which goes on during that time.
func (l *listening) tick(wall time.Time, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wall = wall.Round(0) // the monotonic clock may stand still
	if !l.lastTick.IsZero() && wall.Sub(l.lastTick) > longest {
		l.broken = true
	}
	l.lastTick = wall
}

func (l *listening) begun() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}
