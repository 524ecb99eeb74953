package conductor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Names and items of the operations that check which machine the BMC of a node belongs to.
const (
	noteIdentityName  = "note identity"
	checkIdentityName = "check identity"
	checkBMCIsOwnName = "check whose machine it is"
	beforeLeaving     = "before leaving" // item of the checks after work has failed
)

// identifierOf returns the management interface of the node, if that interface can tell which
// machine the BMC belongs to.
func (c *Conductor) identifierOf(n *node.Node) (driver.Identifier, bool) {
	identifier, err := driver.Ability[driver.Identifier](c.drivers, n, node.ManagementInterface, "telling which machine it is")
	return identifier, err == nil
}

// noteIdentity returns the operation that stores which machine the node stands for from now on. If
// the BMC does not tell, the stored identity stays as it is.
func (c *Conductor) noteIdentity(n *node.Node) runner.Operation {
	_, ok := c.identifierOf(n)
	return runner.Operation{Ref: runner.Ref{Name: noteIdentityName}, Skip: !ok, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
		found := c.readIdentity(ctx, n)
		if err := c.refuseMachineOfAnother(ctx, n, found); err != nil {
			return nil, err
		}
		return storeIdentity(found), nil
	}}
}

// ofOwnMachine puts checkBMCIsOwn before each attempt of a change.
func (c *Conductor) ofOwnMachine(change runner.Change) runner.Change {
	return afterCheck(c.checkBMCIsOwn, change)
}

// ofSameMachine puts the check which machine it is before each attempt of an operation. In work that
// leaves a machine in order, checkBeforeLeaving does not suffice, because the BMC may not have
// answered it.
func (c *Conductor) ofSameMachine(operation runner.Operation) runner.Operation {
	operation.Change = afterCheck(c.refuseOtherMachine, operation.Change)
	return operation
}

// afterCheck puts a check before each attempt of a change, because the addresses of BMCs may have
// been reassigned since the last attempt, or while no BMC answered. A turn that goes on with a
// change is not checked. One in the first phase or in a wait is, because the change may have waited
// long before it did anything, such as for the end of a firmware update. A change under way decides
// itself how long its BMC may be silent, so a check without an answer does not end the attempt: it
// only keeps a change that waits from going on.
func afterCheck(check func(context.Context, *node.Node) error, change runner.Change) runner.Change {
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		waits := driver.IsWaitPhase(turn.Phase)
		if turn.Attempt == driver.Continued && turn.Phase != "" && !waits {
			return change(ctx, n, turn)
		}
		if turn.Phase == "" {
			ctx, err := checkOnce(ctx, n, check)
			if err != nil {
				return driver.Outcome{}, err
			}
			return change(ctx, n, turn)
		}
		ctx, unchecked := checkOnce(ctx, n, inPart(check))
		if refuses(unchecked) {
			return driver.Outcome{}, unchecked
		}
		out, err := change(ctx, n, turn)
		if err == nil && unchecked != nil && waits && (out.Done() || !driver.IsWaitPhase(out.Phase)) {
			return driver.Outcome{}, unchecked // nothing was changed yet
		}
		return out, err
	}
}

// inPart bounds a check to half of the time for the call, so that a BMC that does not answer leaves
// time for the change.
func inPart(check func(context.Context, *node.Node) error) func(context.Context, *node.Node) error {
	return func(ctx context.Context, n *node.Node) error {
		if end, bounded := ctx.Deadline(); bounded {
			half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
			defer cancel()
			ctx = half
		}
		return check(ctx, n)
	}
}

// checkOnce makes a check and notes its result in the context that it returns. If one was made in
// this attempt already, it returns that result: where checks are around each other, the outer one is
// as strict as the inner ones, and each would take its part of the time for the change.
func checkOnce(ctx context.Context, n *node.Node, check func(context.Context, *node.Node) error) (context.Context, error) {
	if made, ok := ctx.Value(checkKey{}).(checkResult); ok {
		return ctx, made.err
	}
	err := check(ctx, n)
	return context.WithValue(ctx, checkKey{}, checkResult{err}), err
}

// checkKey is the key of a checkResult in the context of an attempt.
type checkKey struct{}

type checkResult struct{ err error }

// checkedInDoubt puts a check before each change of a list of operations when nobody knows what
// became of the last attempt: the database may have gone back, and with it the address of the BMC.
// Only another machine ends the work; without an answer, the change decides what to do.
func checkedInDoubt(check func(context.Context, *node.Node) error, list func(runner.Task) ([]runner.Operation, error)) func(runner.Task) ([]runner.Operation, error) {
	return func(t runner.Task) ([]runner.Operation, error) {
		operations, err := list(t)
		for i, o := range operations {
			if o.Change == nil || o.ReadsOnly || o.Child != "" {
				continue
			}
			operations[i].Change = func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
				if turn.Attempt == driver.Unknown {
					checked, err := checkOnce(ctx, n, inPart(check))
					if refuses(err) {
						return driver.Outcome{}, err
					}
					ctx = checked
				}
				return o.Change(ctx, n, turn)
			}
		}
		return operations, err
	}
}

