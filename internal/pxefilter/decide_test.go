package pxefilter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

const (
	mac1 = "52:54:00:00:00:01"
	mac2 = "52:54:00:00:00:02"
	mac3 = "52:54:00:00:00:03"
)

// bootNodesOf numbers nodes.
func bootNodesOf(nodes ...store.BootNode) map[int64]store.BootNode {
	all := map[int64]store.BootNode{}
	for i, n := range nodes {
		n.ID = int64(i + 1)
		all[n.ID] = n
	}
	return all
}

func agentNode(state node.State, macs ...string) store.BootNode {
	return store.BootNode{UUID: "n", State: state, InspectInterface: "agent", MACs: macs}
}

func TestPortsAreServedInTheirPhase(t *testing.T) {
	everything := Options{InspectInterfaces: []string{"agent"}, Serve: []string{"all"}}
	inspection := Options{InspectInterfaces: []string{"agent"}}
	for _, test := range []struct {
		name string
		opts Options
		node store.BootNode
		want Verdict
	}{
		{"waits for its inventory", inspection, agentNode(node.InspectWait), Allow},
		{"inspection begins", inspection, agentNode(node.Inspecting), Allow},
		{"inspection failed", inspection, agentNode(node.InspectFailed), Deny},
		{"inspected out of band", inspection, store.BootNode{State: node.Inspecting, InspectInterface: "redfish"}, Deny},
		{"no inspect interface", inspection, store.BootNode{State: node.InspectWait}, Deny},
		{"manageable", inspection, agentNode(node.Manageable), Deny},
		{"runs an instance", inspection, agentNode(node.Active), Deny},
		{"cleaned elsewhere", inspection, agentNode(node.CleanWait), Deny},
		{"unknown state", inspection, agentNode("dreaming"), Deny},
		{"cleaned here", everything, agentNode(node.CleanWait), Allow},
		{"cleaned here, inspected elsewhere", everything, store.BootNode{State: node.Cleaning, InspectInterface: "redfish"}, Allow},
		{"inspected elsewhere", everything, store.BootNode{State: node.InspectWait, InspectInterface: "redfish"}, Deny},
		{"deployed here", everything, agentNode(node.DeployWait), Allow},
		{"rescued here", everything, agentNode(node.Rescue), Allow},
		{"waits for work", everything, agentNode(node.Available), Allow},
		{"runs an instance, everything served", everything, agentNode(node.Active), Deny},
		{"is undeployed", everything, agentNode(node.Deleting), Deny},
		{"only cleaning besides", Options{InspectInterfaces: []string{"agent"}, Serve: []string{"cleaning"}}, agentNode(node.DeployWait), Deny},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := test.node
			n.MACs = []string{mac1}
			got := test.opts.policy().decide(bootNodesOf(n)).ports[mac1]
			if got.verdict != test.want || got.because == "" {
				t.Errorf("got %+v, want %s and a reason", got, test.want)
			}
		})
	}
}

