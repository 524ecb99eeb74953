package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var claimBehaviours = []behaviour{
	{"a port claims its address", checkPortClaims},
	{"a changed address moves the claim of its port", checkPortClaimMoves},
	{"a deleted port leaves the claim of the inventory", checkInventoryOutlivesPort},
	{"a new inventory drops the claims of the old one", checkNewInventory},
	{"a port keeps its address through a new inventory", checkPortOutlivesInventory},
	{"driver_info and inventory claim BMCs apart", checkBMCClaims},
	{"BMCs of machines in inspection are claimed apart from BMCs", checkInspectedClaims},
	{"kinds do not mix", checkClaimKinds},
	{"nodes may share an address", checkSharedClaims},
	{"MAC addresses of claims and ports can be taken from a node", checkReleasedMACs},
	{"a match says whether its node is provisional", checkProvisionalClaims},
	{"a match says whether its node has a port", checkPortMatches},
	{"the inventory of a node can lose one MAC address", checkDroppedMAC},
	{"addresses of other nodes' inventories are found", checkInventoryOwners},
	{"thousands of addresses are claimed and found", checkManyClaims},
}

func mac(address string) store.Claim { return store.Claim{Kind: store.MAC, Address: address} }
func bmc(address string) store.Claim { return store.Claim{Kind: store.BMC, Address: address} }

// claimants returns the UUIDs of the nodes that claim any of the addresses.
func (e *env) claimants(claims ...store.Claim) []string {
	e.t.Helper()
	found := []string{}
	e.read(func(tx *store.Tx) error {
		matches, err := tx.MatchClaims(claims)
		for _, m := range matches {
			found = append(found, m.UUID)
		}
		return err
	})
	slices.Sort(found)
	return found
}

// wantClaims checks for each address whether the node claims it.
func (e *env) wantClaims(n *node.Node, want map[store.Claim]bool) {
	e.t.Helper()
	for claim, claimed := range want {
		if got := slices.Contains(e.claimants(claim), n.UUID); got != claimed {
			e.t.Errorf("node claims %s %s: %v, want %v", claim.Kind, claim.Address, got, claimed)
		}
	}
}

func (e *env) claimInventory(n *node.Node, claims ...store.Claim) {
	e.t.Helper()
	e.write(func(tx *store.Tx) error { return tx.ClaimInventory(n.ID, claims) })
}

func (e *env) deletePort(p *node.Port) {
	e.t.Helper()
	e.write(func(tx *store.Tx) error { return tx.DeletePort(p) })
}

