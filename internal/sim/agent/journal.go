package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// Journal records what an agent does to its machine, and decides which faults the agent meets. Its
// methods must not block.
type Journal interface {
	// Draw decides what becomes of a command that begins.
	Draw(effect.Command) effect.CommandFate
	// Add sets the machine of an effect, records the effect and returns its number.
	Add(effect.Effect) int64
	// End notes when an effect ended.
	End(number int64, now time.Time)
}

// noJournal is the journal of an agent without one.
type noJournal struct{}

func (noJournal) Draw(effect.Command) effect.CommandFate { return effect.CommandFate{} }
func (noJournal) Add(effect.Effect) int64                { return 0 }
func (noJournal) End(int64, time.Time)                   {}

// execution is one command that an agent carries out.
type execution struct {
	*Agent
	extension string
	step      string // the one that the command executes, if any
	fate      effect.CommandFate
	number    int64 // in the journal
	writes    bool
}

// begin records that a command begins and asks the journal for its fate.
func (a *Agent) begin(fullName string, number int, p params) *execution {
	extension, name, _ := strings.Cut(fullName, ".")
	x := &execution{Agent: a, extension: extension}
	names, detail := []string{fullName, name}, fullName
	var step stepArgument
	if json.Unmarshal(p["step"], &step) == nil && step.Step != "" {
		x.step = step.Step
		names, detail = append(names, step.Step), detail+" "+step.Step
	}
	x.writes = name == "prepare_image" || name == "cache_image" || x.step == writeImageStep || x.step == installCoreOS.Step
	x.fate = a.config.Journal.Draw(effect.Command{Names: names, Number: number, Writes: x.writes})
	x.number = a.config.Journal.Add(effect.Effect{
		Time: a.clock.Now().UTC(), Kind: effect.AgentCommand, Detail: detail, Fault: x.fate.Fault(), Task: effectDone,
	})
	return x
}

// effectDone is the value of Effect.Task for what was done.
const effectDone = "done"

// end records that a command has ended, with or without a failure.
func (x *execution) end(failure *commandError) {
	x.config.Journal.End(x.number, x.clock.Now())
	if failure != nil {
		x.log.Info("Command failed", "extension", x.extension, "step", x.step, "err", failure.Message+": "+failure.Details)
	}
}

// toldToFail returns the error of a command that fails because of a fault.
func (x *execution) toldToFail() *commandError {
	if x.step == "" {
		return executionError("The command failed, as it was told to.")
	}
	return stepError(x.extension, fmt.Sprintf("Unexpected exception performing %s step %s. RuntimeError: it was told to fail", x.extension, x.step))
}

// fallSilent carries out half of a command that gets no result because of a fault.
func (x *execution) fallSilent(duration time.Duration) {
	if !x.commands.pause(x.clock, duration/2) {
		return
	}
	if x.writes {
		x.spoil()
	}
	switch {
	case x.fate.Crash:
		x.leave(ErrCrashed)
	case x.fate.Vanish:
		x.leave(ErrVanished)
	default:
		<-x.commands.ctx.Done()
	}
}

// spoil overwrites the root disk with a part of an image, so that nothing on it boots.
func (x *execution) spoil() {
	root, failure := x.rootDisk()
	if failure != nil {
		return // the command would not write either
	}
	x.note(effect.Write, root.Name+" a part of an image", x.clock.Now())
	x.wipe(root.Name)
}

// note records what was done to disks since a time.
func (x *execution) note(kind, detail string, since time.Time) {
	x.config.Journal.Add(effect.Effect{
		Time: since.UTC(), Ended: x.clock.Now().UTC(), Kind: kind, Detail: detail, Fault: x.fate.Fault(), Task: effectDone,
	})
}

// erasingSteps are the steps that erase all disks.
var erasingSteps = map[string]bool{
	"erase_devices": true, "erase_devices_express": true, "erase_devices_metadata": true,
}

// erase carries out one of the erasing steps.
func (x *execution) erase(step string) *commandError {
	var devices []string
	for _, d := range x.machineDisks().Inventory.Disks {
		devices = append(devices, d.Name)
	}
	slices.Sort(devices)
	x.note(effect.Wipe, step+" "+strings.Join(devices, " "), x.clock.Now())
	return x.wipe(devices...)
}

func (x *execution) wipe(devices ...string) *commandError {
	if err := x.config.Disks.Wipe(devices...); err != nil {
		return &commandError{"BlockDeviceEraseError", http.StatusInternalServerError, "Error erasing block device", err.Error()}
	}
	return nil
}
