package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// writeKubeconfig writes one whose context prefers the namespace given.
func writeKubeconfig(t *testing.T, path, namespace string) {
	t.Helper()
	content := `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
 "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "` + namespace + `"}}]}`
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKubeconfigIsLookedForInOrder(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	t.Setenv("KUBECONFIG", "")
	own := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = filepath.Join(folder, "none")
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = own })

	if _, _, err := Connect(""); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("without any: %v, want to be told about --kubeconfig", err)
	}
	writeKubeconfig(t, UpKubeconfig, "of-up")
	if _, namespace, err := Connect(""); namespace != "of-up" || err != nil {
		t.Errorf("with that of ingot up: %q, %v", namespace, err)
	}
	writeKubeconfig(t, "env", "of-env")
	t.Setenv("KUBECONFIG", "env")
	if _, namespace, err := Connect(""); namespace != "of-env" || err != nil {
		t.Errorf("with KUBECONFIG: %q, %v", namespace, err)
	}
	writeKubeconfig(t, "flag", "of-flag")
	if reader, namespace, err := Connect("flag"); namespace != "of-flag" || err != nil || reader == nil {
		t.Errorf("with a flag: %q, %v", namespace, err)
	}
	if _, _, err := Connect("missing"); err == nil {
		t.Error("a missing file is no error")
	}
}
