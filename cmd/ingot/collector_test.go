package main

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestHeapMayGrowLessWhenMuchIsLive(t *testing.T) {
	for live, want := range map[uint64]int{0: 200, 8 << 20: 200, smallHeap: 200, smallHeap + 1: 100, 1 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("with %d bytes live: %d percent, want %d", live, got, want)
		}
	}
}

// collectorChild makes this test run in a process of its own, whose collector it paces.
const collectorChild = "INGOT_TEST_COLLECTOR"

func TestCollectorIsPacedAgainAfterEachCollection(t *testing.T) {
	if os.Getenv(collectorChild) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), collectorChild+"=1")
		if output, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	paceCollector()
	much := make([]byte, 2*smallHeap)
	awaitPercent(t, largeHeapPercent)
	runtime.KeepAlive(much)
	awaitPercent(t, smallHeapPercent)
}

// awaitPercent collects until the percentage is the wanted one. Finalizers run on their own.
func awaitPercent(t *testing.T, want int) {
	t.Helper()
	for range 10_000 {
		runtime.GC()
		got := debug.SetGCPercent(want)
		debug.SetGCPercent(got)
		if got == want {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("after each of many collections the percentage is not %d", want)
}
