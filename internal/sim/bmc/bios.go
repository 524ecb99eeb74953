package bmc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// AttributeType is the type of a BIOS attribute, as attribute registries spell it.
type AttributeType string

// The types of BIOS attributes.
const (
	Enumeration AttributeType = "Enumeration"
	Integer     AttributeType = "Integer"
	Text        AttributeType = "String"
)

// Attribute is one BIOS attribute of a vendor.
type Attribute struct {
	Name, Label string
	Type        AttributeType
	Values      []string // of an enumeration
	Min, Max    int64    // of an integer; Max is also the longest text, in bytes
	Default     any      // string or int64
	ReadOnly    bool
}

// accepts reports whether the attribute can have a value. It returns the value in the type in which
// the BMC stores it.
func (a Attribute) accepts(value any) (any, bool) {
	switch v := value.(type) {
	case string:
		return v, a.Type == Enumeration && slices.Contains(a.Values, v) || a.Type == Text && int64(len(v)) <= a.Max
	case float64: // a number of a JSON document
		n := int64(v)
		return n, a.Type == Integer && float64(n) == v && a.Min <= n && n <= a.Max
	}
	return nil, false
}

// biosState is how the BIOS differs from the factory, and what the next boot will change.
type biosState struct {
	changed   map[string]any
	pending   map[string]any
	committed bool // the next boot applies pending
	reset     bool // the next boot restores the factory's values, before it applies pending
}

// BIOS returns the attributes as they are, by name.
func (b *BMC) BIOS() map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	values := make(map[string]any, len(b.config.Profile.Attributes))
	for _, a := range b.config.Profile.Attributes {
		values[a.Name] = a.Default
	}
	maps.Copy(values, b.bios.changed)
	return values
}

// PendingBIOS returns the attributes that the next boot may change, by name.
func (b *BMC) PendingBIOS() map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	pending := map[string]any{}
	maps.Copy(pending, b.bios.pending)
	return pending
}

// SetBIOS asks for attributes to be changed at the next boot. BMCs with BIOS jobs do that only if
// commit is set or ScheduleBIOS is called; with commit, SetBIOS returns the job. The error is a
// *RefusedError that names the first attribute, in the order of the names, that cannot be changed
// like this.
func (b *BMC) SetBIOS(c *Call, values map[string]any, commit bool) (job *Task, err error) {
	checked := make(map[string]any, len(values))
	err = b.apply(c, change{
		kind: ConfigureBIOS, detail: describe(values),
		check: func(time.Time) *RefusedError {
			if b.config.Profile.BIOSJobs && b.bios.committed {
				return &RefusedError{Reason: PendingBIOSJob}
			}
			return b.checkBIOS(values, checked)
		},
		do: func(now time.Time, fate effect.Fate) *Task {
			if fate.FailTask && !b.config.Profile.BIOSJobs {
				return nil
			}
			if b.bios.pending == nil {
				b.bios.pending = map[string]any{}
			}
			maps.Copy(b.bios.pending, checked)
			if !b.config.Profile.BIOSJobs {
				b.bios.committed = true
			} else if commit {
				job = b.scheduleBIOS(now, fate).copied()
			}
			return job
		},
	})
	return job, err
}

// ScheduleBIOS makes a job that changes the pending attributes at the next boot. The
// error is a *RefusedError.
func (b *BMC) ScheduleBIOS(c *Call) (job *Task, err error) {
	err = b.apply(c, change{
		kind: ConfigureBIOS, detail: "schedule",
		check: func(time.Time) *RefusedError {
			switch {
			case b.bios.committed:
				return &RefusedError{Reason: PendingBIOSJob}
			case len(b.bios.pending) == 0:
				return &RefusedError{Reason: NothingPending}
			}
			return nil
		},
		do: func(now time.Time, fate effect.Fate) *Task {
			job = b.scheduleBIOS(now, fate).copied()
			return job
		},
	})
	return job, err
}

func (b *BMC) scheduleBIOS(now time.Time, fate effect.Fate) *Task {
	b.bios.committed = true
	return b.addTask(Task{Kind: BIOSTask, Component: BIOSComponent, Begun: now, State: Scheduled, fails: fate.FailTask})
}

// ResetBIOS asks for the factory's values at the next boot. It replaces changes that
// wait for that boot. The error is nil.
func (b *BMC) ResetBIOS(c *Call) error {
	return b.apply(c, change{kind: ResetBIOS, do: func(_ time.Time, fate effect.Fate) *Task {
		if !fate.FailTask {
			b.bios.reset, b.bios.pending, b.bios.committed = true, nil, false
		}
		return nil
	}})
}

// checkBIOS finds the first value that cannot be set, and fills checked.
func (b *BMC) checkBIOS(values, checked map[string]any) *RefusedError {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := fmt.Sprint(values[name])
		i := slices.IndexFunc(b.config.Profile.Attributes, func(a Attribute) bool { return a.Name == name })
		if i < 0 {
			return &RefusedError{Reason: UnknownAttribute, Property: name, Value: text}
		}
		a := b.config.Profile.Attributes[i]
		if a.ReadOnly {
			return &RefusedError{Reason: ReadOnlyAttribute, Property: name, Value: text}
		}
		value, ok := a.accepts(values[name])
		if !ok {
			return &RefusedError{Reason: BadAttribute, Property: name, Value: text}
		}
		checked[name] = value
	}
	return nil
}

// applyBIOS does what the BIOS does during POST.
func (b *BMC) applyBIOS() {
	if b.bios.reset {
		b.bios.changed, b.bios.reset = nil, false
	}
	if !b.bios.committed {
		return
	}
	fails := b.endBIOSTask()
	if !fails && b.bios.changed == nil {
		b.bios.changed = map[string]any{}
	}
	if fails {
		b.secure.wanted = b.secure.current
	} else {
		maps.Copy(b.bios.changed, b.bios.pending)
	}
	b.bios.pending, b.bios.committed = nil, false
}

// describe lists values for the log.
func describe(values map[string]any) string {
	words := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		words = append(words, fmt.Sprintf("%s=%v", name, values[name]))
	}
	return strings.Join(words, " ")
}
