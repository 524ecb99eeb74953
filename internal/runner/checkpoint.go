package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// checkpoint is the progress of work, as its row stores it. Operations are stored by
// name, so that a later release can insert others between them.
type checkpoint struct {
	Done Ref `json:"done,omitzero"` // the last operation that was done
	// Passed is the last one behind it that was passed over. A version that does not know
	// that one goes on behind Done.
	Passed    Ref `json:"passed,omitzero"`
	Operation Ref `json:"operation,omitzero"` // the one under way
	// Attempt is what a process that claims the row must assume about the calls of the
	// operation in progress.
	Attempt driver.Attempt `json:"attempt,omitempty"`
	Since   time.Time      `json:"since,omitzero"` // when the operation under way began
	Phase   string         `json:"phase,omitempty"`
	Handle  string         `json:"handle,omitempty"`
	// ChildEpoch is the lease of the child node that the operation changes.
	ChildEpoch int64 `json:"child_epoch,omitempty"`
	// Callback says that a heartbeat of the agent ends the wait, and Called that
	// there was one. Due is when the wait ends without.
	Callback bool      `json:"callback,omitempty"`
	Called   bool      `json:"called,omitempty"`
	Due      time.Time `json:"due,omitzero"`
	numbered bool      // read from one with numbers, and not gone on from yet
	// Failing is why the work fails; what is left of it is to leave the machine in
	// order.
	Failing string `json:"failing,omitempty"`
	// Absences is how often time in which no engine was there was left out since the last
	// turn, or since the agent was heard.
	Absences int `json:"absences,omitempty"`
	// InDoubt says that the machine may be further than the row, so that nothing that
	// the work does from here on counts as done for the first time.
	InDoubt bool `json:"in_doubt,omitempty"`
}

// errUnknownOperation is a checkpoint that a newer release has written.
var errUnknownOperation = errors.New("operation is not known to this version")

// encode returns the checkpoint's text, empty before the first one.
func (c checkpoint) encode() string {
	if c == (checkpoint{}) {
		return ""
	}
	text, err := json.Marshal(c)
	if err != nil { // plain values always marshal
		panic(fmt.Sprintf("runner: checkpoint: %v", err))
	}
	return string(text)
}

// finished is the checkpoint after an operation.
func (c checkpoint) finished(done Ref) checkpoint {
	return checkpoint{Done: done, Failing: c.Failing, InDoubt: c.InDoubt}
}

// passed is the checkpoint behind an operation that is passed over.
func (c checkpoint) passed(op Ref) checkpoint {
	return checkpoint{Done: c.Done, Passed: op, Failing: c.Failing, InDoubt: c.InDoubt}
}

// began is the checkpoint of an operation that begins now. Whoever finds it knows
// nothing of its effect.
func (c checkpoint) began(op Ref, now time.Time) checkpoint {
	return checkpoint{Done: c.Done, Operation: op, Attempt: driver.Unknown, Since: now, Failing: c.Failing, InDoubt: c.InDoubt}
}

// maxAbsences bounds Absences: work that ends the process each time must end too.
const maxAbsences = 5

// resumed is the checkpoint of work that could go on from due and does so now. The time in
// between, in which every engine was away or busy, does not count for the operation under way:
// what had no chance to be done is not too late.
func (c checkpoint) resumed(due, now time.Time) checkpoint {
	if c.Operation == (Ref{}) || !now.After(due) || c.Absences == maxAbsences {
		return c
	}
	c.Absences++
	if c.Since = c.Since.Add(now.Sub(due)); c.Since.After(now) {
		c.Since = now
	}
	return c
}

// continued is the checkpoint after a turn that asks for another one.
func (c checkpoint) continued(out driver.Outcome) checkpoint {
	c.Phase, c.Handle, c.Attempt = out.Phase, out.Handle, driver.Continued
	c.Callback, c.Called, c.Due, c.Absences = false, false, time.Time{}, 0
	if out.Waits {
		c.Since = c.Since.Add(max(out.Again, out.Park))
	}
	return c
}

// firstAttempt is what a driver is told when an operation begins.
func (c checkpoint) firstAttempt() driver.Attempt {
	if c.InDoubt {
		return driver.Unknown
	}
	return driver.Fresh
}

