//go:build fault

package fault_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kinds of writes of the records of holds. The names of writes have these words.
const (
	recordsHold  = "records a hold"
	confirmsHold = "confirms a hold"
	forgetsHold  = "forgets the holds"
)

// forgetDelay is how long the API server takes to store that a machine is not held off any more. An
// operator that asks for its power before this is stored has powered it on by then.
const forgetDelay = 2 * time.Second

// proofs are the periods in which a host had a confirmed record that its machine is off.
type proofs struct {
	mu  sync.Mutex
	all []proof
}

// proof is one such period. It begins when the record was certainly stored, and ends when it may
// have been removed.
type proof struct{ from, to time.Time }

// wrapWrite passes on a write. It delays a write that forgets that the machine is off.
func (p *proofs) wrapWrite(waiting context.Context, name string, pass func() bool) {
	if strings.Contains(name, forgetsHold) {
		select {
		case <-time.After(forgetDelay):
		case <-waiting.Done():
		}
	}
	began := time.Now()
	if pass() {
		p.note(name, began)
	}
}

// note notes what a write says about holds. began is when the write began.
func (p *proofs) note(name string, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := len(p.all) > 0 && p.all[len(p.all)-1].to.IsZero()
	switch confirms := strings.Contains(name, confirmsHold); {
	case confirms && !open:
		p.all = append(p.all, proof{from: time.Now()})
	case !confirms && open && (strings.Contains(name, recordsHold) || strings.Contains(name, forgetsHold)):
		p.all[len(p.all)-1].to = began
	}
}

// until returns all periods. The last one lasts until now if it has not ended.
func (p *proofs) until(now time.Time) []proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.all)
	if last := len(all) - 1; last >= 0 && all[last].to.IsZero() {
		all[last].to = now
	}
	return all
}
