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
	builder := exec.CommandContext(t.Context(), "go", "run", ".", "-path", "-cluster-api")
	builder.Dir = filepath.Join("..", "..", "tools", "controlplane")
	builder.Stderr = os.Stderr
	out, err := builder.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(out))
	dir, _ := AssetsDir()
	if got := filepath.Join(dir, clusterAPIFolder); got != want {
		t.Errorf("Cluster API is looked for in %s, but tools/controlplane builds it into %s", got, want)
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

func TestStartNeedsClusterAPIOnlyOnDemand(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, clusterAPIFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{etcdProgram, apiServerProgram, filepath.Join(clusterAPIFolder, clusterAPIManagers[0])} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := findAssets(Options{AssetsDir: dir}); err != nil {
		t.Errorf("without Cluster API: %v", err)
	}
	_, err := findAssets(Options{AssetsDir: dir, ClusterAPI: true})
	if !errors.Is(err, ErrNoAssets) || !strings.Contains(err.Error(), "make controller-manager") {
		t.Errorf("without kube-controller-manager: error = %v, want ErrNoAssets and how to get it", err)
	}
	if err := os.WriteFile(filepath.Join(dir, controllerManagerProgram), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = findAssets(Options{AssetsDir: dir, ClusterAPI: true})
	if !errors.Is(err, ErrNoAssets) || !strings.Contains(err.Error(), "make cluster-api") || !strings.Contains(err.Error(), clusterAPIManagers[1]) {
		t.Errorf("without a manager: error = %v, want ErrNoAssets and how to get it", err)
	}
}
