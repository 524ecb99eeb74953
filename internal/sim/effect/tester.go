package effect

import (
	"maps"
	"net/http"
	"slices"
)

// machineDocument describes a machine to testers.
type machineDocument struct {
	Name       string         `json:"name"`
	PowerState string         `json:"power_state"`
	BootDevice string         `json:"boot_device"`
	Tasks      []taskDocument `json:"tasks"`
	// Forgetful says that the list of tasks is incomplete.
	Forgetful bool           `json:"forgetful,omitempty"`
	Counts    map[string]int `json:"counts"` // effects by kind
	Reads     int64          `json:"reads"`
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
	m.applyEnded(now)
	tasks := make([]taskDocument, len(m.tasks))
	for i, t := range m.tasks {
		tasks[i] = t.document(now)
	}
	return machineDocument{
		Name: m.name, PowerState: m.power, BootDevice: m.bootDevice, Tasks: tasks, Forgetful: m.forgetful,
		Counts: s.recorder.Counts(m.name), Reads: s.recorder.Reads(m.name), Faults: s.recorder.Faults(m.name),
	}, nil
}

// setFaults replaces the faults of one machine. A machine that does not exist yet is made.
func (s *Server) setFaults(r *http.Request) (any, *refusal) {
	s.mu.Lock()
	_, refused := s.machine(r.PathValue("name"))
	s.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	return s.recorder.putFaults(r)
}

// forgetTasks makes one machine, or each, forget its list of tasks.
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
