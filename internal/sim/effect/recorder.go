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
	// Faults are those of every machine that has no faults of its own.
	Faults Faults
	// Seed decides which calls meet a fault.
	Seed uint64
	// Keep is how many of the newest calls are kept; 0 means 500,000.
	Keep int
	// Known reports whether a kind of effects exists. Faults may name no others.
	Known func(kind string) bool
}

// Recorder has the log of calls and the faults of any number of machines, which may speak any
// protocol. It is safe for concurrent use.
type Recorder struct {
	known func(kind string) bool

	mu       sync.Mutex
	machines map[string]*record
	faults   Faults // of machines without their own
	random   *rand.Rand
	log      log
}

// record is what the recorder has of one machine, besides its calls.
type record struct {
	effects []int64 // sequence numbers of its effects
	counts  map[string]int
	reads   int64
	faults  *Faults // nil means the faults of all machines without their own
	failed  int     // how often the agent has met a fault since the faults were set
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

// Register makes a machine known. No other machine can have calls or faults.
func (r *Recorder) Register(machine string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.machines[machine]; !ok {
		r.machines[machine] = &record{}
	}
}

// Draw decides what becomes of a call of a registered machine. slow says that the task time counts
// for the call even if the faults do not name its kind.
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

// Add stores a call of a registered machine and returns the number of the call. A call with a task
// counts as an effect.
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

// End notes when a call was answered, or when the machine saw that the client was gone. It does
// nothing if the call is not kept any more.
func (r *Recorder) End(number int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.end(number, now)
}

// Effects returns what was done to a registered machine after a sequence number, as far as it is
// kept.
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

// Calls returns the calls of all machines after a sequence number, as far as they are kept. They
// include calls without an effect.
func (r *Recorder) Calls(after int64) []Effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, _ := r.log.after(after)
	return slices.Clone(calls)
}

// Counts returns how often each kind of effect was begun on a registered machine.
func (r *Recorder) Counts(machine string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	maps.Copy(counts, r.machines[machine].counts)
	return counts
}

// Reads returns how often a registered machine was read.
func (r *Recorder) Reads(machine string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machines[machine].reads
}

// SetFaults replaces the faults of a machine; nil makes it follow the faults for all machines
// again. It returns an error if the machine is not registered, or if the faults cannot be those of
// this machine.
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

// SetAllFaults replaces the faults of the machines that have none of their own. It returns an error
// if the faults cannot be those of these machines.
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

// Totals counts everything that was ever done, including what is not kept any more.
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
