package nodecache

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestNodeIsFoundByMACWithPortsReadOnce(t *testing.T) {
	e := newFakeEngine(4)
	f, _, _ := newTestCache(e, Options{Interval: time.Hour})
	claimed := func(id string) bool { return id == "n003" }
	find := func(mac string) (provisioner.Node, error) {
		return f.Find(t.Context(), provisioner.Identity{MAC: mac}, claimed)
	}
	n, err := find("00:1B:21:00:00:02")
	if err != nil || n.ID != "n002" {
		t.Fatalf("got %q, %v; want n002", n.ID, err)
	}
	slices.Sort(e.reads)
	if diff := cmp.Diff([]string{"n000", "n001", "n002"}, e.reads); diff != "" {
		t.Errorf("ports read differ (-want +got):\n%s", diff)
	}
	_, _ = find("00:1b:21:00:00:01")
	if len(e.reads) != 3 {
		t.Errorf("ports were read %d times for two searches, want once per node", len(e.reads))
	}
}

func TestAddressOfAnotherHostsNodeIsSaidToBeTaken(t *testing.T) {
	for _, tt := range []struct {
		name    string
		claimed []string
		nodes   []string // with the address
		want    AmbiguousError
		message string
	}{
		{
			name: "its node belongs to another host", claimed: []string{"n003"}, nodes: []string{"n003"},
			want: AmbiguousError{Nodes: []string{"n003"}, Claimed: true}, message: "is that of node n003, which belongs to another host",
		},
		{
			name: "two free nodes have it", nodes: []string{"n000", "n001"},
			want: AmbiguousError{Nodes: []string{"n000", "n001"}}, message: "belongs to several nodes (n000, n001)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const mac = "00:1b:21:00:ff:01"
			e := newFakeEngine(4)
			for _, id := range tt.nodes {
				e.macs[id] = append(e.macs[id], mac)
			}
			f, _, _ := newTestCache(e, Options{Interval: time.Hour})
			_, err := f.Find(t.Context(), provisioner.Identity{MAC: mac}, func(id string) bool { return slices.Contains(tt.claimed, id) })
			var got *AmbiguousError
			if !errors.As(err, &got) {
				t.Fatalf("error = %v, want the address ambiguous", err)
			}
			tt.want.MAC = mac
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("error differs (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Error(), tt.message) {
				t.Errorf("message %q, want it to say %q", got, tt.message)
			}
		})
	}
}

func TestOneOfTwoNodesWithAnAddressIsFoundWhenTheOtherIsClaimed(t *testing.T) {
	e := newFakeEngine(2)
	e.macs["n001"] = e.macs["n000"]
	f, _, _ := newTestCache(e, Options{Interval: time.Hour})
	n, err := f.Find(t.Context(), provisioner.Identity{MAC: e.macs["n000"][0]}, func(id string) bool { return id == "n000" })
	if err != nil || n.ID != "n001" {
		t.Errorf("got %q, %v; want n001", n.ID, err)
	}
}

func TestPortsThatWereAddedWithoutInspectionAreSeenAfterAWhile(t *testing.T) {
	const mac = "00:1b:21:00:ff:01"
	e := newFakeEngine(2)
	e.set(provisioner.Node{ID: "n001", State: node.Active, UpdatedAt: start})
	f, now, _ := newTestCache(e, Options{PortAge: 5 * time.Minute})
	find := func() (provisioner.Node, error) {
		return f.Find(t.Context(), provisioner.Identity{MAC: mac}, func(string) bool { return false })
	}
	if _, err := find(); !errors.Is(err, provisioner.ErrNotFound) {
		t.Fatalf("error = %v, want not found", err)
	}
	e.macs["n000"] = append(e.macs["n000"], mac)
	e.reads = nil
	*now = now.Add(6 * time.Minute)
	if n, err := find(); err != nil || n.ID != "n000" {
		t.Errorf("got %q, %v; want n000", n.ID, err)
	}
	if diff := cmp.Diff([]string{"n000"}, e.reads); diff != "" {
		t.Errorf("ports read differ, want those of the unused node only (-want +got):\n%s", diff)
	}
}

func TestNodeWithoutPortsIsReadAgainSoonButNotForEachSearch(t *testing.T) {
	const mac = "00:1b:21:00:ff:01"
	e := newFakeEngine(1)
	e.macs["n000"] = nil
	f, now, _ := newTestCache(e, Options{PortAge: 5 * time.Minute})
	find := func() error {
		_, err := f.Find(t.Context(), provisioner.Identity{MAC: mac}, func(string) bool { return false })
		return err
	}
	for range 5 {
		if err := find(); !errors.Is(err, provisioner.ErrNotFound) {
			t.Fatalf("error = %v, want not found", err)
		}
	}
	if len(e.reads) != 1 {
		t.Errorf("ports were read %d times, want once", len(e.reads))
	}
	e.macs["n000"] = []string{mac}
	*now = now.Add(time.Minute)
	if err := find(); err != nil {
		t.Errorf("error = %v, want the node a minute later", err)
	}
}

