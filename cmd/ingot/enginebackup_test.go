package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/engine"
)

// wants are parts of what a command prints, and its exit code.
type wants struct {
	stdout, stderr string
	code           int
}

func TestBackupAndRestoreOfAnEngine(t *testing.T) {
	dir := t.TempDir()
	cfg := engine.DefaultConfig()
	cfg.API.Listen, cfg.Database.Dir = "127.0.0.1:0", dir
	e, err := engine.Start(t.Context(), engine.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		if e == nil {
			return
		}
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		e = nil
	}
	defer stop()
	file := filepath.Join(t.TempDir(), "backup.db")
	run := func(want wants, args ...string) {
		t.Helper()
		root := newRootCommand()
		var stdout, stderr strings.Builder
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		root.SetArgs(append([]string{"engine"}, args...))
		code := cli.Report(&stderr, root.ExecuteContext(t.Context()))
		if !strings.Contains(stdout.String(), want.stdout) || !strings.Contains(stderr.String(), want.stderr) || code != want.code {
			t.Errorf("%v: printed %q and %q, exit code %d; want %+v", args, stdout.String(), stderr.String(), code, want)
		}
	}
	run(wants{stdout: ": 0 nodes, 0."}, "backup", file, "--data", dir)
	run(wants{stderr: "use --force", code: 1}, "backup", file, "--data", dir)
	run(wants{stdout: "Backed up to"}, "backup", file, "--data", dir, "--force")
	run(wants{stderr: "another engine uses it", code: 1}, "restore", file, "--data", dir)
	stop()
	run(wants{stdout: "The replaced database is " + dir}, "restore", file, "--data", dir)
	run(wants{stdout: `then let it go on with "ingot suspension resume --all"`}, "restore", file, "--data", t.TempDir())
	run(wants{stdout: "The engine will go on with the work in it"}, "restore", file, "--data", t.TempDir(), "--set", "database.resume_after_restore=true")
	run(wants{stdout: "Suspended the work of 0 nodes"}, "mark-restored", "--data", dir)
	run(wants{stderr: "no SQLite database", code: 1}, "restore", os.Args[0], "--data", dir)
	const url = "postgres://ingot:secret@127.0.0.1/ingot"
	run(wants{stderr: "pg_dump", code: 1}, "backup", file, "--database", url)
	run(wants{stderr: "pg_restore", code: 1}, "restore", file, "--database", url)
	run(wants{stderr: "--database is empty", code: 2}, "--database", "")
	run(wants{stderr: "--data is empty", code: 2}, "restore", file, "--data", "")
}
