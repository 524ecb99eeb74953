package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of the requests of one kind that ramdisks send.
const (
	ramdiskSlots      = 32              // requests that are carried out at once
	maxWaitingRamdisk = 1024            // requests that wait for a slot
	maxRamdiskWait    = 5 * time.Second // longest wait for a slot
	maxHeldUpRamdisk  = 1024            // requests that wait for a lease, an agent or their enrolment
)

// Sizes from which on bodies are large. Only as many large bodies are decoded or stored at once as
// there are processors.
const (
	largeBody = 16 << 10 // decoding it takes most of a millisecond
	largePost = 64 << 10 // parsing and storing it takes milliseconds
)

// ramdiskSource is the sender of ramdisks' requests, as far as it can be told without passwords: a
// network, or a node that waits for its ramdisk.
type ramdiskSource struct {
	network  fairqueue.Network
	nodeUUID string
}

// ramdiskLimit limits the requests of one kind that ramdisks send, and shares the slots among their
// sources. It is safe for concurrent use.
type ramdiskLimit struct {
	api    *api
	bodies *bodyBudget
	queue  *fairqueue.Queue[ramdiskSource]
	large  *fairqueue.Queue[ramdiskSource] // requests whose large body is decoded or stored
	heldUp *fairqueue.Queue[ramdiskSource] // requests that wait for something else
	asking *fairqueue.Queue[ramdiskSource] // requests whose node is looked up before anything else
}

func newRamdiskLimit(a *api, bytes int64) *ramdiskLimit {
	return &ramdiskLimit{
		api: a, bodies: newBodyBudget(bytes, a.now, a.log),
		queue:  fairqueue.New[ramdiskSource](ramdiskSlots, maxWaitingRamdisk),
		large:  fairqueue.New[ramdiskSource](max(2, runtime.GOMAXPROCS(0)), maxWaitingRamdisk),
		heldUp: fairqueue.New[ramdiskSource](maxHeldUpRamdisk, 0),
		asking: fairqueue.New[ramdiskSource](max(2, runtime.GOMAXPROCS(0)), 0),
	}
}

// bounded wraps a handler that takes its turn after it has read the request. It refuses the request
// of a source with too many waiting requests before it reads the body. A request that names a node
// which waits for its ramdisk is a source of its own, so that it does not depend on other requests
// from its network.
func (l *ramdiskLimit) bounded(named func(*http.Request) string, next func(http.ResponseWriter, *http.Request, *ramdiskTurn) error) apiHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		turn := &ramdiskTurn{limit: l, source: ramdiskSource{network: fairqueue.NetworkOf(sourceOf(r, l.api.options.TrustedProxies))}}
		if l.queue.Busy(turn.source) && l.awaited(r.Context(), turn.source, named(r)) {
			turn.source = ramdiskSource{nodeUUID: named(r)}
		}
		if l.queue.Full(turn.source) {
			return errTooManyRamdisks
		}
		leave := l.bodies.charge(w, r, turn.source)
		defer leave()
		return next(w, r, turn)
	}
}

// nodeOfQuery and nodeOfPath return the UUID of the node that a request names, if any.
func nodeOfQuery(r *http.Request) string { return strings.ToLower(callOf(r).query.Get("node_uuid")) }
func nodeOfPath(r *http.Request) string  { return strings.ToLower(r.PathValue("ident")) }

// errTooManyRamdisks refuses a request for which there is no room. Ramdisks retry it.
var errTooManyRamdisks = fmt.Errorf("accept request of a ramdisk: too many others wait: %w", node.ErrBusy)

// awaited reports whether a node waits for its ramdisk. It queries the database for only a few
// requests at a time, and returns false for the others.
func (l *ramdiskLimit) awaited(ctx context.Context, source ramdiskSource, uuid string) bool {
	if !isUUID(uuid) {
		return false
	}
	leave, ok := l.asking.TryEnter(source)
	if !ok {
		return false
	}
	defer leave()
	awaits, err := l.api.engine.AwaitsRamdisk(ctx, uuid)
	return err == nil && awaits
}

// ramdiskTurn is the turn of one request.
type ramdiskTurn struct {
	limit  *ramdiskLimit
	source ramdiskSource
}

// decode decodes the body of the request.
func (t *ramdiskTurn) decode(ctx context.Context, body []byte, target any) error {
	if len(body) >= largeBody {
		leave, err := t.enter(ctx, t.limit.large)
		if err != nil {
			return err
		}
		defer leave()
	}
	return decodeRequired(body, target)
}

// do carries out the request when it is the turn of its source. While act only waits for something
// else, it gives its slot back, see fairqueue.Release.
func (t *ramdiskTurn) do(ctx context.Context, act func(context.Context) error) error {
	return t.in(ctx, act, t.limit.queue)
}

// store is do for a request that stores its body. A large body needs a slot for large bodies first,
// and only then takes one of the other slots.
func (t *ramdiskTurn) store(ctx context.Context, body []byte, act func(context.Context) error) error {
	if len(body) < largePost {
		return t.do(ctx, act)
	}
	return t.in(ctx, act, t.limit.large, t.limit.queue)
}

// in runs act with a slot of each queue.
func (t *ramdiskTurn) in(ctx context.Context, act func(context.Context) error, queues ...*fairqueue.Queue[ramdiskSource]) error {
	hold := fairqueue.Hold{Wait: func() (func(), bool) { return t.limit.heldUp.TryEnter(t.source) }}
	defer hold.End()
	for _, queue := range queues {
		leave, err := t.enter(ctx, queue)
		if err != nil {
			return err
		}
		hold.Add(leave)
	}
	return act(fairqueue.With(ctx, &hold))
}

func (t *ramdiskTurn) enter(ctx context.Context, queue *fairqueue.Queue[ramdiskSource]) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, maxRamdiskWait)
	defer cancel()
	leave, err = queue.Enter(wait, t.source)
	if errors.Is(err, fairqueue.ErrFull) || err != nil && ctx.Err() == nil {
		return nil, errTooManyRamdisks
	}
	return leave, err
}
