package nodecache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// fakeEngine records what it is asked.
type fakeEngine struct {
	mu    sync.Mutex
	nodes map[string]provisioner.Node
	macs  map[string][]string
	err   error
	// portErr has the errors of reading ports, by ID of the node.
	portErr map[string]error
	// portDelay is how long reading ports takes.
	portDelay time.Duration
	lists     []provisioner.ListOptions
	// listed is called when a list has been made, before it arrives.
	listed func()
	reads  []string // IDs whose ports were read
	// portLists is how often the ports of all nodes were listed, and portListErr the error of doing
	// so.
	portLists   int
	portListErr error
	// inventories are by ID. inventoryErr is the error of reading any inventory or, if damaged is
	// set, only that of the node damaged.
	inventories    map[string]*provisioner.Inventory
	inventoryErr   error
	damaged        string
	inventoryReads []string // IDs whose inventories were read
	version        string
	versionErr     error
}

func (e *fakeEngine) Version(context.Context) (string, error) { return e.version, e.versionErr }

func (e *fakeEngine) Nodes(_ context.Context, opts provisioner.ListOptions) ([]provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lists = append(e.lists, opts)
	var found []provisioner.Node
	for _, n := range e.nodes {
		if !n.UpdatedAt.Before(opts.ChangedSince) {
			found = append(found, n)
		}
	}
	if e.listed != nil {
		e.mu.Unlock()
		e.listed()
		e.mu.Lock()
	}
	return found, e.err
}

func (e *fakeEngine) Node(_ context.Context, id string) (provisioner.Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := e.nodes[id]
	if !ok {
		return n, provisioner.ErrNotFound
	}
	return n, nil
}

func (e *fakeEngine) Find(ctx context.Context, identity provisioner.Identity) (provisioner.Node, error) {
	return e.Node(ctx, identity.ID)
}

