// Package effect serves machines that do not exist and remember what was done to
// them: any number of them over HTTP, in one process, for nodes of fake hardware.
// Each comes into being when somebody first speaks to it, keeps a power state, a
// boot device, a list of tasks and a log of effects, and fails in the ways that it
// is told to. What an engine did, and how often, is read from these logs and not
// from the engine.
//
// A machine does what it is asked each time it is asked: it never finds out by
// itself that two requests are one.
package effect

import (
	"net/http"
	"sync"
	"time"
)

// Options says how the machines behave. The zero value has no faults.
type Options struct {
	// Faults of every machine that has none of its own.
	Faults Faults
	// Seed decides which of the calls that may fail do.
	Seed uint64
	// Keep is how many calls are kept, the newest ones; 0 means 500,000.
	Keep int
	// Clock tells the time; nil means time.Now. It measures tasks, not delays.
	Clock func() time.Time
}

// Server is the machines. It is safe for concurrent use.
type Server struct {
	clock func() time.Time

	recorder *Recorder

	mu       sync.Mutex
	machines map[string]*machine
	tasks    int64 // number of the newest task
}

// New returns a server without machines.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Server{clock: o.Clock, machines: map[string]*machine{}, recorder: NewRecorder(RecorderOptions{
		Faults: o.Faults, Seed: o.Seed, Keep: o.Keep,
		Known: func(kind string) bool { _, ok := kindTable[kind]; return ok },
	})}
}

// maxMachines bounds the memory that names can take.
const maxMachines = 100_000

// machine finds a machine, or makes one that is off.
func (s *Server) machine(name string) (*machine, *refusal) {
	if m, ok := s.machines[name]; ok {
		return m, nil
	}
	if len(s.machines) >= maxMachines {
		return nil, refuse(http.StatusInsufficientStorage, "there are %d machines, which is the most that one server holds", maxMachines)
	}
	m := &machine{name: name, power: "power off", bootDevice: "pxe"}
	s.machines[name] = m
	s.recorder.Register(name)
	return m, nil
}

// existing finds a machine that somebody has spoken to.
func (s *Server) existing(name string) (*machine, *refusal) {
	m, ok := s.machines[name]
	if !ok {
		return nil, refuse(http.StatusNotFound, "nobody has spoken to a machine %q yet", name)
	}
	return m, nil
}
