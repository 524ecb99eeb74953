//go:build fault

package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
)

// clientTimeout is how long clients wait for an answer.
const clientTimeout = 5 * time.Second

// subject is a node about which clients make requests. Its machine has the same name.
type subject struct {
	name, uuid string
	gone       atomic.Bool // nobody needs to ask any more

	mu       sync.Mutex
	requests []*request
	episodes []*episode
}

// request is something that a client asked for.
type request struct {
	what   string // verb, or what else
	at     time.Time
	answer answer
}

// answer is what became of a request as its client sees it.
type answer string

const (
	accepted answer = "accepted"
	refused  answer = "refused"
	unknown  answer = "no answer" // or an answer that does not tell what became of it
)

// add notes a request.
func (s *subject) add(q *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, q)
}

// asked returns the requests that fit and have one of the answers.
func (s *subject) asked(fits func(*request) bool, answers ...answer) (found []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.requests {
		if slices.Contains(answers, q.answer) && fits(q) {
			found = append(found, q)
		}
	}
	return found
}

// called fits requests by what they ask for.
func called(what ...string) func(*request) bool {
	return func(q *request) bool { return slices.Contains(what, q.what) }
}

// send asks one of the engines for something about a node.
func (w *world) send(r *rand.Rand, s *subject, what, method, path string, body any) *request {
	e := w.anyEngine(r)
	q := &request{what: what, at: time.Now()}
	status, text, err := e.api.ask(method, path, body)
	var network *net.OpError
	switch {
	case errors.As(err, &network) && network.Op == "dial":
		q.answer = refused
	case err != nil || status >= 500:
		q.answer = unknown
	case status >= 300:
		q.answer = refused
	default:
		q.answer = accepted
	}
	s.add(q)
	w.note(s.name, "client asks %s for %s: %s after %s (status %d %.300s)", e.name, what, q.answer, time.Since(q.at).Round(time.Millisecond), status, text)
	w.count("asked: " + kindOf(what) + ": " + string(q.answer))
	return q
}

// kindOf is what a request is counted as.
func kindOf(what string) string {
	if strings.HasPrefix(what, "patch ") {
		return "patch"
	}
	return what
}

// anyEngine returns an engine that runs, seldom a paused one, or any engine if none runs.
func (w *world) anyEngine(r *rand.Rand) *engine {
	least := running
	if r.IntN(10) == 0 {
		least = paused
	}
	some := slices.DeleteFunc(slices.Clone(w.engines), func(e *engine) bool { return e.is() < least })
	if len(some) == 0 {
		some = w.engines
	}
	return some[r.IntN(len(some))]
}

// shown is a node as clients see it.
type shown struct {
	UUID        string          `json:"uuid"`
	State       node.State      `json:"provision_state"`
	Since       time.Time       `json:"provision_updated_at"`
	PowerTarget *string         `json:"target_power_state"`
	Power       *string         `json:"power_state"`
	LastError   string          `json:"last_error"`
	Holder      *string         `json:"reservation"`
	Maintenance bool            `json:"maintenance"`
	Extra       map[string]bool `json:"extra"`
}

// rests reports whether nothing happens to the node until somebody asks for it.
func (n *shown) rests() bool {
	class := n.State.Class()
	return (class == node.Stable || class == node.Failed) && n.Holder == nil && n.PowerTarget == nil
}

// node reads a node; nil means that it does not exist.
func (w *world) node(ctx context.Context, r *rand.Rand, s *subject) (n *shown) {
	for {
		status, text, err := w.anyEngine(r).api.ask(http.MethodGet, "/v1/nodes/"+s.uuid, nil)
		switch {
		case err == nil && status == http.StatusOK && json.Unmarshal(text, &n) == nil:
			return n
		case err == nil && status == http.StatusNotFound || ctx.Err() != nil:
			return nil
		}
		pass(ctx, 100*time.Millisecond)
	}
}

