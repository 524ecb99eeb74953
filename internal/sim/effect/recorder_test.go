package effect_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

func TestUnreachableMachineCutsTheConnectionAndDoesNothing(t *testing.T) {
	m := newMachine(t)
	m.faults(`"unreachable":1`)
	response, err := http.Post(m.url+"/machines/m1/effects", "application/json", strings.NewReader(`{"kind":"wipe"}`))
	if err == nil {
		response.Body.Close()
		t.Errorf("status %d, want no answer", response.StatusCode)
	}
	if got := m.log(); len(got) != 0 {
		t.Errorf("effects %+v, want none", got)
	}
}

func TestReadingsAreCounted(t *testing.T) {
	m := newMachine(t)
	for range 3 {
		m.call("GET", "/machines/m1/power", "", nil)
	}
	m.do("nmi", "r")
	var got struct{ Reads int64 }
	m.call("GET", "/machines/m1", "", &got)
	if got.Reads != 3 {
		t.Errorf("%d readings, want 3", got.Reads)
	}
}

func TestRecorderRefusesMachinesAndKindsThatItDoesNotKnow(t *testing.T) {
	r := effect.NewRecorder(effect.RecorderOptions{Known: func(kind string) bool { return kind == "wipe" }})
	r.Register("m1")
	if err := r.SetFaults("m2", nil); err == nil || !strings.Contains(err.Error(), "m2") {
		t.Errorf("unknown machine: %v", err)
	}
	for _, kind := range []string{"wipe", effect.Reading} {
		if err := r.SetFaults("m1", &effect.Faults{Only: []string{kind}}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := r.SetAllFaults(effect.Faults{Only: []string{"explode"}}); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

func TestFaultsOfAgentsAreForMachinesThatHaveThem(t *testing.T) {
	faults := effect.Faults{Agent: effect.AgentFaults{Crash: 1}}
	for kind, wanted := range map[string]bool{effect.AgentCommand: true, "power on": false} {
		r := effect.NewRecorder(effect.RecorderOptions{Known: func(k string) bool { return k == kind }})
		if err := r.SetAllFaults(faults); (err == nil) != wanted {
			t.Errorf("faults of machines with the kind %q: %v", kind, err)
		}
	}
	r := effect.NewRecorder(effect.RecorderOptions{Known: func(string) bool { return true }})
	if err := r.SetAllFaults(effect.Faults{Agent: effect.AgentFaults{Times: -1}}); err == nil {
		t.Error("a negative number is accepted")
	}
}
