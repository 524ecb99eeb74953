package agent

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Statuses of a command.
const (
	statusRunning         = "RUNNING"
	statusSucceeded       = "SUCCEEDED"
	statusFailed          = "FAILED"
	statusVersionMismatch = "CLEAN_VERSION_MISMATCH" // for every kind of step, not only for clean steps
)

// resultDocument is a command as the API shows it.
type resultDocument struct {
	ID      string        `json:"id"`
	Name    string        `json:"command_name"` // without the extension
	Status  string        `json:"command_status"`
	Error   *commandError `json:"command_error"`
	Outcome any           `json:"command_result"`
}

// result is a command that was accepted.
type result struct {
	number   int            // since the agent started, from 1
	document resultDocument // guarded by commandList.mu
	done     chan struct{}  // closed when the command ended
}

// join waits for the command or for ctx.
func (r *result) join(ctx context.Context) {
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// commandList has all commands of one boot, in the order of their arrival.
type commandList struct {
	// ctx ends when the power is cut. Its end ends all commands.
	ctx     context.Context //nolint:containedctx // of the commands, which outlive their requests
	cut     context.CancelFunc
	working sync.WaitGroup

	mu      sync.Mutex
	over    bool // the power was cut
	results []*result
}

func newCommandList() *commandList {
	l := &commandList{}
	l.ctx, l.cut = context.WithCancel(context.Background())
	return l
}

// end cuts the power and returns when all commands have ended.
func (l *commandList) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.cut()
	l.working.Wait()
}

// pause waits for the duration of a command. It returns false when the power was cut.
func (l *commandList) pause(clock Clock, d time.Duration) bool {
	return Sleep(l.ctx, clock, d) == nil
}

// add records a new command and returns it, with first as the document of the new command. While
// another command is running, it returns a fault that names that command. The caller must call
// working.Done when the added command has ended.
func (l *commandList) add(id, name string) (r *result, first resultDocument, f *fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, first, httpFault(http.StatusServiceUnavailable, "The ramdisk is going down.")
	}
	if busy := l.busy(); busy != "" {
		return nil, first, busyFault(busy)
	}
	r = &result{
		number:   len(l.results) + 1,
		document: resultDocument{ID: id, Name: name, Status: statusRunning},
		done:     make(chan struct{}),
	}
	l.results = append(l.results, r)
	l.working.Add(1)
	return r, r.document, nil
}

// busyWith returns the name of the running command, or "" if there is none.
func (l *commandList) busyWith() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy()
}

// busy is busyWith for callers that hold the lock. Only the latest command can be running.
func (l *commandList) busy() string {
	if n := len(l.results); n > 0 && l.results[n-1].document.Status == statusRunning {
		return l.results[n-1].document.Name
	}
	return ""
}

// finish records the outcome of a command.
func (l *commandList) finish(r *result, outcome any, failure *commandError) {
	l.mu.Lock()
	switch {
	case failure == nil:
		r.document.Status, r.document.Outcome = statusSucceeded, outcome
	case failure.Type == "VersionMismatch":
		r.document.Status, r.document.Error = statusVersionMismatch, failure
	default:
		r.document.Status, r.document.Error = statusFailed, failure
	}
	l.mu.Unlock()
	close(r.done)
}

// find returns the command with an identifier, or nil.
func (l *commandList) find(id string) *result {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.results, func(r *result) bool { return r.document.ID == id })
	if i < 0 {
		return nil
	}
	return l.results[i]
}

// document returns the present state of a command.
func (l *commandList) document(r *result) resultDocument {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.document
}

// documents returns the present state of all commands.
func (l *commandList) documents() []resultDocument {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]resultDocument, 0, len(l.results))
	for _, r := range l.results {
		all = append(all, r.document)
	}
	return all
}
