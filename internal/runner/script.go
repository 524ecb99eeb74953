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
	// Does is what the work is called in the sentence "Failed to …"; empty when
	// Failed writes that sentence.
	Does string
	// NoRetry makes every failure final, also a temporary one.
	NoRetry bool
	// Operations lists the operations. It is called again after every commit; the
	// operations that were done or are in progress must then be the same, in the same
	// order, while later ones may depend on the present node.
	Operations func(Task) ([]Operation, error)
	// End writes the result of the work into the node. It runs in the commit that
	// removes the work.
	End func(tx *store.Tx, t Task, n *node.Node) error
	// Then is the kind of work that follows under the same lease; empty for none.
	Then store.WorkKind
	// LeaveInOrder lists what is done with the machine when the work fails; nil for
	// nothing. What it fails with is added to the reason.
	LeaveInOrder func(Task) []Operation
	// Failed writes what the failure means into the node, beside the state, and
	// returns the sentence for last_error; nil for nothing.
	Failed func(n *node.Node, reason string) string
	// Numbered lists the operations in the order in which releases before operations
	// had names counted them, those of LeaveInOrder when failing is true. Nil when
	// the work had none.
	Numbered func(t Task, failing bool) []Ref
}

// Task is one piece of work, as its script sees it.
type Task struct {
	Work *store.Work
	Node *node.Node // as it is now; scripts do not change it
	Hint any        // what the request that asked for the work knew; nil after a restart
	// Failing is why the work fails, while its machine is left in order.
	Failing string
}

// Ref names an operation of a script.
type Ref struct {
	// Name is stored, and read by later releases: it never changes and is never
	// used for something else.
	Name string `json:"name"`
	// Item tells operations of one name apart, such as the steps of a cleaning.
	Item string `json:"item,omitempty"`
}

// Operation is one part of a script. Exactly one of Change, Read, Store and Hold
// is set.
type Operation struct {
	Ref
	// Change changes a machine, turn by turn.
	Change Change
	// Read finds something out and changes nothing outside, so that it may be
	// repeated at any time.
	Read Read
	// Store changes the database and nothing else. It shares the commit of what
	// comes before or after it.
	Store Write
	// Hold puts the node into its hold state, until a client requests unhold; the work
	// then goes on with the next operation.
	Hold bool

	// Child is the UUID of the child node that Change changes instead of the node;
	// CheckChild refuses one that may not be changed.
	Child      string
	CheckChild func(tx *store.Tx, parent, child *node.Node) error
	// Harmless says that Change only reads the machine, so that nothing needs to be
	// stored before it.
	Harmless bool
	// Shown says that the machine shows whether Change was done, so that a turn that
	// follows a lost outcome reads that. Before an operation that only keeps a
	// processor busy, the outcome is stored with that of the latter.
	Shown bool
	// Decides says that what follows depends on what the operation stores, so that it is
	// stored before the next one is chosen.
	Decides bool
	// Skip leaves out the operation, unless it is in progress.
	Skip bool
	// Processor says that Read keeps a processor busy rather than a machine.
	Processor bool
	// Within bounds one call; zero means Config.CallTimeout.
	Within time.Duration
	// Begin writes into the node that the operation begins; nil for nothing.
	Begin func(*node.Node)
	// After checks the node after the operation; its error ends the work.
	After func(*node.Node) error
	// Explain adds to a failure what was done, or waited for; nil adds nothing.
	Explain func(error) error
	// Optional makes an operation whose failure is noted, and ends nothing. It
	// returns what to write about the failure.
	Optional func(error) Write
}

// Change is one turn of an operation that changes a machine.
type Change func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error)

// Read returns what to write of what it found; nil for nothing.
type Read func(ctx context.Context, n *node.Node) (Write, error)

// Write changes a node inside a transaction. It may run again on a fresh copy.
type Write func(tx *store.Tx, n *node.Node) error

// LaterError makes the operation be tried again after a while, without counting as a
// failed attempt. The script decides what it waits for, and for how long.
type LaterError struct {
	After  time.Duration
	Intent node.Object // the work's intent from now on
	Write  Write       // what to write into the node
	Cause  error
}

func (e *LaterError) Error() string { return e.Cause.Error() }
func (e *LaterError) Unwrap() error { return e.Cause }

// repeatable reports whether the operation may be done again at any time and keeps
// no processor busy.
func (o *Operation) repeatable() bool { return o.Harmless || o.Read != nil && !o.Processor }

// storedWith reports whether the outcome of an operation that was done may be stored
// with that of the next one.
func (o *Operation) storedWith(next *Operation) bool {
	switch {
	case o.After != nil || o.Decides || o.Processor || next.Skip:
		return false
	case o.Shown:
		return next.Processor
	}
	return next.repeatable()
}
