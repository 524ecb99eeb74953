package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Faults are the ways in which a machine fails. The zero value has none. Chances
// are drawn for every call anew.
type Faults struct {
	// Delay is how long the machine takes to answer. It does what it was asked to do before the
	// delay.
	Delay Duration `json:"delay,omitempty"`
	// Unreachable does nothing and cuts the connection at once.
	Unreachable Chance `json:"unreachable,omitempty"`
	// Hang does nothing and never answers.
	Hang Chance `json:"hang,omitempty"`
	// Refuse does nothing and answers 409.
	Refuse Chance `json:"refuse,omitempty"`
	// Error does nothing and answers 500.
	Error Chance `json:"error,omitempty"`
	// LoseAnswer does what was asked, and never answers.
	LoseAnswer Chance `json:"lose_answer,omitempty"`
	// Lie answers that it is done and does nothing.
	Lie Chance `json:"lie,omitempty"`
	// TaskTime is how long tasks take: the tasks of long effects, and also those of other effects
	// that Only names.
	TaskTime Duration `json:"task_time,omitempty"`
	// FailTask makes a task fail at its end.
	FailTask Chance `json:"fail_task,omitempty"`
	// Only limits these faults to some kinds of effects; "read" stands for calls that change
	// nothing. Empty means every call.
	Only []string `json:"only,omitempty"`
	// Agent are the faults of the agent in the machine's ramdisk.
	Agent AgentFaults `json:"agent,omitzero"`
}

// Reading is the kind of calls that change nothing.
const Reading = "read"

// check returns an error if the faults name kinds of effects that these machines do not have, or
// are not valid.
func (f Faults) check(known func(kind string) bool) error {
	for _, kind := range f.Only {
		if kind != Reading && !known(kind) {
			return fmt.Errorf("there is no kind %q of effects", kind)
		}
	}
	if !f.Agent.none() && !known(AgentCommand) {
		return errors.New("these machines have no agents that could fail")
	}
	return f.Agent.Validate()
}

// Fate is what becomes of one call; the fields are named as those of [Faults].
type Fate struct {
	Delay                            time.Duration
	Unreachable, Hang, Refuse, Error bool
	LoseAnswer, Lie                  bool
	TaskTime                         time.Duration
	FailTask                         bool
}

// draw decides what becomes of a call.
func (f Faults) draw(kind string, slow bool, random *rand.Rand) Fate {
	named := slices.Contains(f.Only, kind)
	if len(f.Only) > 0 && !named {
		return Fate{}
	}
	drawn := func(c Chance) bool { return c > 0 && random.Float64() < float64(c) }
	out := Fate{
		Delay: time.Duration(f.Delay), Unreachable: drawn(f.Unreachable),
		Hang: drawn(f.Hang), Refuse: drawn(f.Refuse), Error: drawn(f.Error),
	}
	if kind == Reading {
		return out
	}
	out.LoseAnswer, out.Lie, out.FailTask = drawn(f.LoseAnswer), drawn(f.Lie), drawn(f.FailTask)
	if slow || named {
		out.TaskTime = time.Duration(f.TaskTime)
	}
	return out
}

// Fault returns the name of the fault that the call meets, for Effect.Fault; empty means none.
func (f Fate) Fault() string {
	switch {
	case f.Unreachable:
		return "unreachable"
	case f.Hang:
		return "hang"
	case f.Refuse:
		return "refuse"
	case f.Error:
		return "error"
	case f.Lie:
		return "lie"
	case f.LoseAnswer:
		return "lose answer"
	case f.FailTask:
		return "fail task"
	}
	return ""
}

// Spared reports whether the machine accepts what it is asked to do. A machine that lies accepts it
// as well.
func (f Fate) Spared() bool { return !f.Unreachable && !f.Hang && !f.Refuse && !f.Error }

// Wait waits until the machine answers, and returns true. It returns false if the machine does not
// answer: at once if it is unreachable, otherwise when ctx ends because the client is gone.
func (f Fate) Wait(ctx context.Context) (answers bool) {
	if f.Unreachable {
		return false
	}
	if f.Hang || f.LoseAnswer {
		<-ctx.Done()
		return false
	}
	if f.Delay <= 0 {
		return true
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Chance is how probable something is, from 0 to 1. Its text may be a percentage.
type Chance float64

// Set reads a chance, such as "0.01" or "1%".
func (c *Chance) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	value, err := strconv.ParseFloat(number, 64)
	if percent {
		value /= 100
	}
	if err != nil || !(value >= 0 && value <= 1) {
		return fmt.Errorf("want a chance from 0 to 1 or from 0%% to 100%%, got %q", text)
	}
	*c = Chance(value)
	return nil
}

// String writes the chance as a percentage.
func (c *Chance) String() string { return strconv.FormatFloat(float64(*c)*100, 'g', -1, 64) + "%" }

// Type names the value in the help of a command.
func (*Chance) Type() string { return "chance" }

// UnmarshalJSON reads a number or a text.
func (c *Chance) UnmarshalJSON(text []byte) error { return c.Set(strings.Trim(string(text), `"`)) }

// Duration is a time that JSON has as text, such as "300ms".
type Duration time.Duration

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(text []byte) error {
	parsed, err := time.ParseDuration(strings.Trim(string(text), `"`))
	if err != nil || parsed < 0 {
		return fmt.Errorf("want a time such as \"300ms\", got %s", text)
	}
	*d = Duration(parsed)
	return nil
}
