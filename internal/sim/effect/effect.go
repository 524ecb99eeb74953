// Package effect serves machines that do not exist and that remember what was done to them: any
// number of machines over HTTP, in one process, for nodes of fake hardware. A machine exists from
// the first call that names it. It keeps a power state, a boot device, a list of tasks and a log of
// effects, and fails in the ways that it is told to. These logs show what an engine did, and how
// often; the engine itself is not asked.
//
// A machine obeys every request: it never recognizes that two requests are the same one.
package effect

import (
	"net/http"
	"sync"
	"time"
)

// Options says how the machines behave. The zero value has no faults.
type Options struct {
	// Faults are those of every machine that has no faults of its own.
	Faults Faults
	// Seed decides which calls meet a fault.
	Seed uint64
	// Keep is how many of the newest calls are kept; 0 means 500,000.
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

// maxMachines bounds the memory that the machines take: any name in a call makes one.
const maxMachines = 100_000

// machine returns the machine with a name. If there is none, it makes one that is off.
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

// existing returns the machine with a name, if a call has named it before.
func (s *Server) existing(name string) (*machine, *refusal) {
	m, ok := s.machines[name]
	if !ok {
		return nil, refuse(http.StatusNotFound, "nobody has spoken to a machine %q yet", name)
	}
	return m, nil
}
