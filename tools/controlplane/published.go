package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// fetcher is the module of the program that fetches published programs, seen from this one.
const fetcher = "../envtest"

// published returns a function that fetches programs which an index names. An empty index means
// that of setup-envtest.
func published(index string) func(ctx context.Context, v versions, dir string) error {
	return func(ctx context.Context, v versions, dir string) error {
		tmp, err := os.MkdirTemp("", "ingot-envtest-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp) //nolint:errcheck // a temporary folder
		// Built and then started, not "go run", which passes no signal on.
		program := filepath.Join(tmp, "envtest")
		if err := runCommand(exec.CommandContext(ctx, "go", "-C", fetcher, "build", "-o", program, ".")); err != nil { //nolint:gosec // constants and a folder of its own
			return fmt.Errorf("build the program that fetches them: %w", err)
		}
		args := []string{"-kubernetes", v.kubernetes, "-dir", dir}
		if index != "" {
			args = append(args, "-index", index)
		}
		for _, p := range programs {
			args = append(args, p.name)
		}
		return runCommand(exec.CommandContext(ctx, program, args...)) //nolint:gosec // built above
	}
}

// runCommand runs a command. If it fails, the error has its output.
func runCommand(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if text := bytes.TrimSpace(said.Bytes()); len(text) > 0 {
		return errors.New(string(text))
	}
	return err
}
