package inspect

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

func TestDecideFindsOneNodeOrNone(t *testing.T) {
	waiting := func(uuid string) Claimant { return Claimant{UUID: uuid, State: node.InspectWait} }
	enrolled := func(uuid string) Claimant { return Claimant{UUID: uuid, State: node.Enroll} }
	asked := func(c Claimant) *Claimant { return &c }
	provisional := func(uuid string) Claimant { return Claimant{UUID: uuid, State: node.Enroll, Provisional: true} }
	withPort := func(c Claimant) Claimant { c.Port = true; return c }
	tests := []struct {
		name     string
		facts    Facts
		accept   string
		enrol    bool
		known    string
		refuse   string // part of the reason
		takeFrom []string
		shared   bool
	}{
		{name: "nothing matches, discovery on", facts: Facts{Discovery: true}, enrol: true},
		{name: "nothing matches, discovery off", facts: Facts{}, refuse: "auto-discovery is off"},
		{name: "asked for a node that does not exist", facts: Facts{AskedUUID: "x", Discovery: true}, refuse: "no node has"},
		{name: "asked for a node in inspection", facts: Facts{AskedUUID: "a", Asked: asked(waiting("a"))}, accept: "a"},
		{name: "asked for a node in another state", facts: Facts{AskedUUID: "a", Asked: asked(enrolled("a")), Discovery: true}, known: "a", refuse: `state "enroll"`},
		{name: "MACs of the node asked for", facts: Facts{AskedUUID: "a", Asked: asked(waiting("a")), ByMAC: []Claimant{waiting("a")}}, accept: "a"},
		{name: "MACs of another node than asked for", facts: Facts{AskedUUID: "a", Asked: asked(waiting("a")), ByMAC: []Claimant{waiting("b")}}, refuse: "but it asked for"},
		{name: "MACs of one node in inspection", facts: Facts{ByMAC: []Claimant{waiting("a")}}, accept: "a"},
		{name: "MACs of two nodes", facts: Facts{ByMAC: []Claimant{waiting("a"), waiting("b")}, Discovery: true}, refuse: "several nodes: a, b"},
		{name: "MACs of a discovered node", facts: Facts{ByMAC: []Claimant{enrolled("a")}, Discovery: true}, known: "a", refuse: `state "enroll"`},
		{name: "MACs and BMC agree", facts: Facts{ByMAC: []Claimant{waiting("a")}, Inspected: []Claimant{waiting("a")}}, accept: "a"},
		{name: "BMC shared by several systems, one of them known by MAC", facts: Facts{ByMAC: []Claimant{waiting("a")}, Inspected: []Claimant{waiting("b"), waiting("a")}}, accept: "a"},
		{name: "BMC of another node in inspection", facts: Facts{ByMAC: []Claimant{waiting("a")}, Inspected: []Claimant{waiting("b")}}, refuse: "its BMC address belongs to b"},
		{name: "BMC of another node that is not in inspection", facts: Facts{ByMAC: []Claimant{waiting("a")}, BMCOwners: []Claimant{enrolled("b")}}, accept: "a"},
		{name: "BMC that another node in inspection had the last time", facts: Facts{ByMAC: []Claimant{waiting("a")}, BMCOwners: []Claimant{waiting("b")}}, accept: "a"},
		{name: "unknown MACs, BMC of one node in inspection", facts: Facts{Inspected: []Claimant{waiting("a")}, Discovery: true}, accept: "a"},
		{name: "unknown MACs, BMC of one node in inspection and one that is not", facts: Facts{Inspected: []Claimant{enrolled("b"), waiting("a")}}, accept: "a"},
		{name: "unknown MACs, BMC of several nodes in inspection", facts: Facts{Inspected: []Claimant{waiting("a"), waiting("b")}, Discovery: true}, refuse: "several nodes in inspection"},
		{name: "unknown MACs, BMC of a node that is not in inspection", facts: Facts{BMCOwners: []Claimant{enrolled("a")}, Discovery: true}, refuse: "delete the node, or give"},
		{name: "unknown MACs, BMC that a node in inspection had the last time", facts: Facts{BMCOwners: []Claimant{waiting("a")}, Discovery: true}, refuse: "not being inspected"},
		{name: "unknown MACs, BMC of one node in inspection and one that had it the last time", facts: Facts{Inspected: []Claimant{waiting("a")}, BMCOwners: []Claimant{waiting("b")}}, accept: "a"},
		{name: "asked for a node in inspection, MACs of provisional nodes", facts: Facts{AskedUUID: "a", Asked: asked(waiting("a")), ByMAC: []Claimant{provisional("s"), provisional("t")}}, accept: "a", takeFrom: []string{"s", "t"}},
		{name: "MACs of a node in inspection and of a provisional one", facts: Facts{ByMAC: []Claimant{waiting("a"), provisional("s")}}, accept: "a", takeFrom: []string{"s"}},
		{name: "MACs of a provisional node, BMC of a node in inspection", facts: Facts{ByMAC: []Claimant{provisional("s")}, Inspected: []Claimant{waiting("a")}}, accept: "a", takeFrom: []string{"s"}},
		{name: "MACs of a provisional node, BMC of a node whose ramdisk is not awaited yet", facts: Facts{ByMAC: []Claimant{provisional("s")}, Inspected: []Claimant{{UUID: "a", State: node.Inspecting}}}, known: "a", refuse: "does not wait for it"},
		{name: "asked for a node in inspection, BMC of a provisional node in inspection", facts: Facts{AskedUUID: "a", Asked: asked(waiting("a")), Inspected: []Claimant{{UUID: "s", State: node.InspectWait, Provisional: true}}}, accept: "a"},
		{name: "MACs of a registered node that is not in inspection and of a provisional one", facts: Facts{ByMAC: []Claimant{enrolled("a"), provisional("s")}, Discovery: true}, known: "a", refuse: `state "enroll"`},
		{name: "MACs of two registered nodes and a provisional one", facts: Facts{ByMAC: []Claimant{waiting("a"), waiting("b"), provisional("s")}}, refuse: "several nodes: a, b"},
		{name: "MACs of two provisional nodes", facts: Facts{ByMAC: []Claimant{provisional("s"), provisional("t")}, Discovery: true}, refuse: "several nodes: s, t"},
		{name: "MACs of a provisional node, BMC that a registered node has", facts: Facts{ByMAC: []Claimant{provisional("s")}, BMCOwners: []Claimant{enrolled("a")}, Discovery: true}, known: "s", refuse: `state "enroll"`},
		{name: "asked for a provisional node, MACs of a registered one", facts: Facts{AskedUUID: "s", Asked: asked(provisional("s")), ByMAC: []Claimant{waiting("a")}}, refuse: "but it asked for"},
		{name: "a provisional node in inspection", facts: Facts{ByMAC: []Claimant{{UUID: "s", State: node.InspectWait, Provisional: true}}}, accept: "s"},
		{name: "a port of one node and the inventory of another", facts: Facts{ByMAC: []Claimant{enrolled("a"), withPort(waiting("b"))}}, accept: "b", shared: true},
		{name: "a port of one node, inventories of others and a provisional one", facts: Facts{ByMAC: []Claimant{enrolled("a"), withPort(provisional("s")), waiting("c"), withPort(waiting("b"))}}, accept: "b", takeFrom: []string{"s"}, shared: true},
		{name: "ports of two nodes", facts: Facts{ByMAC: []Claimant{withPort(waiting("a")), withPort(waiting("b"))}, Discovery: true}, refuse: "several nodes: a, b"},
		{name: "ports of two nodes and the inventory of a third", facts: Facts{ByMAC: []Claimant{waiting("c"), withPort(waiting("a")), withPort(waiting("b"))}}, refuse: "several nodes: c, a, b"},
		{name: "the inventory of a node in inspection and a port of one that is not", facts: Facts{ByMAC: []Claimant{waiting("a"), withPort(enrolled("b"))}, Discovery: true}, known: "b", refuse: `state "enroll"`},
		{name: "asked for the node of a port, inventory of another one", facts: Facts{AskedUUID: "b", Asked: asked(waiting("b")), ByMAC: []Claimant{waiting("a"), withPort(waiting("b"))}}, accept: "b", shared: true},
		{name: "asked for the node of an inventory, port of another one", facts: Facts{AskedUUID: "a", Asked: asked(waiting("a")), ByMAC: []Claimant{waiting("a"), withPort(waiting("b"))}}, refuse: "but it asked for"},
		{name: "a port of one node, BMC of another in inspection", facts: Facts{ByMAC: []Claimant{waiting("a"), withPort(waiting("b"))}, Inspected: []Claimant{waiting("a")}}, refuse: "its BMC address belongs to a"},
		{name: "a port of a provisional node and the inventory of a registered one", facts: Facts{ByMAC: []Claimant{waiting("a"), withPort(provisional("s"))}}, accept: "a", takeFrom: []string{"s"}},
		{name: "a port of one provisional node and the inventory of another", facts: Facts{ByMAC: []Claimant{provisional("s"), withPort(provisional("t"))}, Discovery: true}, refuse: "several nodes: s, t"},
		{name: "unknown MACs, BMC of a node whose ramdisk is not awaited yet", facts: Facts{Inspected: []Claimant{{UUID: "a", State: node.Inspecting}}, Discovery: true}, known: "a", refuse: "does not wait for it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Decide(test.facts)
			if got.Accept != test.accept || got.Enrol != test.enrol || got.Known != test.known {
				t.Errorf("Decide = %+v, want accept %q, enrol %v, known %q", got, test.accept, test.enrol, test.known)
			}
			if !slices.Equal(got.TakeFrom, test.takeFrom) {
				t.Errorf("nodes that lose addresses = %v, want %v", got.TakeFrom, test.takeFrom)
			}
			if got.Shared != test.shared {
				t.Errorf("other inventories have some of the addresses: %v, want %v", got.Shared, test.shared)
			}
			if (got.Refuse == "") != (test.refuse == "") || !strings.Contains(got.Refuse, test.refuse) {
				t.Errorf("refused for %q, want %q", got.Refuse, test.refuse)
			}
		})
	}
}

func TestAddressesListsBothFamiliesWithoutScope(t *testing.T) {
	inv := &inventory.Inventory{Interfaces: []inventory.Interface{
		{IPv4Address: "192.0.2.5", IPv6Address: "fe80::1%eth0"}, {}, {IPv6Address: "2001:db8::5"},
	}}
	got := Addresses(inv)
	want := []netip.Addr{netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8::5")}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("address %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestReasonNamesOnlyAFewNodes(t *testing.T) {
	var nodes []Claimant
	for range 1000 {
		nodes = append(nodes, Claimant{UUID: "0a6d3c0e-5a52-4b0e-9f0a-5a2f6c4f4b11", State: node.Active})
	}
	if got := Decide(Facts{ByMAC: nodes}).Refuse; len(got) > 512 || !strings.HasSuffix(got, "and 992 more") {
		t.Errorf("reason of %d bytes: %s", len(got), got)
	}
}
