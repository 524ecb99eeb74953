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
}

// readVersions asks the go command, which must run inside this module.
func readVersions(ctx context.Context) (versions, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", kubernetesModule, etcdModule)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return versions{}, fmt.Errorf("read versions of the control plane: %w", err)
	}
	fields := strings.Fields(string(out))
	if len(fields) != 2 {
		return versions{}, fmt.Errorf("read versions of the control plane: go list answered %q", out)
	}
	return versions{
		kubernetes: strings.TrimPrefix(fields[0], "v"),
		etcd:       strings.TrimPrefix(fields[1], "v"),
	}, nil
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

// stamp returns linker settings, name=value, for Kubernetes' version packages.
func (v versions) stamp() []string {
	major, rest, _ := strings.Cut(v.kubernetes, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return []string{
		"gitVersion=v" + v.kubernetes,
		"gitMajor=" + major,
		"gitMinor=" + minor,
		"gitTreeState=clean",
	}
}
