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

// callbacks carries the requests of a machine's agents to the engine. A drawn replica answers each
// request.
type callbacks struct{ c *computer }

func (b callbacks) RoundTrip(q *http.Request) (*http.Response, error) {
	w, ctx := b.c.w, q.Context()
	p := &point{kind: atPost, name: b.c.name + " sends " + what(q), call: what(q)}
	if p.call == "/" { // every agent asks that once
		p.kind = atTurn
	}
	v := w.sched.wait(ctx, p)
	b.c.calls++
	r := w.answering(b.c.drawn("replica", b.c.calls))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r == nil:
		return nil, errNobody
	case v == requestLost:
		return nil, errCut
	}
	written := httptest.NewRecorder()
	task, posted := fmt.Sprintf("%s of %s", what(q), b.c.name), b.c.notePost(q)
	if posted != nil {
		task = posted.task()
	}
	r.api().ServeHTTP(written, q.WithContext(runner.WithInfo(ctx, &runner.Info{Task: task})))
	w.sched.at(ctx, r, atTurn, task) // others may be answered at the same time
	w.sched.note("%s answers %s: %d", r.name, task, written.Code)
	lost := r.isDead() || v == answerLost || ctx.Err() != nil // then the agent has ended, and nobody hears
	if posted != nil {
		w.answer(posted, written.Code, !lost)
	}
	if lost {
		return nil, errCut
	}
	answer := written.Result()
	answer.Request = q
	return answer, nil
}

// what is the name of a request of an agent.
func what(q *http.Request) string {
	if at, ok := strings.CutPrefix(q.URL.Path, "/v1/heartbeat/"); ok && at != "" {
		return "heartbeat"
	}
	return path.Base(q.URL.Path)
}

// answering returns a process that takes requests, nil when there is none.
func (w *world) answering(drawn uint32) *replica {
	running := slices.DeleteFunc(w.processes(), func(r *replica) bool { return !r.runs() })
	if len(running) == 0 {
		return nil
	}
	return running[int(drawn)%len(running)]
}
