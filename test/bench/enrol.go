package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// callbackPath is where ramdisks post what they found.
const callbackPath = "/v1/continue_inspection"

const (
	seed = 20_26 // of the machines; any number would do, but a fixed one makes runs comparable
	nics = 4     // network interfaces of each machine, and so ports of each node

	// enrolMachines stays below the default burst of 5000 posts.
	enrolMachines  = 4000
	memoryMachines = 2000
)

// network is the network of the machines. It is not on loopback, like that of the simulator's own
// machines, because engines make no ports for loopback interfaces.
var network = netip.MustParsePrefix("10.0.0.0/16")

// documents generates the inventories that the machines post. Each is different; their mean size is
// about 9 kB.
func documents(count int) [][]byte {
	docs := make([][]byte, count)
	for i := range docs {
		options := hardware.Options{NICs: nics, Kind: hardware.Server, Address: hardware.AddressIn(network, i)}
		docs[i] = options.Document(seed, i)
	}
	return docs
}

// enrol lets unknown machines post their inventories. It returns when the last of them has its
// ports.
func (e *engine) enrol(ctx context.Context, docs [][]byte) (storm, error) {
	post := func(c *client, i int) error { return c.want(http.StatusOK, http.MethodPost, callbackPath, docs[i]) }
	return e.load(ctx, machineClients, len(docs), post, func(ctx context.Context, c *client) error {
		return poll(ctx, enginePause, func() (bool, error) {
			// A node whose inspection has not finished has null there, which sorts first.
			var first struct{ Nodes []nodeRow }
			err := c.readJSON("/v1/nodes?fields=uuid,inspection_finished_at&sort_key=inspection_finished_at&limit=1", &first)
			return len(first.Nodes) == 1 && first.Nodes[0].Finished != nil, err
		})
	})
}

type nodeRow struct {
	UUID     string  `json:"uuid"`
	Finished *string `json:"inspection_finished_at"`
}

// enrolFresh enrols machines in a new data folder, kills the engine, starts it again and checks
// that every machine is there. It returns the engine that runs then. The caller must kill that
// engine.
func (b *bench) enrolFresh(ctx context.Context, data string, docs [][]byte, watch func(*engine, storm) error) (*engine, error) {
	e, err := b.startEngine(ctx, data)
	if err != nil {
		return nil, err
	}
	result, err := e.enrol(ctx, docs)
	if err == nil {
		err = watch(e, result)
	}
	e.Kill()
	if err != nil {
		return nil, err
	}
	if e, err = b.startEngine(ctx, data); err != nil {
		return nil, err
	}
	if err := e.checkEnrolled(ctx, len(docs)); err != nil {
		e.Kill()
		return nil, err
	}
	return e, nil
}

// checkEnrolled returns an error unless there are as many nodes as machines, all inspected and each
// with all of its ports.
func (e *engine) checkEnrolled(ctx context.Context, machines int) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	nodes, err := readAll(c, "nodes", "uuid,inspection_finished_at", func(n nodeRow) string { return n.UUID })
	if err != nil {
		return err
	}
	type portRow struct {
		UUID string `json:"uuid"`
		Node string `json:"node_uuid"`
	}
	ports, err := readAll(c, "ports", "uuid,node_uuid", func(p portRow) string { return p.UUID })
	if err != nil {
		return err
	}
	if len(nodes) != machines || len(ports) != nics*machines {
		return fmt.Errorf("%d machines posted, after the restart there are %d nodes and %d ports", machines, len(nodes), len(ports))
	}
	owned := map[string]int{}
	for _, p := range ports {
		owned[p.Node]++
	}
	for _, n := range nodes {
		if n.Finished == nil || owned[n.UUID] != nics {
			return fmt.Errorf("after the restart node %s has %d ports and its inspection finished at %v", n.UUID, owned[n.UUID], n.Finished)
		}
	}
	return nil
}

// readAll reads a list page by page.
func readAll[T any](c *client, list, fields string, uuid func(T) string) ([]T, error) {
	var all []T
	path := "/v1/" + list + "?fields=" + fields
	for marker := ""; ; {
		var page map[string]json.RawMessage
		if err := c.readJSON(path+marker, &page); err != nil {
			return nil, err
		}
		var items []T
		if err := json.Unmarshal(page[list], &items); err != nil {
			return nil, fmt.Errorf("read list of %s: %w", list, err)
		}
		if len(items) == 0 {
			return all, nil
		}
		all = append(all, items...)
		marker = "&marker=" + uuid(items[len(items)-1])
	}
}

func benchMemory(ctx context.Context, b *bench) error {
	e, err := b.enrolFresh(ctx, "memory", documents(memoryMachines), func(e *engine, _ storm) error {
		return b.addMemory(e, fmt.Sprintf("resident memory after %d machines", memoryMachines), 80)
	})
	if err != nil {
		return err
	}
	e.Kill()
	return nil
}

func benchEnrol(ctx context.Context, b *bench) error {
	docs := documents(enrolMachines)
	e, err := b.enrolFresh(ctx, "enrol", docs, func(_ *engine, s storm) error {
		b.addStorm(figureEnrol, s, 1500)
		return nil
	})
	if err != nil {
		return err
	}
	e.Kill()
	return nil
}