// verbsOf lists what clients ask of nodes in each state.
var verbsOf = map[node.State][]string{
	node.Enroll:         {"manage"},
	node.Manageable:     {"provide", "provide", "clean", "clean", "clean", "inspect", "adopt"},
	node.Available:      {"active", "active", "active", "manage"},
	node.Active:         {"deleted", "rebuild", "service", "service", "rescue"},
	node.Rescue:         {"unrescue", "deleted"},
	node.CleanFailed:    {"manage"},
	node.InspectFailed:  {"manage", "inspect"},
	node.DeployFailed:   {"active", "deleted"},
	node.AdoptFailed:    {"manage", "adopt"},
	node.ErrorState:     {"deleted"},
	node.RescueFailed:   {"unrescue", "rescue"},
	node.UnrescueFailed: {"unrescue"},
	node.ServiceFailed:  {"abort", "service"},
}

// stepChoices are what cleaning and servicing are asked to do.
var stepChoices = map[string][]node.Step{
	"clean": {
		{Interface: "deploy", Step: "erase_devices"},
		{Interface: "deploy", Step: "erase_devices"},
		{Interface: "deploy", Step: "erase_devices_metadata"},
		{Interface: "deploy", Step: "erase_pstore"},
		{Interface: "raid", Step: "delete_configuration"},
		{Interface: "firmware", Step: "update", Args: map[string]any{"settings": []any{}}},
		{Interface: "power", Step: node.StepReboot},
		{Interface: "deploy", Step: node.StepHold},
	},
	"service": {
		{Interface: "firmware", Step: "update", Args: map[string]any{"settings": []any{}}},
		{Interface: "bios", Step: "factory_reset"},
		{Interface: "deploy", Step: "burnin_cpu"},
		{Interface: "power", Step: node.StepPowerOff},
		{Interface: "power", Step: node.StepPowerOn},
	},
}

// own keeps one node after another and asks verbs of it until ctx ends. Then it waits until the
// last node rests.
func (w *world) own(ctx context.Context, r *rand.Rand, name string) {
	for i := 0; ctx.Err() == nil; i++ {
		s := &subject{name: fmt.Sprintf("%s-%d", name, i), uuid: uuid.NewString()}
		if !w.create(ctx, r, s) {
			return
		}
		w.mu.Lock()
		w.subjects = append(w.subjects, s)
		w.mu.Unlock()
		w.runVerbs(ctx, r, s)
	}
}

// create enrols a node, and reports whether it is there.
func (w *world) create(ctx context.Context, r *rand.Rand, s *subject) bool {
	body := map[string]any{
		"uuid": s.uuid, "name": s.name, "driver": "fake-hardware", "inspect_interface": "fake", "automated_clean": true,
		"driver_info": map[string]any{
			"fake_machine": w.machines.url + "/machines/" + s.name, "fake_bmc": fmt.Sprintf("bmc-%d", r.IntN(6)),
			"fake_verify_delay": 1, "fake_inspect_wait": 1,
		},
	}
	for ctx.Err() == nil {
		if w.send(r, s, "create", http.MethodPost, "/v1/nodes", body).answer == accepted || w.node(ctx, r, s) != nil {
			return true
		}
		pass(ctx, 200*time.Millisecond)
	}
	return false
}

// restWithin is how long nodes may take to come to rest when every fault is over.
const restWithin = time.Minute

// runVerbs requests verbs of a node until it is deleted, or ctx has ended and it rests.
func (w *world) runVerbs(ctx context.Context, r *rand.Rand, s *subject) {
	var now *episode
	defer s.gone.Store(true)
	deadline := time.Time{} // when it has to rest at the latest; zero while ctx lasts
	for w.ctx.Err() == nil {
		n := w.node(w.ctx, r, s)
		if ctx.Err() != nil && deadline.IsZero() {
			deadline = time.Now().Add(restWithin)
		}
		switch {
		case n == nil:
			if len(s.asked(called("delete"), accepted, unknown)) == 0 {
				w.violated(s.name, "is gone, and nobody deleted it")
			}
			return
		case n.rests():
			now.end(w, r, n)
			if ctx.Err() != nil {
				return
			}
			now = w.next(r, s, n)
		case !deadline.IsZero() && time.Now().After(deadline):
			w.violated(s.name, "does not come to rest: %s", inJSON(n))
			return
		case !w.abortOrUnhold(ctx, r, s, n):
			pass(w.ctx, 150*time.Millisecond)
		}
	}
}

