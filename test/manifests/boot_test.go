package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ingot-metal/ingot/internal/engine"
)

// portsOf are the ports of the engine's Service, and of its container, by their names.
func portsOf(t *testing.T, all []*unstructured.Unstructured) (service, container map[string]any) {
	t.Helper()
	service, container = map[string]any{}, map[string]any{}
	for _, obj := range all {
		if obj.GetKind() != "Service" || obj.GetName() != "ingot-engine" {
			continue
		}
		ports, _, err := unstructured.NestedSlice(obj.Object, "spec", "ports")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			port, _ := p.(map[string]any)
			service[fmt.Sprint(port["targetPort"])] = port["port"]
		}
	}
	ports, _ := containerOf(t, engineOf(t, all), "engine")["ports"].([]any)
	for _, p := range ports {
		port, _ := p.(map[string]any)
		container[fmt.Sprint(port["name"])] = port["containerPort"]
	}
	return service, container
}

func TestChartOpensThePortsOfTheBootService(t *testing.T) {
	for name, tc := range map[string]struct {
		values []string
		want   map[string]any
	}{
		"without it":         {nil, map[string]any{"api": int64(6385)}},
		"with one address":   {[]string{"engine.bootPort=6386"}, map[string]any{"api": int64(6385), "boot": int64(6386)}},
		"with two addresses": {[]string{"engine.bootPort=6386", "engine.ipxePort=6387"}, map[string]any{"api": int64(6385), "boot": int64(6386), "ipxe": int64(6387)}},
	} {
		service, container := portsOf(t, rendered(t, namespace, tc.values...))
		if diff := cmp.Diff(tc.want, service); diff != "" {
			t.Errorf("%s: Service (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.want, container); diff != "" {
			t.Errorf("%s: container (-want +got):\n%s", name, diff)
		}
	}
}

// blockOf returns the example of docs/boot.md that begins like this.
func blockOf(t *testing.T, start string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "boot.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(" + regexp.QuoteMeta(start) + ".*?)```").FindStringSubmatch(string(page))
	if block == nil {
		t.Fatalf("the page has no example that begins with %q", start)
	}
	return block[1]
}

// TestEngineOfThePageServesMachinesOutsideTheCluster installs what docs/boot.md shows, with helm and with kustomize: both
// engines start with the configuration, which is the same, and their ports are open on the network of the Kubernetes node.
func TestEngineOfThePageServesMachinesOutsideTheCluster(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(blockOf(t, "engine:\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err == nil {
		root, err = filepath.Rel(overlay, root)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(blockOf(t, "resources: [../ingot/config/deploy]\n"), "../ingot/", root+"/")
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	configs := map[string]engine.Config{}
	for name, all := range map[string][]*unstructured.Unstructured{
		"helm":      objects(t, run(t, rendering(t, "--namespace", namespace, "--values", values))),
		"kustomize": built(t, overlay),
	} {
		want := map[string]any{"api": int64(6385), "boot": int64(6386)}
		service, container := portsOf(t, all)
		if diff := cmp.Diff([]map[string]any{want, want}, []map[string]any{service, container}); diff != "" {
			t.Errorf("%s: ports of Service and container (-want +got):\n%s", name, diff)
		}
		pod, _, _ := unstructured.NestedMap(engineOf(t, all).Object, "spec", "template", "spec")
		selected, _ := pod["nodeSelector"].(map[string]any)
		if pod["hostNetwork"] != true || pod["dnsPolicy"] != "ClusterFirstWithHostNet" || len(selected) != 1 {
			t.Errorf("%s: the pod has hostNetwork %v, dnsPolicy %v and nodeSelector %v", name, pod["hostNetwork"], pod["dnsPolicy"], selected)
		}
		configs[name] = configOf(t, all)
	}
	if diff := cmp.Diff(configs["helm"], configs["kustomize"]); diff != "" {
		t.Errorf("engines of helm and kustomize differ (-helm +kustomize):\n%s", diff)
	}
	if boot := configs["helm"].Boot; boot.Listen == "" || boot.Kernel == "" || boot.Ramdisk == "" || boot.BootLoader == "" {
		t.Errorf("the engine boots nothing: %+v", boot)
	}
}

// configOf is the configuration of the engine, as it reads it from its file and its environment.
func configOf(t *testing.T, all []*unstructured.Unstructured) engine.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "engine.yaml")
	for _, obj := range all {
		data, _, _ := unstructured.NestedStringMap(obj.Object, "data")
		if text, ok := data["engine.yaml"]; ok {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var environ []string
	env, _ := containerOf(t, engineOf(t, all), "engine")["env"].([]any)
	for _, v := range env {
		variable, _ := v.(map[string]any)
		environ = append(environ, fmt.Sprintf("%v=%v", variable["name"], variable["value"]))
	}
	config, err := engine.LoadConfig(engine.Sources{File: file, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	return config
}
