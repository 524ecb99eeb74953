// Package clusterctl_test reads the files of a release as clusterctl does.
package clusterctl_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
)

const (
	version = "v0.1.0"
	image   = "registry.example/ingot:v0.1.0"
)

// release makes the files of a release once, and returns their folder.
var release = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "ingot-release-")
	if err != nil {
		return "", err
	}
	return folder, makeRelease(version, folder)
})

// makeRelease writes the files of a version below a folder.
func makeRelease(version, folder string) error {
	out, err := exec.Command("make", "-C", "../..", "--no-print-directory", "release-manifests",
		"VERSION="+version, "IMAGE="+image, "RELEASE="+folder).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the release: %w\n%s", err, out)
	}
	return nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, err := release(); err == nil {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// needed are the variables of the template without a default.
var needed = map[string]string{
	"CONTROL_PLANE_ENDPOINT_HOST": "192.0.2.249",
	"IMAGE_URL":                   "https://images.example.org/node.qcow2",
	"IMAGE_CHECKSUM":              "https://images.example.org/node.qcow2.sha256",
	// clusterctl sets these from its flags.
	"CLUSTER_NAME": "edge", "NAMESPACE": "metal", "KUBERNETES_VERSION": "v1.36.3",
	"CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "2",
}

// open opens the release as a repository of clusterctl, with these variables set.
func open(t *testing.T, variables map[string]string) repository.Client {
	t.Helper()
	folder, err := release()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "clusterctl.yaml")
	text := fmt.Sprintf("providers:\n- name: ingot\n  type: InfrastructureProvider\n  url: %s\n",
		filepath.Join(folder, "infrastructure-ingot", version, "infrastructure-components.yaml"))
	for name, value := range variables {
		text += fmt.Sprintf("%s: %q\n", name, value)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.New(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := cfg.Providers().Get("ingot", clusterctlv1.InfrastructureProviderType)
	if err != nil {
		t.Fatal(err)
	}
	client, err := repository.New(t.Context(), provider, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// names are kind and name of objects.
func names(objs []unstructured.Unstructured) []string {
	var all []string
	for _, o := range objs {
		all = append(all, o.GetKind()+" "+o.GetName())
	}
	slices.Sort(all)
	return all
}

func TestReleaseFollowsTheContract(t *testing.T) {
	client := open(t, nil)
	if got := client.DefaultVersion(); got != version {
		t.Errorf("the version is %s, want %s", got, version)
	}
	metadata, err := client.Metadata(version).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range metadata.ReleaseSeries {
		if series.Major == 0 && series.Minor == 1 && series.Contract == clusterv1.GroupVersion.Version {
			return
		}
	}
	t.Errorf("no series of %s has the contract %s: %v", version, clusterv1.GroupVersion.Version, metadata.ReleaseSeries)
}

func TestVersionOfASeriesThatClusterctlWouldNotKnowIsRefused(t *testing.T) {
	for _, unknown := range []string{"v0.2.0", "v0.10.0", "v1.1.0"} {
		folder := t.TempDir()
		err := makeRelease(unknown, folder)
		if err == nil || !strings.Contains(err.Error(), "does not have the series of "+unknown) {
			t.Errorf("%s: error = %v", unknown, err)
		}
		if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
			t.Errorf("%s: there are %d files, %v", unknown, len(files), err)
		}
	}
}

func TestComponentsCanBeInstalledInAnyNamespace(t *testing.T) {
	client := open(t, map[string]string{"INGOT_ENGINE_URL": "https://engine.example:6385"})
	components, err := client.Components().Get(t.Context(), repository.ComponentsOptions{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	if got := components.TargetNamespace(); got != "ingot-system" {
		t.Errorf("the namespace is %s", got)
	}
	if got := slices.Compact(components.Images()); !slices.Equal(got, []string{image}) {
		t.Errorf("the images are %v, want %s", got, image)
	}
	want := []string{"INGOT_ENGINE_URL"}
	for name := range variablesOfTheOperator(t) {
		want = append(want, name)
	}
	slices.Sort(want)
	if got := components.Variables(); !slices.Equal(got, want) {
		t.Errorf("the variables are %v, want %v; text in a description must not look like one", got, want)
	}
	text, err := components.Yaml()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "IRONIC_ENDPOINT: https://engine.example:6385") {
		t.Error("the URL of the engine is not in the ConfigMap")
	}
	for _, o := range components.Objs() {
		labels := o.GetLabels()
		switch o.GetKind() {
		case "StatefulSet", "PersistentVolumeClaim", "Secret":
			t.Errorf("%s %s would be deleted by an upgrade with clusterctl, with what is in it", o.GetKind(), o.GetName())
		case "CustomResourceDefinition":
			if _, moves := labels[clusterctlv1.ClusterctlLabel]; !moves {
				t.Errorf("%s has no label of clusterctl", o.GetName())
			}
			if strings.HasSuffix(o.GetName(), ".infrastructure.cluster.x-k8s.io") && labels["cluster.x-k8s.io/v1beta2"] != "v1beta2" {
				t.Errorf("%s does not say which version follows the contract", o.GetName())
			}
		}
	}

	elsewhere, err := client.Components().Get(t.Context(), repository.ComponentsOptions{Version: version, TargetNamespace: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	text, err = elsewhere.Yaml()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.Contains(line, "ingot-system") && !strings.Contains(line, "https://") {
			t.Errorf("in another namespace: %s", strings.TrimSpace(line))
		}
	}
}

// variablesOfTheOperator are the environment variables in the table of the page about the operator, with their defaults as
// the table has them: without those that the manifests set, and the URL of the engine, whose variable has another name here.
func variablesOfTheOperator(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operator.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--[a-z-]+` \\| `([A-Z0-9_]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		all[row[1]] = row[2]
	}
	for _, name := range []string{"KUBECONFIG", "POD_NAMESPACE", "IRONIC_CACERT_FILE"} {
		if _, there := all[name]; !there {
			t.Errorf("the table has no %s", name)
		}
		delete(all, name)
	}
	if len(all) < 10 {
		t.Errorf("the table has only %v", all)
	}
	return all
}

// settings are what the ConfigMap of the operator has when clusterctl has these variables.
func settings(t *testing.T, variables map[string]string) map[string]string {
	t.Helper()
	components, err := open(t, variables).Components().Get(t.Context(), repository.ComponentsOptions{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range components.Objs() {
		if o.GetKind() == "ConfigMap" && o.GetName() == "ingot-operator" {
			data, _, err := unstructured.NestedStringMap(o.Object, "data")
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
	}
	t.Fatal("there is no ConfigMap of the operator")
	return nil
}

// TestVariablesOfTheOperatorAreThoseOfClusterctl holds because clusterctl makes the ConfigMap anew at each upgrade. What is
// empty there is the default for the operator.
func TestVariablesOfTheOperatorAreThoseOfClusterctl(t *testing.T) {
	known, unset := variablesOfTheOperator(t), settings(t, nil)
	set := map[string]string{}
	for name, value := range known {
		got, there := unset[name]
		if !there || got != "" && got != strings.TrimSuffix(value, "s") {
			t.Errorf("%s is %q (%t) by default, want the operator's default: %s", name, got, there, value)
		}
		set[name] = "racks"
		if got != "" {
			set[name] = "7" // a number there, which has to remain a string
		}
	}
	changed := settings(t, set)
	for name, want := range set {
		if changed[name] != want {
			t.Errorf("%s is %q, although clusterctl has %q", name, changed[name], want)
		}
	}
}

func TestTemplatesAreComplete(t *testing.T) {
	for flavor, want := range map[string][]string{
		"": {
			"Cluster edge", "KubeadmConfigTemplate edge-workers", "KubeadmControlPlane edge-control-plane", "MachineDeployment edge-workers",
			"MachineHealthCheck edge-workers", "Metal3Cluster edge", "Metal3DataTemplate edge", "Metal3MachineTemplate edge-control-plane",
			"Metal3MachineTemplate edge-workers", "Metal3RemediationTemplate edge",
		},
		"topology": {"Cluster edge", "Metal3DataTemplate edge"},
	} {
		template, err := open(t, needed).Templates(version).Get(t.Context(), flavor, "metal", false)
		if err != nil {
			t.Fatalf("flavor %q: %v", flavor, err)
		}
		if got := names(template.Objs()); !slices.Equal(got, want) {
			t.Errorf("flavor %q has\n%s\nwant\n%s", flavor, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, o := range template.Objs() {
			if o.GetNamespace() != "metal" {
				t.Errorf("flavor %q: %s %s is in namespace %q", flavor, o.GetKind(), o.GetName(), o.GetNamespace())
			}
		}
		for name := range needed {
			if name == "NAMESPACE" {
				continue // clusterctl puts all objects there
			}
			if !slices.Contains(template.Variables(), name) {
				t.Errorf("flavor %q does not use %s", flavor, name)
			}
			without := map[string]string{}
			for other, value := range needed {
				if other != name {
					without[other] = value
				}
			}
			if _, err := open(t, without).Templates(version).Get(t.Context(), flavor, "metal", false); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("flavor %q without %s: error = %v, want one that names it", flavor, name, err)
			}
		}
	}
}

func TestClusterClassHasNoVariablesOfItsOwn(t *testing.T) {
	class, err := open(t, nil).ClusterClasses(version).Get(t.Context(), "ingot", "metal", false)
	if err != nil {
		t.Fatal(err)
	}
	if got := class.Variables(); len(got) != 0 {
		t.Errorf("the ClusterClass has the variables %v, and so could not serve several clusters", got)
	}
	want := []string{
		"ClusterClass ingot", "KubeadmConfigTemplate ingot-workers", "KubeadmControlPlaneTemplate ingot", "Metal3ClusterTemplate ingot",
		"Metal3MachineTemplate ingot-control-plane", "Metal3MachineTemplate ingot-workers", "Metal3RemediationTemplate ingot",
	}
	if got := names(class.Objs()); !slices.Equal(got, want) {
		t.Errorf("it has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
