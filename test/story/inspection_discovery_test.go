package story

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// discovering are the settings of an engine that enrols unknown machines.
var discovering = []string{"auto_discovery.enabled=true", "auto_discovery.driver=manual-management"}

// discovered lists the nodes of machines that nobody registered.
func (r *rack) discovered(t *testing.T) []shownNode {
	t.Helper()
	var list struct{ Nodes []shownNode }
	r.read(t, "/v1/nodes/detail?auto_discovered=true", &list)
	return list.Nodes
}

func TestUnknownMachineIsEnrolledAndStaysThere(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1, discovering...)
	if err := r.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	var n shownNode
	eventually(t, func(context.Context) error {
		found := r.discovered(t)
		if len(found) != 1 || found[0].Finished == nil {
			return fmt.Errorf("discovered nodes: %v", found)
		}
		n = found[0]
		return nil
	})
	if n.State != "enroll" || n.Name != nil || n.Driver != "manual-management" || !n.AutoDiscovered || n.LastError != "" {
		t.Errorf("the node is %+v, want a nameless one of manual-management in enroll", n)
	}
	if ports := r.ports(t, n.UUID); len(ports) != stormNICs {
		t.Errorf("the node has ports %v, want %d", ports, stormNICs)
	}
	if status, body := r.call(t, http.MethodPatch, "/v1/nodes/"+n.UUID, []byte(`[{"op":"replace","path":"/auto_discovered","value":false}]`), "1.84"); status != http.StatusBadRequest {
		t.Errorf("PATCH of auto_discovered: %d %s, want 400", status, body)
	}
	for version, has := range map[string]bool{"1.83": false, "1.84": true} {
		if _, body := r.call(t, http.MethodGet, "/v1/nodes/"+n.UUID, nil, version); strings.Contains(string(body), "auto_discovered\"") != has {
			t.Errorf("at %s the node has the field: %t, want %t", version, !has, has)
		}
	}
	if _, body := r.get(t, "/v1/nodes/"+n.UUID+"/inventory"); !strings.Contains(string(body), `"auto_discovered":true`) {
		t.Errorf("plugin data does not say that the machine was discovered: %s", body)
	}
}

func TestMachineThatPostsTwiceAtOnceIsOneNode(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1, discovering...)
	document := r.Machine(0).Document()
	var posts sync.WaitGroup
	statuses := make([]int, 16)
	for i := range statuses {
		posts.Go(func() { statuses[i], _ = r.call(t, http.MethodPost, "/v1/continue_inspection", document, "") })
	}
	posts.Wait()
	accepted := 0
	for _, status := range statuses {
		if status == http.StatusOK {
			accepted++
		} else if status != http.StatusNotFound && status != http.StatusConflict {
			t.Errorf("a post was answered with %d", status)
		}
	}
	if found := r.discovered(t); accepted != 1 || len(found) != 1 {
		t.Errorf("%d posts were accepted and %d nodes enrolled, want one", accepted, len(found))
	}
}

func TestOnlyAllowedMachinesAreEnrolled(t *testing.T) {
	t.Parallel()
	serial := func(r *rack, i int) string {
		return r.Machine(i).Hardware().Inspection.Inventory.SystemVendor.SerialNumber
	}
	machines := startRack(t, 2) // the same two in every rack
	for name, setting := range map[string]string{
		"by MAC address":    "auto_discovery.allowed_macs=" + strings.ToUpper(machines.bootMAC(0)[:14]),
		"by serial number":  "auto_discovery.allowed_serials=" + serial(machines, 0),
		"by source network": "auto_discovery.allowed_networks=192.0.2.0/24",
	} {
		t.Run(name, func(t *testing.T) {
			r := startRack(t, 2, append([]string{setting}, discovering...)...)
			want := 1
			if name == "by source network" {
				want = 0 // both machines post from loopback
			}
			var refusal string
			for i := range r.Len() {
				status, body := r.call(t, http.MethodPost, "/v1/continue_inspection", r.Machine(i).Document(), "")
				switch {
				case i < want && status == http.StatusOK:
				case i >= want && status == http.StatusNotFound:
					refusal = string(body)
				default:
					t.Errorf("machine %d was answered with %d %s", i, status, body)
				}
			}
			if _, body := machines.call(t, http.MethodPost, "/v1/continue_inspection", machines.Machine(0).Document(), ""); string(body) != refusal {
				t.Errorf("a machine that is not allowed hears %s, one that no node matches %s", refusal, body)
			}
			if found := r.discovered(t); len(found) != want {
				t.Errorf("%d nodes were enrolled, want %d", len(found), want)
			}
		})
	}
}

func TestInventoriesAreNotKeptWhereNobodyWantsThem(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1, "inventory.data_backend=none")
	uuid := r.register(t, "agent", r.bootMAC(0), nil)
	r.provision(t, uuid, verbInspect, "inspect wait")
	if err := r.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	if n := r.awaitState(t, uuid, "manageable"); n.Properties["cpu_arch"] == nil {
		t.Errorf("the hooks did not run: %v", n.Properties)
	}
	if status, body := r.get(t, "/v1/nodes/"+uuid+"/inventory"); status != http.StatusNotFound {
		t.Errorf("inventory: %d %s, want 404", status, body)
	}
}
