package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var portBehaviours = []behaviour{
	{"every field reads back as it was created", checkPortRoundTrip},
	{"every field can be changed and cleared alone", checkPortFieldChanges},
	{"UUID, name and address belong to one port", checkPortConflicts},
	{"ports of a node come in order of creation", checkPortsOf},
	{"ports added together skip addresses that others have", checkAddPorts},
	{"thousands of ports are added at once", checkAddManyPorts},
	{"owners of addresses are found", checkPortOwners},
	{"a port that has moved to another node is not changed for the node before", checkMovedPort},
	{"the ports of a machine are those of its node and others with its addresses", checkMachinePorts},
	{"unknown ports are not found", checkPortNotFound},
}

func (e *env) port(ident string) *node.Port {
	e.t.Helper()
	var p *node.Port
	e.read(func(tx *store.Tx) (err error) {
		p, err = tx.Port(ident)
		return err
	})
	return p
}

func checkPortRoundTrip(t *testing.T, e *env) {
	n := e.createNode()
	want := &node.Port{NodeID: n.ID, NodeUUID: n.UUID}
	fill(want, leaves[node.Port](), 0)
	e.write(func(tx *store.Tx) error { return tx.CreatePort(want) })
	if want.ID == 0 || !want.CreatedAt.Equal(e.clock.Now()) {
		t.Errorf("key %d, created at %v; want a key and the clock's time", want.ID, want.CreatedAt)
	}
	if diff := cmp.Diff(want, e.port(want.UUID)); diff != "" {
		t.Errorf("port (-stored +read):\n%s", diff)
	}
	if diff := cmp.Diff(want, e.port(want.Name)); diff != "" {
		t.Errorf("port by name (-stored +read):\n%s", diff)
	}
	bare := e.createPort(n, "02:00:00:00:00:01")
	if diff := cmp.Diff(bare, e.port(bare.UUID)); diff != "" {
		t.Errorf("port without optional fields (-stored +read):\n%s", diff)
	}
	together := &node.Port{NodeUUID: n.UUID}
	fill(together, leaves[node.Port](), 2)
	e.write(func(tx *store.Tx) error { return tx.AddPorts(n.ID, []*node.Port{together}) })
	got := e.port(together.UUID)
	together.ID = got.ID // AddPorts tells no keys
	if diff := cmp.Diff(together, got); diff != "" {
		t.Errorf("port added with others (-stored +read):\n%s", diff)
	}
}

func checkPortFieldChanges(t *testing.T, e *env) {
	n := e.createNode()
	fields := leaves[node.Port]("UpdatedAt", "UUID")
	p := &node.Port{UUID: uuid.NewString(), NodeID: n.ID, NodeUUID: n.UUID}
	fill(p, fields, 0)
	e.write(func(tx *store.Tx) error { return tx.CreatePort(p) })
	for _, l := range fields {
		for _, salt := range []int{1, -1} {
			e.clock.Advance(time.Second)
			before := e.port(p.UUID)
			after := *before
			l.set(&after, salt)
			unchanged := cmp.Equal(before, &after)
			e.write(func(tx *store.Tx) error { return tx.UpdatePort(before, &after) })
			if !unchanged && !after.UpdatedAt.Equal(e.clock.Now()) {
				t.Errorf("%s: updated_at = %v, want the time of the change", l.name, after.UpdatedAt)
			}
			if diff := cmp.Diff(&after, e.port(p.UUID)); diff != "" {
				t.Errorf("after a change of %s (-stored +read):\n%s", l.name, diff)
			}
		}
	}
}

func checkPortConflicts(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	taken := e.createPort(n, "02:00:00:00:00:01", func(p *node.Port) { p.Name = "left" })
	mine := e.createPort(other, "02:00:00:00:00:02")
	for name, change := range map[string]func(*node.Port){
		"uuid":    func(p *node.Port) { p.UUID = taken.UUID },
		"name":    func(p *node.Port) { p.Name = taken.Name },
		"address": func(p *node.Port) { p.Address = taken.Address },
	} {
		p := &node.Port{UUID: uuid.NewString(), NodeID: other.ID, Address: "02:00:00:00:00:03"}
		change(p)
		wantConflict(t, e.refused(func(tx *store.Tx) error { return tx.CreatePort(p) }))
		if name == "uuid" {
			continue // it never changes
		}
		after := *mine
		change(&after)
		wantConflict(t, e.refused(func(tx *store.Tx) error { return tx.UpdatePort(mine, &after) }))
	}
}