// refuses reports whether a check has found another machine, or could not ask the database.
func refuses(err error) bool {
	var other *otherMachineError
	return errors.As(err, &other) || errors.Is(err, node.ErrUnavailable)
}

// checkOwnerBeforeLeaving returns the check that ends a failed power change before anything more is
// done to the machine of another node.
func (c *Conductor) checkBMCIsOwnBeforeLeaving(n *node.Node) runner.Operation {
	_, ok := c.identifierOf(n)
	return whenLeaving(runner.Operation{Ref: runner.Ref{Name: checkBMCIsOwnName}, Skip: !ok, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
		return nil, c.checkBMCIsOwn(ctx, n)
	}})
}

// checkBMCIsOwn returns an *otherMachineError when the node's BMC belongs to the machine of another
// node. It accepts a machine for which no node stands, so that a machine whose main board was
// replaced can be switched on. Only checkIdentity refuses such a machine.
func (c *Conductor) checkBMCIsOwn(ctx context.Context, n *node.Node) error {
	identifier, ok := c.identifierOf(n)
	if !ok {
		return nil
	}
	found, err := identifier.Identity(ctx, n)
	if err != nil {
		return err
	}
	return c.refuseMachineOfAnother(ctx, n, found)
}

// refuseMachineOfAnother returns an *otherMachineError when the node's BMC belongs to a machine for
// which another node stands. A vendor may have given the same UUID to the machines of both nodes.
// Then the serial number that was found decides: if the other node has it, the machine is that of
// the other node. Otherwise the machine is still that of this node and reports another serial
// number now.
func (c *Conductor) refuseMachineOfAnother(ctx context.Context, n *node.Node, found node.MachineIdentity) error {
	known := identityOf(n)
	same := known.Known() && known.Compare(found) == ""
	if !found.Known() || same && serialOf(known).Compare(serialOf(found)) == "" {
		return nil
	}
	var owner *node.Node
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		owner, err = nodeOfMachine(tx, n, found)
		return err
	})
	if err != nil || owner == nil || same && identityOf(owner).SerialNumber == "" {
		return err
	}
	return &otherMachineError{&node.DriverError{
		Op: checkMachine, Refused: true,
		Reason: "the BMC belongs to the machine for which node " + owner.UUID + " stands. Nothing was done to it: correct the BMC's address in driver_info, " +
			"or delete the node that stands for this machine no more",
	}}
}

// nodeOfMachine returns a node other than n that stands for a known machine, or nil when there is
// none. Machines with the same UUID but different serial numbers are different machines whose
// vendor gave the same UUID to all.
func nodeOfMachine(tx *store.Tx, n *node.Node, machine node.MachineIdentity) (*node.Node, error) {
	matches, err := tx.MatchClaims(machineClaims(machine.Spellings()...))
	if err != nil {
		return nil, err
	}
	var claimants []string
	for _, m := range matches {
		if m.NodeID != n.ID {
			claimants = append(claimants, m.UUID)
		}
	}
	if len(claimants) == 0 {
		return nil, nil
	}
	nodes, err := tx.Nodes(node.Query{Filters: []node.Filter{{Field: "uuid", Op: node.OneOf, Value: claimants}}}) // not locked
	i := slices.IndexFunc(nodes, func(other *node.Node) bool {
		known := identityOf(other)
		return known.Known() && known.Compare(machine) == "" && serialOf(known).Compare(serialOf(machine)) == ""
	})
	if err != nil || i < 0 {
		return nil, err
	}
	return nodes[i], nil
}

func machineClaims(texts ...string) []store.Claim {
	var claims []store.Claim
	for _, text := range texts {
		if text != "" {
			claims = append(claims, store.Claim{Kind: store.Machine, Address: strings.ToLower(text)})
		}
	}
	return claims
}

// serialOf returns the identity reduced to its serial number.
func serialOf(machine node.MachineIdentity) node.MachineIdentity {
	return node.MachineIdentity{SerialNumber: machine.SerialNumber}
}

// readIdentity reads which machine the BMC belongs to. A field that the BMC does not tell is empty.
func (c *Conductor) readIdentity(ctx context.Context, n *node.Node) node.MachineIdentity {
	identifier, ok := c.identifierOf(n)
	if !ok {
		return node.MachineIdentity{}
	}
	found, err := identifier.Identity(ctx, n)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("The BMC does not tell which machine it belongs to", "node", n.UUID, "err", err)
	}
	return found
}

