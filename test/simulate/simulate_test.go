package simulate

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds   = flag.Int("seeds", 40, "how many runs")
	first   = flag.Uint64("first", 1, "seed of the first run")
	seconds = flag.Int("seconds", 0, "how long to run, in seconds of this machine; 0 means as many runs as -seeds says")
	verbose = flag.Bool("show", false, "print what happened in each run")
)

// TestMain lets one goroutine run at a time. Goroutines that become ready in the same moment then
// always run in the same order. Stacks name the seed of the run, so a panic, a deadlock or a run
// without end does.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	_ = os.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",tracebacklabels=1", ","))
	dir := template() // outside any bubble
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// runResult is the result of one run.
type runResult struct {
	problems string
	trace    []string
	covered  coverage
}

// simulate runs one world from its seed to its end.
func simulate(t *testing.T, seed uint64) (out runResult) {
	t.Helper()
	dir, err := os.MkdirTemp(tempDir(), "ingot-simulate-") //nolint:usetesting // in memory, and gone after each of many runs
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	pprof.Do(t.Context(), pprof.Labels("seed", strconv.FormatUint(seed, 10)), func(context.Context) {
		synctest.Test(t, func(t *testing.T) {
			w, err := newWorld(seed, dir)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			w.restartReplicas()
			for range w.steps() {
				w.step()
				if len(w.violations) > 0 {
					break
				}
			}
			w.finishWork()
			synctest.Wait()
			w.check()
			w.close()
			out = runResult{problems: w.problems(), trace: w.sched.trace, covered: w.sched.covered}
		})
	})
	return out
}

// TestWhatMustHoldHolds runs many worlds.
func TestWhatMustHoldHolds(t *testing.T) {
	began := time.Now()
	covered, runs := coverage{}, 0
	defer func() {
		fmt.Printf("%d runs from seed %d in %s\n", runs, *first, time.Since(began).Round(time.Second))
		covered.print()
	}()
	for seed := *first; ; seed++ {
		if *seconds > 0 && time.Since(began) > time.Duration(*seconds)*time.Second || *seconds == 0 && runs >= *seeds {
			break
		}
		out := simulate(t, seed)
		runs++
		covered.add(out.covered)
		if *verbose {
			fmt.Println(strings.Join(out.trace, "\n"))
		}
		if out.problems != "" {
			t.Fatalf("seed %d: replay it with make simulate SEED=%d\n%s", seed, seed, out.problems)
		}
	}
}

// TestTheSameSeedGivesTheSameTrace runs a few worlds twice.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector starts goroutines in random order; make simulate-repeat runs this test without it")
	}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		one, two := simulate(t, seed), simulate(t, seed)
		for i := range max(len(one.trace), len(two.trace)) {
			if i >= len(one.trace) || i >= len(two.trace) || one.trace[i] != two.trace[i] {
				t.Fatalf("seed %d: traces differ at line %d:\n%s\nand\n%s", seed, i,
					strings.Join(one.trace[max(0, i-3):min(len(one.trace), i+2)], "\n"), strings.Join(two.trace[max(0, i-3):min(len(two.trace), i+2)], "\n"))
			}
		}
	}
}
