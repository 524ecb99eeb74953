package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

// offer posts inspection data and returns the whole answer.
func (r *running) offer(t *testing.T, document string) answer {
	t.Helper()
	return r.send(t, "POST", "/v1/continue_inspection", nil, strings.NewReader(document))
}

// TestOneMachineThatPostsManyTimesAtOnceIsOneNode lets a machine post from all
// its interfaces in the same moment, each time in another order.
func TestOneMachineThatPostsManyTimesAtOnceIsOneNode(t *testing.T) {
	const machines, posts = 5, 16
	e := start(t, nil)
	var mu sync.Mutex
	statuses := map[int]int{}
	var posting sync.WaitGroup
	for m := range machines {
		macs := []string{fmt.Sprintf("52:54:00:00:%02x:01", m), fmt.Sprintf("52:54:00:00:%02x:02", m), fmt.Sprintf("52:54:00:00:%02x:03", m)}
		for p := range posts {
			posting.Go(func() {
				first := p % len(macs)
				got := e.offer(t, machine(append(append([]string{}, macs[first:]...), macs[:first]...)...))
				mu.Lock()
				defer mu.Unlock()
				statuses[got.status]++
			})
		}
	}
	posting.Wait()
	if statuses[http.StatusOK] != machines || statuses[http.StatusNotFound] != machines*(posts-1) {
		t.Errorf("got answers %v, want 200 once for each of %d machines and 404 else", statuses, machines)
	}
	nodes, _ := e.do(t, "GET", "/v1/nodes?auto_discovered=true", "").want(t, http.StatusOK).object(t)["nodes"].([]any)
	if len(nodes) != machines {
		t.Errorf("%d machines became %d nodes", machines, len(nodes))
	}
	for _, n := range nodes {
		uuid, _ := n.(map[string]any)["uuid"].(string)
		e.awaitNode(t, uuid, inspected)
	}
	ports, _ := e.do(t, "GET", "/v1/ports", "").want(t, http.StatusOK).object(t)["ports"].([]any)
	if want := 3 * machines; len(ports) != want {
		t.Errorf("got %d ports, want %d", len(ports), want)
	}
}

// TestMachineKeepsAllItsAddresses shows that a MAC that became no port still
// tells its machine.
func TestMachineKeepsAllItsAddresses(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.Inspector.AddPorts = "pxe" })
	first, second := "52:54:00:00:00:01", "52:54:00:00:00:02"
	booted := inventoryOf(goodInterfaceWith(first)+`,{"name":"eno2","mac_address":"`+second+`"}`, `,"boot":{"pxe_interface":"`+first+`"}`)
	uuid := e.post(t, booted)
	e.awaitNode(t, uuid, inspected)
	ports, _ := e.do(t, "GET", "/v1/nodes/"+uuid+"/ports", "").want(t, http.StatusOK).object(t)["ports"].([]any)
	if len(ports) != 1 {
		t.Fatalf("got %d ports, want that of the booted interface alone", len(ports))
	}
	e.offer(t, machine(second)).want(t, http.StatusNotFound)
	e.offer(t, machine(second, "52:54:00:00:00:03")).want(t, http.StatusNotFound)

	e.do(t, "DELETE", "/v1/nodes/"+uuid, "").want(t, http.StatusNoContent)
	e.do(t, "GET", "/v1/nodes/"+uuid+"/inventory", "").want(t, http.StatusNotFound)
	if again := e.post(t, booted); again == uuid {
		t.Error("the deleted node came back")
	}
}

func TestNumberOfDiscoveredNodesIsBounded(t *testing.T) {
	dir := t.TempDir()
	limit := func(c *engine.Config) { c.AutoDiscovery.MaxNodes = 2 }
	e := startIn(t, dir, limit)
	e.create(t, `{"driver":"fake-hardware"}`) // does not count
	first := e.post(t, machine("52:54:00:00:00:01"))
	e.awaitNode(t, first, inspected)
	e.awaitNode(t, e.post(t, machine("52:54:00:00:00:02")), inspected)
	refused := func(mac string) {
		t.Helper()
		before := e.rows(t)
		got := e.offer(t, machine(mac)).want(t, http.StatusServiceUnavailable)
		if got.header.Get("Retry-After") == "" {
			t.Error("the machine is not told when to try again")
		}
		if e.rows(t) != before {
			t.Error("something was written")
		}
	}
	refused("52:54:00:00:00:03")
	e.offer(t, machine("52:54:00:00:00:02")).want(t, http.StatusNotFound) // known, so not a matter of numbers
	e.stop(t)

	e = startIn(t, dir, limit) // it counts what it has
	refused("52:54:00:00:00:03")
	e.do(t, "DELETE", "/v1/nodes/"+first, "").want(t, http.StatusNoContent)
	e.awaitNode(t, e.post(t, machine("52:54:00:00:00:03")), inspected)
	refused("52:54:00:00:00:04")
}

func TestRateOfInspectionPostsIsBounded(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.AutoDiscovery.Rate, c.AutoDiscovery.Burst = 0.001, 3 })
	for i := range 3 {
		e.awaitNode(t, e.post(t, machine(fmt.Sprintf("52:54:00:00:00:%02x", i))), inspected)
	}
	before := e.rows(t)
	if got := e.offer(t, machine("52:54:00:00:00:09")).want(t, http.StatusServiceUnavailable); got.header.Get("Retry-After") == "" {
		t.Error("the machine is not told when to try again")
	}
	if e.rows(t) != before {
		t.Error("something was written")
	}
	e.create(t, `{"driver":"fake-hardware"}`) // people are not held up
}

