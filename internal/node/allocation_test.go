package node

import (
	"testing"
	"time"
)

func TestAllocationsAcceptMachinesThatHaveWhatTheyAsk(t *testing.T) {
	has := Node{UUID: "u", ResourceClass: "x", Traits: WordsOf("CUSTOM_A", "CUSTOM_B"), Owner: "p1", Lessee: "p2"}
	for what, tt := range map[string]struct {
		asks Allocation
		want bool
	}{
		"class":           {Allocation{ResourceClass: "x"}, true},
		"other class":     {Allocation{ResourceClass: "y"}, false},
		"trait":           {Allocation{ResourceClass: "x", Traits: "CUSTOM_B"}, true},
		"missing trait":   {Allocation{ResourceClass: "x", Traits: WordsOf("CUSTOM_B", "CUSTOM_C")}, false},
		"candidate":       {Allocation{ResourceClass: "x", CandidateNodes: WordsOf("t", "u")}, true},
		"other candidate": {Allocation{ResourceClass: "x", CandidateNodes: "t"}, false},
		"owner":           {Allocation{ResourceClass: "x", Owner: "p1"}, true},
		"lessee":          {Allocation{ResourceClass: "x", Owner: "p2"}, true},
		"somebody else":   {Allocation{ResourceClass: "x", Owner: "p3"}, false},
		"no class":        {Allocation{ResourceClass: ""}, false},
	} {
		if got := tt.asks.Accepts(&has); got != tt.want {
			t.Errorf("%s: got %v, want %v", what, got, tt.want)
		}
	}
}

func TestAllocationsChooseFreeNodes(t *testing.T) {
	now := time.Unix(1000, 0)
	free := func(change ...func(*Node)) *Node {
		n := &Node{UUID: "u", ResourceClass: "x", ProvisionState: Available}
		for _, c := range change {
			c(n)
		}
		return n
	}
	locked := func(n *Node) { n.Lease = Lease{Epoch: 1, ExpiresAt: now.Add(time.Second)} }
	expired := func(n *Node) { n.Lease = Lease{Epoch: 1, ExpiresAt: now} }
	for what, tt := range map[string]struct {
		nodes         []*Node
		chosen, retry bool
	}{
		"none":             {nil, false, false},
		"free":             {[]*Node{free()}, true, false},
		"not available":    {[]*Node{free(func(n *Node) { n.ProvisionState = Manageable })}, false, false},
		"maintenance":      {[]*Node{free(func(n *Node) { n.Maintenance = true })}, false, false},
		"has an instance":  {[]*Node{free(func(n *Node) { n.InstanceUUID = "i" })}, false, false},
		"locked":           {[]*Node{free(locked)}, false, true},
		"locked, and free": {[]*Node{free(locked), free()}, true, false},
		"expired lease":    {[]*Node{free(expired)}, true, false},
	} {
		a := Allocation{ResourceClass: "x"}
		chosen, retry, reason := a.Choose(tt.nodes, now)
		if (chosen != nil) != tt.chosen || retry != tt.retry {
			t.Errorf("%s: got %v, retry %v", what, chosen, retry)
		}
		if (reason == "") != tt.chosen {
			t.Errorf("%s: reason %q", what, reason)
		}
	}
}

func TestAllocationsPreferTheNodeOfTheirName(t *testing.T) {
	nodes := []*Node{
		{UUID: "1", ResourceClass: "x", ProvisionState: Available},
		{UUID: "2", ResourceClass: "x", ProvisionState: Available, Name: "mine"},
		{UUID: "3", ResourceClass: "y", ProvisionState: Available, Name: "theirs"},
	}
	for name, want := range map[string]string{"": "1", "mine": "2", "theirs": "1"} {
		a := Allocation{ResourceClass: "x", Name: name}
		if chosen, _, _ := a.Choose(nodes, time.Time{}); chosen.UUID != want {
			t.Errorf("allocation %q: got node %s, want %s", name, chosen.UUID, want)
		}
	}
}
