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
	writeKubeconfigOf(t, path, namespace, "{}")
}

// writeKubeconfigOf writes one whose user is given as JSON.
func writeKubeconfigOf(t *testing.T, path, namespace, user string) {
	t.Helper()
	content := `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
 "users": [{"name": "u", "user": ` + user + `}],
 "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "` + namespace + `"}}]}`
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

// TestKubeconfigThatNobodyNamedRunsNoCommand has a kubeconfig in the current folder, which may have
// come with an archive.
func TestKubeconfigThatNobodyNamedRunsNoCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "")
	if err := os.WriteFile("secret", []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, user := range map[string]string{
		"a command":         `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "true", "interactiveMode": "Never"}}`,
		"a provider":        `{"auth-provider": {"name": "oidc"}}`,
		"a file of a token": `{"tokenFile": "../secret"}`,
	} {
		writeKubeconfigOf(t, UpKubeconfig, "of-up", user)
		if _, _, err := Connect(""); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	writeKubeconfigOf(t, UpKubeconfig, "of-up", `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "true", "interactiveMode": "Never"}}`)
	if _, namespace, err := Connect(UpKubeconfig); namespace != "of-up" || err != nil {
		t.Errorf("named by the user: %q, %v", namespace, err)
	}
}
