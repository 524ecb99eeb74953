package effect

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// RecorderOptions says what a recorder keeps and which faults its machines have.
type RecorderOptions struct {
	// Faults of every machine that has none of its own.
	Faults Faults
	// Seed decides which of the calls that may fail do.
	Seed uint64
	// Keep is how many calls are kept, the newest ones; 0 means 500,000.
	Keep int
	// Known reports whether there is such a kind of effects; faults may name no other.
	Known func(kind string) bool
}

// Recorder has the log of calls and the faults of any number of machines, whatever
// protocol they speak. It is safe for concurrent use.
type Recorder struct {
	known func(kind string) bool

	mu       sync.Mutex
	machines map[string]*record
	faults   Faults // of machines without their own
	random   *rand.Rand
	log      log
}

// record is what is kept of one machine.
type record struct {
	effects []int64 // sequence numbers of its effects
	counts  map[string]int
	reads   int64
	faults  *Faults // nil means those for all
	failed  int     // how often its agent has met a fault since those were set
}

// NewRecorder returns a recorder without machines.
func NewRecorder(o RecorderOptions) *Recorder {
	if o.Keep <= 0 {
		o.Keep = 500_000
	}
	return &Recorder{
		known: o.Known, machines: map[string]*record{}, faults: o.Faults,
		random: rand.New(rand.NewPCG(o.Seed, o.Seed)), log: log{keep: o.Keep},
	}
}

// Register makes a machine known. Calls and faults of others are refused.
func (r *Recorder) Register(machine string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.machines[machine]; !ok {
		r.machines[machine] = &record{}
	}
}

// Draw decides what becomes of a call of a registered machine. Slow says that the task
// time of a machine counts for such a call even if the faults do not name its kind.
func (r *Recorder) Draw(machine, kind string, slow bool) Fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.machines[machine]
	if kind == Reading {
		m.reads++
	}
	return r.faultsOf(m).draw(kind, slow, r.random)
}

// faultsOf returns the faults that a machine has.
func (r *Recorder) faultsOf(m *record) Faults {
	if m.faults != nil {
		return *m.faults
	}
	return r.faults
}

// DrawCommand decides what becomes of a command of a registered machine's agent.
func (r *Recorder) DrawCommand(machine string, c Command) CommandFate {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.machines[machine]
	faults := r.faultsOf(m).Agent
	if faults.Times > 0 && m.failed >= faults.Times {
		return CommandFate{}
	}
	fate := faults.draw(c, r.random)
	if fate != (CommandFate{}) {
		m.failed++
	}
	return fate
}

// Add stores a call of a registered machine and returns the number that it gets. A call
// with a task counts as an effect.
func (r *Recorder) Add(e Effect) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := r.log.add(e)
	if m := r.machines[e.Machine]; e.Done() {
		m.effects = append(m.since(r.log.oldest()), number)
		if m.counts == nil {
			m.counts = map[string]int{}
		}
		m.counts[e.Kind]++
	}
	return number
}

// since returns the sequence numbers of the machine's effects from first on.
func (m *record) since(first int64) []int64 {
	i, _ := slices.BinarySearch(m.effects, first)
	return m.effects[i:]
}

// End notes when a call was answered or its client was seen to be gone, unless the call
// is kept no more.
func (r *Recorder) End(number int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.end(number, now)
}

// Effects returns what was done to a registered machine behind a sequence number, as
// far as it is kept.
func (r *Recorder) Effects(machine string, after int64) []Effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.effects(machine, after)
}

func (r *Recorder) effects(machine string, after int64) []Effect {
	own := []Effect{}
	for _, number := range r.machines[machine].since(max(after+1, r.log.oldest())) {
		own = append(own, *r.log.at(number))
	}
	return own
}

// Calls returns the calls of all machines behind a sequence number, those without an
// effect as well, as far as they are kept.
func (r *Recorder) Calls(after int64) []Effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, _ := r.log.after(after)
	return slices.Clone(calls)
}

// Counts is how often each kind of effect was begun on a registered machine.
func (r *Recorder) Counts(machine string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	maps.Copy(counts, r.machines[machine].counts)
	return counts
}

// Reads is how often a registered machine was read.
func (r *Recorder) Reads(machine string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machines[machine].reads
}

// SetFaults replaces the faults of a registered machine; nil lets it follow those for
// all again. The error names a kind of effects that does not exist.
func (r *Recorder) SetFaults(machine string, faults *Faults) error {
	if faults != nil {
		if err := faults.check(r.known); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.machines[machine]
	if !ok {
		return fmt.Errorf("there is no machine %q", machine)
	}
	m.faults, m.failed = faults, 0
	return nil
}

// SetAllFaults replaces the faults of the machines that have none of their own. The
// error names a kind of effects that does not exist.
func (r *Recorder) SetAllFaults(faults Faults) error {
	if err := faults.check(r.known); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = faults
	for _, m := range r.machines {
		m.failed = 0
	}
	return nil
}

// Faults returns a registered machine's own faults, or nil.
func (r *Recorder) Faults(machine string) *Faults {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machines[machine].faults
}

// Totals is how much was done to how many machines.
type Totals struct {
	Machines int            `json:"machines"`
	Effects  int64          `json:"effects"`
	Reads    int64          `json:"reads"`
	Kinds    map[string]int `json:"kinds"`
}

// Totals counts everything that was ever done.
func (r *Recorder) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Totals{Machines: len(r.machines), Kinds: map[string]int{}}
	for _, m := range r.machines {
		t.Reads += m.reads
		for kind, count := range m.counts {
			t.Kinds[kind] += count
			t.Effects += int64(count)
		}
	}
	return t
}
