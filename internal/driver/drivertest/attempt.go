package drivertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Machine is a machine outside the engine, as a test of its driver sees it. Its faults last until
// Heal.
type Machine interface {
	// Effects lists the kinds of everything that was done to the machine.
	Effects() []string
	Refuse()      // it refuses what it is asked to do and does nothing
	RefuseReads() // it refuses to be read
	Break()       // it does nothing and answers with an error of its own
	LoseAnswers() // it does what it is asked to do and never answers
	SlowTasks()   // it is not done when it has accepted
	FailTasks()   // what it begins fails
	Heal()        // it ends the faults; tasks that run go on
	EndTasks()    // it ends the tasks that run
	ForgetTasks() // it loses the list of its tasks
}

// Repeating is what an operation does when nobody can tell whether it took effect.
type Repeating int

// Ways to go on.
const (
	Repeats    Repeating = iota // it is done again, which harms nothing
	Refrains                    // it fails with a driver.OutcomeUnknown
	ReadsFirst                  // the machine shows it
)

// TurnFunc makes a turn of an operation on one machine.
type TurnFunc func(ctx context.Context, turn driver.Turn) (driver.Outcome, error)

// Operation is an operation that changes a machine.
type Operation struct {
	// New returns a fresh machine, and the operation on it.
	New func(t *testing.T) (Machine, TurnFunc)
	// Effects is what the operation does to the machine when nothing goes wrong.
	Effects []string
	// Unclear is what it does when the machine has lost its list of tasks.
	Unclear Repeating
	// Unwaited says that its driver does not wait for tasks to end.
	Unwaited bool
	// Untasked says that the machine has no tasks for it that could fail.
	Untasked bool
}

// PowerChange is a change of the power that every driver of BMCs makes.
type PowerChange struct {
	Name    string
	Target  node.PowerState
	FromOff bool     // whether the machine is off before
	Effects []string // what it does to the machine
}

// PowerChanges are those changes, each with at least one effect in its first turn.
var PowerChanges = []PowerChange{
	{"on", node.PowerOn, true, []string{"power on"}},
	{"off", node.PowerOff, false, []string{"power off"}},
	{"soft off", node.SoftPowerOff, false, []string{"soft power off"}},
	{"reboot", node.Rebooting, false, []string{"power off", "power on"}},
	{"soft reboot", node.SoftRebooting, false, []string{"soft power off", "power on"}},
}

// Operation is the power change as the suite tests it.
func (c PowerChange) Operation() Operation {
	return Operation{Effects: c.Effects, Unclear: ReadsFirst, Untasked: true}
}

// origin is that of every call of the suite.
var origin = driver.Origin{Conductor: "conductor-1", Epoch: 7, Request: "request-1"}

// trial is one run of an operation on one fresh machine.
type trial struct {
	*testing.T
	Operation
	machine Machine
	do      TurnFunc
}

// Attempts checks what an operation does after each way in which the call before
// can have ended.
func Attempts(t *testing.T, o Operation) {
	t.Helper()
	for _, test := range []struct {
		name  string
		check func(*trial)
		not   bool // whether it does not concern the operation
	}{
		{"does everything once", (*trial).healthy, false},
		{"does it again after a refusal", (*trial).refused, false},
		{"does it after a call that had no effect", (*trial).broken, false},
		{"finds what a call did whose answer was lost", (*trial).lost, false},
		{"goes on after every turn whose outcome was lost", (*trial).crashed, false},
		{"goes on after the machine has lost its tasks", (*trial).tasksLost, false},
		{"fails when the machine fails", (*trial).failed, o.Untasked},
		{"obeys its context", (*trial).ended, false},
		{"waits for a task", (*trial).slow, o.Unwaited},
		{"waits for a task that it finds", (*trial).slowAndLost, o.Unwaited},
		{"does not take a refused read for a refused change", (*trial).refusedRead, o.Unwaited},
	} {
		if test.not {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			c := &trial{T: t, Operation: o}
			c.machine, c.do = o.New(t)
			test.check(c)
		})
	}
}

func fresh() driver.Turn { return driver.Turn{Origin: origin} }

// after returns the turn after a failed one, of which nothing was stored.
func after(turn driver.Turn, attempt driver.Attempt) driver.Turn {
	turn.Attempt = attempt
	return turn
}

// finish makes turns until the operation is done.
func (c *trial) finish(turn driver.Turn) {
	c.Helper()
	for range maxTurns {
		out, err := c.do(c.Context(), turn)
		if err != nil {
			c.Fatalf("attempt %q in phase %q: %v", turn.Attempt, turn.Phase, err)
		}
		if out.Done() {
			return
		}
		turn = After(turn, out)
	}
	c.Fatal("the operation never ends")
}

// fails makes a turn and checks its failure.
func (c *trial) fails(ctx context.Context, turn driver.Turn, refused bool) *node.DriverError {
	c.Helper()
	out, err := c.do(ctx, turn)
	var failure *node.DriverError
	if !errors.As(err, &failure) {
		c.Fatalf("turn = %+v, %v, want a DriverError", out, err)
	}
	if failure.Refused != refused {
		c.Fatalf("%v: refused is %v, want %v", failure, failure.Refused, refused)
	}
	return failure
}

func (c *trial) had(want ...string) {
	c.Helper()
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, c.machine.Effects()...)); diff != "" {
		c.Errorf("effects (-want +got):\n%s", diff)
	}
}