func (e *fakeEngine) MACs(ctx context.Context, id string) ([]string, error) {
	if e.portDelay > 0 {
		select {
		case <-time.After(e.portDelay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads = append(e.reads, id)
	return slices.Clone(e.macs[id]), e.portErr[id]
}

func (e *fakeEngine) AllMACs(context.Context) (map[string][]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.portLists++
	all := map[string][]string{}
	for id, macs := range e.macs {
		if len(macs) > 0 {
			all[id] = slices.Clone(macs)
		}
	}
	return all, e.portListErr
}

func (e *fakeEngine) Inventory(_ context.Context, id string) (*provisioner.Inventory, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inventoryReads = append(e.inventoryReads, id)
	switch inv := e.inventories[id]; {
	case e.inventoryErr != nil && (e.damaged == "" || e.damaged == id):
		return nil, e.inventoryErr
	case inv == nil:
		return nil, provisioner.ErrNoInventory
	default:
		return inv, nil
	}
}

func (e *fakeEngine) set(n provisioner.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[n.ID] = n
}

func newFakeEngine(count int) *fakeEngine {
	e := &fakeEngine{nodes: map[string]provisioner.Node{}, macs: map[string][]string{}}
	for i := range count {
		id := fmt.Sprintf("n%03d", i)
		e.nodes[id] = provisioner.Node{ID: id, State: node.Enroll, UpdatedAt: start}
		e.macs[id] = []string{fmt.Sprintf("00:1b:21:00:00:%02x", i)}
	}
	return e
}

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// newTestCache returns a cache, its clock, and the changes it reported.
func newTestCache(e *fakeEngine, opts Options) (*Cache, *time.Time, *[]string) {
	now := start
	opts.Now = func() time.Time { return now }
	opts.Logger = slog.New(slog.DiscardHandler)
	f := New(e, opts)
	reported := &[]string{}
	f.Subscribe(func(changes []Change) {
		for _, c := range changes {
			text := c.Node.ID
			if c.Gone {
				text += " gone"
			}
			*reported = append(*reported, text)
		}
		slices.Sort(*reported)
	})
	return f, &now, reported
}

func TestManyNodesAreAskedForByChangeAndSweptAtAnInterval(t *testing.T) {
	e := newFakeEngine(5)
	f, now, reported := newTestCache(e, Options{SweepAlways: 2, SweepInterval: 10 * time.Minute})
	refresh := func() provisioner.ListOptions {
		t.Helper()
		if err := f.Refresh(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		return e.lists[len(e.lists)-1]
	}
	if got := refresh(); !got.ChangedSince.IsZero() {
		t.Errorf("first list = %+v, want everything", got)
	}
	if len(*reported) != 5 {
		t.Errorf("changes of %v, want all five", *reported)
	}
	*reported = nil

	e.set(provisioner.Node{ID: "n001", State: node.Manageable, UpdatedAt: start.Add(time.Minute)})
	delete(e.nodes, "n002")
	*now = now.Add(time.Minute)
	if got, want := refresh().ChangedSince, start.Add(-overlap); !got.Equal(want) {
		t.Errorf("second list from %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"n001"}, *reported); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
	*reported = nil

	newest := start.Add(time.Minute)
	for _, step := range []struct {
		after time.Duration
		want  time.Time
	}{
		{time.Second, newest.Add(-overlap)}, // a change before that may still be committed
		{overlap, newest.Add(-overlap)},     // and is in this list
		{time.Second, newest},
	} {
		*now = now.Add(step.after)
		e.set(provisioner.Node{ID: "n003", State: node.Enroll, UpdatedAt: newest.Add(time.Hour)})
		_, _ = f.Reread(t.Context(), "n003") // tells nothing about other nodes
		e.set(provisioner.Node{ID: "n003", State: node.Enroll, UpdatedAt: start})
		if got := refresh().ChangedSince; !got.Equal(step.want) {
			t.Errorf("list from %s, want %s", got, step.want)
		}
	}
	*reported = nil

	*now = now.Add(10 * time.Minute)
	if got := refresh(); !got.ChangedSince.IsZero() {
		t.Errorf("list after the sweep interval = %+v, want everything", got)
	}
	if diff := cmp.Diff([]string{"n002 gone"}, *reported); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
}

func TestFewNodesAreAlwaysListedInFull(t *testing.T) {
	e := newFakeEngine(2)
	f, _, reported := newTestCache(e, Options{})
	_ = f.Refresh(t.Context(), 0)
	delete(e.nodes, "n000")
	*reported = nil
	_ = f.Refresh(t.Context(), 0)
	if diff := cmp.Diff([]string{"n000 gone"}, *reported); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
}

func TestHeartbeatsAreNoChangeUnlessTheAgentWasSilent(t *testing.T) {
	heartbeat := func(at time.Duration) provisioner.Node {
		return provisioner.Node{ID: "n000", State: node.Enroll, UpdatedAt: start.Add(at), Agent: provisioner.Agent{LastHeartbeat: start.Add(at)}}
	}
	e := newFakeEngine(1)
	f, _, reported := newTestCache(e, Options{AgentWindow: 5 * time.Minute})
	e.set(heartbeat(0))
	_ = f.Refresh(t.Context(), 0)
	*reported = nil
	e.set(heartbeat(2 * time.Minute))
	_ = f.Refresh(t.Context(), 0)
	if len(*reported) != 0 {
		t.Errorf("changes of %v after a heartbeat in time", *reported)
	}
	e.set(heartbeat(8 * time.Minute))
	_ = f.Refresh(t.Context(), 0)
	if len(*reported) != 1 {
		t.Errorf("changes of %v after a silence, want the node", *reported)
	}
	if n, _ := f.Node("n000"); !n.Agent.LastHeartbeat.Equal(start.Add(8 * time.Minute)) {
		t.Errorf("last heartbeat %s, want the newest", n.Agent.LastHeartbeat)
	}
}

func TestOlderAnswerThatComesLaterIsIgnored(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Hour} {
		e := newFakeEngine(1)
		f, _, reported := newTestCache(e, Options{})
		_ = f.Refresh(t.Context(), 0)
		*reported = nil
		e.listed = func() {
			e.set(provisioner.Node{ID: "n000", State: node.Available, UpdatedAt: start.Add(after)})
			_, _ = f.Reread(t.Context(), "n000")
		}
		_ = f.Refresh(t.Context(), 0)
		if n, _ := f.Node("n000"); n.State != node.Available || len(*reported) != 0 {
			t.Errorf("changed after %s: state %q, changes of %v; want the newer state and nothing", after, n.State, *reported)
		}
	}
}

func TestAnswerToALaterRequestCountsWhateverTheClockOfTheEngineSays(t *testing.T) {
	for name, ask := range map[string]func(*Cache) error{
		"list":         func(f *Cache) error { return f.Refresh(t.Context(), 0) },
		"read":         func(f *Cache) error { _, err := f.Fetch(t.Context(), "n000"); return err },
		"another read": func(f *Cache) error { _, err := f.Reread(t.Context(), "n000"); return err },
		"search": func(f *Cache) error {
			_, err := f.Find(t.Context(), provisioner.Identity{ID: "n000"}, nil)
			return err
		},
	} {
		for _, sweepAlways := range []int{1, 10} { // with lists of changes, and with complete ones
			e := newFakeEngine(2)
			f, _, _ := newTestCache(e, Options{SweepAlways: sweepAlways})
			_ = f.Refresh(t.Context(), 0)
			e.set(provisioner.Node{ID: "n000", State: node.Available, UpdatedAt: start.Add(-overlap / 2)})
			if err := ask(f); err != nil {
				t.Fatal(err)
			}
			if n, _ := f.Node("n000"); n.State != node.Available {
				t.Errorf("%s with %d nodes in a list: state %q, want the one that was answered last", name, sweepAlways, n.State)
			}
		}
	}
}

func TestFreshCacheIsNotRefreshedAndKeepsItsError(t *testing.T) {
	e := newFakeEngine(1)
	f, now, _ := newTestCache(e, Options{})
	e.err = errors.New("engine is down")
	if err := f.Refresh(t.Context(), time.Second); !errors.Is(err, e.err) {
		t.Fatalf("error = %v, want the engine's", err)
	}
	if err := f.Refresh(t.Context(), time.Second); !errors.Is(err, e.err) {
		t.Errorf("error = %v, want the one that is remembered", err)
	}
	if len(e.lists) != 1 {
		t.Errorf("%d lists, want 1", len(e.lists))
	}
	*now, e.err = now.Add(time.Second), nil
	if err := f.Refresh(t.Context(), time.Second); err != nil || len(e.lists) != 2 {
		t.Errorf("error %v after %d lists, want none after 2", err, len(e.lists))
	}
}

func TestGenerationShowsEveryChangeAndNoHeartbeat(t *testing.T) {
	e := newFakeEngine(2)
	f, _, _ := newTestCache(e, Options{})
	var last uint64
	for _, step := range []struct {
		name    string
		do      func()
		changes bool
	}{
		{"first list", func() {}, true},
		{"nothing", func() {}, false},
		{"heartbeat", func() {
			e.set(provisioner.Node{ID: "n000", State: node.Enroll, UpdatedAt: start.Add(time.Second)})
		}, false},
		{"new state", func() {
			e.set(provisioner.Node{ID: "n000", State: node.Manageable, UpdatedAt: start.Add(2 * time.Second)})
		}, true},
		{"deletion", func() { delete(e.nodes, "n001") }, true},
	} {
		step.do()
		if err := f.Refresh(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := f.Generation(); (got != last) != step.changes {
			t.Errorf("%s: generation %d after %d, want a change: %v", step.name, got, last, step.changes)
		}
		last = f.Generation()
	}
}

func TestWokenNodesAreToldOfWithoutAChange(t *testing.T) {
	e := newFakeEngine(2)
	f, _, reported := newTestCache(e, Options{})
	_ = f.Refresh(t.Context(), 0)
	*reported = nil
	f.Wake([]string{"n001", ""})
	if diff := cmp.Diff([]string{"", "n001"}, *reported); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
}

func TestAllNodesAreToldOfWhenTheEngineHasAnotherVersion(t *testing.T) {
	e := newFakeEngine(2)
	f, _, reported := newTestCache(e, Options{})
	for _, step := range []struct {
		version string
		err     error
		want    []string
	}{
		{"", errors.New("no answer"), []string{"n000", "n001"}}, // these nodes are new
		{"1.82", nil, []string{}},
		{"1.82", nil, []string{}},
		{"", errors.New("no answer"), []string{}},
		{"1.82", nil, []string{}},
		{"1.95", nil, []string{"n000", "n001"}},
		{"1.95", nil, []string{}},
		{"1.82", nil, []string{"n000", "n001"}},
	} {
		*reported = []string{}
		e.version, e.versionErr = step.version, step.err
		if err := f.Refresh(t.Context(), 0); err != nil {
			t.Errorf("error = %v, want that of the list alone", err)
		}
		if diff := cmp.Diff(step.want, *reported); diff != "" {
			t.Errorf("changes after a poll with version %q differ (-want +got):\n%s", step.version, diff)
		}
	}
}

func TestRecoveryOfAPollIsToldToThoseWhoseNodeIsNotKnown(t *testing.T) {
	e := newFakeEngine(1)
	f, _, reported := newTestCache(e, Options{})
	_ = f.Refresh(t.Context(), 0)
	*reported = nil
	for _, step := range []struct {
		err  error
		want []string
	}{
		{nil, []string{}},
		{errors.New("engine is down"), []string{}},
		{errors.New("engine is down"), []string{}},
		{nil, []string{""}},
		{nil, []string{""}},
	} {
		e.err = step.err
		_ = f.Refresh(t.Context(), 0)
		if diff := cmp.Diff(step.want, append([]string{}, *reported...)); diff != "" {
			t.Errorf("changes after a poll with error %v differ (-want +got):\n%s", step.err, diff)
		}
	}
}

func TestDeletedNodeIsRemovedFromTheCache(t *testing.T) {
	e := newFakeEngine(2)
	f, _, reported := newTestCache(e, Options{})
	_ = f.Refresh(t.Context(), 0)
	*reported = nil
	delete(e.nodes, "n001")
	if _, err := f.Fetch(t.Context(), "n001"); !errors.Is(err, provisioner.ErrNotFound) {
		t.Fatalf("error = %v, want not found", err)
	}
	if _, known := f.Node("n001"); known {
		t.Error("node is still in the cache")
	}
	if diff := cmp.Diff([]string{"n001 gone"}, *reported); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
}

func TestWakingPollsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(1)
		f := New(e, Options{Interval: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Start(ctx) }()
		synctest.Wait()
		f.Wake(nil)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("error = %v, want none", err)
		}
		if len(e.lists) != 2 {
			t.Errorf("%d lists, want one at the start and one for the call", len(e.lists))
		}
	})
}

func TestStartPollsEveryIntervalUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(1)
		f := New(e, Options{Interval: 5 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Start(ctx) }()
		<-time.After(21 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("error = %v, want none", err)
		}
		if len(e.lists) != 5 {
			t.Errorf("%d looks in 21 s, want 5", len(e.lists))
		}
	})
}

func TestRereadTellsOnlyOfALostNode(t *testing.T) {
	e := newFakeEngine(2)
	f, _, reported := newTestCache(e, Options{Interval: time.Hour})
	_ = f.Refresh(t.Context(), 0)
	*reported = nil
	e.set(provisioner.Node{ID: "n001", State: node.Manageable, UpdatedAt: start.Add(time.Second)})
	before := f.Generation()
	if n, err := f.Reread(t.Context(), "n001"); err != nil || n.State != node.Manageable {
		t.Fatalf("node in state %q, %v, want the new one", n.State, err)
	}
	if n, _ := f.Node("n001"); n.State != node.Manageable || f.Generation() == before {
		t.Errorf("cache has state %q in generation %d, want the new ones", n.State, f.Generation())
	}
	if len(*reported) > 0 {
		t.Errorf("subscribers were told of %v, want nothing", *reported)
	}
	_ = f.Refresh(t.Context(), 0)
	if len(*reported) > 0 {
		t.Errorf("the next list told subscribers of %v, want nothing", *reported)
	}
	delete(e.nodes, "n001")
	if _, err := f.Reread(t.Context(), "n001"); !errors.Is(err, provisioner.ErrNotFound) {
		t.Errorf("error = %v, want not found", err)
	}
	if diff := cmp.Diff([]string{"n001 gone"}, *reported); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
}

func TestWhoDoesNotActOnNodesIsToldOfAllChangesOnce(t *testing.T) {
	e := newFakeEngine(1)
	f, _, _ := newTestCache(e, Options{Interval: time.Hour})
	var reported []node.State
	f.SubscribeToAll(func(changes []Change) {
		for _, c := range changes {
			reported = append(reported, c.Node.State)
		}
	})
	_ = f.Refresh(t.Context(), 0)
	for i, state := range []node.State{node.Cleaning, node.Available} {
		e.set(provisioner.Node{ID: "n000", State: state, UpdatedAt: start.Add(time.Duration(i+1) * time.Second)})
		_, _ = f.Reread(t.Context(), "n000")
		_, _ = f.Reread(t.Context(), "n000")
		_ = f.Refresh(t.Context(), 0)
	}
	f.Note(provisioner.Node{ID: "n000", State: node.Available, Mark: "mark", UpdatedAt: start.Add(3 * time.Second)})
	if diff := cmp.Diff([]node.State{node.Enroll, node.Cleaning, node.Available, node.Available}, reported); diff != "" {
		t.Errorf("states differ (-want +got):\n%s", diff)
	}
}

func TestExpectedChangesAreLookedForMoreOftenForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(1)
		f := New(e, Options{Interval: 10 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Start(ctx) }()
		synctest.Wait()
		lists := func(after time.Duration, want int) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			if len(e.lists) != want {
				t.Errorf("%d lists, want %d", len(e.lists), want)
			}
		}
		f.Expect()
		lists(time.Second, 1)
		f.Expect()
		lists(time.Second+time.Millisecond, 2) // a fifth of the interval after the first
		lists(2*time.Second, 3)
		lists(26*time.Second, 13)  // for two intervals, together with the regular polls
		lists(100*time.Second, 23) // and then every interval
		cancel()
		if err := <-done; err != nil {
			t.Errorf("error = %v, want none", err)
		}
	})
}
