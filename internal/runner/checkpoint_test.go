package runner

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var noon = time.Date(2031, 3, 4, 12, 0, 0, 0, time.UTC)

func named(names ...string) []Operation {
	operations := make([]Operation, len(names))
	for i, name := range names {
		operations[i].Ref = Ref{Name: name}
	}
	return operations
}

func TestCheckpointFindsTheNextOperation(t *testing.T) {
	operations := named("a", "b", "c")
	operations = append(operations, Operation{Ref: Ref{Name: "step", Item: "0"}}, Operation{Ref: Ref{Name: "step", Item: "1"}})
	for name, tc := range map[string]struct {
		cp      checkpoint
		want    Ref
		unknown bool
	}{
		"beginning":                {want: Ref{Name: "a"}},
		"behind the first":         {cp: checkpoint{Done: Ref{Name: "a"}}, want: Ref{Name: "b"}},
		"under way":                {cp: checkpoint{Done: Ref{Name: "a"}, Operation: Ref{Name: "c"}}, want: Ref{Name: "c"}},
		"passed over":              {cp: checkpoint{Done: Ref{Name: "a"}}.passed(Ref{Name: "b"}), want: Ref{Name: "c"}},
		"first one passed over":    {cp: checkpoint{}.passed(Ref{Name: "a"}), want: Ref{Name: "b"}},
		"items":                    {cp: checkpoint{Done: Ref{Name: "step", Item: "0"}}, want: Ref{Name: "step", Item: "1"}},
		"end":                      {cp: checkpoint{Done: Ref{Name: "step", Item: "1"}}},
		"done, not known":          {cp: checkpoint{Done: Ref{Name: "x"}}, unknown: true},
		"under way, not known":     {cp: checkpoint{Done: Ref{Name: "a"}, Operation: Ref{Name: "x"}}, unknown: true},
		"passed over, not known":   {cp: checkpoint{Done: Ref{Name: "a"}}.passed(Ref{Name: "x"}), want: Ref{Name: "b"}},
		"known name, other item":   {cp: checkpoint{Operation: Ref{Name: "step", Item: "2"}}, unknown: true},
		"failing, nothing is left": {cp: checkpoint{Failing: "x", Done: Ref{Name: "step", Item: "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			op, err := tc.cp.next(operations)
			if errors.Is(err, errUnknownOperation) != tc.unknown {
				t.Fatalf("error = %v", err)
			}
			var got Ref
			if op != nil {
				got = op.Ref
			}
			if got != tc.want {
				t.Errorf("next = %+v, want %+v", got, tc.want)
			}
		})
	}
	if op, err := (checkpoint{}).next(nil); op != nil || err != nil {
		t.Errorf("of no operations: %+v, %v", op, err)
	}
}

func TestCheckpointIsReadAsItWasWritten(t *testing.T) {
	task := Task{Work: &store.Work{ID: 7}, Node: &node.Node{ProvisionState: node.Cleaning}}
	for _, cp := range []checkpoint{
		{},
		{Done: Ref{Name: "a"}},
		checkpoint{Done: Ref{Name: "a"}}.passed(Ref{Name: "b"}),
		checkpoint{Done: Ref{Name: "a"}}.began(Ref{Name: "step", Item: "1 x.y"}, noon),
		{
			Done: Ref{Name: "a"}, Operation: Ref{Name: "b"}, Attempt: driver.Continued, Since: noon, Phase: "p", Handle: "/tasks/1",
			ChildEpoch: 3, Callback: true, Heard: true, Due: noon.Add(time.Hour),
		},
		{Failing: "Failed to clean node x: y", Done: Ref{Name: "power off"}},
	} {
		got, err := decode(cp.encode(), task, Script{})
		if diff := cmp.Diff(cp, got, cmp.AllowUnexported(checkpoint{})); diff != "" || err != nil {
			t.Errorf("%s: %v, (-want +got):\n%s", cp.encode(), err, diff)
		}
	}
	for _, text := range []string{"{", `{"done":7}`, "7", `{"at":"x"}`} {
		if _, err := decode(text, task, Script{}); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestCheckpointsWithNumbersAreReadByTheListOfTheirNames(t *testing.T) {
	script := Script{Numbered: func(_ Task, failing bool) []Ref {
		if failing {
			return []Ref{{Name: "power off"}}
		}
		return []Ref{{Name: "a"}, {Name: "b"}}
	}}
	for name, tc := range map[string]struct {
		text    string
		state   node.State
		want    checkpoint
		unknown bool
	}{
		"between":    {text: `{"at":1}`, want: checkpoint{Done: Ref{Name: "a"}}},
		"end":        {text: `{"at":2}`, want: checkpoint{Done: Ref{Name: "b"}}},
		"first":      {text: `{"begun":true}`, want: checkpoint{Operation: Ref{Name: "a"}, Attempt: driver.Unknown}},
		"second":     {text: `{"at":1,"begun":true,"phase":"p"}`, want: checkpoint{Done: Ref{Name: "a"}, Operation: Ref{Name: "b"}, Attempt: driver.Unknown, Phase: "p"}},
		"parked":     {text: `{"begun":true,"callback":true}`, state: node.CleanWait, want: checkpoint{Operation: Ref{Name: "a"}, Attempt: driver.Continued, Callback: true}},
		"failing":    {text: `{"doomed":"x"}`, want: checkpoint{Failing: "x"}},
		"left off":   {text: `{"doomed":"x","at":1}`, want: checkpoint{Failing: "x", Done: Ref{Name: "power off"}}},
		"too far":    {text: `{"at":3}`, unknown: true},
		"begun late": {text: `{"at":2,"begun":true}`, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			state := tc.state
			if state == "" {
				state = node.Cleaning
			}
			got, err := decode(tc.text, Task{Work: &store.Work{ID: 7}, Node: &node.Node{ProvisionState: state}}, script)
			if tc.unknown {
				if !errors.Is(err, errUnknownOperation) {
					t.Errorf("error = %v", err)
				}
				return
			}
			tc.want.numbered = true
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(checkpoint{})); diff != "" || err != nil {
				t.Errorf("%v, (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestHeartbeatReachesOnlyWorkThatWaitsForIt(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, `{"operation":{"name":"a"}}`: false, `{"callback":false}`: false,
		`{"callback":true,"operation":{"name":"a"},"of a newer version":[1]}`: true,
	} {
		noted, waited, err := NoteHeartbeat(text)
		if err != nil || waited != want || !want && noted != text {
			t.Errorf("NoteHeartbeat(%s) = %s, %v, %v", text, noted, waited, err)
		}
	}
	noted, _, _ := NoteHeartbeat(`{"callback":true,"operation":{"name":"a"},"of a newer version":[1]}`)
	if want := `{"callback":true,"called":true,"of a newer version":[1],"operation":{"name":"a"}}`; noted != want {
		t.Errorf("NoteHeartbeat = %s, want %s", noted, want)
	}
	if _, _, err := NoteHeartbeat("{"); err == nil {
		t.Error("half an object was read")
	}
}

func TestOperationWaitsForItsAgent(t *testing.T) {
	const limit = 30 * time.Minute
	heard := noon.Add(-10 * time.Minute)
	for name, tc := range map[string]struct {
		cp    checkpoint
		state node.State
		heard time.Time
		want  time.Duration
		late  bool
	}{
		"no wait state":      {cp: checkpoint{Callback: true}, state: node.Cleaning, heard: heard},
		"waits for time":     {cp: checkpoint{}, state: node.CleanWait, heard: heard},
		"called":             {cp: checkpoint{Callback: true, Heard: true}, state: node.CleanWait, heard: heard},
		"not called":         {cp: checkpoint{Callback: true}, state: node.CleanWait, heard: heard, want: 20 * time.Minute},
		"silent":             {cp: checkpoint{Callback: true}, state: node.CleanWait, heard: noon.Add(-limit), late: true},
		"due":                {cp: checkpoint{Callback: true, Due: noon}, state: node.CleanWait, heard: noon.Add(-limit)},
		"due later":          {cp: checkpoint{Callback: true, Due: noon.Add(time.Second)}, state: node.CleanWait, heard: noon.Add(-limit), want: time.Second},
		"overdue":            {cp: checkpoint{Callback: true, Due: noon.Add(-time.Hour)}, state: node.CleanWait, heard: heard},
		"silent in inspect ": {cp: checkpoint{Callback: true}, state: node.InspectWait, heard: noon.Add(-time.Hour), late: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := stillWaits(tc.cp, &node.Node{ProvisionState: tc.state, ProvisionUpdatedAt: tc.heard}, noon, tc.heard.Add(limit))
			if got != tc.want || (err != nil) != tc.late || err != nil && !final(err) {
				t.Errorf("waits %v, %v; want %v, too late %v", got, err, tc.want, tc.late)
			}
		})
	}
}

func TestFailuresThatTryingAgainCannotHelpAreFinal(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{errors.New("internal error"), false},
		{Final(errors.New("aborted")), true},
		{errors.Join(errors.New("step x"), Final(errors.New("aborted"))), true},
		{node.Invalid("no"), true},
		{&node.NotSupportedError{}, true},
		{&timeoutError{}, true},
		{&node.DriverError{}, true},
		{&node.DriverError{Retryable: true}, false},
		{Final(&node.DriverError{Retryable: true}), false}, // the machine knows best
		{&node.LockedError{}, false},
		{node.ErrUnavailable, false},
		{nil, false},
	} {
		if got := final(tc.err); got != tc.want {
			t.Errorf("final(%v) = %v", tc.err, got)
		}
	}
}

func TestRowsOfNewerVersionsAreIgnoredForAWhile(t *testing.T) {
	i := newIgnored()
	if !i.add(2, noon) || !i.add(1, noon) || i.add(2, noon) {
		t.Error("a row is news once")
	}
	if diff := cmp.Diff([]int64{1, 2}, i.list(noon.Add(ignoreFor-1))); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	if got := i.list(noon.Add(ignoreFor)); len(got) != 0 {
		t.Errorf("%v are ignored after the time", got)
	}
	if i.add(2, noon.Add(ignoreFor)) {
		t.Error("a row that is looked at again is news again")
	}
	i.list(noon.Add(3 * ignoreFor)) // forgets them
	if !i.add(1, noon) {
		t.Error("a row was never forgotten")
	}
	for id := range int64(2 * maxIgnored) {
		i.add(id+10, noon)
	}
	if got := len(i.list(noon)); got > maxIgnored {
		t.Errorf("%d rows are kept", got)
	}
}

func TestWorkInDoubtIsToldOfNothingAsNew(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for name, tc := range map[string]struct {
		stored string
		want   checkpoint
	}{
		"not begun": {"", checkpoint{InDoubt: true}},
		"between":   {`{"done":{"name":"a"}}`, checkpoint{Done: Ref{Name: "a"}, InDoubt: true}},
		"parked": {
			checkpoint{Operation: Ref{Name: "b"}, Attempt: driver.Continued, Since: noon, Phase: "p", Handle: "h", Callback: true, Due: noon}.encode(),
			checkpoint{Operation: Ref{Name: "b"}, Attempt: driver.Unknown, Since: later, Phase: "p", Handle: "h", Callback: true, Due: noon, InDoubt: true},
		},
		"failing": {`{"failing":"broken"}`, checkpoint{Failing: "broken", InDoubt: true}},
		"numbered": {
			`{"at":1,"begun":true,"since":"2031-03-04T12:00:00Z"}`,
			checkpoint{Done: Ref{Name: "a"}, Operation: Ref{Name: "b"}, Attempt: driver.Unknown, Since: later, numbered: true, InDoubt: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := Doubt(tc.stored, later)
			if err != nil {
				t.Fatal(err)
			}
			script := Script{Numbered: func(Task, bool) []Ref { return []Ref{{Name: "a"}, {Name: "b"}} }}
			got, err := decode(stored, Task{Work: &store.Work{}, Node: &node.Node{ProvisionState: node.CleanWait}}, script)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(checkpoint{})); diff != "" {
				t.Errorf("checkpoint (-want +got):\n%s", diff)
			}
			next := got.finished(Ref{Name: "b"}).began(Ref{Name: "c"}, later)
			if next.firstAttempt() != driver.Unknown {
				t.Error("what follows is told of as new")
			}
		})
	}
	if _, err := Doubt("no JSON", later); err == nil {
		t.Error("a checkpoint that cannot be read is no error")
	}
}
