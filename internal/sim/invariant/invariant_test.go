package invariant

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/instance"
)

// at is a time in seconds.
func at(second int) time.Time { return time.Unix(int64(second), 0) }

func TestNodeIsDeletedTooEarlyWhileItsInstanceRuns(t *testing.T) {
	runs := []sim.Run{
		{Number: 1, Machine: 0, UUID: "a", Since: at(10), Until: at(20)},
		{Number: 2, Machine: 0, UUID: "a", Since: at(30)},
		{Number: 3, Machine: 1, UUID: "b", Since: at(10), Until: at(40)},
		{Number: 4, Machine: 1, UUID: "c", Since: at(50)},
	}
	nodes := []instance.Node{
		{Run: 1, Machine: 0, Name: "zero", UID: "0"},
		{Run: 3, Machine: 1, Name: "one", UID: "1"},
	}
	for name, test := range map[string]struct {
		deletion Deletion
		run      int64 // the one that still ran, 0 if none did
	}{
		"while it runs":                    {Deletion{UID: "0", At: at(15)}, 1},
		"by name":                          {Deletion{Node: "zero", At: at(15)}, 1},
		"at its begin":                     {Deletion{UID: "0", At: at(10)}, 1},
		"when the power was cut":           {Deletion{UID: "0", At: at(20)}, 0},
		"while it is off":                  {Deletion{UID: "0", At: at(25)}, 0},
		"after another boot of it":         {Deletion{UID: "0", At: at(31)}, 2},
		"after a boot of another instance": {Deletion{UID: "1", At: at(60)}, 0},
		"before it was wiped":              {Deletion{UID: "1", At: at(39)}, 3},
		"nobody's":                         {Deletion{Node: "zero", UID: "9", At: at(15)}, 0},
	} {
		got := EarlyDeletions(runs, nodes, []Deletion{test.deletion})
		switch {
		case test.run == 0 && len(got) != 0, test.run > 0 && (len(got) != 1 || got[0].Run.Number != test.run):
			t.Errorf("%s: %v, want run %d", name, got, test.run)
		case test.run > 0 && !strings.Contains(got[0].String(), "was deleted"):
			t.Errorf("%s: %s", name, got[0])
		}
	}
}

func TestAuditLogTellsWhoHasDeletedWhichNode(t *testing.T) {
	event := func(stage, verb, resource, response string, code int) string {
		return fmt.Sprintf(`{"kind":"Event","stage":%q,"verb":%q,"user":{"username":"u"},"userAgent":"a","objectRef":{"resource":%q,"name":"n"},`+
			`"responseStatus":{"code":%d},"responseObject":%s,"requestReceivedTimestamp":"2026-03-01T12:00:00.000001Z"}`+"\n", stage, verb, resource, code, response)
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	if got, err := ReadAuditLog(path); err != nil || got != nil {
		t.Errorf("%v, %v without a log", got, err)
	}
	text := event("ResponseComplete", "delete", "nodes", `{"kind":"Status","details":{"uid":"1"}}`, 200) +
		event("ResponseComplete", "delete", "nodes", `{"kind":"Node","metadata":{"uid":"2"}}`, 200) +
		event("ResponseComplete", "delete", "nodes", `{"kind":"Status"}`, 404) +
		event("RequestReceived", "delete", "nodes", `null`, 200) +
		event("ResponseComplete", "delete", "pods", `{}`, 200) +
		event("ResponseComplete", "deletecollection", "nodes", `{"kind":"NodeList","items":[{"metadata":{"name":"m","uid":"3"}}]}`, 200) +
		`{"stage":"Resp`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAuditLog(path)
	if err != nil {
		t.Fatal(err)
	}
	received := time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC)
	want := []Deletion{
		{Node: "n", UID: "1", User: "u", Agent: "a", At: received},
		{Node: "n", UID: "2", User: "u", Agent: "a", At: received},
		{Node: "m", UID: "3", User: "u", Agent: "a", At: received},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deletions differ (-want +got):\n%s", diff)
	}
}

func TestHostIsSharedWhileTwoMachinesAreOnIt(t *testing.T) {
	host := func(version uint64, consumer string) Event {
		return Event{Version: version, Host: &Host{Namespace: "ns", Name: "h", Consumer: consumer}}
	}
	machine := func(version uint64, name, chosen, providerID string, over bool) Event {
		return Event{Version: version, Machine: &Machine{Namespace: "ns", Name: name, UID: "uid-of-a", Chosen: chosen, ProviderID: providerID, Over: over}}
	}
	onHost := "metal3://ns/h/a"
	for name, test := range map[string]struct {
		events []Event
		want   bool
	}{
		"one":                     {[]Event{machine(1, "a", "ns/h", "", false), host(2, "a"), machine(3, "a", "ns/h", onHost, false)}, false},
		"both chose, one claimed": {[]Event{machine(1, "a", "ns/h", "", false), machine(2, "b", "ns/h", "", false), host(3, "a")}, false},
		"claimed after the other": {[]Event{machine(1, "a", "ns/h", "", false), host(2, "a"), machine(3, "b", "ns/h", "", false), host(4, "b")}, true},
		"claimed after it was freed": {[]Event{
			machine(1, "a", "ns/h", "", false), host(2, "a"), host(3, ""), machine(4, "b", "ns/h", "", false), host(5, "b"),
		}, true},
		"claimed after a deletion": {[]Event{
			machine(1, "a", "ns/h", onHost, false), host(2, "a"), machine(3, "a", "ns/h", onHost, true), host(4, ""), machine(5, "b", "ns/h", "", false), host(6, "b"),
		}, false},
		"in the order of versions": {[]Event{
			machine(1, "a", "ns/h", onHost, false), host(2, "a"), machine(5, "b", "ns/h", "", false), host(6, "b"), machine(3, "a", "ns/h", onHost, true),
		}, false},
		"two provisioned": {[]Event{machine(1, "a", "", onHost, false), host(2, ""), machine(3, "b", "", "metal3://ns/h/b", false)}, true},
		"provisioned on a host with a longer name": {[]Event{
			machine(1, "a", "", onHost, false), host(2, "a"), machine(3, "b", "", "metal3://ns/h2/b", false),
		}, false},
		"gave up its choice": {[]Event{
			machine(1, "a", "ns/h", "", false), host(2, "a"), machine(3, "a", "", "", false), host(4, ""), machine(5, "b", "ns/h", "", false), host(6, "b"),
		}, false},
	} {
		got := SharedHosts(test.events)
		if (len(got) == 1) != test.want || len(got) > 1 {
			t.Errorf("%s: %v, want shared %v", name, got, test.want)
		}
	}
}
