package conductor

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// rowsBeforeNames has databases that releases wrote whose checkpoints hold the
// numbers of operations. The file is a record: nothing writes it again.
const rowsBeforeNames = "testdata/rows-before-operation-names.json"

// rowsRecord is the content of such a file.
type rowsRecord struct {
	Clock time.Time  `json:"clock"` // where the clock stood when each recording began
	Cases []rowsCase `json:"cases"`
}

// rowsCase is a database in which a conductor left work.
type rowsCase struct {
	Name  string `json:"name"`
	Place string `json:"place"` // how far the work had come
	After string `json:"after"` // how far the clock had moved when the conductor ended
	Node  string `json:"node"`  // UUID of the node under work
	// Objects says that inventories are kept in an object store, which answers now.
	Objects bool                        `json:"objects,omitempty"`
	Tables  map[string][]map[string]any `json:"tables"`
	// Needs is what the work waits for, one after the other: "heartbeat", "unhold"
	// or "post". Whatever else it waits for is time.
	Needs []string `json:"needs,omitempty"`
	Want  rowsEnd  `json:"want"`
}

// rowsEnd is what becomes of the node.
type rowsEnd struct {
	State     node.State      `json:"state"`
	LastError string          `json:"last_error_matches"` // a regular expression; empty: no error
	Power     node.PowerState `json:"power_state,omitempty"`
	Fault     string          `json:"fault,omitempty"`
	BootMode  string          `json:"boot_mode,omitempty"`
	Secure    bool            `json:"secure_boot,omitempty"`
	RAID      string          `json:"raid_config,omitempty"`
	Memory    string          `json:"memory,omitempty"`   // what fake hardware remembers
	Children  []string        `json:"children,omitempty"` // power and memory of each child node
	Ports     int             `json:"ports,omitempty"`
}

// TestWorkOfEarlierReleasesGoesOn has a conductor go on with the work in each of the
// databases: one of the same name, which takes its leases back, and, where leases
// tell more than that somebody works, another one, when they have run out.
func TestWorkOfEarlierReleasesGoesOn(t *testing.T) {
	text, err := os.ReadFile(rowsBeforeNames)
	if err != nil {
		t.Fatal(err)
	}
	var record rowsRecord
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatal(err)
	}
	if began := storetest.NewClock().Now(); !record.Clock.Equal(began) {
		t.Fatalf("the clock of tests begins at %v, the record's at %v", began, record.Clock)
	}
	cases := record.Cases
	if storetest.OnPostgres() {
		// What a row means does not depend on the database that keeps it: there, every
		// sixth shows that reading it does not either.
		cases = slices.DeleteFunc(cases, func(tc rowsCase) bool {
			h := fnv.New32a()
			_, _ = h.Write([]byte(tc.Name)) // it never fails
			return h.Sum32()%6 != 0
		})
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel() // most of its time goes by waiting for the disk
			checkRowsEnd(t, tc, "conductor-1")
			if strings.Contains(tc.Place, "asleep") || strings.Contains(tc.Place, "child node") {
				checkRowsEnd(t, tc, "conductor-2")
			}
		})
	}
}

func checkRowsEnd(t *testing.T, tc rowsCase, hostname string) {
	t.Helper()
	needed := 0
	got := goOn(t, tc, hostname, func(*node.Node) (need string) {
		if needed < len(tc.Needs) {
			need = tc.Needs[needed]
		}
		needed++
		return need
	})
	if want := tc.Want.LastError; (got.LastError == "") != (want == "") || !regexp.MustCompile(want).MatchString(got.LastError) {
		t.Errorf("%s: last_error %q, want %q", hostname, got.LastError, want)
	}
	if strings.Contains(got.LastError, "aborted by request after the step") {
		tc.Want.Fault = got.Fault // the release that wrote the row recorded a fault of the machine, this one does not
	}
	if got.LastError != "" && tc.Want.BootMode == "" {
		tc.Want.BootMode = got.BootMode // the release that wrote the row did not read a machine whose work failed, this one does
	}
	got.LastError = tc.Want.LastError
	if diff := cmp.Diff(tc.Want, got); diff != "" {
		t.Errorf("%s: node (-want +got):\n%s", hostname, diff)
	}
	if needed < len(tc.Needs) {
		t.Errorf("%s: the work needed nothing after %q, want it to need %q", hostname, tc.Needs[:needed], tc.Needs)
	}
}

