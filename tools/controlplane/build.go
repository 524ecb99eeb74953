package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The modules that carry the versions.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	clusterAPIModule = "sigs.k8s.io/cluster-api"
)

// program is one executable of the control plane.
type program struct {
	name string // file name in the cache folder
	pkg  string // main package, listed as a tool in the go.mod of its source
	from source
	// ask are the arguments that make it tell its version, and answer is the line
	// that tells it.
	ask    []string
	answer func(versions) string
}

// programs are those that every control plane needs.
var programs = []program{
	{
		"etcd", etcdModule, kubernetesSource,
		[]string{"--version"},
		func(v versions) string { return "etcd Version: " + v.etcd },
	},
	{
		"kube-apiserver", kubernetesModule + "/cmd/kube-apiserver", kubernetesSource,
		[]string{"--version"},
		func(v versions) string { return "Kubernetes v" + v.kubernetes },
	},
	{
		"kubectl", kubernetesModule + "/cmd/kubectl", kubernetesSource,
		[]string{"version", "--client"},
		func(v versions) string { return "Client Version: v" + v.kubernetes },
	},
}

// controllerManager is only for control planes that collect garbage and end
// namespaces.
var controllerManager = program{
	name: "kube-controller-manager", pkg: kubernetesModule + "/cmd/kube-controller-manager", from: kubernetesSource,
}

// source is what a program is built from.
type source struct {
	module  string   // folder of the module whose go.mod pins it, seen from this one
	stamped []string // packages that have variables for the version
	version func(versions) string
}

var (
	kubernetesSource = source{
		module:  ".",
		stamped: []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"},
		version: func(v versions) string { return v.kubernetes },
	}
	clusterAPISource = source{
		module:  "../clusterapi",
		stamped: []string{clusterAPIModule + "/version"},
		version: func(v versions) string { return v.clusterAPI },
	}
)

// build compiles one program into dir. The stamp is what "kubectl version", the
// API server's /version and the logs of Cluster API's managers tell.
func build(ctx context.Context, p program, v versions, dir string) error {
	ldflags := []string{"-s", "-w"}
	for _, pkg := range p.from.stamped {
		for _, setting := range stamp(p.from.version(v)) {
			ldflags = append(ldflags, "-X "+pkg+"."+setting)
		}
	}
	cmd := exec.CommandContext(ctx, "go", "-C", p.from.module, "build", "-trimpath", //nolint:gosec // arguments are this file's constants
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

// versionTimeout bounds how long a program may take to tell its version.
const versionTimeout = 20 * time.Second

// checkVersion returns an error unless the program in dir says that it is of the
// wanted version.
func checkVersion(ctx context.Context, p program, v versions, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, p.name), p.ask...).Output() //nolint:gosec // its checksum was verified
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", p.name, err)
	}
	want := p.answer(v)
	for line := range strings.Lines(string(out)) {
		if strings.TrimSpace(line) == want {
			return nil
		}
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return fmt.Errorf("the published %s says %q, where %q is wanted", p.name, first, want)
}