func TestUnknownMachinesAreServedOnlyForDiscoveryOrInspection(t *testing.T) {
	for _, test := range []struct {
		name      string
		discovery bool
		nodes     map[int64]store.BootNode
		want      ruling
	}{
		{"no nodes", false, nil, ruling{verdict: Deny, because: becauseNobody}},
		{"discovery", true, nil, ruling{verdict: Allow, because: becauseDiscovery}},
		{"a node in inspection with a port", false, bootNodesOf(agentNode(node.InspectWait, mac1)), ruling{verdict: Deny, because: becauseNobody}},
		{
			"a node in inspection without", false, bootNodesOf(agentNode(node.InspectWait, mac1), agentNode(node.InspectWait)),
			ruling{verdict: Allow, node: "n", state: node.InspectWait, because: becausePortless},
		},
		{"a node without ports elsewhere", false, bootNodesOf(agentNode(node.Manageable), agentNode(node.CleanWait)), ruling{verdict: Deny, because: becauseNobody}},
		{"inspected out of band", false, bootNodesOf(store.BootNode{State: node.Inspecting, InspectInterface: "redfish"}), ruling{verdict: Deny, because: becauseNobody}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := Options{InspectInterfaces: []string{"agent"}, Serve: []string{"all"}, Discovery: test.discovery}.policy()
			if got := p.decide(test.nodes).unknown; got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestChangesAreWhatFilesDoNotSayYet(t *testing.T) {
	allow, deny := ruling{verdict: Allow}, ruling{verdict: Deny}
	noPort := func(v Verdict) ruling { return ruling{verdict: v, because: becauseNoPort} }
	for _, test := range []struct {
		name   string
		wanted wanted
		files  map[string]Verdict
		want   []change
	}{
		{
			"empty folder, machines that are awaited first",
			wanted{unknown: deny, ports: map[string]ruling{mac1: deny, mac2: allow}},
			nil,
			[]change{{mac2, allow}, {unknownFile, deny}, {mac1, deny}},
		},
		{"in step", wanted{unknown: deny, ports: map[string]ruling{mac1: allow}}, map[string]Verdict{mac1: Allow, unknownFile: Deny}, nil},
		{
			"content of somebody else",
			wanted{unknown: deny, ports: map[string]ruling{mac1: deny}},
			map[string]Verdict{mac1: "", unknownFile: ""},
			[]change{{unknownFile, deny}, {mac1, deny}},
		},
		{
			"a port is gone, unknown ones refused",
			wanted{unknown: deny, ports: nil},
			map[string]Verdict{mac1: Allow, mac2: Deny, unknownFile: Deny},
			[]change{{mac1, noPort(Deny)}},
		},
		{
			"ports are gone, unknown ones served now",
			wanted{unknown: allow, ports: map[string]ruling{mac3: deny}},
			map[string]Verdict{mac1: Allow, mac2: Deny, mac3: Deny, unknownFile: Deny},
			[]change{{mac2, noPort(Allow)}, {unknownFile, allow}},
		},
		{
			"empty folder, unknown ones served only after every port has its rule",
			wanted{unknown: allow, ports: map[string]ruling{mac1: deny, mac2: allow}},
			nil,
			[]change{{mac2, allow}, {mac1, deny}, {unknownFile, allow}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.wanted.changes(test.files), cmp.AllowUnexported(change{}, ruling{})); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesOfDoubtfulNodesStayAsTheyWere(t *testing.T) {
	opts := Options{InspectInterfaces: []string{"agent"}, Serve: []string{"all"}}
	doubtful := func(state node.State, macs ...string) store.BootNode {
		n := agentNode(state, macs...)
		n.Doubtful = true
		return n
	}
	w := opts.policy().decide(bootNodesOf(
		doubtful(node.CleanWait, mac1), doubtful(node.Active, mac2), doubtful(node.Available, mac3), doubtful(node.InspectWait),
	))
	got := w.changes(map[string]Verdict{mac1: Deny, mac2: Allow, unknownFile: Deny})
	want := []change{{mac3, ruling{Deny, "n", node.Available, becauseDoubtful}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(change{}, ruling{})); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestNodesThatNobodyAcceptedTakeNoDHCPAway(t *testing.T) {
	provisional := func(state node.State, macs ...string) store.BootNode {
		n := agentNode(state, macs...)
		n.Provisional = true
		return n
	}
	doubtful := provisional(node.Enroll, mac1)
	doubtful.Doubtful = true
	allowed := ruling{Allow, "n", node.Enroll, becausePhase}
	for _, test := range []struct {
		name        string
		opts        Options
		node        store.BootNode
		ports       map[string]ruling
		withoutFile int
	}{
		{"discovery, in no phase that is served", Options{Discovery: true}, provisional(node.Enroll, mac1, mac2), nil, 2},
		{"discovery, in a phase that is served", Options{Discovery: true, Serve: []string{"idle"}}, provisional(node.Enroll, mac1), nil, 1},
		{"no discovery, in no phase that is served", Options{}, provisional(node.Enroll, mac1), nil, 1},
		{"no discovery, in a phase that is served", Options{Serve: []string{"idle"}}, provisional(node.Enroll, mac1), map[string]ruling{mac1: allowed}, 0},
		{
			"more ports than the bound",
			Options{Serve: []string{"idle"}, MaxPorts: 2},
			provisional(node.Enroll, mac1, mac2, mac3),
			map[string]ruling{mac1: allowed, mac2: allowed},
			1,
		},
		{"accepted", Options{Discovery: true, MaxPorts: 1}, agentNode(node.Enroll, mac1, mac2), map[string]ruling{
			mac1: {Deny, "n", node.Enroll, becauseNoPhase}, mac2: {Deny, "n", node.Enroll, becauseNoPhase},
		}, 0},
		{
			"perhaps accepted after the copy was made that was restored",
			Options{Discovery: true},
			doubtful,
			map[string]ruling{mac1: {Deny, "n", node.Enroll, becauseDoubtful}},
			0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.opts.InspectInterfaces = []string{"agent"}
			got := test.opts.policy().decide(bootNodesOf(test.node))
			if diff := cmp.Diff(test.ports, got.ports, cmp.AllowUnexported(ruling{}), cmpopts.EquateEmpty()); diff != "" || got.portsWithoutFile != test.withoutFile {
				t.Errorf("%d ports without a rule of their own, want %d; rules (-want +got):\n%s", got.portsWithoutFile, test.withoutFile, diff)
			}
		})
	}
}