// goOn starts a conductor on a case's database and returns what becomes of the node.
// Needs says what somebody gives to work that waits for somebody, "" for nothing but
// time.
func goOn(t *testing.T, tc rowsCase, hostname string, needs func(*node.Node) string) rowsEnd {
	t.Helper()
	w := emptyWorld(t)
	after, err := time.ParseDuration(tc.After)
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(after)
	storetest.Load(t, storetest.Options(t, w.dir), tc.Tables)
	if hostname != "conductor-1" {
		w.clock.Advance(31 * time.Second) // the leases of conductor-1 are over
	}
	w.Conductor = w.start(hostname, func(c *Config) {
		c.Inspection.UnmanagedBoot = true
		if tc.Objects {
			keeping(InObjectStore, &memoryObjects{})(c)
		}
	})
	for wait := w.rest(); wait >= 0; wait = w.rest() {
		if wait > time.Minute { // steps of these cases take less: it waits for somebody
			n := w.stored(tc.Node)
			if need := needs(n); need != "" {
				w.give(n, need)
				continue
			}
		}
		w.keepLeases(wait)
		w.pass(wait)
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.rowsEnd(w.stored(tc.Node))
}

// rest waits until all work waits for something and returns for how long, or below 0
// when none is left.
func (w *world) rest() time.Duration {
	w.t.Helper()
	wait := time.Duration(-1)
	w.eventually("the work to end or to wait", func() bool {
		wait = -1
		w.read(func(tx *store.Tx) error {
			nodes, err := tx.Nodes(node.Query{})
			for _, n := range nodes {
				works, err := tx.WorkOf(n.ID)
				if err != nil {
					return err
				}
				for _, work := range works {
					if due := max(work.NotBefore.Sub(tx.Now()), 0); wait < 0 || due < wait {
						wait = due
					}
				}
			}
			return err
		})
		if load := w.runner.Load(); wait == 0 && load.Delayed > 0 { // its row is not written for each turn
			wait = max(load.NextDue.Sub(w.clock.Now()), 0)
		}
		return wait != 0
	})
	return wait
}

// keepLeases has leases outlive a wait, as their conductor does while time passes.
func (w *world) keepLeases(wait time.Duration) {
	w.t.Helper()
	owners := map[string][]int64{}
	for _, n := range w.all() {
		if n.Lease.InForce(w.clock.Now()) {
			owners[n.Lease.Holder] = append(owners[n.Lease.Holder], n.Lease.Epoch)
		}
	}
	w.write(func(tx *store.Tx) error {
		for owner, epochs := range owners {
			if _, err := tx.RenewLeases(owner, epochs, wait+30*time.Second); err != nil {
				return err
			}
		}
		return nil
	})
}

// give ends what a node waits for.
func (w *world) give(n *node.Node, need string) {
	w.t.Helper()
	switch need {
	case "unhold":
		w.send(n, "unhold")
	case "post":
		if _, err := send(w.t, w.Conductor, unknown(1)); err != nil {
			w.t.Fatal(err)
		}
	case "heartbeat":
		token := n.DriverInternalInfo.Text(agent.TokenKey)
		if token == "" {
			answer, err := w.Lookup(w.t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
			if err != nil {
				w.t.Fatal(err)
			}
			token = answer.Token
		}
		if err := w.Heartbeat(w.t.Context(), n.UUID, beat(token)); err != nil {
			w.t.Fatal(err)
		}
	default:
		w.t.Fatalf("nothing is known of the need %q", need)
	}
}

// rowsEnd returns what has become of a node.
func (w *world) rowsEnd(n *node.Node) rowsEnd {
	w.t.Helper()
	if n.Lease.InForce(w.clock.Now()) || n.TargetPowerState != "" || !n.CleanStep.IsEmpty() || !n.DeployStep.IsEmpty() || !n.ServiceStep.IsEmpty() {
		w.t.Errorf("node is left with lease %v, target %q, steps %s %s %s", n.Lease, n.TargetPowerState, n.CleanStep, n.DeployStep, n.ServiceStep)
	}
	end := rowsEnd{
		State: n.ProvisionState, LastError: n.LastError, Power: n.PowerState, Fault: n.Fault, BootMode: n.BootMode,
		Secure: n.SecureBoot != nil && *n.SecureBoot, RAID: compact(n.RAIDConfig), Memory: fakeMemory(n), Ports: len(w.portsOf(n)),
	}
	for _, child := range w.all() {
		if child.ParentNode == n.UUID {
			end.Children = append(end.Children, strings.TrimSpace(string(child.PowerState)+" "+fakeMemory(child)))
		}
		if child.Lease.InForce(w.clock.Now()) {
			w.t.Errorf("node %s is left with lease %v", child.UUID, child.Lease)
		}
	}
	return end
}

func compact(o node.Object) string {
	if o.IsEmpty() {
		return ""
	}
	return o.String()
}

// fakeMemory returns what fake hardware keeps of a machine.
func fakeMemory(n *node.Node) string {
	var memory node.Object
	n.DriverInternalInfo.Get("fake_hardware", &memory)
	return compact(memory)
}

// memoryObjects is an object store in memory.
type memoryObjects struct {
	mu      sync.Mutex
	objects map[string][]byte
	failure error // of every call, when it is not nil
}

func (m *memoryObjects) Put(_ context.Context, key string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[key] = content
	return nil
}

func (m *memoryObjects) Fetch(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if content, ok := m.objects[key]; ok && m.failure == nil {
		return content, nil
	}
	if m.failure != nil {
		return nil, m.failure
	}
	return nil, &node.NotFoundError{Kind: "Object", Ident: key}
}

func (m *memoryObjects) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return m.failure
}
