package bmctest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

const powerAdvice = "Look at the console of the machine, and switch it by hand if it is not in the state that it should be in."

// readWithin limits the reading of the machine's state after an interruption.
const readWithin = 15 * time.Second

// retryPause is the time before a change is tried again that the BMC refused for now.
const retryPause = 5 * time.Second

// cycle switches the machine off and on. The machine ends in the state in which it began.
func (m *machine) cycle(ctx context.Context) (finding, error) {
	before, err := m.readPower(ctx)
	if err != nil {
		return finding{}, err
	}
	var done []string
	fail := func(doing string, err error) (finding, error) {
		if len(done) > 0 {
			doing = "after " + join(done) + ", " + doing
		}
		return finding{}, fmt.Errorf("%s: %w; %s", doing, err, m.whereIsIt(ctx, before))
	}
	if before == node.PowerOff {
		if err := m.switchTo(ctx, node.PowerOn, node.PowerOn); err != nil {
			return fail("on", err)
		}
		done = append(done, "on")
	}
	how := "soft off"
	if err := m.switchTo(ctx, node.SoftPowerOff, node.PowerOff); err != nil {
		if ctx.Err() != nil {
			return fail(how, err)
		}
		how = "hard off, because soft off failed (" + describe(err) + ")"
		if err := m.switchTo(ctx, node.PowerOff, node.PowerOff); err != nil {
			return fail("hard off", err)
		}
	}
	done = append(done, how)
	if before == node.PowerOn {
		if err := m.switchTo(ctx, node.PowerOn, node.PowerOn); err != nil {
			return fail("on", err)
		}
		done = append(done, "on")
	}
	return finding{text: join(done) + "; it is " + state(before) + " as before"}, nil
}

// whereIsIt describes the state of a machine that could not be brought back to its earlier state.
// It reads the state even if the test was interrupted.
func (m *machine) whereIsIt(ctx context.Context, before node.PowerState) string {
	later := ""
	if ctx.Err() != nil {
		later = "; what was requested last may have its effect later"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	now, err := m.power.PowerState(ctx, m.node)
	if err != nil {
		return "the state of the machine cannot be read, it was " + state(before) + " before" + later
	}
	return "the machine is " + state(now) + ", it was " + state(before) + " before" + later
}

// state returns a power state as a word of a sentence.
func state(s node.PowerState) string {
	if s == node.PowerOn {
		return "on"
	}
	return "off"
}

func (m *machine) readPower(ctx context.Context) (node.PowerState, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	return m.power.PowerState(ctx, m.node)
}

// switchTo changes the power and reads the new state back.
func (m *machine) switchTo(ctx context.Context, target, wanted node.PowerState) error {
	err := m.change(ctx, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return m.power.SetPower(ctx, m.node, target, turn)
	})
	if err != nil {
		return err
	}
	now, err := m.readPower(ctx)
	if err == nil && now != wanted {
		err = fmt.Errorf("the BMC said that %s was done, and the machine is %s", target, state(now))
	}
	return err
}

// change makes the turns of a change until it is done or takes longer than the options allow. Like
// the engine, it tries again what the BMC could not do now.
func (m *machine) change(ctx context.Context, do func(context.Context, driver.Turn) (driver.Outcome, error)) error {
	begin := m.options.Clock.Now()
	turn := driver.Turn{}
	for {
		out, err := m.turn(ctx, turn, do)
		turn.Elapsed = m.options.Clock.Now().Sub(begin)
		pause := max(out.Again, out.Park)
		var failed *node.DriverError
		switch {
		case err == nil && out.Done():
			return nil
		case ctx.Err() != nil:
			return errors.New("interrupted")
		case err == nil:
			turn.Attempt, turn.Phase, turn.Handle = driver.Continued, out.Phase, out.Handle
		case errors.As(err, &failed) && failed.Retryable:
			pause, turn.Attempt = retryPause, after(turn.Attempt, failed)
		default:
			return err
		}
		if turn.Elapsed+pause > m.options.Timeout {
			if err == nil {
				err = fmt.Errorf("it was not done within %s", m.options.Timeout)
			}
			return err
		}
		if m.options.Clock.Wait(ctx, pause) != nil {
			return errors.New("interrupted")
		}
	}
}

func (m *machine) turn(ctx context.Context, turn driver.Turn, do func(context.Context, driver.Turn) (driver.Outcome, error)) (driver.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	return do(ctx, turn)
}

// after returns what is known about the earlier calls in a turn that follows a failure.
func after(before driver.Attempt, failed *node.DriverError) driver.Attempt {
	if before == driver.Unknown || !failed.Refused {
		return driver.Unknown
	}
	return driver.Refused
}
