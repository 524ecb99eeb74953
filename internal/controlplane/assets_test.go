package controlplane

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAssetsDirIsWhereTheProgramsAreBuilt(t *testing.T) {
	t.Setenv(assetsVariable, "")
	builder := exec.CommandContext(t.Context(), "go", "run", ".", "-path")
	builder.Dir = filepath.Join("..", "..", "tools", "controlplane")
	builder.Stderr = os.Stderr
	out, err := builder.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(out))
	if got, _ := AssetsDir(); got != want {
		t.Errorf("AssetsDir() = %s, but tools/controlplane builds into %s", got, want)
	}
}

func TestAssetsDirPrefersTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{etcdProgram, apiServerProgram} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(assetsVariable, dir)
	got, err := AssetsDir()
	if err != nil || got != dir {
		t.Errorf("AssetsDir() = %q, %v, want %q", got, err, dir)
	}
}

func TestAssetsDirSaysHowToBuildWhatIsMissing(t *testing.T) {
	t.Setenv(assetsVariable, "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := AssetsDir()
	if !errors.Is(err, ErrNoAssets) {
		t.Fatalf("AssetsDir() error = %v, want ErrNoAssets", err)
	}
	for _, want := range []string{"etcd", dir, "make controlplane", assetsVariable} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not mention %q", err, want)
		}
	}
}

func TestStartNeedsTheControllerManagerOnlyOnDemand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{etcdProgram, apiServerProgram} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := findAssets(Options{AssetsDir: dir}); err != nil {
		t.Errorf("without controller manager: %v", err)
	}
	_, err := findAssets(Options{AssetsDir: dir, ControllerManager: true})
	if !errors.Is(err, ErrNoAssets) || !strings.Contains(err.Error(), "make controller-manager") {
		t.Errorf("with controller manager: error = %v, want ErrNoAssets and how to get it", err)
	}
	if HasControllerManager(dir) {
		t.Error("a folder without kube-controller-manager is said to have it")
	}
	if err := os.WriteFile(filepath.Join(dir, controllerManagerProgram), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if !HasControllerManager(dir) {
		t.Error("a folder with kube-controller-manager is said to lack it")
	}
}
