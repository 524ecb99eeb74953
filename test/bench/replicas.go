package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

const (
	replicaWork        = 1000 // machines enrolled or nodes managed by one engine in one run
	replicaConnections = 4    // to the database for writes, of each engine: they bound its rate
	replicaClients     = 16   // of each engine
	// busiest is the part of the computer's cores that may be in use. Above it, the engines wait
	// for cores, which they share, and not for the server.
	busiest = 0.7
)

// distances are the delays to the server, each way, that are tried in turn until the cores are idle
// enough.
var distances = []time.Duration{latency, 2 * latency, 4 * latency, 8 * latency}

// replicaTest is work that one engine does alone, and then two engines do together.
type replicaTest struct {
	name string
	data string // prefix of the names of its databases
	// prepare prepares the database for the work.
	prepare func(context.Context, *engine) error
	// work does one part of the work: 0, 1 or 2.
	work func(ctx context.Context, e *engine, part int) (storm, error)
	// check returns an error unless all of the work has been done.
	check func(context.Context, *engine) error
}

// benchReplicas measures how much faster two engines with one database are than one engine.
func benchReplicas(ctx context.Context, b *bench) error {
	for _, test := range []replicaTest{enrolReplicas(), manageReplicas()} {
		if err := b.compareReplicas(ctx, test); err != nil {
			return fmt.Errorf("%s: %w", test.name, err)
		}
	}
	return nil
}

func enrolReplicas() replicaTest {
	docs := documents(3 * replicaWork)
	return replicaTest{
		name: figureEnrol, data: "enrol",
		prepare: func(context.Context, *engine) error { return nil },
		work: func(ctx context.Context, e *engine, part int) (storm, error) {
			return e.enrol(ctx, docs[part*replicaWork:][:replicaWork])
		},
		check: func(ctx context.Context, e *engine) error { return e.checkEnrolled(ctx, len(docs)) },
	}
}

func manageReplicas() replicaTest {
	const count = 3 * replicaWork
	var nodes []string
	return replicaTest{
		name: figureManage, data: "manage",
		prepare: func(ctx context.Context, e *engine) (err error) {
			nodes, _, err = e.createNodes(ctx, count, fakeNode)
			return err
		},
		work: func(ctx context.Context, e *engine, part int) (storm, error) {
			return e.manageBy(ctx, replicaClients, nodes[part*replicaWork:][:replicaWork])
		},
		check: func(ctx context.Context, e *engine) error {
			return e.checkNodes(ctx, map[string]int{"manageable": count}, 0)
		},
	}
}

// replicaRun is what one engine and two engines did at one distance.
type replicaRun struct {
	distance time.Duration
	rate     [2]float64 // of one engine, and of both together
	busy     [2]float64 // part of the computer's cores that was in use
}

// idleEnough reports whether the cores limited neither run.
func (r replicaRun) idleEnough() bool { return max(r.busy[0], r.busy[1]) < busiest }

// compareReplicas increases the distance to the server until the cores are idle enough, or there is
// no greater distance.
func (b *bench) compareReplicas(ctx context.Context, test replicaTest) error {
	var run replicaRun
	for i, distance := range distances {
		var err error
		if run, err = b.runReplicas(ctx, test, distance, i); err != nil {
			return err
		}
		if run.idleEnough() {
			break
		}
	}
	name := fmt.Sprintf("two replicas to one, %s to PostgreSQL each way: %s", run.distance, test.name)
	b.figures = append(b.figures,
		figure{
			name: name, value: run.rate[1] / run.rate[0], target: 1.6, best: most,
			unit: fmt.Sprintf("x (%s /s to %s /s)", amount(run.rate[1]), amount(run.rate[0])),
		},
		figure{
			name: "  cores in use meanwhile", value: 100 * max(run.busy[0], run.busy[1]), target: 100 * busiest, best: least,
			unit: fmt.Sprintf("%% (two: %.0f %%, one: %.0f %%)", 100*run.busy[1], 100*run.busy[0]),
		})
	return nil
}

// runReplicas lets one engine work, then two at the same time. It checks what they did after all
// were killed. The distance applies only while they work.
func (b *bench) runReplicas(ctx context.Context, test replicaTest, distance time.Duration, number int) (run replicaRun, err error) {
	distant, p, err := b.throughProxy(ctx, 0)
	if err != nil {
		return run, err
	}
	defer p.close()
	run.distance = distance
	data := fmt.Sprintf("replicas-%s-%d", test.data, number)
	var engines []*engine
	start := func() error {
		e, err := distant.startReplica(ctx, data, len(engines))
		if err == nil {
			engines = append(engines, e)
		}
		return err
	}
	if err = start(); err == nil {
		err = test.prepare(ctx, engines[0])
	}
	if err == nil {
		run.rate[0], run.busy[0], err = together(ctx, p, distance, engines, 0, test.work)
	}
	if err == nil {
		err = start()
	}
	if err == nil {
		run.rate[1], run.busy[1], err = together(ctx, p, distance, engines, 1, test.work)
	}
	for _, e := range engines {
		e.Kill()
	}
	engines = nil
	if err == nil {
		err = start()
	}
	if err == nil {
		err = test.check(ctx, engines[0])
		engines[0].Kill()
	}
	return run, err
}

// startReplica starts one of several engines with the same database.
func (b *bench) startReplica(ctx context.Context, data string, number int) (*engine, error) {
	name := fmt.Sprintf("%s-replica-%d", data, number)
	return b.startEngine(ctx, data, "--data", filepath.Join(b.folder, name), "--set", "conductor.hostname="+name,
		"--set", fmt.Sprintf("database.write_connections=%d", replicaConnections))
}

// together lets engines work at the same time: the first engine on part first, the next one on the
// part after that. It returns their common rate, and how busy the computer was.
func together(ctx context.Context, p *proxy, distance time.Duration, engines []*engine, first int,
	work func(context.Context, *engine, int) (storm, error),
) (rate, busy float64, err error) {
	p.setDelay(distance)
	defer p.setDelay(0)
	storms, errs := make([]storm, len(engines)), make([]error, len(engines))
	before, err := readCores()
	if err != nil {
		return 0, 0, err
	}
	var working sync.WaitGroup
	for i, e := range engines {
		working.Go(func() { storms[i], errs[i] = work(ctx, e, first+i) })
	}
	working.Wait()
	after, err := readCores()
	if err := errors.Join(errors.Join(errs...), err); err != nil {
		return 0, 0, err
	}
	return commonRate(storms), after.busySince(before), nil
}

// commonRate returns the rate of storms that began at the same time.
func commonRate(storms []storm) float64 {
	var all storm
	for _, s := range storms {
		all = storm{requests: all.requests + s.requests, took: max(all.took, s.took)}
	}
	return all.rate()
}
