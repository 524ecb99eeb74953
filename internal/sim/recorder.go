package sim

import (
	"time"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// newRecorder returns the log of all machines.
func newRecorder(o Options) *effect.Recorder {
	options := effect.RecorderOptions{Seed: o.Seed, Known: known}
	if o.BMC != nil {
		options.Faults, options.Keep = o.BMC.Faults, o.BMC.Keep
	}
	options.Faults.Agent = o.AgentFaults
	return effect.NewRecorder(options)
}

// known reports whether machines have effects of a kind.
func known(kind string) bool {
	switch kind {
	case effect.AgentCommand, effect.Wipe, effect.Write, effect.Boot, InstanceNote:
		return true
	}
	return bmc.Known(kind)
}

// Recorder returns the log and the faults of the machines, under their indices. The log has what
// was done to the machines through their BMCs and by their agents, and what they booted.
func (ms *Machines) Recorder() *effect.Recorder { return ms.recorder }

// journal connects the agent of a machine with the recorder.
type journal struct{ machine *Machine }

func (j journal) Draw(c effect.Command) effect.CommandFate {
	return j.machine.all.recorder.DrawCommand(j.machine.name(), c)
}

func (j journal) Add(e effect.Effect) int64 {
	e.Machine = j.machine.name()
	return j.machine.all.recorder.Add(e)
}

func (j journal) End(number int64, now time.Time) { j.machine.all.recorder.End(number, now) }
