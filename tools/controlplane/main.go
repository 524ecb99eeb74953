// Command controlplane builds the Kubernetes control plane that Ingot's tests
// and "ingot up" run on: etcd, kube-apiserver, kube-controller-manager and
// kubectl, from their published Go modules at the versions of this module's
// go.mod.
//
// The programs land in a cache folder outside the work tree whose name holds
// both versions, so that every clone on a machine shares one build. A build
// appears there as a whole or not at all, and only one runs at a time. When
// the folder is there already, or KUBEBUILDER_ASSETS names another one,
// nothing is built.
//
// Run it inside this module: go -C tools/controlplane run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// assetsVariable is the environment variable by which controller-runtime's
// envtest, and so Ingot, is told to use other programs than the built ones.
const assetsVariable = "KUBEBUILDER_ASSETS"

// kubernetesModule and etcdModule are the modules that carry the versions.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
)

// program is one executable of the control plane.
type program struct {
	name string // file name in the cache folder
	pkg  string // main package, listed as a tool in go.mod
}

var programs = []program{
	{"etcd", etcdModule},
	{"kube-apiserver", kubernetesModule + "/cmd/kube-apiserver"},
	{"kube-controller-manager", kubernetesModule + "/cmd/kube-controller-manager"},
	{"kubectl", kubernetesModule + "/cmd/kubectl"},
}

func main() {
	pathOnly := flag.Bool("path", false, "print the folder of the programs and build nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *pathOnly); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		stop()
		os.Exit(1)
	}
}

// run builds what is missing and reports its progress on out.
func run(ctx context.Context, out io.Writer, pathOnly bool) error {
	dir := os.Getenv(assetsVariable)
	if dir != "" {
		if !pathOnly {
			dir = fmt.Sprintf("%s is set: using %s, building nothing", assetsVariable, dir)
		}
		_, err := fmt.Fprintln(out, dir)
		return err
	}
	v, err := readVersions(ctx)
	if err != nil {
		return err
	}
	if dir, err = v.dir(); err != nil {
		return err
	}
	if pathOnly {
		_, err = fmt.Fprintln(out, dir)
		return err
	}
	if exists(dir) {
		return nil
	}
	unlock, err := lock(dir+".lock", out)
	if err != nil {
		return err
	}
	defer unlock()
	if exists(dir) {
		return nil // built by the process that held the lock
	}
	return buildAll(ctx, out, v, dir)
}

// buildAll builds every program into a temporary folder and then gives that
// folder the name dir. The caller holds the lock.
func buildAll(ctx context.Context, out io.Writer, v versions, dir string) error {
	const building = ".building-"
	leftovers, err := filepath.Glob(dir + building + "*") // of builds that were killed
	if err != nil {
		return fmt.Errorf("list unfinished builds beside %s: %w", dir, err)
	}
	for _, l := range leftovers {
		if err := os.RemoveAll(l); err != nil {
			return fmt.Errorf("remove unfinished build: %w", err)
		}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+building)
	if err != nil {
		return fmt.Errorf("make build folder: %w", err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // after the rename there is nothing left to remove

	fmt.Fprintf(out, "Building Kubernetes %s and etcd %s into %s (once per machine, some minutes)\n", v.kubernetes, v.etcd, dir)
	begin := time.Now()
	for i, p := range programs {
		fmt.Fprintf(out, "[%d/%d] %s …\n", i+1, len(programs), p.name)
		start := time.Now()
		if err := build(ctx, p, v, tmp); err != nil {
			return err
		}
		fmt.Fprintf(out, "[%d/%d] %s built in %s\n", i+1, len(programs), p.name, time.Since(start).Round(time.Second))
	}
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // programs are for everybody on the machine to run
		return fmt.Errorf("open build folder to readers: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("publish build: %w", err)
	}
	_, err = fmt.Fprintf(out, "Control plane built in %s\n", time.Since(begin).Round(time.Second))
	return err
}

// build compiles one program into dir. The stamp is what "kubectl version" and
// the API server's /version tell.
func build(ctx context.Context, p program, v versions, dir string) error {
	ldflags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"} {
		for _, setting := range v.stamp() {
			ldflags = append(ldflags, "-X "+pkg+"."+setting)
		}
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", //nolint:gosec // arguments are this file's constants
		"-ldflags", strings.Join(ldflags, " "), "-o", filepath.Join(dir, p.name), p.pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("build %s: interrupted", p.name)
	}
	if err != nil {
		return fmt.Errorf("build %s: %w", p.name, err)
	}
	return nil
}

// exists reports whether a finished build is there. Its completeness follows
// from the rename at the end of buildAll.
func exists(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// lock takes the exclusive lock on the file name, waiting for its holder. The
// kernel drops the lock with the process, so a killed build blocks nobody.
func lock(name string, out io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // a cache folder of programs, readable like any other
		return nil, fmt.Errorf("make cache folder: %w", err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open build lock: %w", err)
	}
	fd := int(f.Fd())
	err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(out, "Another process builds the control plane; waiting for it …")
		err = syscall.Flock(fd, syscall.LOCK_EX)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}
