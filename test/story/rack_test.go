package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"testing"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
	"github.com/ingot-metal/ingot/test/process"
)

// allHooks is the setting that switches every inspection hook on.
const allHooks = "inspector.hooks=$default_hooks,accelerators,boot-mode,cpu-capabilities,extra-hardware,local-link-connection," +
	"memory,parse-lldp,pci-devices,physical-network,raid-device,root-device"

// provisioning is the network that the addresses in the inventories of a rack's machines are in.
// The machines really listen on loopback, but interfaces with loopback addresses make no ports.
var provisioning = netip.MustParsePrefix("10.90.0.0/16")

// rack is an engine in a process of its own and machines that are switched off.
type rack struct {
	*sim.Machines
	address  string // host:port of the engine
	settings []string
	process  *process.Process
	engine   *ironic.Client
}

// startRack starts an engine with settings on a new SQLite database, unless they
// name another, and stops everything at the end of the test.
func startRack(t *testing.T, machines int, settings ...string) *rack {
	t.Helper()
	r := &rack{address: process.Address(t)}
	r.settings = append([]string{"database.dir=" + t.TempDir(), "agent.verify_callback_address=false"}, settings...)
	r.process = startEngineProcess(t, r.address, r.settings...)
	var err error
	if r.engine, err = ironic.New(ironic.Options{Endpoint: "http://" + r.address}); err != nil {
		t.Fatal(err)
	}
	r.Machines, err = sim.New(sim.Options{
		Engine: "http://" + r.address, Machines: machines, Seed: 4, Network: loopbacktest.Network(t), Inventory: provisioning,
		Hardware: hardware.Options{Kind: hardware.Server, NICs: stormNICs, ExtraHardware: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// restart kills the engine and starts it on the same data.
func (r *rack) restart(t *testing.T) {
	t.Helper()
	r.process.Kill()
	r.process = startEngineProcess(t, r.address, r.settings...)
}

// register creates a node of fake hardware with an inspect interface and makes it manageable. With
// an address, the node gets a port by which its machine is recognized.
func (r *rack) register(t *testing.T, inspectInterface, mac string, driverInfo map[string]any) string {
	t.Helper()
	document, err := r.engine.Do(t.Context(), ironic.Request{
		Op: "create node", Method: http.MethodPost, Path: []string{"nodes"},
		Body: map[string]any{"driver": "fake-hardware", "inspect_interface": inspectInterface, "driver_info": driverInfo},
	})
	var created struct{ UUID string }
	if err == nil {
		err = json.Unmarshal(document, &created)
	}
	if err != nil {
		t.Fatal(err)
	}
	if mac != "" {
		_, err := r.engine.Do(t.Context(), ironic.Request{
			Op: "create port", Method: http.MethodPost, Path: []string{"ports"},
			Body: map[string]any{"node_uuid": created.UUID, "address": mac},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.provision(t, created.UUID, "manage", "manageable")
	return created.UUID
}

// provision asks for a verb and waits for the state it leads to.
func (r *rack) provision(t *testing.T, uuid string, verb ironic.Verb, state string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error { return r.engine.Provision(ctx, uuid, verb) })
	r.awaitState(t, uuid, state)
}

// awaitState waits for a provision state and returns the node.
func (r *rack) awaitState(t *testing.T, uuid, state string) shownNode {
	t.Helper()
	var n shownNode
	eventually(t, func(context.Context) error {
		n = r.show(t, uuid)
		if n.State != state {
			return fmt.Errorf("node %s is in %q, want %q; last error: %s", uuid, n.State, state, n.LastError)
		}
		return nil
	})
	return n
}

// shownNode is what stories look at.
type shownNode struct {
	UUID           string
	Name           *string
	Driver         string
	State          string         `json:"provision_state"`
	LastError      string         `json:"last_error"`
	Power          string         `json:"power_state"`
	Finished       *string        `json:"inspection_finished_at"`
	Properties     map[string]any `json:"properties"`
	Internal       map[string]any `json:"driver_internal_info"`
	AutoDiscovered bool           `json:"auto_discovered"`
}

// capability returns the value of one of the node's capabilities, "" without it.
func (n shownNode) capability(name string) string {
	text, _ := n.Properties["capabilities"].(string)
	for entry := range bytes.SplitSeq([]byte(text), []byte(",")) {
		if key, value, _ := bytes.Cut(entry, []byte(":")); string(key) == name {
			return string(value)
		}
	}
	return ""
}

func (r *rack) show(t *testing.T, uuid string) shownNode {
	t.Helper()
	var n shownNode
	r.read(t, "/v1/nodes/"+uuid, &n)
	return n
}

// ports are those of a node, by address.
func (r *rack) ports(t *testing.T, uuid string) map[string]shownPort {
	t.Helper()
	var list struct{ Ports []shownPort }
	r.read(t, "/v1/ports?detail=true&node="+uuid, &list)
	byAddress := map[string]shownPort{}
	for _, p := range list.Ports {
		byAddress[p.Address] = p
	}
	return byAddress
}

type shownPort struct {
	Address         string
	PXEEnabled      bool              `json:"pxe_enabled"`
	PhysicalNetwork *string           `json:"physical_network"`
	LinkConnection  map[string]string `json:"local_link_connection"`
}

// inspectionData is the stored inventory of a node.
type inspectionData struct {
	Inventory  json.RawMessage            `json:"inventory"`
	PluginData map[string]json.RawMessage `json:"plugin_data"`
}

// read gets a document at the newest version.
func (r *rack) read(t *testing.T, path string, into any) {
	t.Helper()
	status, body := r.get(t, path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
}

func (r *rack) get(t *testing.T, path string) (status int, body []byte) {
	t.Helper()
	return r.call(t, http.MethodGet, path, nil, "latest")
}

// call makes a request at a microversion; "" sends none, as a ramdisk does.
func (r *rack) call(t *testing.T, method, path string, body []byte, version string) (status int, answer []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.address+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if version != "" {
		request.Header.Set("X-OpenStack-Ironic-API-Version", version)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// bootMAC is the address of the interface that machine i boots from.
func (r *rack) bootMAC(i int) string {
	return r.Machine(i).BootMAC()
}

// machineWith returns the first machine that satisfies has.
func (r *rack) machineWith(t *testing.T, wish string, has func(i int, found hardware.Inspection) bool) int {
	t.Helper()
	for i := range r.Len() {
		if has(i, r.Machine(i).Hardware().Inspection) {
			return i
		}
	}
	t.Fatalf("none of the %d machines has %s", r.Len(), wish)
	return 0
}
