package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// manager is one of Cluster API's managers. Its manifests lie beside it, under its name
// and ".yaml".
type manager struct {
	name   string // of its program, as its published container image is called
	folder string // of its main package and its manifests in the module
}

// managers are those that make clusters with kubeadm.
var managers = []manager{
	{"cluster-api-controller", "core"},
	{"kubeadm-bootstrap-controller", "bootstrap/kubeadm"},
	{"kubeadm-control-plane-controller", "controlplane/kubeadm"},
}

// program is what the manager is built from.
func (m manager) program() program {
	return program{name: m.name, pkg: clusterAPIModule + "/" + m.folder, from: clusterAPISource}
}

// addClusterAPI adds the folder of Cluster API's managers and their manifests.
func addClusterAPI(v versions) addition {
	return addition{
		name: v.clusterAPIFolder(),
		make: func(ctx context.Context, i installer, dir string) error {
			dir = filepath.Join(dir, v.clusterAPIFolder())
			if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // programs are for everybody on the machine to run
				return fmt.Errorf("make folder of Cluster API: %w", err)
			}
			i.say("Building Cluster API %s (once per machine, some minutes)", v.clusterAPI)
			begin := time.Now()
			for n, m := range managers {
				if err := i.buildOne(ctx, m.program(), dir, n+1, len(managers)); err != nil {
					return err
				}
				if err := i.render(ctx, filepath.Join(i.dir, "kubectl"), m, filepath.Join(dir, m.name+".yaml")); err != nil {
					return fmt.Errorf("render manifests of %s: %w", m.name, err)
				}
			}
			i.say("Cluster API %s is ready after %s", v.clusterAPI, time.Since(begin).Round(time.Second))
			return nil
		},
	}
}

// render writes what Cluster API's releases install with a manager: its CRDs, roles and
// webhook configurations. They are in the module from which the manager was built.
func render(ctx context.Context, kubectl string, m manager, file string) error {
	dir, err := listModules(ctx, clusterAPISource, "{{.Dir}}", clusterAPIModule)
	if err != nil {
		return err
	}
	config := filepath.Join(dir[0], filepath.FromSlash(m.folder), "config", "default")
	return runCommand(exec.CommandContext(ctx, kubectl, "kustomize", config, "-o", file)) //nolint:gosec // the installed kubectl
}
