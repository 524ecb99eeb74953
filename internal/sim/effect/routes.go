package effect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxBody is the largest body of a request, in bytes.
const maxBody = 64 << 10

// refusal is an answer that is an error.
type refusal struct {
	status int
	Error  string `json:"error"`
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, Error: fmt.Sprintf(format, args...)}
}

// handler returns the answer to a request, which is then written as JSON.
type handler func(r *http.Request) (any, *refusal)

// ServeHTTP writes the answer.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, refused := h(r)
	status := http.StatusOK
	if refused != nil {
		status, answer = refused.status, refused
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// Handler serves the calls of engines to the machines, and the API for testers. Faults affect only
// the calls of engines.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		// what an engine calls
		"GET /machines/{name}/power":    s.engineCall(s.readPower),
		"POST /machines/{name}/effects": s.engineCall(s.perform),
		"GET /machines/{name}/tasks":    s.engineCall(s.readTask),
		"GET /machines/{name}/settings": s.engineCall(s.readSettings),
		// what a tester calls
		"GET /machines":                      s.locked(s.listMachines),
		"GET /machines/{name}":               s.locked(s.showMachine),
		"PUT /machines/{name}/faults":        s.setFaults,
		"POST /forget-tasks":                 s.locked(s.forgetTasks),
		"POST /machines/{name}/forget-tasks": s.locked(s.forgetTasks),
	} {
		mux.Handle(pattern, h)
	}
	mux.Handle("/", s.recorder.Handler())
	return mux
}

// locked makes a handler that does not wait run under the lock of the server.
func (s *Server) locked(h handler) handler {
	return func(r *http.Request) (any, *refusal) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return h(r)
	}
}

// fate is what becomes of one call of an engine.
type fate struct {
	Fate
	call int64 // its sequence number; 0 when it is not in the log
}

// read draws the fate of a call that changes nothing.
func (s *Server) read(m *machine) fate { return fate{Fate: s.recorder.Draw(m.name, Reading, false)} }

// engineCall returns the handler of a call that faults may affect. do returns what becomes of the
// call, and the answer.
func (s *Server) engineCall(do func(*http.Request) (fate, any, *refusal)) handler {
	return func(r *http.Request) (any, *refusal) {
		end, answer, refused := do(r)
		answers := end.Wait(r.Context())
		if end.call > 0 {
			s.recorder.End(end.call, s.clock()) // before the client can go on
		}
		if !answers {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		switch {
		case refused != nil:
			return nil, refused
		case end.Refuse:
			return nil, refuse(http.StatusConflict, "the machine is busy, as it was told to be")
		case end.Error:
			return nil, refuse(http.StatusInternalServerError, "the machine failed, as it was told to")
		}
		return answer, nil
	}
}

// readPower answers with the power state.
func (s *Server) readPower(r *http.Request) (fate, any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, refused := s.machine(r.PathValue("name"))
	if refused != nil {
		return fate{}, nil, refused
	}
	m.applyEnded(s.clock())
	return s.read(m), map[string]any{"power_state": m.power}, nil
}

// readTask answers with what became of a request.
func (s *Server) readTask(r *http.Request) (fate, any, *refusal) {
	request := r.URL.Query().Get("request")
	if request == "" {
		return fate{}, nil, refuse(http.StatusBadRequest, "name the request: ?request=…")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, refused := s.machine(r.PathValue("name"))
	if refused != nil {
		return fate{}, nil, refused
	}
	return s.read(m), m.outcome(request, s.clock()), nil
}

// readSettings answers with what BIOS and firmware were changed to.
func (s *Server) readSettings(r *http.Request) (fate, any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, refused := s.machine(r.PathValue("name"))
	if refused != nil {
		return fate{}, nil, refused
	}
	m.applyEnded(s.clock())
	return s.read(m), m.settings, nil
}

// order is the body of a request for an effect.
type order struct {
	Kind      string   `json:"kind"`
	Detail    string   `json:"detail"`
	Conductor string   `json:"conductor"`
	Epoch     int64    `json:"epoch"`
	Request   string   `json:"request"`
	Settings  settings `json:"settings"`
}

// perform does something to a machine and answers with its task.
func (s *Server) perform(r *http.Request) (fate, any, *refusal) {
	var o order
	if refused := decode(r, &o); refused != nil {
		return fate{}, nil, refused
	}
	if _, ok := kindTable[o.Kind]; !ok {
		return fate{}, nil, refuse(http.StatusBadRequest, "there is no kind %q of effects", o.Kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, refused := s.machine(r.PathValue("name"))
	if refused != nil {
		return fate{}, nil, refused
	}
	now, end := s.clock(), fate{Fate: s.recorder.Draw(m.name, o.Kind, kindTable[o.Kind].slow)}
	call := Effect{
		Machine: m.name, Time: now.UTC(), Kind: o.Kind, Detail: o.Detail,
		Conductor: o.Conductor, Epoch: o.Epoch, Request: o.Request, Fault: end.Fault(),
	}
	if !end.Spared() || end.Lie {
		end.call = s.recorder.Add(call)
		return end, taskDocument{State: taskDone, Kind: o.Kind, Request: o.Request}, nil
	}
	s.tasks++
	t := task{
		number: s.tasks, kind: o.Kind, detail: o.Detail, settings: o.Settings, request: o.Request,
		ends: now.Add(end.TaskTime), fails: end.FailTask,
	}
	m.begin(t)
	call.Task = t.id()
	end.call = s.recorder.Add(call)
	m.applyEnded(now)
	return end, t.document(now), nil
}

// decode reads the whole body: only then does the server notice when the client disconnects.
func decode(r *http.Request, into any) *refusal {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(text) > maxBody {
		return refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields() // otherwise a misspelt fault would be no fault
		err = decoder.Decode(into)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "read the body: %v", err)
	}
	return nil
}
