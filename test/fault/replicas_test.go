//go:build fault

package fault_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// takeover is how soon another engine must finish the work of a dead engine.
const takeover = 30 * time.Second

// TestWorkOfAKilledEngineIsFinishedByTheOther kills one of two engines while both have work and
// answer many requests.
func TestWorkOfAKilledEngineIsFinishedByTheOther(t *testing.T) {
	database := storetest.Postgres(t)
	killed, running := start(t, database, "killed"), start(t, database, "running")
	managed := names("worked", 40)
	for i, name := range managed {
		[]*replica{killed, running}[i%2].create(name, 1)
	}
	var stored sync.Map // names of nodes whose creation was answered
	var stop atomic.Bool
	var load sync.WaitGroup
	defer load.Wait()
	defer stop.Store(true)
	for i, name := range names("load", 4) {
		load.Go(func() {
			for n := 0; !stop.Load(); n++ {
				one := fmt.Sprint(name, "-", n)
				status, _, err := []*replica{killed, running}[i%2].ask("POST", "/v1/nodes", map[string]any{"name": one, "driver": "fake-hardware"})
				switch {
				case err != nil:
					return // it was killed
				case status == 201:
					stored.Store(one, true)
				case status != 503:
					t.Errorf("create %s: status %d", one, status)
				}
			}
		})
	}
	for i, name := range managed {
		[]*replica{killed, running}[i%2].manage(name)
	}
	killed.Kill()
	running.awaitManaged(takeover, managed)
	stop.Store(true)
	load.Wait()
	count := 0
	stored.Range(func(name, _ any) bool {
		if status, _, err := running.ask("GET", "/v1/nodes/"+name.(string), nil); err != nil || status != 200 {
			t.Errorf("node %s was answered and is lost: %d %v", name, status, err)
		}
		count++
		return true
	})
	if count == 0 {
		t.Error("the load stored nothing")
	}
}

func TestRestartedEngineTakesItsOwnWorkAtOnce(t *testing.T) {
	database := storetest.Postgres(t)
	first := start(t, database, "only")
	managed := names("own", 10)
	for _, name := range managed {
		first.create(name, 1)
		first.manage(name)
	}
	first.Kill()
	// The leases of the first engine would last longer than this.
	start(t, database, "only").awaitManaged(12*time.Second, managed)
}

// TestPausedEngineChangesNothing pauses an engine for longer than its leases last, and checks what
// it does when it continues.
func TestPausedEngineChangesNothing(t *testing.T) {
	database := storetest.Postgres(t)
	paused, other := start(t, database, "paused"), start(t, database, "other")
	managed := names("held", 10)
	for _, name := range managed {
		paused.create(name, 2)
	}
	for _, name := range managed {
		paused.manage(name)
	}
	paused.Signal(syscall.SIGSTOP)
	other.awaitManaged(takeover, managed)
	before := other.nodes()
	paused.Signal(syscall.SIGCONT)
	paused.create("awake", 0) // it serves again
	history := map[string]string{}
	for _, name := range managed {
		history[name] = string(other.must("GET", "/v1/nodes/"+name+"/history", nil))
	}
	paused.manage("awake")
	paused.awaitManaged(waitTimeout, []string{"awake"}) // its workers have gone on
	after := other.nodes()
	delete(after, "awake")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("nodes (-before +after the paused engine went on):\n%s", diff)
	}
	for _, name := range managed {
		if now := string(other.must("GET", "/v1/nodes/"+name+"/history", nil)); now != history[name] {
			t.Errorf("history of %s = %s, want %s", name, now, history[name])
		}
	}
}

// TestWipeThatNobodyKnowsOfIsNotRepeated kills an engine while a machine wipes its disks and has
// not answered. The machine forgets that it did so.
func TestWipeThatNobodyKnowsOfIsNotRepeated(t *testing.T) {
	database, machines := storetest.Postgres(t), startMachines(t, 1)
	killed := start(t, database, "killed", settings...)
	killed.must("POST", "/v1/nodes", map[string]any{
		"name": "wiped", "driver": "fake-hardware", "driver_info": map[string]any{"fake_machine": machines.url + "/machines/wiped"},
	})
	killed.manage("wiped")
	killed.awaitManaged(waitTimeout, []string{"wiped"})
	machines.tell(t, "PUT", "/faults", map[string]any{"lose_answer": 1, "only": []string{"wipe"}})
	killed.must("PUT", "/v1/nodes/wiped/states/provision", map[string]any{
		"target": "clean", "clean_steps": []map[string]any{{"interface": "deploy", "step": "erase_devices"}},
	})
	wipes := func() int {
		var done struct{ Kinds map[string]int }
		if err := machines.read("/counts", &done); err != nil {
			t.Fatal(err)
		}
		return done.Kinds["wipe"]
	}
	process.Eventually(t, waitTimeout, "the machine to wipe its disks", func() bool { return wipes() == 1 })
	killed.Kill()
	machines.tell(t, "DELETE", "/faults", nil)
	machines.tell(t, "POST", "/machines/wiped/forget-tasks", nil)
	running := start(t, database, "running", settings...)
	process.Eventually(t, takeover, "the cleaning to end", func() bool { return running.nodes()["wiped"].State == "clean failed" })
	if n := running.nodes()["wiped"]; n.LastError == nil || !strings.Contains(*n.LastError, "outcome unknown") || wipes() != 1 {
		t.Errorf("node = %+v after %d wipes, want one, and an error that says that its outcome is unknown", n, wipes())
	}
}

// names returns count names that begin with prefix.
func names(prefix string, count int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprint(prefix, "-", i)
	}
	return list
}
