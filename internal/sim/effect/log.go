package effect

import (
	"slices"
	"time"
)

// Effect is one thing that was done to a machine, or a call that should have done it.
type Effect struct {
	Sequence int64     `json:"sequence"` // number of the call, from 1, over all machines
	Machine  string    `json:"machine"`
	Time     time.Time `json:"time"` // when the machine began to handle the call
	// Ended is when the machine answered or saw that its client was gone; absent while the machine
	// handles the call.
	Ended     time.Time `json:"ended,omitzero"`
	Kind      string    `json:"kind"`
	Detail    string    `json:"detail,omitempty"`
	Conductor string    `json:"conductor,omitempty"` // who asked for it, by its own account
	User      string    `json:"user,omitempty"`      // who asked for it, as it authenticated
	Client    string    `json:"client,omitempty"`    // address that the call came from
	Epoch     int64     `json:"epoch,omitempty"`
	Request   string    `json:"request,omitempty"`
	// Fault is how the machine deviated from what it was asked to do, see Faults.
	Fault string `json:"fault,omitempty"`
	// Task is the task that the machine made for the call, or "done" if it makes no tasks; absent
	// when nothing was done.
	Task string `json:"task,omitempty"`
}

// Done reports whether the call had an effect.
func (e Effect) Done() bool { return e.Task != "" }

// log has the newest calls of all machines, in their order.
type log struct {
	keep   int
	newest int64 // sequence number
	calls  []Effect
}

// add stores a call and returns the number that it gets.
func (l *log) add(e Effect) int64 {
	l.newest++
	e.Sequence = l.newest
	if len(l.calls) >= 2*l.keep { // moved rarely, so that adding stays cheap
		l.calls = slices.Delete(l.calls, 0, len(l.calls)-l.keep)
	}
	l.calls = append(l.calls, e)
	return e.Sequence
}

// after returns the calls after a sequence number, and whether some of them are not kept any more.
func (l *log) after(sequence int64) (calls []Effect, gap bool) {
	if sequence >= l.newest {
		return nil, false
	}
	first := l.oldest()
	return l.calls[len(l.calls)-int(l.newest-max(first, sequence+1))-1:], sequence+1 < first
}

// oldest returns the sequence number of the oldest call that is kept.
func (l *log) oldest() int64 { return max(1, l.newest-int64(l.keep)+1) }

// at returns a call, which must be kept.
func (l *log) at(sequence int64) *Effect { return &l.calls[len(l.calls)-int(l.newest-sequence)-1] }

// end notes when a call ended, if the call is still kept.
func (l *log) end(sequence int64, now time.Time) {
	if sequence >= l.oldest() {
		l.at(sequence).Ended = now.UTC()
	}
}