func (c *trial) healthy() {
	c.finish(fresh())
	c.had(c.Effects...)
}

func (c *trial) refused() {
	c.machine.Refuse()
	_ = c.fails(c.Context(), fresh(), true)
	c.had()
	c.machine.Heal()
	c.finish(after(fresh(), driver.Refused))
	c.had(c.Effects...)
}

func (c *trial) broken() {
	c.machine.Break()
	failure := c.fails(c.Context(), fresh(), false)
	if !failure.Retryable {
		c.Errorf("%v: want it retryable", failure)
	}
	c.machine.Heal()
	c.finish(after(fresh(), driver.Unknown))
	c.had(c.Effects...)
}

// loseFirst makes a turn whose answer never comes.
func (c *trial) loseFirst() {
	c.Helper()
	c.machine.LoseAnswers()
	before := len(c.machine.Effects())
	ctx, cancel := context.WithTimeout(c.Context(), testTimeout)
	defer cancel()
	acted := make(chan struct{})
	go func() {
		defer close(acted)
		defer cancel() // the deadline of the conductor ends when the machine has acted
		poll := time.NewTicker(time.Millisecond)
		defer poll.Stop()
		for len(c.machine.Effects()) == before && ctx.Err() == nil {
			<-poll.C
		}
	}()
	_ = c.fails(ctx, fresh(), false)
	<-acted
	c.machine.Heal()
}

// testTimeout bounds how long a test waits for something that must happen.
const testTimeout = 30 * time.Second

func (c *trial) lost() {
	c.loseFirst()
	c.finish(after(fresh(), driver.Unknown))
	c.had(c.Effects...)
}

// crashed loses the outcome of each turn once: the process died before it was
// stored.
func (c *trial) crashed() {
	for lost := range maxTurns {
		machine, do := c.New(c.T)
		turn, turns := fresh(), 0
		for ; turns < maxTurns; turns++ {
			out, err := do(c.Context(), turn)
			switch {
			case err != nil:
				c.Fatalf("outcome of turn %d lost, attempt %q in phase %q: %v", lost, turn.Attempt, turn.Phase, err)
			case turns == lost:
				turn = after(turn, driver.Unknown)
				continue
			}
			if out.Done() {
				break
			}
			turn = After(turn, out)
		}
		if diff := cmp.Diff(c.Effects, machine.Effects()); diff != "" {
			c.Errorf("outcome of turn %d lost: effects (-want +got):\n%s", lost, diff)
		}
		if lost >= turns {
			return
		}
	}
}

func (c *trial) tasksLost() {
	c.loseFirst()
	did := slices.Clone(c.machine.Effects())
	c.machine.ForgetTasks()
	turn := after(fresh(), driver.Unknown)
	switch c.Unclear {
	case Refrains:
		var unknown *node.DriverError
		if !errors.As(driver.OutcomeUnknown(""), &unknown) {
			c.Fatal("an unknown outcome is no failure of a driver")
		}
		want := unknown.Reason
		if failure := c.fails(c.Context(), turn, false); failure.Retryable || failure.Reason != want {
			c.Errorf("failure %v (retryable: %v), want that the outcome is unknown", failure, failure.Retryable)
		}
		c.had(did...)
	case Repeats:
		c.finish(turn)
		c.had(append(did, c.Effects...)...)
	case ReadsFirst:
		c.finish(turn)
		c.had(c.Effects...)
	}
}

func (c *trial) failed() {
	c.machine.FailTasks()
	if failure := c.fails(c.Context(), fresh(), false); failure.Retryable {
		c.Errorf("%v: want it final, the machine has tried", failure)
	}
}

func (c *trial) ended() {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	if out, err := c.do(ctx, fresh()); err == nil {
		c.Errorf("turn after the context ended = %+v, want an error", out)
	}
	c.had()
}

// underWay makes a turn that must ask for another one.
func (c *trial) underWay(turn driver.Turn) driver.Turn {
	c.Helper()
	out, err := c.do(c.Context(), turn)
	if err != nil || out.Done() {
		c.Fatalf("attempt %q in phase %q = %+v, %v, want another turn", turn.Attempt, turn.Phase, out, err)
	}
	return After(turn, out)
}

func (c *trial) slow() {
	c.machine.SlowTasks()
	turn := c.underWay(c.underWay(fresh()))
	c.had(c.Effects[0])
	c.machine.Heal()
	turn = c.underWay(turn)
	c.machine.EndTasks()
	c.finish(turn)
	c.had(c.Effects...)
}

func (c *trial) slowAndLost() {
	c.machine.SlowTasks()
	turn := c.underWay(fresh())
	did := slices.Clone(c.machine.Effects())
	c.machine.Heal()
	turn = c.underWay(after(turn, driver.Unknown)) // lost the answer to a read
	c.had(did...)
	c.machine.EndTasks()
	c.finish(turn)
	c.had(c.Effects...)
}

func (c *trial) refusedRead() {
	c.machine.SlowTasks()
	turn := c.underWay(fresh())
	c.machine.RefuseReads()
	_ = c.fails(c.Context(), turn, false)
	_ = c.fails(c.Context(), after(fresh(), driver.Unknown), false)
	c.machine.Heal()
	c.machine.EndTasks()
	c.finish(after(turn, driver.Unknown))
	c.had(c.Effects...)
}
