//go:build attack

// Package attack_test attacks a real engine on loopback with hostile machines: with floods from a
// process on one core, while other machines and clients behave, and with requests that aim at DHCP,
// secrets and the tokens of agents. It checks what the others were answered, what is left, and what
// the engine needed meanwhile.
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
