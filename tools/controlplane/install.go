package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// building separates the name of a folder from that of an unfinished one beside it.
const building = ".building-"

// installer fills the cache folder of some versions.
type installer struct {
	dir      string
	versions versions
	// fetch puts published programs into a folder; nil means that there are none to use.
	fetch func(ctx context.Context, v versions, dir string) error
	build func(ctx context.Context, p program, v versions, dir string) error
	// render writes the manifests of a manager of Cluster API into a file, with a kubectl.
	render func(ctx context.Context, kubectl string, m manager, file string) error
	out    io.Writer
}

// addition is a file or folder that is made among the programs only on demand.
type addition struct {
	name string
	make func(ctx context.Context, i installer, dir string) error // makes it in dir
}

// addControllerManager adds kube-controller-manager.
var addControllerManager = addition{
	name: controllerManager.name,
	make: func(ctx context.Context, i installer, dir string) error {
		return i.buildOne(ctx, controllerManager, dir, 1, 1)
	},
}

// install gets the programs that every control plane needs, and the wanted additions,
// unless they are there.
func (i installer) install(ctx context.Context, wanted ...addition) error {
	done := func() bool {
		return exists(i.dir) && !slices.ContainsFunc(wanted, func(a addition) bool { return !exists(filepath.Join(i.dir, a.name)) })
	}
	if done() {
		return nil
	}
	unlock, err := lock(i.dir+".lock", i.out)
	if err != nil {
		return err
	}
	defer unlock()
	if done() {
		return nil // by the process that held the lock
	}
	if !exists(i.dir) {
		if err := i.publish(ctx); err != nil {
			return err
		}
	}
	for _, a := range wanted {
		if err := i.add(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// unfinished removes what installations that were killed have left behind, and makes a
// folder beside the final one.
func (i installer) unfinished() (string, error) {
	leftovers, err := filepath.Glob(i.dir + building + "*")
	if err != nil {
		return "", fmt.Errorf("list unfinished builds beside %s: %w", i.dir, err)
	}
	for _, l := range leftovers {
		if err := os.RemoveAll(l); err != nil {
			return "", fmt.Errorf("remove unfinished build: %w", err)
		}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(i.dir), filepath.Base(i.dir)+building)
	if err != nil {
		return "", fmt.Errorf("make build folder: %w", err)
	}
	return tmp, nil
}

// publish gets every program into an unfinished folder and then gives that folder
// its final name. The caller holds the lock.
func (i installer) publish(ctx context.Context) error {
	tmp, err := i.unfinished()
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // after the rename there is nothing left to remove
	begin := time.Now()
	missing, err := i.download(ctx, tmp)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		i.say("Building into %s (once per machine, some minutes)", i.dir)
	}
	for n, p := range missing {
		if err := i.buildOne(ctx, p, tmp, n+1, len(missing)); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // programs are for everybody on the machine to run
		return fmt.Errorf("open build folder to readers: %w", err)
	}
	if err := os.Rename(tmp, i.dir); err != nil {
		return fmt.Errorf("publish build: %w", err)
	}
	i.say("Kubernetes %s and etcd %s are in %s after %s", i.versions.kubernetes, i.versions.etcd, i.dir, time.Since(begin).Round(time.Second))
	return nil
}

// download gets published programs into dir and returns those that have to be built.
// It says why in a sentence.
func (i installer) download(ctx context.Context, dir string) (missing []program, err error) {
	if i.fetch == nil {
		return programs, nil
	}
	i.say("Looking for published programs of Kubernetes %s …", i.versions.kubernetes)
	err = i.fetch(ctx, i.versions, dir)
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	if err != nil {
		i.say("There are none to use: %v", err)
		return programs, nil
	}
	for _, p := range programs {
		err := checkVersion(ctx, p, i.versions, dir)
		if err == nil {
			continue
		}
		i.say("%s has to be built: %v", p.name, err)
		if err := os.RemoveAll(filepath.Join(dir, p.name)); err != nil {
			return nil, fmt.Errorf("remove a program of another version: %w", err)
		}
		missing = append(missing, p)
	}
	return missing, nil
}

// add makes an addition, unless it is there, and then moves it to the published folder.
// The caller holds the lock.
func (i installer) add(ctx context.Context, a addition) error {
	if exists(filepath.Join(i.dir, a.name)) {
		return nil
	}
	tmp, err := i.unfinished()
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // the next installation removes it, too
	if err := a.make(ctx, i, tmp); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, a.name), filepath.Join(i.dir, a.name)); err != nil {
		return fmt.Errorf("publish %s: %w", a.name, err)
	}
	return nil
}

// buildOne builds the n-th of several programs.
func (i installer) buildOne(ctx context.Context, p program, dir string, n, of int) error {
	i.say("[%d/%d] %s …", n, of, p.name)
	start := time.Now()
	if err := i.build(ctx, p, i.versions, dir); err != nil {
		return err
	}
	i.say("[%d/%d] %s built in %s", n, of, p.name, time.Since(start).Round(time.Second))
	return nil
}

// say writes a line of progress.
func (i installer) say(format string, args ...any) { fmt.Fprintf(i.out, format+"\n", args...) }

// exists reports whether a file or folder is there. Those of the installer are complete,
// because they get their names last.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
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
		fmt.Fprintln(out, "Another process gets the control plane; waiting for it …")
		err = syscall.Flock(fd, syscall.LOCK_EX)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}
