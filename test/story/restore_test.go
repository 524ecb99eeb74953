package story

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// restoredMachines is how many machines are cleaned while a backup is taken.
const restoredMachines = 12

// cleaning wipes a machine, changes it and burns it in, each of which takes time.
const cleaning = `{"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"},
	{"interface": "raid", "step": "create_configuration"}, {"interface": "deploy", "step": "burnin_cpu"}]}`

// restorable is engines on one database, with machines that count what is done to them.
type restorable struct {
	racks    []*rack
	machines *effect.Server
	url      string // of the machines
	nodes    int    // that were registered, each with a machine
	backup   func()
	restore  func() // while no engine runs
	settings []string
}

func TestWorkOfARestoredDatabaseIsHeldBackThroughCrashesAndDoneOnce(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		data, file := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
		database := engine.DatabaseConfig{Dir: data}
		restoreInTheMiddle(t, &restorable{
			settings: []string{"database.dir=" + data}, racks: make([]*rack, 1),
			backup: func() {
				if _, err := engine.Backup(t.Context(), database, file, false); err != nil {
					t.Fatal(err)
				}
			},
			restore: func() {
				if _, err := engine.Restore(t.Context(), database, file); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url, dump := storetest.NewSchema(t), storetest.NewSchema(t)
		restoreInTheMiddle(t, &restorable{
			settings: []string{"database.url=" + url, "conductor.lease_duration=3s"}, racks: make([]*rack, 2),
			backup:  func() { storetest.Dump(t, url, dump) },
			restore: func() { storetest.Dump(t, dump, url) },
		})
	})
}

// restoreInTheMiddle cleans machines and takes a backup meanwhile. It lets the cleaning end, and
// restores the backup.
func restoreInTheMiddle(t *testing.T, r *restorable) {
	t.Helper()
	r.machines = effect.New(effect.Options{Faults: effect.Faults{TaskTime: effect.Duration(2 * time.Second)}})
	machines := httptest.NewServer(r.machines.Handler())
	defer machines.Close()
	r.url = machines.URL
	r.start(t)
	var uuids []string
	for range restoredMachines {
		uuids = append(uuids, r.register(t))
	}
	r.clean(t, uuids...)
	eventually(t, func(context.Context) error { return atLeast(r.machines.Totals().Kinds, "wipe", restoredMachines/2) })
	r.backup()
	r.await(t, uuids)
	r.wantOnce(t, "before the restore")
	r.kill()
	r.restore()
	r.start(t)
	for range 2 { // also if the engine dies meanwhile
		r.racks[0].restart(t)
		// This request takes longer than the pauses of all loops.
		r.await(t, r.clean(t, r.register(t)))
		r.wantOnce(t, "while work is suspended")
	}
	last := r.racks[len(r.racks)-1]
	if s := last.suspension(t); !s.Suspended || s.Reason != "restored" || s.Nodes != restoredMachines {
		t.Errorf("suspension %+v, want that of %d nodes", s, restoredMachines)
	}
	if status, answer := last.call(t, http.MethodPut, "/ingot/suspension", []byte(`{"target":"resume"}`), ""); status != http.StatusNoContent {
		t.Fatalf("resume: %d %s", status, answer)
	}
	r.await(t, uuids)
	r.wantOnce(t, "after a person let it go on")
	for _, one := range r.racks {
		if s := one.suspension(t); s.Suspended || s.Nodes != 0 {
			t.Errorf("an engine still says %+v", s)
		}
	}
}

// start starts the engines.
func (r *restorable) start(t *testing.T) {
	t.Helper()
	for i := range r.racks {
		settings := append([]string{fmt.Sprintf("conductor.hostname=engine-%d", i), "agent.verify_callback_address=false"}, r.settings...)
		one := &rack{address: process.Address(t), settings: settings}
		one.process = startEngineProcess(t, one.address, one.settings...)
		var err error
		if one.engine, err = ironic.New(ironic.Options{Endpoint: "http://" + one.address}); err != nil {
			t.Fatal(err)
		}
		r.racks[i] = one
	}
}

// register creates a node with a machine of its own.
func (r *restorable) register(t *testing.T) (uuid string) {
	t.Helper()
	r.nodes++
	return r.racks[0].register(t, "no-inspect", "", map[string]any{"fake_machine": fmt.Sprintf("%s/machines/m%d", r.url, r.nodes)})
}

// clean asks the engines in turn to clean nodes.
func (r *restorable) clean(t *testing.T, uuids ...string) []string {
	t.Helper()
	for i, uuid := range uuids {
		one := r.racks[i%len(r.racks)]
		if status, answer := one.call(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", []byte(cleaning), "latest"); status != http.StatusAccepted {
			t.Fatalf("clean: %d %s", status, answer)
		}
	}
	return uuids
}

// await waits until nodes are cleaned.
func (r *restorable) await(t *testing.T, uuids []string) {
	t.Helper()
	for _, uuid := range uuids {
		r.racks[0].awaitState(t, uuid, "manageable")
	}
}

// kill ends the engines.
func (r *restorable) kill() {
	for _, one := range r.racks {
		one.process.Kill()
	}
}

// wantOnce checks that every machine was cleaned once.
func (r *restorable) wantOnce(t *testing.T, when string) {
	t.Helper()
	totals := r.machines.Totals()
	for _, kind := range []string{"wipe", "configure", "burn in"} {
		if got := totals.Kinds[kind]; got != r.nodes {
			t.Errorf("%s: %d times %q on %d machines", when, got, kind, r.nodes)
		}
	}
}

func atLeast(counts map[string]int, kind string, want int) error {
	if counts[kind] < want {
		return fmt.Errorf("%d times %q, want %d", counts[kind], kind, want)
	}
	return nil
}

// shownSuspension is what stories look at of a suspension.
type shownSuspension struct {
	Suspended bool
	Reason    string
	Nodes     int
}

func (r *rack) suspension(t *testing.T) (s shownSuspension) {
	t.Helper()
	status, answer := r.call(t, http.MethodGet, "/ingot/suspension", nil, "")
	if err := json.Unmarshal(answer, &s); status != http.StatusOK || err != nil {
		t.Fatalf("suspension: %d %s", status, answer)
	}
	return s
}
