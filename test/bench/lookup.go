package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// lookups is how many posts of each sort are compared. The small engine has not many more
	// machines.
	fewNodes  = 100
	manyNodes = 20_000
	lookups   = 80
)

// noDiscovery makes a post of an unknown machine a lookup and nothing else.
var noDiscovery = []string{"--set", "auto_discovery.enabled=false", "--set", "auto_discovery.burst=100000"}

// benchLookup measures whether it costs more to find the node of a machine if more nodes are in
// inspection.
func benchLookup(ctx context.Context, b *bench) error {
	machines := knownMachines(manyNodes + lookups)
	var engines [2]*engine
	for i, size := range [2]int{fewNodes, manyNodes} {
		e, err := b.startEngine(ctx, fmt.Sprintf("lookup-%d", size), noDiscovery...)
		if err != nil {
			return err
		}
		defer e.Kill()
		engines[i] = e
		if err := e.awaitInspection(ctx, machines[:size], true); err != nil {
			return err
		}
	}
	return b.compareLookups(ctx, engines, machines)
}

// compareLookups lets the same machines post to both engines in turn.
func (b *bench) compareLookups(ctx context.Context, engines [2]*engine, machines []known) error {
	var clients [2]*client
	for i, e := range engines {
		c, err := e.dial(ctx)
		if err != nil {
			return err
		}
		defer c.close()
		clients[i] = c
	}
	withBMC := make([]known, 0, lookups)
	for _, m := range machines[:fewNodes] {
		if m.bmc != "" && len(withBMC) < lookups {
			withBMC = append(withBMC, m)
		}
	}
	for _, sort := range []struct {
		name     string
		machines []known
		status   int
	}{
		{"unknown machine refused", machines[manyNodes:], http.StatusNotFound},
		{"machine found by its BMC address", withBMC, http.StatusOK},
	} {
		var times [2][]time.Duration
		for _, doc := range documentsOf(sort.machines) {
			for i, c := range clients {
				start := time.Now()
				if err := c.want(sort.status, http.MethodPost, callbackPath, doc); err != nil {
					return err
				}
				times[i] = append(times[i], time.Since(start))
			}
		}
		few, many := milliseconds(median(times[0])), milliseconds(median(times[1]))
		b.add(figure{
			name:  fmt.Sprintf("%d nodes in inspection to %d: %s", manyNodes, fewNodes, sort.name),
			value: many / few, unit: fmt.Sprintf("x (%.2f ms to %.2f ms)", many, few), target: 1.5, best: least,
		})
	}
	return nil
}
