package gctuner_test

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/ingot-metal/ingot/internal/gctuner"
)

func TestHeapGrowsAsUsualAfterTheFirstCollection(t *testing.T) {
	inChild(t, "GOGC=", func() {
		wantPercent(t, 400)
		awaitPercent(t, 100)
	})
}

func TestHeapMayGrowMoreForSpeedWhileLittleIsLive(t *testing.T) {
	inChild(t, "GOGC=", func() {
		gctuner.FavorSpeed()
		awaitPercent(t, 200)
		much := make([]byte, 2*gctuner.SmallHeap)
		awaitPercent(t, 100)
		runtime.KeepAlive(much)
		awaitPercent(t, 200)
	})
}

func TestPercentageOfTheEnvironmentStays(t *testing.T) {
	inChild(t, "GOGC=77", func() {
		gctuner.FavorSpeed()
		for range 3 {
			runtime.GC()
		}
		wantPercent(t, 77)
	})
}

// inChild runs the test that calls it in a process of its own, with one more environment variable,
// and calls check there.
func inChild(t *testing.T, variable string, check func()) {
	t.Helper()
	const child = "INGOT_TEST_CHILD"
	if os.Getenv(child) != "" {
		check()
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "GOMEMLIMIT=", variable)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

func percent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func wantPercent(t *testing.T, want uint64) {
	t.Helper()
	if got := percent(); got != want {
		t.Errorf("%d percent, want %d", got, want)
	}
}

// awaitPercent collects until the percentage is the wanted one. Finalizers run on their own.
func awaitPercent(t *testing.T, want uint64) {
	t.Helper()
	for range 10_000 {
		if runtime.GC(); percent() == want {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("%d percent after many collections, want %d", percent(), want)
}