// TestRefusedMachinesLearnNothing compares the answers to every kind of refusal byte
// by byte. Only the date and the request's own ID may differ.
func TestRefusedMachinesLearnNothing(t *testing.T) {
	const known, other, third = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"
	e := start(t, func(c *engine.Config) { c.AutoDiscovery.AllowedMACs = []string{"52:54:00"} })
	knownUUID := e.post(t, machine(known))
	e.awaitNode(t, knownUUID, inspected)
	e.awaitNode(t, e.post(t, machine(other)), inspected)
	available := e.create(t, `{"driver":"fake-hardware","driver_info":{"redfish_address":"https://198.51.100.9"}}`)
	answers := map[string]answer{}
	for name, ask := range map[string]struct{ query, document string }{
		"unknown, not allowed":      {"", machine("00:00:5e:00:53:01")},
		"known, wrong state":        {"", machine(known)},
		"several nodes":             {"", machine(known, other)},
		"no such UUID":              {"?node_uuid=2e9f0d3c-0000-4000-8000-000000000000", machine(third)},
		"UUID in the wrong state":   {"?node_uuid=" + available, machine(third)},
		"UUID of another machine":   {"?node_uuid=" + knownUUID, machine(other)},
		"BMC of a node not waiting": {"", inventoryOf(goodInterfaceWith(third), `,"bmc_address":"198.51.100.9"`)},
	} {
		got := e.send(t, "POST", "/v1/continue_inspection"+ask.query, nil, strings.NewReader(ask.document)).want(t, http.StatusNotFound)
		for _, varying := range []string{"Date", "Openstack-Request-Id", "X-Openstack-Request-Id"} {
			got.header.Del(varying)
		}
		answers[name] = got
	}
	e.stop(t)
	off := start(t, func(c *engine.Config) { c.AutoDiscovery.Enabled = false })
	got := off.offer(t, machine(third)).want(t, http.StatusNotFound)
	for _, varying := range []string{"Date", "Openstack-Request-Id", "X-Openstack-Request-Id"} {
		got.header.Del(varying)
	}
	for name, other := range answers {
		if other.body != got.body || fmt.Sprint(other.header) != fmt.Sprint(got.header) {
			t.Errorf("%s: %v %s\nwant %v %s", name, other.header, other.body, got.header, got.body)
		}
	}
}

// TestListsNarrowDiscovery turns on each list for a machine that posts from
// loopback.
func TestListsNarrowDiscovery(t *testing.T) {
	const mac = "52:54:00:00:00:01"
	document := inventoryOf(goodInterfaceWith(mac), `,"system_vendor":{"serial_number":"CZ1"}`)
	for name, tc := range map[string]struct {
		change func(*engine.AutoDiscoveryConfig)
		want   int
	}{
		"MAC":               {func(c *engine.AutoDiscoveryConfig) { c.AllowedMACs = []string{"52:54:00"} }, http.StatusOK},
		"other MAC":         {func(c *engine.AutoDiscoveryConfig) { c.AllowedMACs = []string{"00:00:5e"} }, http.StatusNotFound},
		"serial":            {func(c *engine.AutoDiscoveryConfig) { c.AllowedSerials = []string{"cz1"} }, http.StatusOK},
		"other serial":      {func(c *engine.AutoDiscoveryConfig) { c.AllowedSerials = []string{"CZ2"} }, http.StatusNotFound},
		"network":           {func(c *engine.AutoDiscoveryConfig) { c.AllowedNetworks = []string{"127.0.0.0/8"} }, http.StatusOK},
		"other network":     {func(c *engine.AutoDiscoveryConfig) { c.AllowedNetworks = []string{"192.0.2.0/24"} }, http.StatusNotFound},
		"header of anybody": {func(c *engine.AutoDiscoveryConfig) { c.AllowedNetworks = []string{"203.0.113.0/24"} }, http.StatusNotFound},
		"header of a proxy": {func(c *engine.AutoDiscoveryConfig) {
			c.AllowedNetworks, c.TrustedProxies = []string{"203.0.113.0/24"}, []string{"127.0.0.1/32"}
		}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, func(c *engine.Config) { tc.change(&c.AutoDiscovery) })
			before := e.rows(t)
			e.send(t, "POST", "/v1/continue_inspection", headers{"X-Forwarded-For": "203.0.113.7"}, strings.NewReader(document)).want(t, tc.want)
			if tc.want == http.StatusNotFound && e.rows(t) != before {
				t.Error("something was written")
			}
		})
	}
}

func TestMachinesGetTheScopeOfTheConfiguration(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.AutoDiscovery.InspectionScope = "rack4" })
	n := e.awaitNode(t, e.post(t, machine("52:54:00:00:00:01")), inspected)
	if properties, _ := n["properties"].(map[string]any); properties["inspection_scope"] != "rack4" || properties["cpu_arch"] != "x86_64" {
		t.Errorf("properties = %v", n["properties"])
	}
}

func TestDiscoveredFlagIsReadOnly(t *testing.T) {
	e := start(t, nil)
	uuid := e.post(t, machine("52:54:00:00:00:01"))
	e.awaitNode(t, uuid, inspected)
	got := e.do(t, "PATCH", "/v1/nodes/"+uuid, `[{"op":"replace","path":"/auto_discovered","value":false}]`).want(t, http.StatusBadRequest)
	if !strings.Contains(got.body, "auto_discovered") {
		t.Errorf("answer %s does not name the field", got.body)
	}
	if n := e.node(t, uuid); n["auto_discovered"] != true || n["name"] != nil {
		t.Errorf("auto_discovered = %v, name %v", n["auto_discovered"], n["name"])
	}
}