// checkIdentity returns the operation that ends work before anything is done to another machine
// than the one that was managed or inspected. The BMC is that of another machine when its address
// was given to another BMC, or when somebody put the address of another machine into driver_info.
// If the node has no identity yet, the operation stores the one that the BMC tells.
func (c *Conductor) checkIdentity(n *node.Node) runner.Operation {
	_, ok := c.identifierOf(n)
	return runner.Operation{Ref: runner.Ref{Name: checkIdentityName}, Skip: !ok, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
		found, err := c.sameMachine(ctx, n)
		if err != nil || identityOf(n).Known() {
			return nil, err
		}
		return storeIdentity(found), nil
	}}
}

// refuseOtherMachine returns an *otherMachineError when the node stands for another machine than its
// BMC belongs to.
func (c *Conductor) refuseOtherMachine(ctx context.Context, n *node.Node) error {
	_, err := c.sameMachine(ctx, n)
	return err
}

// sameMachine returns the identity of the machine that the node's BMC belongs to. The error is an
// *otherMachineError when the node stands for another machine.
func (c *Conductor) sameMachine(ctx context.Context, n *node.Node) (node.MachineIdentity, error) {
	identifier, ok := c.identifierOf(n)
	if !ok {
		return node.MachineIdentity{}, nil
	}
	found, err := identifier.Identity(ctx, n)
	if err == nil {
		err = compareIdentities(identityOf(n), found)
	}
	if err == nil {
		err = c.refuseMachineOfAnother(ctx, n, found)
	}
	return found, err
}

// checkBeforeLeaving returns the check that keeps failed work from changing another machine when it
// leaves its own machine in order.
func (c *Conductor) checkBeforeLeaving(n *node.Node) runner.Operation {
	return whenLeaving(c.checkIdentity(n))
}

// whenLeaving adapts a check of the machine to work that has failed: a BMC that does not answer is
// not taken for the BMC of another machine, so the work goes on.
func whenLeaving(check runner.Operation) runner.Operation {
	check.Item = beforeLeaving
	read := check.Read
	check.Read = func(ctx context.Context, n *node.Node) (runner.Write, error) {
		write, err := read(ctx, n)
		if refuses(err) {
			return nil, err
		}
		return write, nil
	}
	return check
}

// checkMachine is the Op of the error about a BMC that belongs to another machine.
const checkMachine = "check which machine it is"

// otherMachineError means that the BMC belongs to another machine.
type otherMachineError struct{ *node.DriverError }

func (e *otherMachineError) Unwrap() error { return e.DriverError }

// compareIdentities returns an *otherMachineError when the identities are those of two machines.
func compareIdentities(known, found node.MachineIdentity) error {
	difference := known.Compare(found)
	if difference == "" {
		return nil
	}
	return &otherMachineError{&node.DriverError{
		Op: checkMachine,
		Reason: "the BMC belongs to a machine with " + difference + " as when it was managed or inspected. Nothing was done to it: " +
			"correct the BMC's address in driver_info, or, if its machine or main board was replaced, inspect the node again, or enrol it anew where its state does not allow that",
	}}
}

// identityOf returns which machine a node stands for. It leaves out placeholders of vendors, which
// an earlier release may have stored.
func identityOf(n *node.Node) node.MachineIdentity {
	var known node.MachineIdentity
	n.DriverInternalInfo.Get(node.MachineIdentityKey, &known)
	return node.NewMachineIdentity(known.UUID, known.SerialNumber)
}

func storeIdentity(found node.MachineIdentity) runner.Write {
	return func(tx *store.Tx, n *node.Node) error { return setIdentity(tx, n, found) }
}

// setIdentity stores in a node which machine it stands for. It stores nothing when the machine is
// unknown, or when another node has claimed it meanwhile: the next work on this node finds the
// other node and is refused.
func setIdentity(tx *store.Tx, n *node.Node, found node.MachineIdentity) error {
	if !found.Known() {
		return nil
	}
	if owner, err := nodeOfMachine(tx, n, found); err != nil || owner != nil {
		return err
	}
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{node.MachineIdentityKey: found})
	return tx.ClaimMachine(n.ID, machineClaims(found.UUID, found.SerialNumber))
}

// claimBatch is how many nodes get claims in one commit.
const claimBatch = 100

// claimNotedMachines claims the machines of nodes whose identity was stored by a release without
// such claims. A node whose stored identity is a placeholder gets no claim, so the next start reads
// it again.
func (c *Conductor) claimNotedMachines(ctx context.Context) error {
	for last, more := int64(0), true; more; {
		var nodes []*node.Node
		err := c.store.Write(ctx, func(tx *store.Tx) (err error) {
			if nodes, err = tx.UnclaimedMachines(last, claimBatch); err != nil {
				return err
			}
			for _, n := range nodes {
				known := identityOf(n)
				if err := tx.AddMachine(n.ID, machineClaims(known.UUID, known.SerialNumber)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if more = len(nodes) == claimBatch; more {
			last = nodes[len(nodes)-1].ID
		}
	}
	return nil
}