// next returns the operation that is in progress or follows, nil after the last one,
// and errUnknownOperation when the list does not have the one that is in progress or was done.
func (c checkpoint) next(operations []Operation) (*Operation, error) {
	find := func(ref Ref) int {
		return slices.IndexFunc(operations, func(o Operation) bool { return o.Ref == ref })
	}
	at, passed := 0, find(c.Passed)
	switch {
	case c.Operation != (Ref{}):
		if at = find(c.Operation); at < 0 {
			return nil, fmt.Errorf("%s: %w", c.Operation.Name, errUnknownOperation)
		}
	case passed >= 0:
		at = passed + 1
	case c.Done != (Ref{}):
		if at = find(c.Done) + 1; at == 0 {
			return nil, fmt.Errorf("%s: %w", c.Done.Name, errUnknownOperation)
		}
	}
	if at == len(operations) {
		return nil, nil
	}
	return &operations[at], nil
}

// numbered is a checkpoint of releases in which operations had numbers.
type numbered struct {
	At       int       `json:"at"`
	Begun    bool      `json:"begun"`
	Since    time.Time `json:"since"`
	Phase    string    `json:"phase"`
	Callback bool      `json:"callback"`
	Called   bool      `json:"called"`
	Doomed   string    `json:"doomed"`
	InDoubt  bool      `json:"in_doubt"`
}

// decode reads a checkpoint. One with numbers is read with the list of what they
// counted.
func decode(text string, t Task, script Script) (checkpoint, error) {
	if text == "" {
		return checkpoint{}, nil
	}
	var c checkpoint
	var old numbered
	if err := errors.Join(json.Unmarshal([]byte(text), &c), json.Unmarshal([]byte(text), &old)); err != nil {
		return c, fmt.Errorf("read checkpoint of work %d: %w", t.Work.ID, err)
	}
	if old.At == 0 && !old.Begun && old.Doomed == "" {
		return c, nil
	}
	return old.named(t, script)
}

// named gives the operations of a numbered checkpoint their names.
func (old numbered) named(t Task, script Script) (checkpoint, error) {
	c := checkpoint{numbered: true, Failing: old.Doomed, Since: old.Since, Phase: old.Phase, Callback: old.Callback, Called: old.Called, InDoubt: old.InDoubt}
	var refs []Ref
	if script.Numbered != nil {
		refs = script.Numbered(t, old.Doomed != "")
	}
	if old.At > len(refs) || old.Begun && old.At == len(refs) {
		return c, fmt.Errorf("read checkpoint of work %d: operation %d of %q: %w", t.Work.ID, old.At, t.Work.Kind, errUnknownOperation)
	}
	if old.At > 0 {
		c.Done = refs[old.At-1]
	}
	if old.Begun {
		c.Operation, c.Attempt = refs[old.At], driver.Unknown
		if t.Node.ProvisionState.Class() == node.Waiting && !old.InDoubt {
			c.Attempt = driver.Continued
		}
	}
	return c, nil
}

// Doubt notes in the checkpoint of work that goes on at now after its database was in
// doubt that machines may be further than it says. What is under way begins now as
// far as its time counts.
func Doubt(step string, now time.Time) (string, error) {
	fields := map[string]json.RawMessage{}
	if step != "" {
		if err := json.Unmarshal([]byte(step), &fields); err != nil {
			return step, fmt.Errorf("read checkpoint: %w", err)
		}
	}
	set := map[string]any{"in_doubt": true}
	if _, begun := fields["operation"]; begun {
		set["attempt"] = driver.Unknown
	}
	if _, begun := fields["since"]; begun {
		set["since"] = now
	}
	for key, value := range set {
		text, err := json.Marshal(value)
		if err != nil {
			return step, err
		}
		fields[key] = text
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

// Call records a heartbeat in the checkpoint of parked work. It returns false when the
// work does not wait for one.
func Call(step string) (called string, waited bool, err error) {
	var fields map[string]json.RawMessage
	if step == "" {
		return step, false, nil
	}
	if err := json.Unmarshal([]byte(step), &fields); err != nil {
		return step, false, fmt.Errorf("read checkpoint: %w", err)
	}
	if string(fields["callback"]) != "true" {
		return step, false, nil
	}
	fields["called"] = json.RawMessage("true")
	text, err := json.Marshal(fields)
	return string(text), true, err
}
