package inspect

import "strings"

// HookError is the failure of one hook.
type HookError struct {
	Hook string
	Err  error // for the operator; outside text in it is cut and cleaned
}

func (e *HookError) Error() string { return e.Hook + ": " + e.Err.Error() }

func (e *HookError) Unwrap() error { return e.Err }

// Failure is a pipeline that did not finish: one or more failed preprocess hooks,
// or one failed main hook. Nothing of that run is to be stored.
type Failure struct{ Hooks []*HookError }

// Error puts all hooks into one line.
func (f *Failure) Error() string {
	texts := make([]string, len(f.Hooks))
	for i, err := range f.Hooks {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap lets errors.As find the hook errors.
func (f *Failure) Unwrap() []error {
	errs := make([]error, len(f.Hooks))
	for i, err := range f.Hooks {
		errs[i] = err
	}
	return errs
}

func (f *Failure) add(hook Hook, err error) {
	f.Hooks = append(f.Hooks, &HookError{Hook: hook.Name, Err: err})
}
