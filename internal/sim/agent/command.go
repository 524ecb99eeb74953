package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// params are the named arguments of a command.
type params map[string]json.RawMessage

// command is one entry of the command table.
type command struct {
	// method is the name of the command in error messages of the real agent.
	method string
	// required are the names of the required arguments, in their order.
	required []string
	// async commands are answered at once; a heartbeat follows when they end.
	async bool
	// check refuses invalid arguments before the command is recorded; it may be nil.
	check func(params) *fault
	// duration bounds the simulated time of an async command; it may be nil.
	duration func(params) span
	// run carries out the command.
	run func(*execution, params) (any, *commandError)
	// then is the error with which the agent ends after the command; nil for none.
	then error
}

// span is a random duration between two bounds.
type span struct{ low, high time.Duration }

// seconds returns a span in seconds.
func seconds(low, high int) span {
	return span{time.Duration(low) * time.Second, time.Duration(high) * time.Second}
}

// lasting returns a duration function that ignores the arguments of the command.
func lasting(s span) func(params) span { return func(params) span { return s } }

// execute runs a command by its full name, "extension.command". It returns the result, and as first
// the command as it was when it was accepted. A fault means that the command was refused.
func (a *Agent) execute(fullName string, p params) (r *result, first resultDocument, f *fault) {
	extension, name, ok := strings.Cut(fullName, ".")
	if !ok {
		return nil, first, invalidCommandFault("Command name must be of the form <extension>.<name>")
	}
	if running := a.commands.busyWith(); running != "" {
		return nil, first, busyFault(running)
	}
	table, ok := extensions[extension]
	if a.config.CoreOS && extension == coreOSSteps.name {
		table = coreOSCommands
	}
	if !ok {
		return nil, first, notFoundFault("Extension", extension)
	}
	c, ok := table[name]
	if !ok {
		return nil, first, invalidCommandFault("Unknown command: " + name)
	}
	if c.check != nil {
		if f := c.check(p); f != nil {
			return nil, first, f
		}
	}
	r, first, f = a.commands.add(a.random.uuid(), name)
	if f != nil {
		return nil, first, f
	}
	x := a.begin(fullName, r.number, p)
	if c.async || x.fate.Silences() {
		go a.runAsync(c, r, x, p)
		return r, first, nil
	}
	outcome, failure := a.runNow(c, x, p)
	x.end(failure)
	a.commands.finish(r, outcome, failure)
	first = a.commands.document(r)
	go func() { // commands.end waits for this goroutine
		defer a.commands.working.Done()
		if failure == nil {
			a.endAfter(c)
		}
	}()
	return r, first, nil
}

// endAfter ends the agent after a command that asks for it, unless the power is cut before.
func (a *Agent) endAfter(c command) {
	if c.then != nil && a.commands.pause(a.clock, powerDelay) {
		a.leave(c.then)
	}
}

// runNow checks the arguments and carries out the command.
func (a *Agent) runNow(c command, x *execution, p params) (any, *commandError) {
	if missing := missingArguments(c.method, c.required, p); missing != "" {
		return nil, executionError(missing)
	}
	outcome, failure := c.run(x, p)
	if failure == nil && x.fate.Fail {
		return nil, x.toldToFail()
	}
	return outcome, failure
}

// runAsync carries out a command within its simulated duration. After a power cut the command has
// no result.
func (a *Agent) runAsync(c command, r *result, x *execution, p params) {
	defer a.commands.working.Done()
	var duration time.Duration
	if c.duration != nil {
		s := c.duration(p)
		duration = a.random.between(s.low, s.high)
	}
	if x.fate.Silences() {
		x.fallSilent(duration)
		return
	}
	outcome, failure := a.runNow(c, x, p)
	if failure == nil && !a.commands.pause(a.clock, duration) {
		return
	}
	x.end(failure)
	a.commands.finish(r, outcome, failure)
	if failure != nil || c.then == nil {
		a.forceHeartbeat()
		return
	}
	a.endAfter(c)
}

// powerDelay is the time from the answer until the agent or its ramdisk ends. It is enough for the
// engine to read the result once.
const powerDelay = 2 * time.Second

// missingArguments returns the error text for missing arguments, or "" if none are missing.
func missingArguments(method string, required []string, p params) string {
	var missing []string
	for _, name := range required {
		if _, given := p[name]; !given {
			missing = append(missing, "'"+name+"'")
		}
	}
	noun := "argument"
	var list string
	switch n := len(missing); n {
	case 0:
		return ""
	case 1:
		list = missing[0]
	case 2:
		noun, list = "arguments", missing[0]+" and "+missing[1]
	default:
		noun, list = "arguments", strings.Join(missing[:n-1], ", ")+", and "+missing[n-1]
	}
	return fmt.Sprintf("%s() missing %d required positional %s: %s", method, len(missing), noun, list)
}
