package runner

import (
	"sync"
	"time"
)

// uptime is the time since which this process has used its database without a break. Before that
// time it could not hear any agent.
type uptime struct {
	mu       sync.Mutex
	since    time.Time // by the database's clock
	lastTick time.Time // by the clock of the engine's machine; zero before the first tick
	broken   bool
	resumed  bool // true when since is the end of a break
}

// begin starts the uptime anew.
func (u *uptime) begin(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since, u.broken, u.resumed = now, false, false
}

// interrupt says that the database does not answer or refuses changes.
func (u *uptime) interrupt() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.broken = true
}

// resume says that the database answers.
func (u *uptime) resume(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.broken {
		u.since, u.broken, u.resumed = now, false, true
	}
}

// recovering reports whether a break lasts, or ended less than while ago.
func (u *uptime) recovering(now time.Time, while time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.broken || u.resumed && now.Sub(u.since) < while
}

// tick is called at short intervals. After a longer interval, the process or its machine must have
// been suspended, which is a break. Wall is the machine's clock, which goes on during that time.
func (u *uptime) tick(wall time.Time, longest time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	wall = wall.Round(0) // the monotonic clock may stand still
	if !u.lastTick.IsZero() && wall.Sub(u.lastTick) > longest {
		u.broken = true
	}
	u.lastTick = wall
}

func (u *uptime) begun() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.since
}