func TestPortsThatWentDoNotLeadToTheirNode(t *testing.T) {
	e := newFakeEngine(1)
	f, now, _ := newTestCache(e, Options{PortAge: 5 * time.Minute})
	mac := e.macs["n000"][0]
	find := func() error {
		_, err := f.Find(t.Context(), provisioner.Identity{MAC: mac}, func(string) bool { return false })
		return err
	}
	if err := find(); err != nil {
		t.Fatal(err)
	}
	e.macs["n000"] = []string{"00:1b:21:00:ff:01"}
	*now = now.Add(6 * time.Minute)
	if err := find(); !errors.Is(err, provisioner.ErrNotFound) {
		t.Errorf("error = %v, want not found", err)
	}
	f.Forget("n000")
	if len(f.byMAC)+len(f.ports)+len(f.unread) != 0 {
		t.Errorf("a deleted node is left in the index: %v, %v, %v", f.byMAC, f.ports, f.unread)
	}
}

func TestNodeWhosePortsCannotBeReadHidesNoOther(t *testing.T) {
	e := newFakeEngine(3)
	e.portErr = map[string]error{"n000": errors.New("broken")}
	f, _, _ := newTestCache(e, Options{Interval: time.Hour})
	find := func(mac string) error {
		_, err := f.Find(t.Context(), provisioner.Identity{MAC: mac}, func(string) bool { return false })
		return err
	}
	if err := find(e.macs["n002"][0]); err != nil {
		t.Errorf("error = %v, want the node", err)
	}
	if err := find("00:1b:21:00:ff:01"); !errors.Is(err, e.portErr["n000"]) {
		t.Errorf("error = %v, want that of the node that may have the address", err)
	}
}

func TestSearchForAnAddressEndsAndIsContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(100)
		e.portDelay, e.portListErr = 2*time.Second, errors.New("refused")
		f := New(e, Options{Logger: slog.New(slog.DiscardHandler)})
		find := func() error {
			_, err := f.Find(t.Context(), provisioner.Identity{MAC: "00:1b:21:00:ff:01"}, func(string) bool { return false })
			return err
		}
		begun := time.Now()
		if err := find(); !errors.Is(err, provisioner.ErrUnreachable) {
			t.Errorf("error = %v, want no answer in time", err)
		}
		if took := time.Since(begun); took != searchTimeout {
			t.Errorf("the search took %s, want %s", took, searchTimeout)
		}
		if err := find(); !errors.Is(err, provisioner.ErrNotFound) {
			t.Errorf("error = %v, want the next search to end", err)
		}
	})
}

func TestPortsAreReadAgainAfterInspection(t *testing.T) {
	e := newFakeEngine(1)
	f, _, _ := newTestCache(e, Options{})
	_ = f.Refresh(t.Context(), 0)
	_, _ = f.MACs(t.Context(), "n000")
	_, _ = f.MACs(t.Context(), "n000")
	e.set(provisioner.Node{ID: "n000", UpdatedAt: start.Add(time.Second), InspectedAt: start.Add(time.Second)})
	_ = f.Refresh(t.Context(), 0)
	_, _ = f.MACs(t.Context(), "n000")
	if len(e.reads) != 2 {
		t.Errorf("ports were read %d times, want twice", len(e.reads))
	}
}

func TestPortsOfManyNodesAreReadByOneList(t *testing.T) {
	ids := func(count int) (all []string) {
		for i := range count {
			all = append(all, fmt.Sprintf("n%03d", i))
		}
		return all
	}
	for name, tt := range map[string]struct {
		nodes, wanted int
		listErr       error
		lists, reads  int
	}{
		"all of few nodes":               {nodes: 40, wanted: 40, lists: 1},
		"a few":                          {nodes: 40, wanted: 7, reads: 7},
		"few of many nodes":              {nodes: 250, wanted: 11, reads: 11},
		"an engine that refuses to list": {nodes: 40, wanted: 40, listErr: errors.New("no"), lists: 1, reads: 40},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine(tt.nodes)
			e.portListErr = tt.listErr
			f, _, _ := newTestCache(e, Options{Interval: time.Hour})
			_ = f.Refresh(t.Context(), 0)
			f.LoadPorts(t.Context(), ids(tt.wanted))
			for _, id := range ids(tt.wanted) {
				if macs, err := f.MACs(t.Context(), id); err != nil || !slices.Equal(macs, e.macs[id]) {
					t.Errorf("ports of %s: %v, %v, want %v", id, macs, err, e.macs[id])
				}
			}
			f.LoadPorts(t.Context(), ids(tt.wanted)) // their ports are known
			if tt.listErr == nil && (e.portLists != tt.lists || len(e.reads) != tt.reads) {
				t.Errorf("%d lists and %d single readings, want %d and %d", e.portLists, len(e.reads), tt.lists, tt.reads)
			}
			if tt.listErr != nil && len(e.reads) != tt.reads {
				t.Errorf("%d single readings, want %d", len(e.reads), tt.reads)
			}
		})
	}
}

func TestListOfPortsLeavesNodesWithoutPortsUnread(t *testing.T) {
	e := newFakeEngine(10)
	e.macs["n003"] = nil
	f, _, _ := newTestCache(e, Options{Interval: time.Hour})
	if _, err := f.Find(t.Context(), provisioner.Identity{MAC: "00:1b:21:00:00:05"}, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"n003"}, e.reads); diff != "" {
		t.Errorf("single readings differ (-want +got):\n%s", diff)
	}
}
