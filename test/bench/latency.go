package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	latency      = time.Millisecond // each way to the server
	distantWork  = 2000             // machines enrolled, nodes managed, nodes inspected
	roundTrips   = 201              // of which the median is shown
	databaseTrip = "round trip to PostgreSQL"
)

// benchLatency measures an engine behind a network that delays the answers of the database server.
func benchLatency(ctx context.Context, b *bench) error {
	distant, p, err := b.throughProxy(ctx, latency)
	if err != nil {
		return err
	}
	defer p.close()
	if err := b.addRoundTrip(ctx, distant.postgres); err != nil {
		return err
	}
	suffix := fmt.Sprintf(", %s to PostgreSQL each way", latency)
	add := func(name string, s storm, target float64) {
		b.figures = append(b.figures, s.figure(name+suffix, target))
	}
	e, err := distant.enrolFresh(ctx, "latency-enrol", documents(distantWork), func(_ *engine, s storm) error {
		add(figureEnrol, s, 400)
		return nil
	})
	if err != nil {
		return err
	}
	e.Kill()
	managed, err := distant.manageFresh(ctx, "latency-manage", distantWork)
	if err != nil {
		return err
	}
	add(figureManage, managed, 400)
	inspected, err := distant.inspectFresh(ctx, "latency-inspect", distantWork)
	if err != nil {
		return err
	}
	add(figureInspect, inspected, 300)
	return nil
}

// throughProxy returns a bench whose engines reach the server through a proxy. The caller must
// close the proxy.
func (b *bench) throughProxy(ctx context.Context, delay time.Duration) (*bench, *proxy, error) {
	server, err := url.Parse(b.postgres)
	if err != nil {
		return nil, nil, fmt.Errorf("read URL of PostgreSQL: %w", err)
	}
	p, err := startProxy(ctx, server.Host, delay)
	if err != nil {
		return nil, nil, err
	}
	distant := &bench{program: b.program, folder: b.folder}
	if distant.postgres, err = p.through(b.postgres); err != nil {
		p.close()
		return nil, nil, err
	}
	return distant, p, nil
}

// addRoundTrip adds how long a statement takes that does nothing.
func (b *bench) addRoundTrip(ctx context.Context, distant string) error {
	near, err := roundTrip(ctx, b.postgres)
	if err != nil {
		return err
	}
	far, err := roundTrip(ctx, distant)
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure{
		name:  fmt.Sprintf("%s, %s added each way", databaseTrip, latency),
		value: milliseconds(far), unit: fmt.Sprintf("ms (%.2f ms without)", milliseconds(near)),
	})
	return nil
}

func roundTrip(ctx context.Context, server string) (took time.Duration, err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return 0, fmt.Errorf("measure the round trip to PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	times := make([]time.Duration, roundTrips)
	for i := range times {
		start := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return 0, fmt.Errorf("measure the round trip to PostgreSQL: %w", err)
		}
		times[i] = time.Since(start)
	}
	return median(times), nil
}

// manageFresh creates nodes in an empty database, manages them, kills the engine,
// starts it again and checks that every node is manageable.
func (b *bench) manageFresh(ctx context.Context, data string, count int) (storm, error) {
	e, err := b.startEngine(ctx, data)
	if err != nil {
		return storm{}, err
	}
	var managed storm
	nodes, _, err := e.createNodes(ctx, count, fakeNode)
	if err == nil {
		managed, err = e.manage(ctx, nodes)
	}
	e.Kill()
	if err != nil {
		return storm{}, err
	}
	if e, err = b.startEngine(ctx, data); err != nil {
		return storm{}, err
	}
	defer e.Kill()
	return managed, e.checkNodes(ctx, map[string]int{"manageable": count}, 0)
}

func fakeNode(i int) []byte {
	return fmt.Appendf(nil, `{"driver":"fake-hardware","name":"node-%d"}`, i)
}
