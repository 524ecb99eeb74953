package effect

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// machineDocument is a machine as testers see it.
type machineDocument struct {
	Name       string         `json:"name"`
	PowerState string         `json:"power_state"`
	BootDevice string         `json:"boot_device"`
	Tasks      []taskDocument `json:"tasks"`
	// Forgetful says that the list of tasks is not complete.
	Forgetful bool           `json:"forgetful,omitempty"`
	Counts    map[string]int `json:"counts"` // effects by kind
	Faults    *Faults        `json:"faults,omitempty"`
}

func (s *Server) listMachines(*http.Request) (any, *refusal) {
	return map[string]any{"machines": slices.Sorted(maps.Keys(s.machines))}, nil
}

func (s *Server) showMachine(r *http.Request) (any, *refusal) {
	m, refused := s.existing(r.PathValue("name"))
	if refused != nil {
		return nil, refused
	}
	now := s.clock()
	m.settle(now)
	tasks := make([]taskDocument, len(m.tasks))
	for i, t := range m.tasks {
		tasks[i] = t.document(now)
	}
	return machineDocument{
		Name: m.name, PowerState: m.power, BootDevice: m.bootDevice, Tasks: tasks, Forgetful: m.forgetful,
		Counts: maps.Clone(m.counts), Faults: m.faults,
	}, nil
}

// effectsDocument is a part of the log.
type effectsDocument struct {
	Effects []Effect `json:"effects"`
	// Next is the sequence number to ask for the effects behind this part.
	Next int64 `json:"next"`
	// Gap says that effects in front of this part are not kept any more.
	Gap bool `json:"gap,omitempty"`
}

func (s *Server) allEffects(r *http.Request) (any, *refusal) { return s.readLog(r, Effect.done) }

// allCalls answers with the calls that did nothing as well.
func (s *Server) allCalls(r *http.Request) (any, *refusal) {
	return s.readLog(r, func(Effect) bool { return true })
}

func (s *Server) readLog(r *http.Request, wanted func(Effect) bool) (any, *refusal) {
	since, refused := sequence(r)
	if refused != nil {
		return nil, refused
	}
	calls, gap := s.log.after(since)
	effects := slices.DeleteFunc(append([]Effect{}, calls...), func(e Effect) bool { return !wanted(e) })
	return effectsDocument{Effects: effects, Next: s.log.newest, Gap: gap}, nil
}

func (s *Server) machineEffects(r *http.Request) (any, *refusal) {
	since, refused := sequence(r)
	if refused != nil {
		return nil, refused
	}
	m, refused := s.existing(r.PathValue("name"))
	if refused != nil {
		return nil, refused
	}
	own := []Effect{}
	for _, number := range m.since(max(since+1, s.log.oldest())) {
		own = append(own, *s.log.at(number))
	}
	return effectsDocument{Effects: own, Next: s.log.newest, Gap: since+1 < s.log.oldest()}, nil
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

func (s *Server) counts(*http.Request) (any, *refusal) { return s.totals(), nil }

func (s *Server) showFaults(*http.Request) (any, *refusal) { return s.faults, nil }

// setFaults replaces the faults of one machine, or of all that have none of their
// own.
func (s *Server) setFaults(r *http.Request) (any, *refusal) {
	var faults Faults
	if refused := decode(r, &faults); refused != nil {
		return nil, refused
	}
	if err := faults.check(); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := r.PathValue("name"); name != "" {
		m, refused := s.machine(name)
		if refused != nil {
			return nil, refused
		}
		m.faults = &faults
		return faults, nil
	}
	s.faults = faults
	return faults, nil
}

// clearFaults lets one machine follow the faults for all again, or ends those.
func (s *Server) clearFaults(r *http.Request) (any, *refusal) {
	if name := r.PathValue("name"); name != "" {
		m, refused := s.existing(name)
		if refused != nil {
			return nil, refused
		}
		m.faults = nil
		return s.faults, nil
	}
	s.faults = Faults{}
	return s.faults, nil
}

// forgetTasks lets one machine, or each, lose its list of tasks.
func (s *Server) forgetTasks(r *http.Request) (any, *refusal) {
	if name := r.PathValue("name"); name != "" {
		m, refused := s.machine(name)
		if refused != nil {
			return nil, refused
		}
		m.forget(s.clock())
		return map[string]any{"machines": 1}, nil
	}
	for _, m := range s.machines {
		m.forget(s.clock())
	}
	return map[string]any{"machines": len(s.machines)}, nil
}
