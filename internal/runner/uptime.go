package runner

import (
	"sync"
	"time"
)

// uptime is since when this process works on its database without a break. Before, it
// could not hear any agent.
type uptime struct {
	mu     sync.Mutex
	since  time.Time
	broken bool
}

// begin starts it anew.
func (u *uptime) begin(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since, u.broken = now, false
}

// interrupt says that the database does not answer.
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
		u.since, u.broken = now, false
	}
}

func (u *uptime) begun() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.since
}
