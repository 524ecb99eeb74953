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

// Bounds of the requests of one kind that ramdisks send.
const (
	ramdiskSlots      = 32              // that are carried out at once
	maxWaitingRamdisk = 1024            // that wait for it
	maxRamdiskWait    = 5 * time.Second // and how long
)

// ramdiskSource is who sends requests of ramdisks, as far as one can tell without
// passwords: a network, or a node that waits for its ramdisk.
type ramdiskSource struct {
	network  fairqueue.Network
	nodeUUID string
}

// ramdiskLimit bounds the requests of one kind that ramdisks send, and shares what it
// allows among their sources. It is safe for concurrent use.
type ramdiskLimit struct {
	api    *api
	bodies *bodyBudget
	queue  *fairqueue.Queue[ramdiskSource]
	large  *fairqueue.Queue[ramdiskSource] // of those whose large body is decoded
	asking *fairqueue.Queue[ramdiskSource] // of those whose node is looked at before anything else
}

func newRamdiskLimit(a *api, bytes int64) *ramdiskLimit {
	return &ramdiskLimit{
		api: a, bodies: newBodyBudget(bytes, a.now, a.log),
		queue:  fairqueue.New[ramdiskSource](ramdiskSlots, maxWaitingRamdisk),
		large:  fairqueue.New[ramdiskSource](max(2, runtime.GOMAXPROCS(0)), maxWaitingRamdisk),
		asking: fairqueue.New[ramdiskSource](max(2, runtime.GOMAXPROCS(0)), 0),
	}
}

// bounded wraps a handler that takes its turn when it has read the request. A source with
// too many waiting requests is refused before the body is read. A request that names a
// node which waits for its ramdisk does not depend on what else comes from its network.
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

// errTooManyRamdisks refuses a request for which there is no room; ramdisks retry it.
var errTooManyRamdisks = fmt.Errorf("accept request of a ramdisk: too many others wait: %w", node.ErrBusy)

// awaited reports whether a node waits for its ramdisk. It asks the database for a few
// requests at a time only.
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

// largeBody is from how many bytes on decoding a body takes so long, most of a
// millisecond, that only as many are decoded at once as there are processors.
const largeBody = 16 << 10

// decode decodes the body of the request.
func (t *ramdiskTurn) decode(ctx context.Context, body []byte, target any) error {
	if len(body) < largeBody {
		return decodeRequired(body, target)
	}
	return inTurn(ctx, t.limit.large, t.source, func(context.Context) error { return decodeRequired(body, target) })
}

// do carries the request out when it is its source's turn. Where act only waits for
// others, it gives the slot back before, see fairqueue.Release.
func (t *ramdiskTurn) do(ctx context.Context, act func(context.Context) error) error {
	return inTurn(ctx, t.limit.queue, t.source, act)
}

func inTurn(ctx context.Context, queue *fairqueue.Queue[ramdiskSource], source ramdiskSource, act func(context.Context) error) error {
	wait, cancel := context.WithTimeout(ctx, maxRamdiskWait)
	defer cancel()
	leave, err := queue.Enter(wait, source)
	switch {
	case errors.Is(err, fairqueue.ErrFull), err != nil && ctx.Err() == nil:
		return errTooManyRamdisks
	case err != nil:
		return err
	}
	defer leave()
	return act(fairqueue.WithSlot(ctx, leave))
}
