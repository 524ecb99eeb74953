package conductor

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// wiringWorld is a world whose inspections find out how ports are wired.
func wiringWorld(t *testing.T) *world {
	t.Helper()
	cfg := inspect.DefaultConfig()
	cfg.Hooks = []string{"$default_hooks,local-link-connection,physical-network"}
	cfg.PhysicalNetworkCIDRMap = []string{"192.0.2.1/32:provisioning"}
	pipeline, err := inspect.NewPipeline(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	c.pipeline = pipeline
	w.Conductor = w.run(c)
	return w
}

// post sends a machine's document with what its switch told on eth0.
func (w *world) post(m machine) {
	w.t.Helper()
	body := fmt.Appendf(nil, `{"inventory":%s,"lldp_raw":{"eth0":[[1,"04102233445501"],[2,"0573777037"],[5,"6c656166"]]}}`, m.inventory())
	if _, err := w.ContinueInspection(w.t.Context(), node.InspectionPost{Body: body}); err != nil {
		w.t.Fatalf("post: %v", err)
	}
	w.settle()
}

// wiring returns how the node's ports are wired, by address.
func (w *world) wiring(n *node.Node) map[string]string {
	w.t.Helper()
	wiring := map[string]string{}
	w.read(func(tx *store.Tx) error {
		ports, err := tx.PortsOf(n.ID)
		for _, p := range ports {
			wiring[p.Address] = p.LocalLinkConnection.Text("switch_id") + " " + p.LocalLinkConnection.Text("port_id") + " " + p.PhysicalNetwork
		}
		return err
	})
	return wiring
}

func TestInspectionWiresNewPorts(t *testing.T) {
	w, m := wiringWorld(t), unknown(1)
	n := waiting(w)
	w.addPort(n, m.macs[1])
	w.post(m)
	want := map[string]string{m.macs[0]: "10:22:33:44:55:01 swp7 provisioning", m.macs[1]: "  "}
	if diff := cmp.Diff(want, w.wiring(n)); diff != "" {
		t.Errorf("switch, port and physical network (-want +got):\n%s", diff)
	}
}

func TestInspectionKeepsThePortsOfAGroupInOnePhysicalNetwork(t *testing.T) {
	w, m := wiringWorld(t), unknown(1)
	n := waiting(w)
	group, err := w.Portgroups().Create(t.Context(), &node.Portgroup{NodeUUID: n.UUID, StandalonePortsSupported: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, mac := range m.macs {
		p := &node.Port{NodeUUID: n.UUID, Address: mac, PortgroupUUID: group.UUID, PhysicalNetwork: "old"}
		if _, err := w.CreatePort(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	w.post(m)
	want := map[string]string{m.macs[0]: "10:22:33:44:55:01 swp7 provisioning", m.macs[1]: "  provisioning"}
	if diff := cmp.Diff(want, w.wiring(n)); diff != "" {
		t.Errorf("switch, port and physical network (-want +got):\n%s", diff)
	}
}
