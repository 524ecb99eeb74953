package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/baremetal"
	"github.com/ingot-metal/ingot/internal/node"
)

// Streams are where a command that changes nodes writes.
type Streams struct {
	Out io.Writer // results
	Err io.Writer // progress, and failures of one node among several
}

// DeleteNodes removes nodes one after the other. A node that cannot be
// removed does not keep the others; its failure is reported on its own line.
func DeleteNodes(ctx context.Context, engine *baremetal.Client, idents []string, to Streams) error {
	return eachNode(idents, len(idents) == 1, to.Err, func(ident string) error {
		if err := engine.DeleteNode(ctx, ident); err != nil {
			return err
		}
		_, err := fmt.Fprintf(to.Out, "Deleted node %s\n", printable(ident))
		return err
	})
}

// ProvisionNodes applies a verb to nodes.
type ProvisionNodes struct {
	Verb baremetal.Verb
	// Wait keeps the command until the nodes have arrived or failed.
	Wait Wait
	// Interval is the longest time between two looks at a node, 0 for one
	// second. The first looks come sooner, because most work is short.
	Interval time.Duration
}

// Run asks for the verb on every node first and waits afterwards, so that the
// engine works on all of them at once.
func (p ProvisionNodes) Run(ctx context.Context, engine *baremetal.Client, idents []string, to Streams) error {
	single := len(idents) == 1
	var accepted []string
	asked := eachNode(idents, single, to.Err, func(ident string) error {
		if err := engine.Provision(ctx, ident, p.Verb); err != nil {
			return p.advise(ctx, engine, ident, err)
		}
		accepted = append(accepted, ident)
		if p.Wait.Asked {
			return nil
		}
		_, err := fmt.Fprintf(to.Out, "Node %s: %s accepted\n", printable(ident), p.Verb)
		return err
	})
	if !p.Wait.Asked || len(accepted) == 0 {
		return asked
	}
	if p.Wait.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.Wait.Timeout, errWaitedEnough)
		defer cancel()
	}
	waited := eachNode(accepted, single, to.Err, func(ident string) error {
		return p.wait(ctx, engine, ident, to)
	})
	var silent *SilentError
	if asked != nil && (waited == nil || errors.As(waited, &silent)) {
		return asked
	}
	return waited
}

// advise adds to the refusal of a verb which verbs the node's state allows. A
// refusal for another reason stays as it is.
func (p ProvisionNodes) advise(ctx context.Context, engine *baremetal.Client, ident string, refusal error) error {
	if !errors.Is(refusal, baremetal.ErrRejected) {
		return refusal
	}
	n, err := engine.Node(ctx, ident, "provision_state")
	if err != nil {
		return refusal
	}
	allowed := verbsFrom(node.State(n.ProvisionState))
	if len(allowed) == 0 || slices.Contains(allowed, string(p.Verb)) {
		return refusal
	}
	return &AdvisedError{Err: refusal, Advice: fmt.Sprintf("In %s it takes: %s.", n.ProvisionState, strings.Join(allowed, ", "))}
}

// verbsFrom are the verbs that a node in that state takes, without aliases.
func verbsFrom(state node.State) []string {
	var names []string
	seen := map[node.Trigger]bool{}
	for _, verb := range node.Verbs() {
		if _, ok := node.Next(state, verb.On); ok && !seen[verb.On] {
			names = append(names, verb.Name)
			seen[verb.On] = true
		}
	}
	return names
}

// eachNode applies change to every node. With a single one its failure is
// returned. Otherwise failures are reported as they occur, and the result
// only carries the exit code of the first. When the engine is gone or the
// user interrupts, the rest is not tried.
func eachNode(idents []string, single bool, report io.Writer, change func(ident string) error) error {
	var silent *SilentError
	for _, ident := range idents {
		err := change(ident)
		switch {
		case err == nil:
			continue
		case single, errors.Is(err, context.Canceled), errors.Is(err, baremetal.ErrUnreachable):
			return err
		}
		code := Report(report, err)
		if silent == nil {
			silent = &SilentError{Code: code}
		}
	}
	if silent == nil {
		return nil
	}
	return silent
}
