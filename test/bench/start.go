package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// starts is how often an engine is started to measure one figure.
const starts = 21

// killedNodes is how many nodes an engine has when it is killed.
const killedNodes = 4000

// benchStart measures the time from executing the program to its first answer: in new data folders,
// and after a kill, with nodes.
func benchStart(ctx context.Context, b *bench) error {
	times := make([]time.Duration, starts)
	for i := range times {
		e, err := b.startEngine(ctx, fmt.Sprintf("start-%d", i))
		if err != nil {
			return err
		}
		times[i] = e.ready
		e.Kill()
	}
	b.add(figure{name: "first answer after start, new data folder", value: median(times).Seconds(), unit: "s", target: 0.2, best: least})
	e, err := b.startEngine(ctx, "start-killed")
	if err != nil {
		return err
	}
	_, _, err = e.createNodes(ctx, killedNodes, fakeNode)
	e.Kill()
	if err != nil {
		return err
	}
	for i := range times {
		if e, err = b.startEngine(ctx, "start-killed"); err != nil {
			return err
		}
		times[i] = e.ready
		e.Kill()
	}
	b.add(figure{name: fmt.Sprintf("first answer after a kill, %d nodes", killedNodes), value: median(times).Seconds(), unit: "s", target: 0.2, best: least})
	return nil
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// middle returns the median of values. There must be at least one.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