func checkPortClaims(t *testing.T, e *env) {
	n := e.createNode()
	p := e.createPort(n, "02:00:00:00:00:01")
	e.read(func(tx *store.Tx) error {
		got, err := tx.MatchClaims([]store.Claim{mac("02:00:00:00:00:01"), mac("02:00:00:00:00:99")})
		want := []store.ClaimMatch{{Kind: store.MAC, NodeID: n.ID, UUID: n.UUID, State: node.Enroll, Port: true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("matches (-want +got):\n%s", diff)
		}
		return err
	})
	e.deletePort(p)
	e.wantClaims(n, map[store.Claim]bool{mac("02:00:00:00:00:01"): false})
	if got := e.claimants(); len(got) != 0 {
		t.Errorf("claimants of no address = %v", got)
	}
}

func checkPortClaimMoves(_ *testing.T, e *env) {
	n := e.createNode()
	p := e.createPort(n, "02:00:00:00:00:01")
	after := *p
	after.Address = "02:00:00:00:00:02"
	e.write(func(tx *store.Tx) error { return tx.UpdatePort(p, &after) })
	e.wantClaims(n, map[store.Claim]bool{mac("02:00:00:00:00:01"): false, mac("02:00:00:00:00:02"): true})
}

func checkInventoryOutlivesPort(_ *testing.T, e *env) {
	n := e.createNode()
	e.claimInventory(n, mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"))
	first := e.createPort(n, "02:00:00:00:00:01")
	e.deletePort(first)
	e.wantClaims(n, map[store.Claim]bool{mac("02:00:00:00:00:01"): true, mac("02:00:00:00:00:02"): true})
}

func checkNewInventory(_ *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	e.claimInventory(n, mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"), bmc("192.0.2.1"))
	e.claimInventory(other, mac("02:00:00:00:00:01"))
	e.claimInventory(n, mac("02:00:00:00:00:02"), mac("02:00:00:00:00:03"), bmc("192.0.2.2"))
	e.wantClaims(n, map[store.Claim]bool{
		mac("02:00:00:00:00:01"): false, mac("02:00:00:00:00:02"): true, mac("02:00:00:00:00:03"): true,
		bmc("192.0.2.1"): false, bmc("192.0.2.2"): true,
	})
	e.wantClaims(other, map[store.Claim]bool{mac("02:00:00:00:00:01"): true})
}

// checkPortOutlivesInventory takes a network card out of a machine whose port
// stays: the port alone holds the claim then, and gives it up when it goes.
func checkPortOutlivesInventory(_ *testing.T, e *env) {
	n := e.createNode()
	p := e.createPort(n, "02:00:00:00:00:01")
	e.claimInventory(n, mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"))
	e.claimInventory(n, mac("02:00:00:00:00:02"))
	e.wantClaims(n, map[store.Claim]bool{mac("02:00:00:00:00:01"): true})
	e.deletePort(p)
	e.wantClaims(n, map[store.Claim]bool{mac("02:00:00:00:00:01"): false, mac("02:00:00:00:00:02"): true})
}

func checkBMCClaims(_ *testing.T, e *env) {
	n := e.createNode()
	claimBMC := func(addresses ...store.Claim) {
		e.write(func(tx *store.Tx) error { return tx.ClaimBMC(n.ID, addresses) })
	}
	claimBMC(bmc("192.0.2.1"), bmc("2001:db8::1"))
	e.claimInventory(n, bmc("192.0.2.1"), bmc("192.0.2.9"))
	claimBMC(bmc("192.0.2.2"))
	e.wantClaims(n, map[store.Claim]bool{
		bmc("192.0.2.1"): true, bmc("192.0.2.2"): true, bmc("192.0.2.9"): true, bmc("2001:db8::1"): false,
	})
	claimBMC(bmc("192.0.2.9"))
	e.claimInventory(n, mac("02:00:00:00:00:01")) // the agent finds no BMC this time
	e.wantClaims(n, map[store.Claim]bool{bmc("192.0.2.1"): false, bmc("192.0.2.2"): false, bmc("192.0.2.9"): true})
	claimBMC()
	e.wantClaims(n, map[store.Claim]bool{bmc("192.0.2.9"): false, mac("02:00:00:00:00:01"): true})
}

func checkInspectedClaims(_ *testing.T, e *env) {
	n := e.createNode()
	inspected := func(address string) store.Claim { return store.Claim{Kind: store.InspectedBMC, Address: address} }
	claim := func(claims ...store.Claim) {
		e.write(func(tx *store.Tx) error { return tx.ClaimInspected(n.ID, claims) })
	}
	e.write(func(tx *store.Tx) error { return tx.ClaimBMC(n.ID, []store.Claim{bmc("192.0.2.1")}) })
	e.claimInventory(n, bmc("192.0.2.2"))
	e.wantClaims(n, map[store.Claim]bool{inspected("192.0.2.1"): false, inspected("192.0.2.2"): false})
	claim(inspected("192.0.2.1"), inspected("2001:db8::1"))
	e.wantClaims(n, map[store.Claim]bool{
		inspected("192.0.2.1"): true, inspected("2001:db8::1"): true, inspected("192.0.2.2"): false,
		bmc("192.0.2.1"): true, bmc("2001:db8::1"): false,
	})
	claim(inspected("192.0.2.3"))
	e.wantClaims(n, map[store.Claim]bool{inspected("192.0.2.1"): false, inspected("192.0.2.3"): true})
	claim()
	e.wantClaims(n, map[store.Claim]bool{inspected("192.0.2.3"): false, bmc("192.0.2.1"): true, bmc("192.0.2.2"): true})
}

func checkClaimKinds(t *testing.T, e *env) {
	n := e.createNode()
	e.claimInventory(n, mac("02:00:00:00:00:01"), bmc("192.0.2.1"))
	e.wantClaims(n, map[store.Claim]bool{bmc("02:00:00:00:00:01"): false, mac("192.0.2.1"): false})
	if got := e.claimants(mac("02:00:00:00:00:01"), bmc("192.0.2.1")); len(got) != 2 {
		t.Errorf("matches = %v, want one for each kind", got)
	}
}

func checkSharedClaims(t *testing.T, e *env) {
	first, second := e.createNode(), e.createNode()
	for _, n := range []*node.Node{first, second} {
		e.write(func(tx *store.Tx) error { return tx.ClaimBMC(n.ID, []store.Claim{bmc("192.0.2.1")}) })
	}
	want := []string{first.UUID, second.UUID}
	slices.Sort(want)
	if diff := cmp.Diff(want, e.claimants(bmc("192.0.2.1"))); diff != "" {
		t.Errorf("claimants (-want +got):\n%s", diff)
	}
}

func checkManyClaims(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	var claims []store.Claim
	for _, address := range manyMACs(4099) {
		claims = append(claims, mac(address))
	}
	e.claimInventory(n, claims...)
	e.claimInventory(other, claims[len(claims)-1])
	if got := e.claimants(claims...); len(got) != 2 {
		t.Errorf("claimants = %v, want both nodes, each once", got)
	}
	if got := e.claimants(claims[:4098]...); !slices.Equal(got, []string{n.UUID}) {
		t.Errorf("claimants = %v, want %s", got, n.UUID)
	}
}

func checkReleasedMACs(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	e.claimInventory(n, mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"), bmc("192.0.2.1"))
	e.createPort(n, "02:00:00:00:00:02")
	e.createPort(n, "02:00:00:00:00:03")
	e.claimInventory(other, mac("02:00:00:00:00:01"))
	macsOf := func() (macs []string) {
		e.read(func(tx *store.Tx) (err error) {
			macs, err = tx.MACsOf(n.ID)
			return err
		})
		return macs
	}
	if diff := cmp.Diff([]string{"02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"}, macsOf()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	e.write(func(tx *store.Tx) error {
		return tx.ReleaseMACs(n.ID, append(manyMACs(100)[90:], "02:00:00:00:00:01", "02:00:00:00:00:02"))
	})
	if diff := cmp.Diff([]string{"02:00:00:00:00:03"}, macsOf()); diff != "" {
		t.Errorf("addresses that are left (-want +got):\n%s", diff)
	}
	e.wantClaims(n, map[store.Claim]bool{mac("02:00:00:00:00:02"): false, bmc("192.0.2.1"): true})
	e.wantClaims(other, map[store.Claim]bool{mac("02:00:00:00:00:01"): true})
}

func checkProvisionalClaims(t *testing.T, e *env) {
	n := e.createNode(func(n *node.Node) { n.Provisional = true })
	e.claimInventory(n, mac("02:00:00:00:00:01"))
	e.createPort(n, "02:00:00:00:00:02")
	e.read(func(tx *store.Tx) error {
		got, err := tx.MatchClaims([]store.Claim{mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02")})
		want := []store.ClaimMatch{{Kind: store.MAC, NodeID: n.ID, UUID: n.UUID, State: node.Enroll, Provisional: true, Port: true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("matches (-want +got):\n%s", diff)
		}
		return err
	})
}

func checkPortMatches(t *testing.T, e *env) {
	n := e.createNode(func(n *node.Node) { n.UUID = "0a6d3c0e-0000-4000-8000-000000000001" })
	other := e.createNode(func(n *node.Node) { n.UUID = "0a6d3c0e-0000-4000-8000-000000000002" })
	e.claimInventory(n, mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"), bmc("192.0.2.1"))
	e.createPort(n, "02:00:00:00:00:02")
	e.claimInventory(other, mac("02:00:00:00:00:02"))
	for _, test := range []struct {
		asked []store.Claim
		want  []store.ClaimMatch
	}{
		{[]store.Claim{mac("02:00:00:00:00:01"), bmc("192.0.2.1")}, []store.ClaimMatch{
			{Kind: store.BMC, NodeID: n.ID, UUID: n.UUID, State: node.Enroll}, {Kind: store.MAC, NodeID: n.ID, UUID: n.UUID, State: node.Enroll},
		}},
		{[]store.Claim{mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02")}, []store.ClaimMatch{
			{Kind: store.MAC, NodeID: n.ID, UUID: n.UUID, State: node.Enroll, Port: true},
			{Kind: store.MAC, NodeID: other.ID, UUID: other.UUID, State: node.Enroll},
		}},
	} {
		e.read(func(tx *store.Tx) error {
			got, err := tx.MatchClaims(test.asked)
			slices.SortFunc(got, func(a, b store.ClaimMatch) int { return strings.Compare(string(a.Kind)+a.UUID, string(b.Kind)+b.UUID) })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("matches of %v (-want +got):\n%s", test.asked, diff)
			}
			return err
		})
	}
}

func checkDroppedMAC(_ *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	shared := []store.Claim{mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"), mac("02:00:00:00:00:03")}
	e.claimInventory(n, append(shared, bmc("192.0.2.1"))...)
	e.claimInventory(other, shared...)
	e.createPort(n, "02:00:00:00:00:02")
	for _, address := range []string{"02:00:00:00:00:01", "02:00:00:00:00:02", "192.0.2.1"} {
		e.write(func(tx *store.Tx) error { return tx.DropInventoryMAC(n.ID, address) })
	}
	e.wantClaims(n, map[store.Claim]bool{shared[0]: false, shared[1]: true, shared[2]: true, bmc("192.0.2.1"): true})
	e.wantClaims(other, map[store.Claim]bool{shared[0]: true, shared[1]: true, shared[2]: true})
}

func checkInventoryOwners(t *testing.T, e *env) {
	n, other, discovered := e.createNode(), e.createNode(), e.createNode(func(n *node.Node) { n.Provisional = true })
	e.claimInventory(n, mac("02:00:00:00:00:01"))
	e.claimInventory(other, mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"), mac("02:00:00:00:0f:ff"), bmc("192.0.2.1"))
	e.claimInventory(discovered, mac("02:00:00:00:00:03"))
	e.createPort(n, "02:00:00:00:00:02")
	e.createPort(discovered, "02:00:00:00:0f:ff")
	e.createPort(other, "02:00:00:00:00:04")
	var owners map[string]string
	e.read(func(tx *store.Tx) (err error) {
		owners, err = tx.InventoryOwners(n.ID, append(manyMACs(4096), "192.0.2.1"))
		return err
	})
	want := map[string]string{"02:00:00:00:00:01": other.UUID, "02:00:00:00:0f:ff": other.UUID}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}
