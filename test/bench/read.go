package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// measureReads measures an engine that has enrolled machines.
func (b *bench) measureReads(ctx context.Context, e *engine) error {
	c, err := dial(ctx, e.address)
	if err != nil {
		return err
	}
	defer c.close()
	nodes, err := readAll(c, "nodes", "uuid", func(n nodeRow) string { return n.UUID })
	if err != nil {
		return err
	}
	shown, err := e.load(ctx, showRequests, func(c *client, i int) error {
		return c.want(http.StatusOK, http.MethodGet, "/v1/nodes/"+nodes[i%len(nodes)].UUID, nil)
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm("show node", shown, 10_000)

	times := make([]time.Duration, listRequests)
	for i := range times {
		start := time.Now()
		if err := c.want(http.StatusOK, http.MethodGet, fmt.Sprintf("/v1/nodes/detail?limit=%d", listNodes), nil); err != nil {
			return err
		}
		times[i] = time.Since(start)
	}
	b.add(figure{
		name: fmt.Sprintf("list %d nodes with detail", listNodes), value: milliseconds(median(times)),
		unit: "ms", target: 25, best: least,
	})
	return nil
}

// starts is how often an engine is started for one figure.
const starts = 7

// benchStart measures from executing the program to its first answer, with no
// data and with 4,000 nodes if the section before left some.
func benchStart(ctx context.Context, b *bench) error {
	times := make([]time.Duration, starts)
	for i := range times {
		e, err := b.startEngine(ctx, fmt.Sprintf("start-%d", i))
		if err != nil {
			return err
		}
		times[i] = e.ready
		if err := e.kill(); err != nil {
			return err
		}
	}
	b.add(figure{name: "first answer after start, new data folder", value: median(times).Seconds(), unit: "s", target: 0.2, best: least})
	for i := range times {
		e, err := b.startEngine(ctx, "enrol")
		if err != nil {
			return err
		}
		times[i] = e.ready
		if err := e.kill(); err != nil {
			return err
		}
	}
	b.add(figure{name: "first answer after a kill", value: median(times).Seconds(), unit: "s", target: 0.2, best: least})
	return nil
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