// next asks for something of a node that rests.
func (w *world) next(r *rand.Rand, s *subject, n *shown) *episode {
	deletable := slices.Contains([]node.State{node.Enroll, node.Manageable, node.Available}, n.State)
	switch drawn := r.IntN(100); {
	case drawn < 3 && deletable:
		w.send(r, s, "delete", http.MethodDelete, "/v1/nodes/"+s.uuid, nil)
		return nil
	case n.Maintenance:
		w.send(r, s, "maintenance off", http.MethodDelete, "/v1/nodes/"+s.uuid+"/maintenance", nil)
	}
	name := verbsOf[n.State][r.IntN(len(verbsOf[n.State]))]
	verb, _ := node.VerbNamed(name)
	e := &episode{s: s, verb: verb, from: n.State, sent: time.Now()}
	for range 1 + r.IntN(3) {
		if choices := stepChoices[name]; choices != nil {
			e.steps = append(e.steps, choices[r.IntN(len(choices))])
		}
	}
	e.request = w.ask(r, s, name, e.steps)
	if e.request.answer == refused {
		pass(w.ctx, 200*time.Millisecond)
		return nil
	}
	return e
}

// ask sends a verb.
func (w *world) ask(r *rand.Rand, s *subject, verb string, steps []node.Step) *request {
	body := map[string]any{"target": verb}
	switch verb {
	case "clean", "service":
		list := []map[string]any{}
		for _, step := range steps {
			list = append(list, map[string]any{"interface": step.Interface, "step": step.Step, "args": step.Args})
		}
		body[verb+"_steps"] = list
	case "rescue":
		body["rescue_password"] = "hush"
	}
	return w.send(r, s, verb, http.MethodPut, "/v1/nodes/"+s.uuid+"/states/provision", body)
}

// abortOrUnhold now and then aborts what a node waits for, and releases a node that is held. It
// reports whether it asked for something.
func (w *world) abortOrUnhold(ctx context.Context, r *rand.Rand, s *subject, n *shown) bool {
	switch class := n.State.Class(); {
	case class == node.Held && (ctx.Err() != nil || r.IntN(4) > 0):
		w.ask(r, s, "unhold", nil)
	case class == node.Held || class == node.Waiting && ctx.Err() == nil && r.IntN(60) == 0:
		w.ask(r, s, "abort", nil)
	default:
		return false
	}
	return true
}

// sendOthers sends requests other than verbs until ctx ends.
func (w *world) sendOthers(ctx context.Context, r *rand.Rand, by string) {
	for i := 0; pass(ctx, upTo(r, 700*time.Millisecond)); i++ {
		s := w.anySubject(r)
		if s == nil {
			continue
		}
		path := "/v1/nodes/" + s.uuid
		switch drawn := r.IntN(100); {
		case drawn < 30:
			target := []string{"power on", "power off", "rebooting", "soft power off", "soft rebooting"}[r.IntN(5)]
			w.send(r, s, target, http.MethodPut, path+"/states/power", map[string]any{"target": target})
		case drawn < 65:
			key := fmt.Sprintf("%s-%d", by, i)
			w.send(r, s, "patch "+key, http.MethodPatch, path, []map[string]any{{"op": "add", "path": "/extra/" + key, "value": true}})
		case drawn < 80:
			w.send(r, s, "boot device", http.MethodPut, path+"/management/boot_device", map[string]any{"boot_device": "disk"})
		case drawn < 90:
			w.send(r, s, "interrupt", http.MethodPut, path+"/management/inject_nmi", map[string]any{})
		default:
			w.send(r, s, "list", http.MethodGet, "/v1/nodes/detail", nil)
		}
	}
}

func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
