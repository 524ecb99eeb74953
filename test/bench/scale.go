package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// sizes are how many nodes the two compared engines have.
var sizes = [2]int{1000, 20_000}

const (
	rare      = 10  // nodes that are the only ones in a state, and with a driver; they fill a page
	manyPorts = 12  // ports of the last node; more than fit on a page
	rounds    = 300 // of each read on each engine
)

// benchScale measures what many nodes cost an engine: its memory, and whether reads that find few
// nodes become slower.
func benchScale(ctx context.Context, b *bench) error {
	var populations [len(sizes)]*population
	for i, size := range sizes {
		c, err := b.populate(ctx, fmt.Sprintf("scale-%d", size), size, [len(sizes)]float64{60, 250}[i])
		if err != nil {
			return err
		}
		defer c.engine.Kill()
		populations[i] = c
	}
	return b.compareReads(ctx, populations)
}

// population is an engine with many nodes.
type population struct {
	engine *engine
	nodes  []string // their UUIDs
}

// populate creates nodes, with a port each, of which some differ from the others. It then kills the
// engine, starts it again and checks that everything is there. The memory is that of the engine
// that has created the nodes.
func (b *bench) populate(ctx context.Context, data string, size int, memory float64) (*population, error) {
	e, err := b.startEngine(ctx, data)
	if err != nil {
		return nil, err
	}
	nodes, err := e.enrolByHand(ctx, size)
	if err == nil {
		err = b.addMemory(e, fmt.Sprintf("resident memory with %d nodes", size), memory)
	}
	e.Kill()
	if err != nil {
		return nil, err
	}
	if e, err = b.startEngine(ctx, data); err != nil {
		return nil, err
	}
	err = e.checkNodes(ctx, map[string]int{"enroll": size - rare, "manageable": rare}, size-1+manyPorts)
	if err != nil {
		e.Kill()
		return nil, err
	}
	return &population{e, nodes}, nil
}

// enrolByHand creates nodes. The last ones have another driver, and those before them are
// manageable.
func (e *engine) enrolByHand(ctx context.Context, size int) ([]string, error) {
	nodes, _, err := e.createNodes(ctx, size, func(i int) []byte {
		driver := "fake-hardware"
		if i >= size-rare {
			driver = "manual-management"
		}
		return fmt.Appendf(nil, `{"driver":%q,"name":"node-%d","instance_uuid":%q,"properties":{"cpu_arch":"x86_64"},"extra":{"rack":%d}}`,
			driver, i, instance(i), i/40)
	})
	if err != nil {
		return nil, err
	}
	owners := nodes
	for range manyPorts - 1 {
		owners = append(owners, nodes[size-1])
	}
	if _, err := e.createPorts(ctx, owners); err != nil {
		return nil, err
	}
	_, err = e.manage(ctx, nodes[size-2*rare:size-rare])
	return nodes, err
}

func instance(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", i) }

// addMemory adds the resident memory of an engine and its peak.
func (b *bench) addMemory(e *engine, name string, target float64) error {
	now, peak, err := e.Memory()
	b.add(figure{name: name, value: megabytes(now), unit: "MB", target: target, best: least})
	b.add(figure{name: "  at its peak", value: megabytes(peak), unit: "MB"})
	return err
}

// selective has every read that is compared. Each finds the same number of rows in both engines.
var selective = []struct {
	name string
	list string // of the answer
	path func(*population) string
	want int // length of the answer
}{
	{"provision_state few have", "nodes", fixed("/v1/nodes?provision_state=manageable&limit=10"), rare},
	{"provision_state most have", "nodes", fixed("/v1/nodes?provision_state=enroll&limit=10"), 10},
	{"driver few have", "nodes", fixed("/v1/nodes?driver=manual-management&limit=10"), rare},
	{"driver most have", "nodes", fixed("/v1/nodes?driver=fake-hardware&limit=10"), 10},
	{"instance_uuid", "nodes", func(c *population) string {
		return "/v1/nodes?limit=10&instance_uuid=" + instance(len(c.nodes)/2)
	}, 1},
	{"ports of a node", "ports", func(c *population) string {
		return "/v1/nodes/" + c.nodes[len(c.nodes)-1] + "/ports?limit=10"
	}, 10},
	{"ports filtered by node", "ports", func(c *population) string {
		return "/v1/ports?limit=10&node=" + c.nodes[len(c.nodes)-1]
	}, 10},
}

func fixed(path string) func(*population) string { return func(*population) string { return path } }

// compareReads asks both engines in turn, so that other load on the computer affects both alike.
func (b *bench) compareReads(ctx context.Context, populations [len(sizes)]*population) error {
	var clients [len(sizes)]*client
	for i, population := range populations {
		c, err := population.engine.dial(ctx)
		if err != nil {
			return err
		}
		defer c.close()
		clients[i] = c
	}
	for _, read := range selective {
		var times [len(sizes)][]time.Duration
		for round := range rounds {
			for i, c := range clients {
				start := time.Now()
				answer, err := c.read(http.StatusOK, http.MethodGet, read.path(populations[i]), nil)
				if err != nil {
					return err
				}
				times[i] = append(times[i], time.Since(start))
				if round > 0 {
					continue
				}
				if err := checkLength(answer, read.list, read.want); err != nil {
					return fmt.Errorf("read by %s: %w", read.name, err)
				}
			}
		}
		few, many := milliseconds(median(times[0])), milliseconds(median(times[1]))
		b.add(figure{
			name:  fmt.Sprintf("%d nodes to %d: %s", sizes[1], sizes[0], read.name),
			value: many / few, unit: fmt.Sprintf("x (%.2f ms to %.2f ms)", many, few), target: 1.5, best: least,
		})
	}
	return nil
}

func checkLength(answer []byte, list string, want int) error {
	var page map[string]json.RawMessage
	if err := json.Unmarshal(answer, &page); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(page[list], &items); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	if len(items) != want {
		return fmt.Errorf("%d rows, want %d", len(items), want)
	}
	return nil
}
