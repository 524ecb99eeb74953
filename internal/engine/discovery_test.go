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
		e.settle(t, uuid, inspected)
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
	e.settle(t, uuid, inspected)
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
	e.settle(t, first, inspected)
	e.settle(t, e.post(t, machine("52:54:00:00:00:02")), inspected)
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
	e.settle(t, e.post(t, machine("52:54:00:00:00:03")), inspected)
	refused("52:54:00:00:00:04")
}

func TestRateOfInspectionPostsIsBounded(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.AutoDiscovery.Rate, c.AutoDiscovery.Burst = 0.001, 3 })
	for i := range 3 {
		e.settle(t, e.post(t, machine(fmt.Sprintf("52:54:00:00:00:%02x", i))), inspected)
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
