package gctuner_test

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/ingot-metal/ingot/internal/gctuner"
)

func TestHeapMayGrowLessWhenMuchIsLive(t *testing.T) {
	for live, want := range map[uint64]int{0: 200, 8 << 20: 200, gctuner.SmallHeap: 200, gctuner.SmallHeap + 1: 100, 1 << 30: 100} {
		if got := gctuner.GCPercent(live); got != want {
			t.Errorf("with %d bytes live: %d percent, want %d", live, got, want)
		}
	}
}

func TestPercentageFollowsTheLiveHeapAfterEachCollection(t *testing.T) {
	if !inChild(t, "GOGC=") {
		return
	}
	much := make([]byte, 2*gctuner.SmallHeap)
	awaitPercent(t, gctuner.LargeHeapPercent)
	runtime.KeepAlive(much)
	awaitPercent(t, gctuner.SmallHeapPercent)
}

func TestPercentageOfTheEnvironmentStays(t *testing.T) {
	if !inChild(t, "GOGC=77") {
		return
	}
	for range 3 {
		runtime.GC()
	}
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("%d percent, want the 77 of GOGC", got)
	}
}

// inChild runs the test that calls it in a process of its own, with one more environment variable.
// It returns whether this is that process.
func inChild(t *testing.T, variable string) bool {
	t.Helper()
	const child = "INGOT_TEST_CHILD"
	if os.Getenv(child) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", variable)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	return false
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
