//go:build compat

// Package upstream_test tests Ingot's operator with Ironic as Debian ships it. The engine, its
// inspector and the API server are real; machines and their BMCs are simulated.
package upstream_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/ingot-metal/ingot/internal/operator"
)

func TestMain(m *testing.M) {
	operator.RouteLogs(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
