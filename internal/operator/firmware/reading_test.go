package firmware

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestEngineIsAskedOnlyWhenTheMachineMayHaveChanged(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	first := provisioner.Node{ID: "a", State: node.Manageable, StateChangedAt: start, UpdatedAt: start}
	changed := func(change func(*provisioner.Node)) provisioner.Node {
		n := first
		change(&n)
		return n
	}
	moved := changed(func(n *provisioner.Node) {
		n.State, n.StateChangedAt, n.UpdatedAt = node.Available, at(time.Second), at(time.Second)
	})
	inState := func(s node.State) provisioner.Node {
		return changed(func(n *provisioner.Node) { n.State, n.StateChangedAt = s, at(time.Second) })
	}
	updated := changed(func(n *provisioner.Node) { n.UpdatedAt = at(time.Second) })
	read := last{reading: readingOf(first), known: true, at: start}
	with := func(change func(*last)) last {
		l := read
		change(&l)
		return l
	}
	worked := with(func(l *last) { l.worked = true })
	earlier := with(func(l *last) { l.at = time.Time{} })
	idle := object{current: true}
	wanted := object{current: true, wanted: true}
	changing := object{current: true, wanted: true, changing: true}
	for name, tt := range map[string]struct {
		last   last
		object object
		node   provisioner.Node
		after  time.Duration
		read   bool
		wait   time.Duration
	}{
		"never read":                                   {last{}, object{}, first, 0, true, 0},
		"never read, object made by somebody":          {last{}, idle, first, 0, true, 0},
		"never read, and not registered":               {last{}, object{}, inState(node.Enroll), 0, false, 0},
		"never read, while it is verified":             {last{}, object{}, inState(node.Verifying), 0, false, 0},
		"never read, and its cleaning failed":          {last{}, object{}, inState(node.CleanFailed), 0, true, 0},
		"nothing changed":                              {read, idle, first, time.Hour, false, 0},
		"object gone or of an older spec":              {read, object{}, first, 0, true, 0},
		"spec changed while the engine works":          {read, object{wanted: true}, inState(node.Servicing), 0, true, 0},
		"heartbeat":                                    {read, wanted, updated, time.Hour, false, 0},
		"state changed, soon after the reading":        {read, idle, moved, 2 * time.Minute, false, 3 * time.Minute},
		"state changed, long after the reading":        {read, idle, moved, 5 * time.Minute, true, 0},
		"state changed since an earlier process":       {earlier, idle, moved, 0, true, 0},
		"inspected, soon after the reading":            {read, idle, changed(func(n *provisioner.Node) { n.InspectedAt = at(1) }), 0, false, 5 * time.Minute},
		"cleaning or service":                          {worked, wanted, inState(node.ServiceWait), time.Hour, false, 0},
		"end of cleaning or service":                   {worked, idle, moved, time.Second, true, 0},
		"service failed":                               {worked, idle, inState(node.ServiceFailed), time.Second, true, 0},
		"held between two steps":                       {worked, wanted, inState(node.ServiceHold), time.Hour, false, 0},
		"state changed, and something is wanted":       {read, wanted, moved, time.Second, true, 0},
		"another node":                                 {read, idle, changed(func(n *provisioner.Node) { n.ID = "b" }), time.Second, true, 0},
		"change is awaited, nothing happened":          {read, changing, first, time.Hour, false, time.Minute},
		"change is awaited, node changed just now":     {read, changing, updated, 20 * time.Second, false, 40 * time.Second},
		"change is awaited, node changed a minute ago": {read, changing, updated, time.Minute, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, wait := decideReading(tt.last, tt.object, tt.node, at(tt.after))
			if got != tt.read || wait != tt.wait {
				t.Errorf("read %t after %s, want %t after %s", got, wait, tt.read, tt.wait)
			}
		})
	}
}

func TestStoredReadingIsTheSameAfterARestart(t *testing.T) {
	n := provisioner.Node{
		ID: "a", State: node.Active,
		StateChangedAt: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600)), InspectedAt: time.Unix(7, 999),
	}
	l := last{}.or(readingOf(n).forStatus())
	if !l.known || !l.reading.sameHardware(readingOf(n)) {
		t.Errorf("last reading = %+v, want one of %+v", l, readingOf(n))
	}
	if (last{}).or(nil).known {
		t.Error("a reading is known without a record")
	}
}

func TestWorkOnTheMachineIsRemembered(t *testing.T) {
	for state, want := range map[node.State]bool{
		node.Verifying: true, node.Cleaning: true, node.CleanWait: true, node.Servicing: true, node.ServiceWait: true,
		node.Active: false, node.Deploying: false, node.Available: false,
	} {
		var r recollection
		r.note(provisioner.Node{State: state})
		r.note(provisioner.Node{State: node.Active})
		if r.settings.worked != want || r.components.worked != want {
			t.Errorf("%s: worked = %t and %t, want %t", state, r.settings.worked, r.components.worked, want)
		}
	}
}
