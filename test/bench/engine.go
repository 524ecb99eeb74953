package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// engine is an `ingot engine` that runs as a child of this process.
type engine struct {
	*process.Process
	address       string        // host:port
	authorization string        // header line of its clients; empty if the engine asks for no password
	ready         time.Duration // from executing the program to its first 200
}

// discovery is the only configuration that differs from the default: without it, an engine enrols
// no machines.
var discovery = []string{"--set", "auto_discovery.enabled=true", "--set", "auto_discovery.driver=manual-management"}

// startProcess runs the program. It adds the output to the file NAME.log in the bench's folder.
func (b *bench) startProcess(name string, args ...string) (*process.Process, error) {
	return process.Start(exec.Command(b.program, args...), filepath.Join(b.folder, name+".log")) //nolint:gosec,noctx // our own program; Kill ends it
}

// startEngine runs an engine with the database of this name, and with more arguments if there are
// any. It returns after the engine's first answer.
func (b *bench) startEngine(ctx context.Context, data string, more ...string) (*engine, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	database, err := b.databaseArgs(ctx, data)
	if err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"engine", "--listen", address}, database, discovery, more)
	profiles := ""
	if b.profiler != nil {
		if profiles, err = process.FreeAddress(); err != nil {
			return nil, err
		}
		args = append(args, b.profiler.args(profiles)...)
	}
	p, err := b.startProcess(data, args...)
	if err != nil {
		return nil, err
	}
	e := &engine{Process: p, address: address}
	if err := e.awaitAnswer(ctx); err != nil {
		e.Kill()
		return nil, err
	}
	if b.profiler != nil {
		b.profiler.watch(ctx, profiles)
	}
	return e, nil
}

// awaitAnswer asks for the root document until the engine returns it.
func (e *engine) awaitAnswer(ctx context.Context) error {
	if err := awaitFirst(ctx, e.Process, e.address, "/"); err != nil {
		return fmt.Errorf("wait for the engine's first answer: %w", err)
	}
	e.ready = time.Since(e.Started)
	return nil
}

// awaitFirst asks a program for a document until the program returns it.
func awaitFirst(ctx context.Context, p *process.Process, address, path string) error {
	const pause = time.Millisecond
	for {
		err := firstAnswer(ctx, address, path)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Failure()
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func firstAnswer(ctx context.Context, address, path string) error {
	c, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.close()
	return c.want(http.StatusOK, http.MethodGet, path, nil)
}
