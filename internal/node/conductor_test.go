package node

import (
	"fmt"
	"hash/fnv"
	"testing"
)

func TestNodesAreSpreadOverTheLivingConductorsOfTheirGroup(t *testing.T) {
	conductors := []Conductor{
		{Hostname: "a", Group: "row1", Alive: true},
		{Hostname: "b", Group: "row1", Alive: true},
		{Hostname: "dead", Group: "row1"},
		{Hostname: "other", Alive: true},
	}
	count := map[string]int{}
	for i := range 1000 {
		uuid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		chosen := Responsible(uuid, "row1", conductors)
		count[chosen]++
		if reversed := Responsible(uuid, "row1", []Conductor{conductors[1], conductors[0]}); reversed != chosen {
			t.Fatalf("%s: %q, and %q in another order", uuid, chosen, reversed)
		}
		if alone := Responsible(uuid, "row1", conductors[1:]); alone != "b" {
			t.Fatalf("%s: %q, want the only one there is", uuid, alone)
		}
	}
	if count["a"] < 300 || count["b"] < 300 || count["a"]+count["b"] != 1000 {
		t.Errorf("nodes by conductor: %v", count)
	}
	if got := Responsible("x", "row2", conductors); got != "" {
		t.Errorf("conductor of a group without one = %q", got)
	}
}

func TestWeightOfAConductorIsFNV1a(t *testing.T) {
	h := fnv.New64a()
	_, _ = h.Write([]byte("node\x00conductor"))
	if got := weight("node", "conductor"); got != h.Sum64() {
		t.Errorf("weight = %d, want %d", got, h.Sum64())
	}
}
