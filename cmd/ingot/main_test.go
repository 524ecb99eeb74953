package main

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
)

func TestPackagesInitializeWithoutACollection(t *testing.T) {
	const child = "INGOT_TEST_COLLECTIONS"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1", "GOGC=", "GOMEMLIMIT=")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.NumGC != 0 {
		t.Errorf("%d collections, want none: does internal/gctuner still initialize before the packages that allocate much?", memory.NumGC)
	}
}
