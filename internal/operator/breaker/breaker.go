// Package breaker keeps controllers from waiting for an engine that is away.
//
// An [Engine] passes calls on to another engine and counts the calls that got no answer. After some
// of these in a row it asks the engine for a node that cannot exist. If that gets no answer either,
// the engine is away. From then on every call is refused at once with the last error, and only
// [Engine.Start] asks the engine, with growing pauses, until the engine answers. Then the callers
// that were refused are told.
//
// An engine that answers for other nodes is not away. So nothing is refused because the engine
// hangs on one node or has an error with one node.
package breaker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// noNode is an ID that no node has (RFC 9562, section 5.9). It also stands for calls that are not
// about one particular node.
const noNode = "00000000-0000-0000-0000-000000000000"

// Options tune an engine. Zero values mean the defaults.
type Options struct {
	// Failures is after how many calls in a row without an answer the engine may be away; 3.
	Failures int
	// ReadTimeout bounds a call that reads one node, ListTimeout a call that lists nodes, and
	// WriteTimeout a call that changes a node; 15 s, 2 min and 1 min. A call that takes longer
	// counts as unanswered.
	ReadTimeout, ListTimeout, WriteTimeout time.Duration
	// MinWait and MaxWait bound the pauses between two questions to an engine that is away; 1 s and
	// 1 min. Each pause is twice as long as the one before. Up to half of it is subtracted at
	// random, so that replicas do not ask together.
	MinWait, MaxWait time.Duration
}

func (o *Options) setDefaults() {
	if o.Failures <= 0 {
		o.Failures = 3
	}
	for _, d := range []struct {
		value   *time.Duration
		initial time.Duration
	}{
		{&o.ReadTimeout, 15 * time.Second},
		{&o.ListTimeout, 2 * time.Minute},
		{&o.WriteTimeout, time.Minute},
		{&o.MinWait, time.Second},
		{&o.MaxWait, time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.initial
		}
	}
}

// Engine refuses calls while the engine behind it is away. It is safe for concurrent use.
type Engine struct {
	provisioner.Engine

	opts   Options
	opened chan struct{} // tells Start that the engine is away

	mu        sync.Mutex
	failures  int                 // calls in a row without an answer
	checking  bool                // a call is finding out whether the engine is away
	away      error               // the last error of an engine that is away, or nil
	refused   map[string]struct{} // IDs of nodes whose calls got no answer or were refused
	listeners []func(ids []string)
}

// New returns an engine that passes calls on to next. It works only while Start runs.
func New(next provisioner.Engine, opts Options) *Engine {
	opts.setDefaults()
	return &Engine{Engine: next, opts: opts, opened: make(chan struct{}, 1), refused: map[string]struct{}{}}
}

// OnRecovery calls fn each time the engine answers again, with the IDs of the nodes that calls were
// about meanwhile. The ID "" stands for calls about no known node. fn must not block for long.
func (e *Engine) OnRecovery(fn func(ids []string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners = append(e.listeners, fn)
}

// NeedLeaderElection returns false: every replica calls the engine.
func (e *Engine) NeedLeaderElection() bool { return false }

// Start waits until the engine is away, and then asks it until it answers. It repeats this until
// ctx ends.
func (e *Engine) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.opened:
		}
		for wait := e.opts.MinWait; ; wait = min(2*wait, e.opts.MaxWait) {
			pause := time.NewTimer(wait - rand.N(wait/2+1)) //nolint:gosec // spreads load, protects nothing
			select {
			case <-ctx.Done():
				pause.Stop()
				return nil
			case <-pause.C:
			}
			err := e.ask(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				e.recovered()
				break
			}
			e.stayAway(err)
		}
	}
}

// ask asks the engine for a node that cannot exist. It returns the error if the engine gives no
// answer.
func (e *Engine) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.ReadTimeout)
	defer cancel()
	_, err := e.Engine.Node(ctx, noNode)
	return unanswered(ctx, err, e.opts.ReadTimeout)
}

func (e *Engine) stayAway(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = err
}

func (e *Engine) recovered() {
	e.mu.Lock()
	ids := slices.Sorted(maps.Keys(e.refused))
	e.away, e.failures = nil, 0
	clear(e.refused)
	listeners := slices.Clone(e.listeners)
	e.mu.Unlock()
	for _, fn := range listeners {
		fn(ids)
	}
}

// admit returns the error with which a call for a node is refused, or nil.
func (e *Engine) admit(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away != nil {
		e.remember(id)
	}
	return e.away
}

// remember notes that somebody has to be told about this node when the engine answers again. The
// caller holds mu.
func (e *Engine) remember(id string) {
	if id == noNode {
		id = "" // whoever looks for a node may need the list of all nodes
	}
	e.refused[id] = struct{}{}
}

// observe counts the outcome of a call; err is nil if it got an answer.
func (e *Engine) observe(ctx context.Context, id string, err error) {
	if !e.suspicious(id, err) {
		return
	}
	askErr := e.ask(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checking, e.failures = false, 0
	if askErr == nil || ctx.Err() != nil {
		clear(e.refused)
		return
	}
	e.away = askErr
	select {
	case e.opened <- struct{}{}:
	default:
	}
}

// observeFailure counts the outcome of a call only if it got no answer.
func (e *Engine) observeFailure(ctx context.Context, id string, err error) {
	if err != nil {
		e.observe(ctx, id, err)
	}
}

// suspicious counts the outcome of a call. It reports whether the caller has to find out if the
// engine is away.
func (e *Engine) suspicious(id string, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.failures = 0
		if e.away == nil {
			clear(e.refused)
		}
		return false
	}
	e.failures++
	e.remember(id)
	if e.away != nil || e.checking || e.failures < e.opts.Failures {
		return false
	}
	e.checking = true
	return true
}

// unanswered returns why a call got no answer, or nil if it got one. ctx is the context of the
// call, which ends after limit.
func unanswered(ctx context.Context, err error, limit time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, provisioner.ErrUnreachable):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer within %s", provisioner.ErrUnreachable, limit)
	default:
		return nil
	}
}
