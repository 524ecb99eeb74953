package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
)

// Streams are where a command that changes nodes writes.
type Streams struct {
	Out io.Writer // results
	Err io.Writer // progress, and failures of one node among several
}

// ProvisionNodes applies a verb to nodes.
type ProvisionNodes struct {
	Verb Verb
	// Values are further fields of the request.
	Values Values
	// Instance are members of instance_info to set before the request.
	Instance Values
	// Wait makes Run wait until the nodes have reached the state or failed.
	Wait Wait
	// Interval is the longest time between two polls of a node; 0 means one second.
	Interval time.Duration
}

// Run first requests the verb for every node and then waits, so that the engine works
// on all of them at once.
func (p *ProvisionNodes) Run(ctx context.Context, engine *ironic.Client, idents []string, to Streams) error {
	body := p.Values.Object()
	if err := missing("ingot node "+p.Verb.Name, p.Verb.Fields, body); err != nil {
		return err
	}
	body["target"] = p.Verb.Target
	return requestThenWait(ctx, idents, p.Wait, to, func(ident string) error {
		described, err := p.describeInstance(ctx, engine, ident)
		if err != nil {
			return err
		}
		op := p.operation(ident)
		if described {
			op += ", whose instance_info was changed"
		}
		_, err = engine.Do(ctx, ironic.Request{
			Op: op, Method: http.MethodPut, Path: Nodes.path(ident, "states", "provision"), Body: body,
		})
		if err != nil {
			return p.advise(ctx, engine, ident, err)
		}
		if p.Wait.Asked {
			return nil
		}
		_, err = fmt.Fprintf(to.Out, "Node %s: %s accepted\n", printable(ident), p.Verb.Name)
		return err
	}, func(ident string) watch {
		return stateWatch(engine, ident, p.Interval, p.Verb.arrived)
	})
}

// replacedKeys are the members of instance_info that the member given replaces. They are set to
// null when given is set.
var replacedKeys = []struct {
	given string
	keys  []string
}{
	{"image_source", []string{"boot_iso", "image_disk_format"}}, // the old image's format
	{"image_checksum", []string{"image_os_hash_algo", "image_os_hash_value"}},
	{"boot_iso", []string{"image_source", "kernel", "ramdisk"}},
}

// operation describes for errors what is done to a node.
func (p *ProvisionNodes) operation(ident string) string { return p.Verb.Name + " node " + ident }

// describeInstance sets the members of instance_info that the user gave, and reports whether there
// are any. Before, it makes sure that the state of the node allows the verb: an instance that
// continues to run must not be described as another image.
func (p *ProvisionNodes) describeInstance(ctx context.Context, engine *ironic.Client, ident string) (described bool, err error) {
	var patch []map[string]any
	set := func(key string, value any) {
		patch = append(patch, map[string]any{"op": opAdd, "path": "/instance_info/" + key, "value": value})
	}
	members := p.Instance.Object()
	for _, key := range slices.Sorted(maps.Keys(members)) {
		set(key, members[key])
	}
	for _, row := range replacedKeys {
		for _, key := range row.keys {
			if members[row.given] != nil && members[key] == nil {
				set(key, nil)
			}
		}
	}
	if len(patch) == 0 {
		return false, nil
	}
	n, err := engine.Node(ctx, ident, "provision_state")
	if err != nil {
		return false, err
	}
	if err := p.refuse(ident, node.State(n.ProvisionState)); err != nil {
		return false, err
	}
	_, err = engine.Do(ctx, ironic.Request{
		Op: "describe the instance of node " + ident, Method: http.MethodPatch, Path: Nodes.path(ident), Body: patch,
	})
	return err == nil, err
}

// refuse returns the error that the engine would return for the verb in a state, nil if it would
// accept. Two kinds of states are left to the engine: states that the client does not know, and
// states of work. During work the node is locked against any change, so the client may try again
// until the work has ended.
func (p *ProvisionNodes) refuse(ident string, state node.State) error {
	verb, _ := node.VerbNamed(p.Verb.Target)
	if _, ok := node.Next(state, verb.On); ok || !state.Known() || state.Class() == node.Working {
		return nil
	}
	return p.advised(state, &ironic.Error{Op: p.operation(ident), Kind: ironic.ErrRejected, Message: fmt.Sprintf("it is in state %q", state)})
}

// requestThenWait requests work for every node. If wait is set, it then waits for the nodes that
// accepted the request.
func requestThenWait(ctx context.Context, idents []string, wait Wait, to Streams, ask func(ident string) error, watching func(ident string) watch) error {
	single := len(idents) == 1
	var accepted []string
	asked := eachNode(idents, single, to.Err, func(ident string) error {
		err := ask(ident)
		if err == nil {
			accepted = append(accepted, ident)
		}
		return err
	})
	if !wait.Asked || len(accepted) == 0 {
		return asked
	}
	ctx, cancel := wait.bounded(ctx)
	defer cancel()
	waited := eachNode(accepted, single, to.Err, func(ident string) error { return watching(ident).run(ctx, to) })
	var silent *SilentError
	if asked != nil && (waited == nil || errors.As(waited, &silent)) {
		return asked
	}
	return waited
}

// advise adds the list of verbs that the node's state allows to the refusal of a verb. It returns
// other errors unchanged.
func (p *ProvisionNodes) advise(ctx context.Context, engine *ironic.Client, ident string, refusal error) error {
	if !errors.Is(refusal, ironic.ErrRejected) {
		return refusal
	}
	n, err := engine.Node(ctx, ident, "provision_state")
	if err != nil {
		return refusal
	}
	return p.advised(node.State(n.ProvisionState), refusal)
}

// advised adds the verbs that a state allows to a refusal, unless the refused verb is one of them.
func (p *ProvisionNodes) advised(state node.State, refusal error) error {
	allowed := verbsFrom(state)
	if len(allowed) == 0 || slices.Contains(allowed, p.Verb.Name) {
		return refusal
	}
	return &AdvisedError{Err: refusal, Advice: fmt.Sprintf("In state %s these verbs are possible: %s.", state, strings.Join(allowed, ", "))}
}

// verbsFrom returns the verbs that are possible in a state, as commands spell them.
func verbsFrom(state node.State) []string {
	var names []string
	for _, known := range node.Verbs() {
		at := slices.IndexFunc(verbs, func(v Verb) bool { return v.Target == known.Name })
		if _, ok := node.Next(state, known.On); ok && at >= 0 {
			names = append(names, verbs[at].Name)
		}
	}
	return names
}

// eachNode applies change to every node. For a single node, its failure is returned. For several
// nodes, failures are reported as they occur, and the error only carries the exit code of the
// first. When the engine cannot be reached or the user interrupts, the remaining nodes are not
// tried.
func eachNode(idents []string, single bool, report io.Writer, change func(ident string) error) error {
	var silent *SilentError
	for _, ident := range idents {
		err := change(ident)
		switch {
		case err == nil:
			continue
		case single, errors.Is(err, context.Canceled), errors.Is(err, ironic.ErrUnreachable):
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
