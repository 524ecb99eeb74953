package sim

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// machineDocument describes a machine to testers.
type machineDocument struct {
	Name string `json:"name"`
	*bmcDocument
	BootMAC string  `json:"boot_mac"` // of the network interface that the machine boots from
	State   State   `json:"state"`
	Reason  string  `json:"reason,omitempty"` // of the state
	System  *System `json:"system,omitempty"` // the one that runs
	// Disks has the disks that are not empty, by their devices.
	Disks map[string]disk.Content `json:"disks,omitempty"`
	// BootLog is what the machine did in its latest boot.
	BootLog []string       `json:"boot_log,omitempty"`
	Counts  map[string]int `json:"counts"` // effects by kind
	Reads   int64          `json:"reads"`
	Faults  *effect.Faults `json:"faults,omitempty"`
}

// bmcDocument is the part about the BMC of a machine that has one.
type bmcDocument struct {
	Vendor     string          `json:"vendor"`
	URL        string          `json:"url"`
	SystemPath string          `json:"system_path"`
	PowerState bmc.PowerState  `json:"power_state"`
	Boots      int64           `json:"boots"`
	Boot       bmc.Override    `json:"boot"`
	Media      []bmc.Medium    `json:"media"`
	Components []bmc.Component `json:"components"`
	Tasks      int             `json:"tasks"`
	Writing    []string        `json:"writing"` // components whose firmware is being written
	BIOS       map[string]any  `json:"bios"`
}

// AdminHandler serves the API with which testers read the machines and control them. The routes are
// those of the fake machines in package effect.
func (ms *Machines) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		names := make([]string, len(ms.machines))
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
		writeJSON(w, http.StatusOK, map[string]any{"machines": names})
	})
	mux.HandleFunc("GET /machines/{name}", ms.withMachine(func(m *Machine) (any, error) { return m.document(), nil }))
	mux.HandleFunc("POST /machines/{name}/boot-network", ms.withMachine(func(m *Machine) (any, error) {
		return map[string]any{}, m.BootNetwork()
	}))
	mux.HandleFunc("POST /machines/{name}/hang", ms.withMachine(func(m *Machine) (any, error) {
		return map[string]any{}, m.Hang()
	}))
	for action, broken := range map[string]bool{"break": true, "repair": false} {
		mux.HandleFunc("POST /machines/{name}/"+action, ms.withMachine(func(m *Machine) (any, error) {
			m.Break(broken)
			return map[string]any{}, nil
		}))
	}
	mux.HandleFunc("POST /machines/{name}/forget-tasks", ms.withMachine(func(m *Machine) (any, error) {
		return map[string]any{"machines": m.forgetTasks()}, nil
	}))
	mux.HandleFunc("POST /forget-tasks", func(w http.ResponseWriter, _ *http.Request) {
		forgotten := 0
		for _, m := range ms.machines {
			forgotten += m.forgetTasks()
		}
		writeJSON(w, http.StatusOK, map[string]any{"machines": forgotten})
	})
	mux.Handle("/", ms.recorder.Handler())
	return mux
}

// forgetTasks makes the machine's BMC forget its tasks. It returns the number of BMCs: 1, or 0 if
// the machine has none.
func (m *Machine) forgetTasks() int {
	if m.bmc == nil {
		return 0
	}
	m.bmc.ForgetTasks()
	return 1
}

// withMachine returns a handler that finds the machine in the path of the request. An error of do
// means that the state of the machine does not allow the request; it is answered with 409.
func (ms *Machines) withMachine(do func(*Machine) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(r.PathValue("name"))
		if err != nil || i < 0 || i >= len(ms.machines) {
			writeJSON(w, http.StatusNotFound, map[string]any{"error": "there is no machine " + strconv.Quote(r.PathValue("name"))})
			return
		}
		body, err := do(ms.machines[i])
		if err != nil {
			writeJSON(w, http.StatusConflict, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, body)
	}
}

func (m *Machine) document() machineDocument {
	recorder, status := m.all.recorder, m.Status()
	d := machineDocument{
		Name: m.name(), BootMAC: m.BootMAC(), State: status.State, Reason: status.Reason, System: status.System,
		Disks: m.disks.Contents(), BootLog: m.BootLog(),
		Counts: recorder.Counts(m.name()), Reads: recorder.Reads(m.name()), Faults: recorder.Faults(m.name()),
	}
	if b := m.bmc; b != nil {
		d.bmcDocument = &bmcDocument{
			Vendor: b.Profile().Vendor, URL: m.BMCURL(), SystemPath: m.SystemPath(), PowerState: b.Power(), Boots: b.Boots(),
			Boot: b.Override(), Media: b.Media(), Components: b.Components(), Tasks: len(b.Tasks()),
			Writing: b.Writing(), BIOS: b.BIOS(),
		}
	}
	return d
}

// BootMAC returns the MAC address of the network interface that the machine boots from.
func (m *Machine) BootMAC() string {
	machine := m.Hardware()
	return machine.Inspection.Inventory.Interfaces[machine.BootNIC].MACAddress
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
