package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// fakeNodes is an engine and the cache of its nodes. It records what it is asked.
type fakeNodes struct {
	mu          sync.Mutex
	nodes       map[string]provisioner.Node
	inventories map[string]error // by ID; nil for one that can be read
	hang        map[string]bool  // IDs whose inventory is never answered
	macs        map[string][]string
	vendor      inventory.SystemVendor // of all machines
	reads       map[string]int         // inventories by ID
	portReads   int
	lists       int
	generation  uint64
	down        error
	onRefresh   func(n int) // called in the n-th refresh
	onInventory func()      // called when an inventory is read
}

func newFakeNodes(ids ...string) *fakeNodes {
	f := &fakeNodes{
		nodes: map[string]provisioner.Node{}, inventories: map[string]error{}, hang: map[string]bool{},
		macs: map[string][]string{}, reads: map[string]int{}, generation: 1,
	}
	for i, id := range ids {
		f.nodes[id] = provisioner.Node{ID: id, State: node.Enroll, CreatedAt: testStart.Add(time.Duration(i) * time.Second)}
		f.macs[id] = []string{fmt.Sprintf("00:1b:21:00:%02x:%02x", i/256, i%256)}
	}
	return f
}

func (f *fakeNodes) Refresh(context.Context, time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.onRefresh != nil {
		f.onRefresh(f.lists)
	}
	return f.down
}

func (f *fakeNodes) Generation() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.generation
}

func (f *fakeNodes) Nodes() []provisioner.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []provisioner.Node
	for _, n := range f.nodes {
		all = append(all, n)
	}
	return all
}

func (f *fakeNodes) Node(id string) (provisioner.Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.nodes[id]
	return n, ok
}

func (f *fakeNodes) Fetch(_ context.Context, id string) (provisioner.Node, error) {
	n, ok := f.Node(id)
	if !ok {
		return n, provisioner.ErrNotFound
	}
	return n, nil
}

func (f *fakeNodes) MACs(_ context.Context, id string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.portReads++
	return f.macs[id], nil
}

// LoadPorts leaves ports to MACs.
func (f *fakeNodes) LoadPorts(context.Context, []string) {}

func (f *fakeNodes) Inventory(ctx context.Context, id string) (*provisioner.Inventory, error) {
	f.mu.Lock()
	f.reads[id]++
	err, hang, mac := f.inventories[id], f.hang[id], f.macs[id][0]
	f.mu.Unlock()
	if f.onInventory != nil {
		f.onInventory()
	}
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	inv := &provisioner.Inventory{Hardware: inventory.Inventory{
		Hostname: id, SystemVendor: f.vendor,
		Interfaces: []inventory.Interface{{Name: "eno1", MACAddress: mac}},
	}}
	return inv, nil
}

func (f *fakeNodes) readCount(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads[id]
}

func ids(n int, prefix string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	return all
}

func TestNodesThatTheEngineHangsOnHoldNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, healthy := ids(40, "a-hangs"), ids(200, "b-answers")
		f := newFakeNodes(append(hanging, healthy...)...)
		for _, id := range hanging {
			f.hang[id] = true
		}
		r := newFactReader(f, f, time.Now)
		begun := time.Now()
		found := r.read(t.Context(), f.Nodes())
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the poll waited %s", took)
		}
		if len(found.candidates) != len(healthy) || found.unread != len(hanging) {
			t.Errorf("%d nodes are known and %d are not, want %d and %d", len(found.candidates), found.unread, len(healthy), len(hanging))
		}
		r.wait()
		if took := time.Since(begun); took > 2*readTimeout {
			t.Errorf("the last reading ended after %s", took)
		}

		begun = time.Now()
		found = r.read(t.Context(), f.Nodes())
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the next poll waited %s", took)
		}
		failed := 0
		for _, c := range found.candidates {
			if c.err == nil {
				continue
			}
			failed++
			if want := "the engine does not answer within 10s"; c.err.Error() != want {
				t.Errorf("node %s: error %q, want %q", c.node.ID, c.err, want)
			}
		}
		if failed != len(hanging) || found.unread != 0 {
			t.Errorf("%d nodes failed and %d are unread, want %d and 0", failed, found.unread, len(hanging))
		}
	})
}

