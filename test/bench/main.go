// Command bench prints the figures by which Ingot's speed is judged.
//
// It starts real engines as child processes, in data folders of their own and with their default
// configuration, and loads them from this process. Nothing is warmed up. It prints a figure only
// after it has checked that all of the work behind the figure is still there after the engine was
// killed and started again; otherwise it fails. It asserts no times: the column OK says whether a
// target is met.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// Bounds of a whole run, far above what it takes on two free cores.
const (
	timeout        = 30 * time.Minute
	compareTimeout = 90 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the deferred calls only release what the exit releases
	}
}

// section is a group of figures for which one or a few engines are started.
type section struct {
	name string
	run  func(context.Context, *bench) error
	// compared says that the section can also measure the engine of another commit.
	compared bool
}

var sections = []section{
	{"memory", benchMemory, true},
	{"enrol", benchEnrol, true},
	{"start", benchStart, true},
	{"read", benchRead, true},
	{"write", benchWrite, true},
	{"scale", benchScale, true},
	{"inspect", benchInspect, true},
	{"lookup", benchLookup, true},
	{"agents", benchAgents, true},
	{"hanging", benchHanging, false},
	{"power", benchPower, false},
	{"bmc-power", benchBMCPower, false},
	{"deploy", benchDeploy, false},
	{"postgres-read", onPostgres(bySocket, benchRead), false},
	{"postgres-write", onPostgres(bySocket, benchWrite), false},
	{"postgres-scale", onPostgres(bySocket, benchScale), false},
	{"postgres-inspect", onPostgres(bySocket, benchInspect), false},
	{"postgres-tcp", onPostgres(byTCP, benchInspectByTCP), false},
	{"postgres-latency", onPostgres(byTCP, benchLatency), false},
	{"postgres-replicas", onPostgres(byTCP, benchReplicas), false},
	{"up", benchUp, false},
	{"operator-create", benchOperatorCreate, false},
	{"operator-discover", benchOperatorDiscover, false},
	{"operator-scale", benchOperatorScale, false},
	{"operator-deploy", benchOperatorDeploy, false},
	{"claims", benchClaims, false},
}

// bench is one run: its programs and folders, and the figures so far.
type bench struct {
	program  string // the ingot binary
	folder   string // where the data folders are; on a real disk
	postgres string // URL of the server whose schemas engines use; empty means SQLite
	figures  []figure
	profiler *profiler // nil means that nothing is profiled
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	program := flags.String("ingot", "", "program to measure; empty builds bin/ingot from this work tree")
	folder := flags.String("dir", "bin", "folder on a real disk for data that is removed afterwards")
	only := flags.String("only", "", "comma list of sections to run: "+names(sections)+"; empty means all")
	base := flags.String("compare", "", "commit to build and compare with; sections: "+names(comparables()))
	profile := flags.String("profile", "", "file for a CPU profile of the engines that are measured; empty means none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *base != "" && *profile != "" {
		return errors.New("-profile: cannot be combined with -compare: the other program may serve no profiles")
	}
	within, among := timeout, sections
	if *base != "" {
		within, among = compareTimeout, comparables()
	}
	chosen, err := choose(*only, among)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the whole run took longer than %s", within))
	defer cancel()
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
	if *base != "" {
		return compare(ctx, data, *base, *program, chosen)
	}
	b := &bench{program: *program}
	if *profile != "" {
		b.profiler = &profiler{}
	}
	for i, s := range chosen {
		if ctx.Err() != nil {
			break
		}
		b.folder = filepath.Join(data, strconv.Itoa(i)) // a section may be chosen several times
		err = errors.Join(err, os.Mkdir(b.folder, 0o750), b.measure(ctx, s))
	}
	if b.profiler != nil && err == nil {
		err = b.profiler.write(*profile)
	}
	return errors.Join(printFigures(os.Stdout, b.figures), err)
}

// measure runs a section. If the section fails, its figures are dropped.
func (b *bench) measure(ctx context.Context, s section) error {
	before := len(b.figures)
	if err := s.run(ctx, b); err != nil {
		b.figures = b.figures[:before]
		return errors.Join(fmt.Errorf("measure %s: %w", s.name, err), context.Cause(ctx))
	}
	return nil
}

// comparables returns the sections with which another commit can be compared.
func comparables() []section {
	return slices.DeleteFunc(slices.Clone(sections), func(s section) bool { return !s.compared })
}

// choose returns the sections in a comma list. An empty list means all.
func choose(only string, among []section) ([]section, error) {
	if only == "" {
		return among, nil
	}
	var chosen []section
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(among, func(s section) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no section %q here, want some of %s", name, names(among))
		}
		chosen = append(chosen, among[i])
	}
	return chosen, nil
}

func names(of []section) string {
	names := make([]string, len(of))
	for i, s := range of {
		names[i] = s.name
	}
	return strings.Join(names, ",")
}

// build builds bin/ingot from this work tree and returns its path.
func build(ctx context.Context) (string, error) {
	const program = "bin/ingot"
	if err := process.Build(ctx, ".", program); err != nil {
		return "", fmt.Errorf("%w (run bench in the root of the work tree)", err)
	}
	return program, nil
}
