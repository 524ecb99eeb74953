//go:build fault

// Package fault_test kills and pauses whole engines that share a PostgreSQL database, takes the
// database away from them, lets machines fail, and checks what becomes of the engines' work. It
// reads from the machines what was done to them.
package fault_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// binary is the program under test.
var binary string

var (
	seconds = flag.Int("seconds", 150, "how long faults and clients go on, in seconds")
	seed    = flag.Uint64("seed", 0, "number that decides what clients ask for and which faults happen; 0 draws one")
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if err := flag.Set("test.parallel", fmt.Sprint(livesPerRound)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "ingot-fault-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	binary = filepath.Join(dir, "ingot")
	if err := process.Build(context.Background(), ".", binary, "-tags", "fault", "-pgo=off"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return storetest.Main(m)
}
