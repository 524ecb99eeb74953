package nodecache

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

var (
	bmc4 = netip.MustParseAddr("192.0.2.201")
	bmc6 = netip.MustParseAddr("2001:db8::c9")
)

// withBMC gives a node of a fake engine an inventory with these addresses of its BMC.
func withBMC(e *fakeEngine, id, v4, v6 string) {
	if e.inventories == nil {
		e.inventories = map[string]*provisioner.Inventory{}
	}
	e.inventories[id] = &provisioner.Inventory{Hardware: inventory.Inventory{BMCAddress: v4, BMCV6Address: v6}}
}

func TestUnusedNodesAreFoundByTheAddressOfTheirBMCWithInventoriesReadOnce(t *testing.T) {
	e := newFakeEngine(5)
	withBMC(e, "n000", "192.0.2.201", "2001:db8:0:0::c9/64")
	withBMC(e, "n001", "192.0.2.202", "::/0")
	withBMC(e, "n002", "192.0.2.202", "::/0")
	withBMC(e, "n003", "192.0.2.201", "::/0")
	e.set(provisioner.Node{ID: "n003", Name: "db", State: node.Enroll, UpdatedAt: start})
	withBMC(e, "n004", "0.0.0.0", "::/0")
	f, _, _ := newTestCache(e, Options{Interval: time.Hour})
	for addr, want := range map[netip.Addr][]string{
		bmc4: {"n000"}, bmc6: {"n000"}, netip.MustParseAddr("192.0.2.202"): {"n001", "n002"},
		netip.MustParseAddr("0.0.0.0"): nil, netip.MustParseAddr("192.0.2.9"): nil,
	} {
		got, err := f.WithBMC(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("nodes with BMC %s differ (-want +got):\n%s", addr, diff)
		}
	}
	slices.Sort(e.inventoryReads)
	if diff := cmp.Diff([]string{"n000", "n001", "n002", "n004"}, e.inventoryReads); diff != "" {
		t.Errorf("inventories read differ, want those of unused nodes once (-want +got):\n%s", diff)
	}
}

func TestAddressOfTheBMCFollowsTheNode(t *testing.T) {
	e := newFakeEngine(1)
	withBMC(e, "n000", "192.0.2.201", "")
	f, now, _ := newTestCache(e, Options{})
	find := func() []string {
		t.Helper()
		*now = now.Add(time.Minute)
		ids, err := f.WithBMC(t.Context(), bmc4)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	change := func(change func(*provisioner.Node)) {
		n := e.nodes["n000"]
		n.UpdatedAt = n.UpdatedAt.Add(time.Second)
		change(&n)
		e.set(n)
	}
	if got := find(); len(got) != 1 {
		t.Fatalf("got %v, want the node", got)
	}
	change(func(n *provisioner.Node) { n.Mark = "c1/metal/web" })
	if got := find(); len(got) != 0 {
		t.Errorf("got %v, though the node belongs to a host", got)
	}
	change(func(n *provisioner.Node) { n.Mark = "" })
	if got := find(); len(got) != 1 {
		t.Errorf("got %v, though the node is free again", got)
	}
	withBMC(e, "n000", "192.0.2.202", "")
	change(func(n *provisioner.Node) { n.InspectedAt = n.InspectedAt.Add(time.Hour) })
	if got := find(); len(got) != 0 {
		t.Errorf("got %v, though another inspection has found another address", got)
	}
	delete(e.nodes, "n000")
	if got := find(); len(got) != 0 || len(f.bmcs.told)+len(f.bmcs.byAddr)+len(f.bmcs.unread) != 0 {
		t.Errorf("got %v and index %v, though the node is gone", got, f.bmcs)
	}
}

func TestInventoryThatCannotBeReadHidesNoOtherAndIsReadAgainLater(t *testing.T) {
	e := newFakeEngine(2)
	withBMC(e, "n000", "192.0.2.201", "") // n001 has no inventory yet
	f, now, _ := newTestCache(e, Options{PortAge: 5 * time.Minute})
	for range 2 {
		if got, err := f.WithBMC(t.Context(), bmc4); err != nil || len(got) != 1 {
			t.Fatalf("got %v, %v; want the other node", got, err)
		}
	}
	if len(e.inventoryReads) != 2 {
		t.Errorf("%d inventories read for two searches, want each once", len(e.inventoryReads))
	}
	withBMC(e, "n001", "192.0.2.201", "")
	*now = now.Add(6 * time.Minute)
	if got, err := f.WithBMC(t.Context(), bmc4); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v; want both nodes", got, err)
	}
}

func TestSearchByBMCFailsWhileTheEngineCannotBeAsked(t *testing.T) {
	e := newFakeEngine(1)
	e.inventoryErr = provisioner.ErrUnreachable
	f, _, _ := newTestCache(e, Options{Interval: time.Hour})
	if _, err := f.WithBMC(t.Context(), bmc4); !errors.Is(err, provisioner.ErrUnreachable) {
		t.Fatalf("error %v, want that the engine is unreachable", err)
	}
	e.inventoryErr = nil
	withBMC(e, "n000", "192.0.2.201", "")
	if got, err := f.WithBMC(t.Context(), bmc4); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v; want the node", got, err)
	}
}

func TestInventoryThatNeverCanBeReadHoldsUpNoSearchForLong(t *testing.T) {
	e := newFakeEngine(2)
	withBMC(e, "n000", "192.0.2.201", "")
	withBMC(e, "n001", "192.0.2.201", "")
	e.inventoryErr, e.damaged = provisioner.ErrUnreachable, "n001"
	f, now, _ := newTestCache(e, Options{Interval: time.Hour})
	reads := func(want ...string) {
		t.Helper()
		slices.Sort(e.inventoryReads)
		if diff := cmp.Diff(want, e.inventoryReads); diff != "" {
			t.Errorf("inventories read differ (-want +got):\n%s", diff)
		}
		e.inventoryReads = nil
	}
	if _, err := f.WithBMC(t.Context(), bmc4); !errors.Is(err, provisioner.ErrUnreachable) {
		t.Errorf("error %v, though the machine may be that of the inventory that could not be read", err)
	}
	reads("n000", "n001")
	*now = now.Add(unreadableTime)
	for range 2 {
		if got, err := f.WithBMC(t.Context(), bmc4); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v; want the other node", got, err)
		}
	}
	reads("n001")
	e.damaged = "none"
	*now = now.Add(unreadableTime)
	if got, err := f.WithBMC(t.Context(), bmc4); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v; want both nodes", got, err)
	}
	reads("n001")
}

func TestSearchByBMCFailsAsLongAsTheEngineDeniesAccess(t *testing.T) {
	e := newFakeEngine(1)
	e.inventoryErr = provisioner.ErrDenied
	f, now, _ := newTestCache(e, Options{Interval: time.Hour})
	for range 3 {
		if _, err := f.WithBMC(t.Context(), bmc4); !errors.Is(err, provisioner.ErrDenied) {
			t.Errorf("error %v, want that access is denied", err)
		}
		*now = now.Add(unreadableTime)
	}
}
