//go:build attack

// Package attack_test lets hostile machines loose on a real engine, on loopback: floods
// that a process on one core sends, beside machines and clients that behave, and requests
// that are after DHCP, secrets and the tokens of agents. What the others were answered, what
// is left, and what the engine needed meanwhile, decides.
package attack_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	if name := os.Getenv(floodVariable); name != "" {
		os.Exit(runFlood(name))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ingot-attack-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	binary = filepath.Join(dir, "ingot")
	if err := process.Build(context.Background(), ".", binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return storetest.Main(m)
}
