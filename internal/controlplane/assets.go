package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Versions of the programs. tools/controlplane/go.mod and tools/clusterapi/go.mod pin the same
// versions.
const (
	KubernetesVersion = "1.36.3"
	EtcdVersion       = "3.6.16"
	ClusterAPIVersion = "1.14.2"
)

// assetsVariable is the environment variable that names a folder of programs. controller-runtime's
// envtest reads the same variable.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Names of the programs in the assets folder.
const (
	etcdProgram              = "etcd"
	apiServerProgram         = "kube-apiserver"
	controllerManagerProgram = "kube-controller-manager"
	// clusterAPIFolder contains the managers of Cluster API and their manifests.
	clusterAPIFolder = "cluster-api-" + ClusterAPIVersion
)

// ErrNoAssets means that a program of the control plane is not installed.
var ErrNoAssets = errors.New("control plane is not installed")

// AssetsDir returns the folder with etcd, kube-apiserver and kubectl. It also has
// kube-controller-manager and Cluster API's managers, if they were needed before. The folder is the
// value of KUBEBUILDER_ASSETS if that is set, else the cache folder that tools/controlplane fills.
// If etcd or kube-apiserver is missing, the error wraps ErrNoAssets and says what to do.
func AssetsDir() (string, error) {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find cache folder: %w", err)
		}
		version := fmt.Sprintf("k8s-%s-etcd-%s", KubernetesVersion, EtcdVersion)
		dir = filepath.Join(cache, "ingot", "controlplane", version)
	}
	return dir, requireAssets(dir, etcdProgram, apiServerProgram)
}

// HasControllerManager reports whether kube-controller-manager is in the folder, too.
func HasControllerManager(dir string) bool {
	return requireAssets(dir, controllerManagerProgram) == nil
}

// requireAssets checks that each named program is a file in dir.
func requireAssets(dir string, names ...string) error {
	for _, name := range names {
		_, err := os.Stat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: no %s in %s; run `make %s` in Ingot's source tree, or set %s to a folder that has it",
				ErrNoAssets, name, dir, target(name), assetsVariable)
		case err != nil:
			return fmt.Errorf("look for %s: %w", name, err)
		}
	}
	return nil
}

// target returns the target of make that installs a program.
func target(name string) string {
	switch {
	case name == controllerManagerProgram:
		return "controller-manager"
	case filepath.Dir(name) == clusterAPIFolder:
		return "cluster-api"
	default:
		return "controlplane"
	}
}
