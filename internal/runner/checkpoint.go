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

// checkpoint is the progress of work, as its row stores it. It names operations instead of
// numbering them, so that a later release can insert operations.
type checkpoint struct {
	Done Ref `json:"done,omitzero"` // the last operation that is done
	// Passed is the last operation after Done that was skipped. A version that does not know this
	// operation goes on after Done.
	Passed    Ref `json:"passed,omitzero"`
	Operation Ref `json:"operation,omitzero"` // the operation in progress
	// Attempt is what a process that claims the row must assume about the calls of the operation in
	// progress.
	Attempt driver.Attempt `json:"attempt,omitempty"`
	Since   time.Time      `json:"since,omitzero"` // when the operation in progress began
	Phase   string         `json:"phase,omitempty"`
	Handle  string         `json:"handle,omitempty"`
	// ChildEpoch is the epoch of the lease of the child node that the operation changes.
	ChildEpoch int64 `json:"child_epoch,omitempty"`
	// Callback says that a heartbeat of the agent ends the wait, and Heard that a heartbeat came.
	// Due is when the wait ends without a heartbeat.
	Callback bool      `json:"callback,omitempty"`
	Heard    bool      `json:"called,omitempty"`
	Due      time.Time `json:"due,omitzero"`
	numbered bool      // decoded from a numbered checkpoint, and not continued yet
	// Failing is why the work fails. What remains to be done is to leave the machine in order.
	Failing string `json:"failing,omitempty"`
	// Absences is how often time without any engine was left out since the last turn, or since the
	// last heartbeat.
	Absences int `json:"absences,omitempty"`
	// InDoubt says that the machine may be further than the row, so that nothing that the work does
	// from now on is certain to happen for the first time.
	InDoubt bool `json:"in_doubt,omitempty"`
}

// errUnknownOperation is the error for a checkpoint that a newer release has written.
var errUnknownOperation = errors.New("operation is not known to this version")

// encode returns the text of the checkpoint, "" for the zero value.
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

// finished returns the checkpoint after an operation.
func (c checkpoint) finished(done Ref) checkpoint {
	return checkpoint{Done: done, Failing: c.Failing, InDoubt: c.InDoubt}
}

// passed returns the checkpoint after an operation that was skipped.
func (c checkpoint) passed(op Ref) checkpoint {
	return checkpoint{Done: c.Done, Passed: op, Failing: c.Failing, InDoubt: c.InDoubt}
}

// began returns the checkpoint of an operation that begins now. A process that finds it knows
// nothing about the effect of the operation.
func (c checkpoint) began(op Ref, now time.Time) checkpoint {
	return checkpoint{Done: c.Done, Operation: op, Attempt: driver.Unknown, Since: now, Failing: c.Failing, InDoubt: c.InDoubt}
}

// maxAbsences is the limit of Absences. Without it, work that crashes the process each time would
// never end.
const maxAbsences = 5

// resumed returns the checkpoint of work that could go on from due and goes on now. In between
// every engine was away or busy. That time does not count for the operation in progress: an
// operation is not too late for what it had no chance to do.
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

// continued returns the checkpoint after a turn that asks for another one.
func (c checkpoint) continued(out driver.Outcome) checkpoint {
	c.Phase, c.Handle, c.Attempt = out.Phase, out.Handle, driver.Continued
	c.Callback, c.Heard, c.Due, c.Absences = false, false, time.Time{}, 0
	if out.Waits {
		c.Since = c.Since.Add(max(out.Again, out.Park))
	}
	return c
}

// firstAttempt returns what to tell a driver when an operation begins.
func (c checkpoint) firstAttempt() driver.Attempt {
	if c.InDoubt {
		return driver.Unknown
	}
	return driver.Fresh
}

// next returns the operation that is in progress or follows, nil after the last one. It returns
// errUnknownOperation when the list lacks the operation that is in progress or done.
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

// numbered is a checkpoint of releases that numbered operations.
type numbered struct {
	At       int       `json:"at"`
	Begun    bool      `json:"begun"`
	Since    time.Time `json:"since"`
	Phase    string    `json:"phase"`
	Callback bool      `json:"callback"`
	Heard    bool      `json:"called"`
	Doomed   string    `json:"doomed"`
	InDoubt  bool      `json:"in_doubt"`
}

// decode reads a checkpoint. For a numbered checkpoint it uses the list of operations that the old
// releases numbered.
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

// named converts a numbered checkpoint into one with names.
func (old numbered) named(t Task, script Script) (checkpoint, error) {
	c := checkpoint{numbered: true, Failing: old.Doomed, Since: old.Since, Phase: old.Phase, Callback: old.Callback, Heard: old.Heard, InDoubt: old.InDoubt}
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

// Doubt marks the stored checkpoint of work that resumes at now: the database was in doubt, and the
// machine may be further than the checkpoint says. The time limit of an operation in progress
// begins anew.
func Doubt(stored string, now time.Time) (string, error) {
	fields := map[string]json.RawMessage{}
	if stored != "" {
		if err := json.Unmarshal([]byte(stored), &fields); err != nil {
			return stored, fmt.Errorf("read checkpoint: %w", err)
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
			return stored, err
		}
		fields[key] = text
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

// NoteHeartbeat notes a heartbeat in the stored checkpoint of parked work. Waited is false when the
// work does not wait for a heartbeat.
func NoteHeartbeat(stored string) (noted string, waited bool, err error) {
	var fields map[string]json.RawMessage
	if stored == "" {
		return stored, false, nil
	}
	if err := json.Unmarshal([]byte(stored), &fields); err != nil {
		return stored, false, fmt.Errorf("read checkpoint: %w", err)
	}
	if string(fields["callback"]) != "true" {
		return stored, false, nil
	}
	fields["called"] = json.RawMessage("true")
	text, err := json.Marshal(fields)
	return string(text), true, err
}
