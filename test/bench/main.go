// Command bench prints the figures that Ingot's speed is judged by.
//
// It starts real engines as child processes, in data folders of their own and
// with their default configuration, and loads them from this process. Nothing
// is warmed up. A figure is printed only when the work behind it is proved
// whole after the engine was killed and started again; otherwise bench fails.
// It asserts no times: whether a target is met stands in the last column.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// timeout bounds the whole run. On two free cores it takes about two minutes.
const timeout = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the whole run took longer than %s", timeout))
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the deferred calls only release what the exit releases
	}
}

// section is a group of figures that one or a few engines are started for.
type section struct {
	name string
	run  func(context.Context, *bench) error
}

var sections = []section{
	{"memory", benchMemory},
	{"enrol", benchEnrol},
	{"start", benchStart},
	{"read", benchRead},
	{"write", benchWrite},
	{"scale", benchScale},
	{"inspect", benchInspect},
	{"lookup", benchLookup},
	{"postgres-read", onPostgres(benchRead)},
	{"postgres-write", onPostgres(benchWrite)},
	{"postgres-scale", onPostgres(benchScale)},
	{"postgres-inspect", onPostgres(benchInspect)},
	{"up", benchUp},
}

// bench is one run: where things are, and what was found.
type bench struct {
	program  string // the ingot binary
	folder   string // data folders go below it; on a real disk
	postgres string // URL of the server whose schemas engines use; empty means SQLite
	figures  []figure
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	program := flags.String("ingot", "", "program to measure; empty builds bin/ingot from this work tree")
	folder := flags.String("dir", "bin", "folder on a real disk for data that is removed afterwards")
	only := flags.String("only", "", "comma list of sections to run: "+sectionNames()+"; empty means all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if *program == "" {
		if *program, err = build(ctx); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(*folder, 0o750); err != nil {
		return fmt.Errorf("create folder for data: %w", err)
	}
	data, err := os.MkdirTemp(*folder, "bench-")
	if err != nil {
		return fmt.Errorf("create folder for data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()

	machine, err := describeMachine(data)
	if err != nil {
		return err
	}
	fmt.Println(machine)
	b := &bench{program: *program, folder: data}
	for _, s := range chosen {
		before := len(b.figures)
		if failed := s.run(ctx, b); failed != nil {
			// What was not proved whole is not shown.
			b.figures = b.figures[:before]
			err = errors.Join(fmt.Errorf("measure %s: %w", s.name, failed), context.Cause(ctx))
			break
		}
	}
	return errors.Join(printFigures(os.Stdout, b.figures), err)
}

func choose(only string) ([]section, error) {
	if only == "" {
		return sections, nil
	}
	var chosen []section
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no section %q, want some of %s", name, sectionNames())
		}
		chosen = append(chosen, sections[i])
	}
	return chosen, nil
}

func sectionNames() string {
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	return strings.Join(names, ",")
}

// build makes bin/ingot the program of this work tree.
func build(ctx context.Context) (string, error) {
	const program = "bin/ingot"
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/ingot")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s (run bench in the root of the work tree): %w", program, err)
	}
	return program, nil
}
