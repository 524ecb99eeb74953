package inspect

import "strings"

// HookError is the failure of one hook.
type HookError struct {
	Hook string
	Err  error // for the operator; outside text in it is cut and cleaned
}

func (e *HookError) Error() string { return e.Hook + ": " + e.Err.Error() }

func (e *HookError) Unwrap() error { return e.Err }

// RunError is the failure of a pipeline: one or more failed Preprocess functions, or one failed
// Process function. The results of such a run must not be stored.
type RunError struct{ Hooks []*HookError }

// Error puts all hooks into one line.
func (e *RunError) Error() string {
	texts := make([]string, len(e.Hooks))
	for i, err := range e.Hooks {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap lets errors.As find the hook errors.
func (e *RunError) Unwrap() []error {
	errs := make([]error, len(e.Hooks))
	for i, err := range e.Hooks {
		errs[i] = err
	}
	return errs
}

func (e *RunError) add(hook Hook, err error) {
	e.Hooks = append(e.Hooks, &HookError{Hook: hook.Name, Err: err})
}
