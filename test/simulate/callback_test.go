package simulate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/runner"
)

// callbacks sends the requests of a machine's agents to the engine. A drawn replica answers each
// request.
type callbacks struct{ c *computer }

func (b callbacks) RoundTrip(q *http.Request) (*http.Response, error) {
	w, ctx := b.c.w, q.Context()
	p := &point{kind: atPost, name: b.c.name + " sends " + requestName(q), call: requestName(q)}
	if p.call == "/" { // every agent asks that once
		p.kind = atYield
	}
	v := w.sched.wait(ctx, p)
	b.c.callCount++
	r := w.runningReplica(b.c.drawn("replica", b.c.callCount))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r == nil:
		return nil, errConnRefused
	case v == requestLost:
		return nil, errConnReset
	}
	written := httptest.NewRecorder()
	task, posted := fmt.Sprintf("%s of %s", requestName(q), b.c.name), b.c.notePost(q)
	if posted != nil {
		task = posted.task()
	}
	r.api().ServeHTTP(written, q.WithContext(runner.WithInfo(ctx, &runner.Info{Task: task})))
	w.sched.waitAt(ctx, r, atYield, task) // others may be answered at the same time
	w.sched.note("%s answers %s: %d", r.name, task, written.Code)
	lost := r.isDead() || v == answerLost || ctx.Err() != nil // the agent does not get the answer, or has ended
	if posted != nil {
		w.noteAnswer(posted, written.Code, !lost)
	}
	if lost {
		return nil, errConnReset
	}
	answer := written.Result()
	answer.Request = q
	return answer, nil
}

// requestName is the name of a request of an agent.
func requestName(q *http.Request) string {
	if at, ok := strings.CutPrefix(q.URL.Path, "/v1/heartbeat/"); ok && at != "" {
		return "heartbeat"
	}
	return path.Base(q.URL.Path)
}

// runningReplica returns a process that takes requests, chosen by a number; nil when there is none.
func (w *world) runningReplica(drawn uint32) *replica {
	running := slices.DeleteFunc(w.allReplicas(), func(r *replica) bool { return !r.isRunning() })
	if len(running) == 0 {
		return nil
	}
	return running[int(drawn)%len(running)]
}
