//go:build fault

package fault_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// TestEvidenceTellsWhatDoesNotHold spoils a log that is in order, in one way after another.
func TestEvidenceTellsWhatDoesNotHold(t *testing.T) {
	at := func(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }
	sound := func() evidence {
		return evidence{
			calls: []effect.Effect{
				{Sequence: 1, Machine: "m", Time: at(1), Ended: at(3), Kind: "power off", Conductor: "one", Epoch: 5, Request: "9-1 a", Task: "t"},
				{Sequence: 2, Machine: "m", Time: at(3.1), Ended: at(9), Kind: "wipe", Conductor: "two", Epoch: 6, Request: "9-1 b", Task: "t"},
				{Sequence: 3, Machine: "m", Time: at(6), Ended: at(6), Kind: "wipe", Conductor: "two", Epoch: 8, Request: "9-2 b", Task: "t"},
				{Sequence: 4, Machine: "other", Time: at(6), Ended: at(6), Kind: "wipe", Conductor: "one", Epoch: 7, Request: "9-3 b", Task: "t"},
			},
			leases: map[int64][]leaseChange{
				5: {{at: at(0), owner: "one", expires: at(4)}, {at: at(0.5), owner: "one", expires: at(4), busy: at(3)}, {at: at(3), owner: "one", ended: true}},
				6: {{at: at(3), owner: "two", expires: at(7), busy: at(5)}, {at: at(5), owner: "two", ended: true}},
				7: {{at: at(3), owner: "one", expires: at(9), busy: at(7)}},
				8: {{at: at(5.5), owner: "two", expires: at(9), busy: at(7)}},
			},
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*evidence)
		want  string // empty means that nothing is wrong
	}{
		"nothing":              {func(*evidence) {}, ""},
		"lease unknown":        {func(e *evidence) { delete(e.leases, 6) }, "is not under a lease"},
		"lease given back":     {func(e *evidence) { e.calls[1].Time = at(5.2) }, "is not under a lease"},
		"lease of another":     {func(e *evidence) { e.calls[1].Conductor = "one" }, "under the lease of two"},
		"lease run out":        {func(e *evidence) { e.leases[8][0].expires = at(5.9) }, "under a lease that ended 100ms before"},
		"machine not kept":     {func(e *evidence) { e.leases[8][0].busy = time.Time{} }, "does not keep others"},
		"sent too late":        {func(e *evidence) { e.leases[8][0].busy = at(4.7) }, "1.3s after others may have the machine"},
		"beside another":       {func(e *evidence) { e.calls[1].Time, e.leases[6][0].at = at(2), at(1.5) }, "begins 1s before call 1"},
		"beside one under way": {func(e *evidence) { e.calls[1].Time, e.leases[6][0].at, e.calls[0].Ended = at(2), at(1.5), time.Time{} }, "begins 1s before call 1"},
		"backwards":            {func(e *evidence) { e.calls[0], e.calls[1] = e.calls[1], e.calls[0] }, "epoch 5, for \"9-1 a\", " + at(1).Format(clockTime) + ", took 2s) comes after call 2"},
		"twice":                {func(e *evidence) { e.calls[2].Request = "9-1 b" }, "happens again, after call 2"},
		"not done, then done":  {func(e *evidence) { e.calls[2].Request, e.calls[1].Task = "9-1 b", "" }, ""},
		"out of order":         {func(e *evidence) { e.calls[2].Request = "9-1 a" }, "comes after \"b\" of the same work"},
	} {
		t.Run(name, func(t *testing.T) {
			e := sound()
			tt.spoil(&e)
			all := strings.Join(e.violations()["m"], "\n")
			if tt.want == "" && all != "" || !strings.Contains(all, tt.want) {
				t.Errorf("violations:\n%s\nwant %q", all, tt.want)
			}
		})
	}
}