func TestNodeWithoutInventoryIsReadLessAndLessOften(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		limit time.Duration
		most  int // readings in a day
	}{
		{"none yet", provisioner.ErrNoInventory, maxInventoryWait, 24 * 60 / 5 * 3 / 2},
		{"unreadable", errors.New("decode inventory: unexpected end of JSON input"), maxErrorWait, 24 * 60 / 10 * 3 / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeNodes("n1")
				f.inventories["n1"] = tt.err
				r := newFactReader(f, f, time.Now)
				end := time.Now().Add(24 * time.Hour)
				var last time.Time
				for time.Now().Before(end) {
					before := f.readCount("n1")
					found := r.read(t.Context(), f.Nodes())
					if f.readCount("n1") > before {
						if !last.IsZero() && time.Since(last) > tt.limit+time.Second {
							t.Fatalf("the pause was %s", time.Since(last))
						}
						last = time.Now()
					}
					<-time.After(max(time.Until(found.due), time.Second))
				}
				if got := f.readCount("n1"); got > tt.most || got < tt.most/3 {
					t.Errorf("%d readings in a day, want at most %d", got, tt.most)
				}
			})
		})
	}
}

func TestInventoryIsReadOncePerInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("n1")
		r := newFactReader(f, f, time.Now)
		read := func(wantReads int, wantDetails bool) {
			t.Helper()
			found := r.read(t.Context(), f.Nodes())
			if got := f.readCount("n1"); got != wantReads {
				t.Errorf("%d readings, want %d", got, wantReads)
			}
			if len(found.candidates) != 1 || (found.candidates[0].details != nil) != wantDetails {
				t.Errorf("candidates %+v, want one with details: %v", found.candidates, wantDetails)
			}
		}
		read(1, true)
		read(1, false)
		n := f.nodes["n1"]
		n.State = node.Manageable
		f.nodes["n1"] = n
		read(1, false)
		n.InspectedAt = testStart
		f.nodes["n1"] = n
		read(2, true)
	})
}

func TestPortsOfANodeWithoutAHostAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("n1")
		r := newFactReader(f, f, time.Now)
		_ = r.read(t.Context(), f.Nodes())
		f.macs["n1"] = append(f.macs["n1"], "00:1b:21:00:ff:01")
		<-time.After(refreshAfter)
		found := r.read(t.Context(), f.Nodes())
		if !slices.Contains(found.candidates[0].macs, "00:1b:21:00:ff:01") {
			t.Errorf("MAC addresses %v, want the new port's, too", found.candidates[0].macs)
		}
		if f.readCount("n1") != 1 {
			t.Errorf("the inventory was read %d times, want once", f.readCount("n1"))
		}
	})
}

func TestNodeThatChangesIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("n1")
		f.inventories["n1"] = provisioner.ErrNoInventory
		r := newFactReader(f, f, time.Now)
		_ = r.read(t.Context(), f.Nodes())
		delete(f.inventories, "n1")
		n := f.nodes["n1"]
		n.State = node.Manageable
		f.nodes["n1"] = n
		if found := r.read(t.Context(), f.Nodes()); found.candidates[0].facts == nil {
			t.Error("the inventory was not read after the change")
		}
	})
}

func TestNodeThatWentIsNoCandidate(t *testing.T) {
	f := newFakeNodes("n1", "n2")
	f.inventories["n1"] = provisioner.ErrNoInventory
	nodes := f.Nodes()
	delete(f.nodes, "n1")
	r := newFactReader(f, f, time.Now)
	found := r.read(t.Context(), nodes)
	var known []string
	for _, c := range found.candidates {
		known = append(known, c.node.ID)
	}
	if strings.Join(known, " ") != "n2" {
		t.Errorf("candidates %v, want n2", known)
	}
}
