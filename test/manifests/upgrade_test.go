package manifests

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
)

// TestKindsThatHelmInstalledAreUpdatedByTheCommandOfThePage installs definitions of an earlier version as helm does,
// and writes into one of them as the operator does.
func TestKindsThatHelmInstalledAreUpdatedByTheCommandOfThePage(t *testing.T) {
	// It has none of Ingot's kinds at first.
	own := controlplanetest.Start(t, controlplanetest.Options{CRDs: fstest.MapFS{"machines.yaml": {Data: []byte(machines)}}})
	config := own.Config()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(chart(t), "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the chart has %d definitions, %v", len(files), err)
	}
	var wanted []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		wanted = append(wanted, objects(t, text)...)
	}
	converted := 0
	for _, want := range wanted {
		crd := want.DeepCopy()
		describe(t, crd, "What an earlier version said.")
		if err := c.Create(t.Context(), crd, client.FieldOwner("helm")); err != nil {
			t.Fatalf("create %s: %v", crd.GetName(), err)
		}
		if _, there, _ := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook"); !there {
			continue
		}
		converted++
		before := crd.DeepCopy()
		set(t, crd, base64.StdEncoding.EncodeToString(config.CAData), "caBundle")
		set(t, crd, "elsewhere", "service", "namespace")
		if err := c.Patch(t.Context(), crd, client.MergeFrom(before), client.FieldOwner("ingot")); err != nil {
			t.Fatalf("write the authority into %s: %v", crd.GetName(), err)
		}
	}
	if converted == 0 {
		t.Error("no definition has a conversion")
	}

	runCommandOfThePage(t, own.Kubeconfig())

	for _, want := range wanted {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(want.GroupVersionKind())
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
			t.Fatal(err)
		}
		if described(t, got) != described(t, want) {
			t.Errorf("%s is described as before", want.GetName())
		}
		if _, there, _ := unstructured.NestedMap(want.Object, "spec", "conversion", "webhook"); there {
			if bundle, _, _ := unstructured.NestedString(got.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle"); bundle == "" {
				t.Errorf("%s has lost the authority that the operator wrote", want.GetName())
			}
		}
	}
}

// runCommandOfThePage runs the command with which the page about the operator updates the kinds.
func runCommandOfThePage(t *testing.T, kubeconfig string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operator.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("`kubectl (apply [^`]*charts/ingot/crds)`").FindSubmatch(page)
	if command == nil {
		t.Fatal("the page has no command that applies charts/ingot/crds")
	}
	assets, err := controlplane.AssetsDir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), strings.Fields(string(command[1]))...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir()) // it keeps a cache there
	run(t, cmd)
}

// describe gives the newest version of a definition another description.
func describe(t *testing.T, crd *unstructured.Unstructured, text string) {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(versions[0].(map[string]any), text, "schema", "openAPIV3Schema", "description"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
}

func described(t *testing.T, crd *unstructured.Unstructured) string {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := unstructured.NestedString(versions[0].(map[string]any), "schema", "openAPIV3Schema", "description")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// set writes a field of the client configuration with which the API server converts a kind.
func set(t *testing.T, crd *unstructured.Unstructured, value string, fields ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(crd.Object, value, append([]string{"spec", "conversion", "webhook", "clientConfig"}, fields...)...); err != nil {
		t.Fatal(err)
	}
}