func checkPortsOf(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	var want []string
	for _, mac := range []string{"02:00:00:00:00:09", "02:00:00:00:00:01", "02:00:00:00:00:05"} {
		want = append(want, e.createPort(n, mac).Address)
	}
	e.createPort(other, "02:00:00:00:00:02")
	var got []string
	e.read(func(tx *store.Tx) error {
		ports, err := tx.PortsOf(n.ID)
		for _, p := range ports {
			got = append(got, p.Address)
			if p.NodeUUID != n.UUID {
				t.Errorf("port %s is of node %s, want %s", p.Address, p.NodeUUID, n.UUID)
			}
		}
		return err
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func checkAddPorts(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	e.createPort(other, "02:00:00:00:00:01")
	e.write(func(tx *store.Tx) error {
		return tx.AddPorts(n.ID, []*node.Port{
			{UUID: uuid.NewString(), Address: "02:00:00:00:00:01"},
			{UUID: uuid.NewString(), Address: "02:00:00:00:00:02"},
		})
	})
	e.read(func(tx *store.Tx) error {
		ports, err := tx.PortsOf(n.ID)
		if err != nil || len(ports) != 1 || ports[0].Address != "02:00:00:00:00:02" {
			t.Errorf("ports = %v, %v; want the free address alone", ports, err)
		}
		return err
	})
	if got := e.claimants(mac("02:00:00:00:00:01")); len(got) != 1 || got[0] != other.UUID {
		t.Errorf("claimants of the taken address = %v, want the owner of its port", got)
	}
	if got := e.claimants(mac("02:00:00:00:00:02")); len(got) != 1 || got[0] != n.UUID {
		t.Errorf("claimants of the free address = %v, want the node", got)
	}
	e.write(func(tx *store.Tx) error { return tx.AddPorts(n.ID, nil) })
}

// manyMACs returns addresses as a machine with far too many interfaces has.
func manyMACs(count int) []string {
	macs := make([]string, count)
	for i := range macs {
		macs[i] = fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&0xff, i&0xff)
	}
	return macs
}

func checkAddManyPorts(t *testing.T, e *env) {
	const count = 4099 // no multiple of anything
	n := e.createNode()
	ports := make([]*node.Port, count)
	for i, mac := range manyMACs(count) {
		ports[i] = &node.Port{UUID: uuid.NewString(), Address: mac}
	}
	e.write(func(tx *store.Tx) error { return tx.AddPorts(n.ID, ports) })
	e.read(func(tx *store.Tx) error {
		stored, err := tx.PortsOf(n.ID)
		if len(stored) != count {
			t.Errorf("%d ports, want %d", len(stored), count)
		}
		return err
	})
}

func checkPortOwners(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	e.createPort(n, "02:00:00:00:00:01")
	e.createPort(other, "02:00:00:00:0f:ff")
	var owners map[string]string
	e.read(func(tx *store.Tx) (err error) {
		owners, err = tx.PortOwners(manyMACs(4096)) // the last one is …:0f:ff
		return err
	})
	want := map[string]string{"02:00:00:00:00:01": n.UUID, "02:00:00:00:0f:ff": other.UUID}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func checkMovedPort(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	before := e.createPort(n, "02:00:00:00:00:01")
	moved := *before
	moved.NodeID, moved.NodeUUID = other.ID, other.UUID
	e.write(func(tx *store.Tx) error { return tx.UpdatePort(before, &moved) })
	late := *before
	late.PhysicalNetwork = "of the node before"
	e.write(func(tx *store.Tx) error { return tx.UpdatePort(before, &late) })
	if got := e.port(before.UUID); got.NodeUUID != other.UUID || got.PhysicalNetwork != "" {
		t.Errorf("port = %+v, want it unchanged at node %s", got, other.UUID)
	}
}

func checkMachinePorts(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	own := []string{"02:00:00:00:00:01", "02:00:00:ff:00:02"}
	for _, mac := range own {
		e.createPort(n, mac)
	}
	e.createPort(other, "02:00:00:00:0f:ff")
	e.createPort(other, "02:00:00:ff:00:03")
	for name, read := range map[string]func(macs []string) *store.MachinePorts{
		"on a snapshot": func(macs []string) (found *store.MachinePorts) {
			e.read(func(tx *store.Tx) (err error) {
				found, err = tx.MachinePorts(n.ID, macs)
				return err
			})
			return found
		},
		"single": func(macs []string) (found *store.MachinePorts) {
			if err := e.store.ReadSingle(t.Context(), func(tx *store.Tx) (err error) {
				found, err = tx.MachinePorts(n.ID, macs)
				return err
			}); err != nil {
				t.Error(err)
			}
			return found
		},
		"with a write": func(macs []string) (found *store.MachinePorts) {
			e.write(func(tx *store.Tx) error {
				err := tx.PrefetchMachinePorts(n.ID, macs, func(ports *store.MachinePorts) { found = ports })
				return errors.Join(err, tx.ClaimInventory(n.ID, nil))
			})
			return found
		},
	} {
		for macs, want := range map[int][]string{4096: {"02:00:00:00:0f:ff"}, 2: nil, 0: nil} {
			found := read(manyMACs(macs))
			if found == nil && name == "with a write" {
				continue // this database reads nothing with a write
			}
			if got := addressesOf(found.Own); !slices.Equal(own, got) {
				t.Errorf("%s, %d addresses: got ports %v of the node, want %v", name, macs, got, own)
			}
			if got := addressesOf(found.Others); !slices.Equal(want, got) {
				t.Errorf("%s, %d addresses: got ports %v of others, want %v", name, macs, got, want)
			}
		}
	}
}

func addressesOf(ports []*node.Port) []string {
	var addresses []string
	for _, p := range ports {
		addresses = append(addresses, p.Address)
	}
	return addresses
}

func checkPortNotFound(t *testing.T, e *env) {
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Port(uuid.NewString())
		return err
	}), node.ErrNotFound)
}
