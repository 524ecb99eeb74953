package effect

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// Kinds of effects that machines with agents and disks have.
const (
	// AgentCommand is a command of a machine's agent, from its start to its end.
	AgentCommand = "agent command"
	// Wipe is the erasure of one or several disks.
	Wipe = "wipe"
	// Write is the writing of an image, or a part of one, to a disk.
	Write = "write"
	// Boot is the start of a ramdisk or of an operating system.
	Boot = "boot"
	// RescuePassword means that a rescue system got the password of its user, in the format of
	// /etc/shadow.
	RescuePassword = "rescue password"
)

// AgentFaults are the ways in which the agent of a machine fails. The zero value has
// none. Chances are drawn for every command anew.
type AgentFaults struct {
	// CrashAt ends the agent during its command of this number, counted from 1 since the agent
	// started; 0 means none. As after Crash, the agent starts again.
	CrashAt int `json:"crash_at,omitempty"`
	// Crash ends the agent in the middle of a command. The agent is started again and knows nothing
	// of what was before.
	Crash Chance `json:"crash,omitempty"`
	// Vanish silences the agent in the middle of a command, until the next power cycle.
	Vanish Chance `json:"vanish,omitempty"`
	// NeverEnd keeps a command running until the next power cycle.
	NeverEnd Chance `json:"never_end,omitempty"`
	// Fail makes a command fail at its end.
	Fail Chance `json:"fail,omitempty"`
	// BadChecksum makes the checksum of an image differ from the requested one.
	BadChecksum Chance `json:"bad_checksum,omitempty"`
	// DiskFull makes the disk run full while an image is written.
	DiskFull Chance `json:"disk_full,omitempty"`
	// Commands limits these faults to some commands, named like standby.run_image or run_image, or
	// to steps, named like write_image. Empty means every command.
	Commands []string `json:"commands,omitempty"`
	// Times is how often a machine meets these faults after they were set; 0 means no limit.
	Times int `json:"times,omitempty"`
}

// none reports whether there are no faults.
func (f AgentFaults) none() bool {
	return f.CrashAt == 0 && f.Crash == 0 && f.Vanish == 0 && f.NeverEnd == 0 && f.Fail == 0 && f.BadChecksum == 0 && f.DiskFull == 0
}

// Validate returns an error for numbers that make no sense.
func (f AgentFaults) Validate() error {
	if f.CrashAt < 0 || f.Times < 0 {
		return errors.New("crash_at and times must not be negative")
	}
	return nil
}

// Command is a command that an agent begins.
type Command struct {
	// Names are the names by which faults select the command: that of the command with and without
	// its extension, and that of the step that it executes, if any.
	Names []string
	// Number counts the commands since the agent started, from 1.
	Number int
	// Writes says that the command writes an image.
	Writes bool
}

// CommandFate is what becomes of a command; the fields are named as those of
// [AgentFaults]. At most one is true.
type CommandFate struct {
	Crash, Vanish, NeverEnd, Fail, BadChecksum, DiskFull bool
}

// draw decides what becomes of a command.
func (f AgentFaults) draw(c Command, random *rand.Rand) (fate CommandFate) {
	named := slices.ContainsFunc(c.Names, func(name string) bool { return slices.Contains(f.Commands, name) })
	if len(f.Commands) > 0 && !named {
		return fate
	}
	if f.CrashAt > 0 && c.Number == f.CrashAt {
		return CommandFate{Crash: true}
	}
	for _, possible := range []struct {
		chance Chance
		writes bool // only commands that write an image can meet it
		fate   CommandFate
	}{
		{f.Crash, false, CommandFate{Crash: true}},
		{f.Vanish, false, CommandFate{Vanish: true}},
		{f.NeverEnd, false, CommandFate{NeverEnd: true}},
		{f.Fail, false, CommandFate{Fail: true}},
		{f.BadChecksum, true, CommandFate{BadChecksum: true}},
		{f.DiskFull, true, CommandFate{DiskFull: true}},
	} {
		if possible.chance > 0 && (c.Writes || !possible.writes) && random.Float64() < float64(possible.chance) {
			return possible.fate
		}
	}
	return fate
}

// Fault returns the name of the fault that the command meets, for Effect.Fault; empty means none.
func (f CommandFate) Fault() string {
	switch {
	case f.Crash:
		return "crash"
	case f.Vanish:
		return "vanish"
	case f.NeverEnd:
		return "never end"
	case f.Fail:
		return "fail"
	case f.BadChecksum:
		return "bad checksum"
	case f.DiskFull:
		return "disk full"
	}
	return ""
}

// Silences reports whether the command never gets a result.
func (f CommandFate) Silences() bool { return f.Crash || f.Vanish || f.NeverEnd }
