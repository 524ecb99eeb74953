package breaker

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// call makes one call about a node, which takes no longer than limit. The ID is "" if the caller
// does not know it.
func call[T any](ctx context.Context, e *Engine, id string, limit time.Duration, fn func(context.Context) (T, error)) (T, error) {
	return observed(ctx, e, id, limit, e.observe, fn)
}

// recall makes one call that may be answered from memory. Only if it fails does it say anything
// about the engine.
func recall[T any](ctx context.Context, e *Engine, fn func(context.Context) (T, error)) (T, error) {
	return observed(ctx, e, noNode, e.opts.ReadTimeout, e.observeFailure, fn)
}

// observed is call with the function that is told the outcome.
func observed[T any](ctx context.Context, e *Engine, id string, limit time.Duration, observe func(context.Context, string, error), fn func(context.Context) (T, error)) (T, error) {
	if err := e.admit(id); err != nil {
		var none T
		return none, err
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	value, err := fn(bounded)
	if ctx.Err() != nil {
		return value, err // the caller gave up, which says nothing about the engine
	}
	noAnswer := unanswered(bounded, err, limit)
	observe(ctx, id, noAnswer)
	if noAnswer != nil {
		err = noAnswer
	}
	return value, err
}

// Nodes lists nodes; see [provisioner.Reader].
func (e *Engine) Nodes(ctx context.Context, opts provisioner.ListOptions) ([]provisioner.Node, error) {
	return call(ctx, e, noNode, e.opts.ListTimeout, func(ctx context.Context) ([]provisioner.Node, error) {
		return e.Engine.Nodes(ctx, opts)
	})
}

// Node reads one node; see [provisioner.Reader].
func (e *Engine) Node(ctx context.Context, id string) (provisioner.Node, error) {
	return call(ctx, e, id, e.opts.ReadTimeout, func(ctx context.Context) (provisioner.Node, error) {
		return e.Engine.Node(ctx, id)
	})
}

// Find looks a node up by what identifies it; see [provisioner.Reader].
func (e *Engine) Find(ctx context.Context, identity provisioner.Identity) (provisioner.Node, error) {
	return call(ctx, e, identity.ID, e.opts.ReadTimeout, func(ctx context.Context) (provisioner.Node, error) {
		return e.Engine.Find(ctx, identity)
	})
}

// MACs returns the addresses of the node's ports; see [provisioner.Reader].
func (e *Engine) MACs(ctx context.Context, id string) ([]string, error) {
	return call(ctx, e, id, e.opts.ReadTimeout, func(ctx context.Context) ([]string, error) {
		return e.Engine.MACs(ctx, id)
	})
}

// AllMACs returns the addresses of all ports; see [provisioner.Reader].
func (e *Engine) AllMACs(ctx context.Context) (map[string][]string, error) {
	return call(ctx, e, noNode, e.opts.ListTimeout, func(ctx context.Context) (map[string][]string, error) {
		return e.Engine.AllMACs(ctx)
	})
}

// Inventory reads the inventory; see [provisioner.Reader].
func (e *Engine) Inventory(ctx context.Context, id string) (*provisioner.Inventory, error) {
	return call(ctx, e, id, e.opts.ReadTimeout, func(ctx context.Context) (*provisioner.Inventory, error) {
		return e.Engine.Inventory(ctx, id)
	})
}

// Lock locks the node; see [provisioner.Lifecycle].
func (e *Engine) Lock(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	return call(ctx, e, id, e.opts.WriteTimeout, func(ctx context.Context) (provisioner.Node, error) {
		return e.Engine.Lock(ctx, id, mark)
	})
}

// Unlock unlocks the node; see [provisioner.Lifecycle].
func (e *Engine) Unlock(ctx context.Context, id string, mark provisioner.Mark) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Unlock(ctx, id, mark) })
}

// Claim writes the mark; see [provisioner.Lifecycle].
func (e *Engine) Claim(ctx context.Context, id string, mark provisioner.Mark, opts provisioner.ClaimOptions) (provisioner.Node, error) {
	return call(ctx, e, id, e.opts.WriteTimeout, func(ctx context.Context) (provisioner.Node, error) {
		return e.Engine.Claim(ctx, id, mark, opts)
	})
}

// Release writes that the node's host moves; see [provisioner.Lifecycle].
func (e *Engine) Release(ctx context.Context, id string, mark provisioner.Mark, released string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Release(ctx, id, mark, released) })
}

// TakeReleased takes a released node; see [provisioner.Lifecycle].
func (e *Engine) TakeReleased(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	return call(ctx, e, id, e.opts.WriteTimeout, func(ctx context.Context) (provisioner.Node, error) {
		return e.Engine.TakeReleased(ctx, id, mark)
	})
}

// Manage makes the node manageable; see [provisioner.Lifecycle].
func (e *Engine) Manage(ctx context.Context, id string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Manage(ctx, id) })
}

// Provide makes the node available; see [provisioner.Lifecycle].
func (e *Engine) Provide(ctx context.Context, id string, opts provisioner.ProvideOptions) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Provide(ctx, id, opts) })
}

// Delete deletes the node; see [provisioner.Lifecycle].
func (e *Engine) Delete(ctx context.Context, id string, mark provisioner.Mark) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Delete(ctx, id, mark) })
}

// change makes one call that changes a node.
func (e *Engine) change(ctx context.Context, id string, fn func(context.Context) error) error {
	_, err := call(ctx, e, id, e.opts.WriteTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, fn(ctx)
	})
	return err
}
