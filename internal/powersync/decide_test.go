package powersync

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestWhatFollowsFromAReading(t *testing.T) {
	for name, tc := range map[string]struct {
		n        node.Node
		observed node.PowerState
		accept   bool
		want     action
	}{
		"the same":           {node.Node{PowerState: node.PowerOn}, node.PowerOn, false, keep},
		"not known yet":      {node.Node{}, node.PowerOn, false, accept},
		"was unreadable":     {node.Node{PowerState: node.PowerError}, node.PowerOff, false, accept},
		"switched off":       {node.Node{PowerState: node.PowerOn}, node.PowerOff, false, restore},
		"observed counts":    {node.Node{PowerState: node.PowerOn}, node.PowerOff, true, accept},
		"switched on":        {node.Node{PowerState: node.PowerOff}, node.PowerOn, false, restore},
		"must not be off":    {node.Node{PowerState: node.PowerOff, DisablePowerOff: true}, node.PowerOn, false, accept},
		"may be switched on": {node.Node{PowerState: node.PowerOn, DisablePowerOff: true}, node.PowerOff, false, restore},
	} {
		if got := decide(&tc.n, tc.observed, tc.accept); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestPowerIsSynchronizedWhereItIsNobodyElses(t *testing.T) {
	for _, state := range node.States() {
		class := state.Class() // work is under way in the others, and waits, or a person looks at the machine
		want := (class == node.Stable || class == node.Failed) && state != node.Enroll && state != node.AdoptFailed
		if got := synced(&node.Node{ProvisionState: state}); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	if synced(&node.Node{ProvisionState: node.Active, Maintenance: true}) || synced(&node.Node{ProvisionState: node.Active, TargetPowerState: node.PowerOn}) {
		t.Error("a node in maintenance, or on its way to another power state, is synchronized")
	}
}

func TestHowManyMayDiffer(t *testing.T) {
	for _, tc := range []struct {
		read, differing int
		want            bool
	}{{1, 1, false}, {10, 10, false}, {11, 11, true}, {50, 10, false}, {100, 20, false}, {100, 21, true}, {500, 100, false}, {500, 101, true}, {10000, 100, false}, {10000, 101, true}} {
		if got := tooMany(tc.read, tc.differing); got != tc.want {
			t.Errorf("%d of %d: %v, want %v", tc.differing, tc.read, got, tc.want)
		}
	}
}

func TestPausesOfAMachineThatDoesNotAnswerDoubleUpToABound(t *testing.T) {
	for failures, want := range []time.Duration{1: 2 * time.Minute, 2: 4 * time.Minute, 3: 8 * time.Minute, 4: 16 * time.Minute, 5: 30 * time.Minute, 6: 30 * time.Minute, 99: 30 * time.Minute} {
		if want == 0 {
			continue
		}
		if got := retryDue(2*time.Minute, failures, 0); got != want {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
		if got := retryDue(2*time.Minute, failures, 0.999); got >= want || got < want*7/8 {
			t.Errorf("after %d failures at earliest %s, want a little less than %s", failures, got, want)
		}
	}
	if got := retryDue(time.Hour, 3, 0); got != time.Hour {
		t.Errorf("with an interval of an hour %s", got)
	}
}

func TestReadingsAreSpreadEvenly(t *testing.T) {
	const count, tenths = 10000, 10
	for round := range uint64(3) {
		var found [tenths]int
		for range count {
			found[int(spread(uuid.NewString(), round)*tenths)]++
		}
		for tenth, n := range found {
			if n < count/tenths*8/10 || n > count/tenths*12/10 {
				t.Errorf("round %d: %d of %d nodes in tenth %d", round, n, count, tenth)
			}
		}
	}
	if spread("a", 1) == spread("a", 2) {
		t.Error("a node has the same place in each round")
	}
}
