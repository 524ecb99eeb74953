package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// versions are the releases that go.mod asks for, without the leading "v".
type versions struct {
	kubernetes string
	etcd       string
	clusterAPI string // empty unless it is wanted
}

// readVersions asks the go command, which must run inside this module.
func readVersions(ctx context.Context, withClusterAPI bool) (versions, error) {
	found, err := listModules(ctx, kubernetesSource, "{{.Version}}", kubernetesModule, etcdModule)
	if err != nil {
		return versions{}, fmt.Errorf("read versions of the control plane: %w", err)
	}
	v := versions{
		kubernetes: strings.TrimPrefix(found[0], "v"),
		etcd:       strings.TrimPrefix(found[1], "v"),
	}
	if !withClusterAPI {
		return v, nil
	}
	if found, err = listModules(ctx, clusterAPISource, "{{.Version}}", clusterAPIModule); err != nil {
		return versions{}, fmt.Errorf("read version of Cluster API: %w", err)
	}
	v.clusterAPI = strings.TrimPrefix(found[0], "v")
	return v, nil
}

// listModules returns the field of each module that the template names.
func listModules(ctx context.Context, from source, template string, modules ...string) ([]string, error) {
	args := append([]string{"-C", from.module, "list", "-m", "-f", template}, modules...)
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments are constants
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(modules) {
		return nil, fmt.Errorf("go list answered %q", out)
	}
	return lines, nil
}

// dir is the cache folder of these versions. Ingot finds it by the same rule
// (internal/controlplane, AssetsDir).
func (v versions) dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(cache, "ingot", "controlplane", fmt.Sprintf("k8s-%s-etcd-%s", v.kubernetes, v.etcd)), nil
}

// clusterAPIFolder is the name of the folder of Cluster API's managers and manifests
// among the other programs. Ingot has the same rule.
func (v versions) clusterAPIFolder() string { return "cluster-api-" + v.clusterAPI }

// stamp returns linker settings, name=value, for the version packages of Kubernetes and
// Cluster API.
func stamp(version string) []string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return []string{
		"gitVersion=v" + version,
		"gitMajor=" + major,
		"gitMinor=" + minor,
		"gitTreeState=clean",
	}
}
