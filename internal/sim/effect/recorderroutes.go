package effect

import (
	"net/http"
	"slices"
	"strconv"
)

// Handler serves the API with which testers read the effects and counts of the machines, and set
// their faults.
func (r *Recorder) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /machines/{name}/effects":   r.machineEffects,
		"GET /effects":                   r.allEffects,
		"GET /calls":                     r.allCalls,
		"GET /counts":                    func(*http.Request) (any, *refusal) { return r.Totals(), nil },
		"GET /faults":                    r.showFaults,
		"PUT /faults":                    r.putFaults,
		"PUT /machines/{name}/faults":    r.putFaults,
		"DELETE /faults":                 r.clearFaults,
		"DELETE /machines/{name}/faults": r.clearFaults,
	} {
		mux.Handle(pattern, h)
	}
	return mux
}

// effectsDocument is a part of the log.
type effectsDocument struct {
	Effects []Effect `json:"effects"`
	// Next is the sequence number with which to ask for the effects after this part.
	Next int64 `json:"next"`
	// Gap says that effects before this part are not kept any more.
	Gap bool `json:"gap,omitempty"`
}

func (r *Recorder) allEffects(request *http.Request) (any, *refusal) {
	return r.readLog(request, Effect.Done)
}

// allCalls answers with all calls, including those that did nothing.
func (r *Recorder) allCalls(request *http.Request) (any, *refusal) {
	return r.readLog(request, func(Effect) bool { return true })
}

func (r *Recorder) readLog(request *http.Request, wanted func(Effect) bool) (any, *refusal) {
	since, refused := sequence(request)
	if refused != nil {
		return nil, refused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, gap := r.log.after(since)
	effects := slices.DeleteFunc(append([]Effect{}, calls...), func(e Effect) bool { return !wanted(e) })
	return effectsDocument{Effects: effects, Next: r.log.newest, Gap: gap}, nil
}

func (r *Recorder) machineEffects(request *http.Request) (any, *refusal) {
	since, refused := sequence(request)
	if refused != nil {
		return nil, refused
	}
	name, refused := r.named(request)
	if refused != nil {
		return nil, refused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return effectsDocument{Effects: r.effects(name, since), Next: r.log.newest, Gap: since+1 < r.log.oldest()}, nil
}

// named returns the machine that a request is about.
func (r *Recorder) named(request *http.Request) (string, *refusal) {
	name := request.PathValue("name")
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.machines[name]; !ok {
		return "", refuse(http.StatusNotFound, "there is no machine %q, or nobody has spoken to it yet", name)
	}
	return name, nil
}

// sequence reads the parameter since.
func sequence(r *http.Request) (int64, *refusal) {
	text := r.URL.Query().Get("since")
	if text == "" {
		return 0, nil
	}
	since, err := strconv.ParseInt(text, 10, 64)
	if err != nil || since < 0 {
		return 0, refuse(http.StatusBadRequest, "since is a sequence number, got %q", text)
	}
	return since, nil
}

func (r *Recorder) showFaults(*http.Request) (any, *refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults, nil
}

// putFaults replaces the faults of one machine, or of all that have none of their own.
func (r *Recorder) putFaults(request *http.Request) (any, *refusal) {
	var faults Faults
	if refused := decode(request, &faults); refused != nil {
		return nil, refused
	}
	if request.PathValue("name") == "" {
		if err := r.SetAllFaults(faults); err != nil {
			return nil, refuse(http.StatusBadRequest, "%v", err)
		}
		return faults, nil
	}
	name, refused := r.named(request)
	if refused != nil {
		return nil, refused
	}
	if err := r.SetFaults(name, &faults); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	return faults, nil
}

// clearFaults makes one machine follow the faults for all machines again. Without a machine, it
// removes the faults for all.
func (r *Recorder) clearFaults(request *http.Request) (any, *refusal) {
	if request.PathValue("name") == "" {
		_ = r.SetAllFaults(Faults{}) // cannot fail: no faults are always valid
		return Faults{}, nil
	}
	name, refused := r.named(request)
	if refused != nil {
		return nil, refused
	}
	_ = r.SetFaults(name, nil) // cannot fail: the machine is registered
	return r.showFaults(request)
}
