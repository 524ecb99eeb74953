package sim

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// bmcDocument is a machine with its BMC, as testers see it.
type bmcDocument struct {
	Name       string          `json:"name"`
	Vendor     string          `json:"vendor"`
	URL        string          `json:"url"` // of the BMC
	PowerState bmc.PowerState  `json:"power_state"`
	State      State           `json:"state"` // of the ramdisk
	Boots      int64           `json:"boots"`
	Boot       bmc.Override    `json:"boot"`
	Media      []bmc.Medium    `json:"media"`
	Components []bmc.Component `json:"components"`
	Tasks      int             `json:"tasks"`
	Counts     map[string]int  `json:"counts"` // effects by kind
	Reads      int64           `json:"reads"`
	Faults     *effect.Faults  `json:"faults,omitempty"`
}

// AdminHandler serves what a tester asks and tells about the BMCs, under the same routes
// as fake machines. It is for machines that have BMCs.
func (ms *Machines) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		names := make([]string, len(ms.machines))
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
		writeJSON(w, http.StatusOK, map[string]any{"machines": names})
	})
	mux.HandleFunc("GET /machines/{name}", ms.withMachine(func(m *Machine) any { return m.document() }))
	mux.HandleFunc("POST /machines/{name}/forget-tasks", ms.withMachine(func(m *Machine) any {
		m.bmc.ForgetTasks()
		return map[string]any{"machines": 1}
	}))
	mux.HandleFunc("POST /forget-tasks", func(w http.ResponseWriter, _ *http.Request) {
		for _, m := range ms.machines {
			m.bmc.ForgetTasks()
		}
		writeJSON(w, http.StatusOK, map[string]any{"machines": len(ms.machines)})
	})
	mux.Handle("/", ms.bmcs.recorder.Handler())
	return mux
}

// withMachine finds the machine that a request names.
func (ms *Machines) withMachine(do func(*Machine) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(r.PathValue("name"))
		if err != nil || i < 0 || i >= len(ms.machines) {
			writeJSON(w, http.StatusNotFound, map[string]any{"error": "there is no machine " + strconv.Quote(r.PathValue("name"))})
			return
		}
		writeJSON(w, http.StatusOK, do(ms.machines[i]))
	}
}

func (m *Machine) document() bmcDocument {
	b, recorder := m.bmc, m.all.bmcs.recorder
	return bmcDocument{
		Name: b.Name(), Vendor: b.Profile().Vendor, URL: m.BMCURL(), PowerState: b.Power(), State: m.Status().State,
		Boots: b.Boots(), Boot: b.Override(), Media: b.Media(), Components: b.Components(), Tasks: len(b.Tasks()),
		Counts: recorder.Counts(b.Name()), Reads: recorder.Reads(b.Name()), Faults: recorder.Faults(b.Name()),
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
