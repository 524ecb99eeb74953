package runner

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Script describes one kind of work: its operations in order, and what their end means
// for the node.
type Script struct {
	// DrivesState says that the work is the node's provision state: it waits in the
	// waiting state, and its failure is the failed state. Other work leaves the
	// provision state alone.
	DrivesState bool
	// Does describes the work in the sentence "Failed to …"; empty when Failed writes that
	// sentence.
	Does string
	// Processor says that the work is there for an operation that keeps a processor busy. Such work
	// does not wait in the queue behind work that is there to change machines. The calls to machines
	// that it makes itself wait for their turn like all others.
	Processor bool
	// NoRetry makes every failure final, even a temporary one.
	NoRetry bool
	// Operations lists the operations. It is called again after every commit. Operations that are
	// done or in progress must then be the same, in the same order; later ones may depend on the
	// present node.
	Operations func(Task) ([]Operation, error)
	// End writes the result of the work into the node. It runs in the commit that
	// removes the work.
	End func(tx *store.Tx, t Task, n *node.Node) error
	// Then is the kind of work that follows under the same lease; empty for none.
	Then store.WorkKind
	// CleanUp lists the operations that leave the machine in order when the work fails; nil for
	// none. If one of them fails too, its error is added to the reason.
	CleanUp func(Task) []Operation
	// Failed writes the meaning of the failure into the node, except the state, and returns the
	// sentence for last_error; nil for nothing.
	Failed func(n *node.Node, reason string) string
	// Numbered lists the operations in the order of the numbers that earlier releases used instead
	// of names, or those of CleanUp when failing is true. It is nil for work that those
	// releases did not have.
	Numbered func(t Task, failing bool) []Ref
}

// Task is one piece of work, as its script sees it.
type Task struct {
	Work *store.Work
	Node *node.Node // as it is now; scripts do not change it
	Hint any        // data from the request for the work; nil after a restart
	// Failing is why the work has failed, while its machine is left in order.
	Failing string
}

// Ref names an operation of a script.
type Ref struct {
	// Name is stored, and later releases read it. It never changes and is never used for another
	// operation.
	Name string `json:"name"`
	// Item distinguishes operations of the same name, such as the steps of a cleaning.
	Item string `json:"item,omitempty"`
}

// Operation is one part of a script. Exactly one of Change, Read, Store and Hold
// is set.
type Operation struct {
	Ref
	// Change changes a machine, turn by turn.
	Change Change
	// Read finds something out. It changes nothing outside, so it may be repeated at any time.
	Read Read
	// Store changes only the database. It shares the commit of the operation before or after it.
	Store Write
	// Hold puts the node into its hold state until a client requests unhold; the work then goes on
	// with the next operation.
	Hold bool

	// Child is the UUID of the child node that Change changes instead of the node. CheckChild
	// refuses a child that may not be changed.
	Child      string
	CheckChild func(tx *store.Tx, parent, child *node.Node) error
	// ReadsOnly says that Change only reads, so that nothing needs to be stored before it.
	ReadsOnly bool
	// Shown says that the machine shows whether Change was done, so that a turn after a lost
	// outcome can read it. The outcome need not be stored at once: if the next operation only keeps
	// a processor busy, it is stored with the outcome of that one.
	Shown bool
	// Decides says that the following operations depend on what this one stores, so that its
	// outcome is stored before the next operation is chosen.
	Decides bool
	// Skip skips the operation, unless it is in progress.
	Skip bool
	// Processor says that Read keeps a processor busy rather than a machine.
	Processor bool
	// Within limits one call; zero means Config.CallTimeout.
	Within time.Duration
	// Begin notes in the node that the operation begins; nil for nothing.
	Begin func(*node.Node)
	// After checks the node after the operation; an error fails the work.
	After func(*node.Node) error
	// Explain adds to an error what was being done or waited for; nil adds nothing.
	Explain func(error) error
	// OnFailure returns what to write about a failure of the operation. The work then goes on. If
	// OnFailure is nil, the work fails.
	OnFailure func(error) Write
}

// Change is one turn of an operation that changes a machine.
type Change func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error)

// Read returns a function that writes what it found; nil for nothing.
type Read func(ctx context.Context, n *node.Node) (Write, error)

// Write changes a node inside a transaction. It may run again on a fresh copy.
type Write func(tx *store.Tx, n *node.Node) error

// LaterError makes the operation be tried again after a while, without counting as a failed
// attempt. The script decides what to wait for, and for how long.
type LaterError struct {
	After  time.Duration
	Intent node.Object // new intent of the work
	Write  Write       // what to write into the node
	Cause  error
}

func (e *LaterError) Error() string { return e.Cause.Error() }
func (e *LaterError) Unwrap() error { return e.Cause }

// SkipIf returns the operation as one that is skipped if the condition is true, or if it would be
// skipped anyway.
func (o Operation) SkipIf(condition bool) Operation {
	o.Skip = o.Skip || condition
	return o
}

// repeatable reports whether the operation may be repeated at any time and keeps no processor busy.
func (o *Operation) repeatable() bool { return o.ReadsOnly || o.Read != nil && !o.Processor }

// storedWith reports whether the outcome of this operation may be stored with the outcome of the
// next one.
func (o *Operation) storedWith(next *Operation) bool {
	switch {
	case o.After != nil || o.Decides || o.Processor || next.Skip:
		return false
	case o.Shown:
		return next.Processor
	}
	return next.repeatable()
}
