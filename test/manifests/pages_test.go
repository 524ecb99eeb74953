package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCommandsOfThePagesNameOneFolder holds because kubectl applies only the last of several.
func TestCommandsOfThePagesNameOneFolder(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, file := range append(files, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, command := range strings.Split(line, "kubectl ")[1:] {
				folders := strings.Count(command, " -k ")
				if folders > 1 {
					t.Errorf("%s: kubectl %s", filepath.Base(file), command)
				}
				commands += folders
			}
		}
	}
	if commands == 0 {
		t.Error("no page has a command with a folder")
	}
}

// TestBackupsOfThePageAreThoseOfTheEngineOfTheManifests compares folder, claim and user of the commands with the StatefulSet's.
func TestBackupsOfThePageAreThoseOfTheEngineOfTheManifests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	backup := regexp.MustCompile(`exec (\S+)-0 -c (\S+) -- ingot engine backup (\S+) --data (\S+)`).FindStringSubmatch(string(text))
	manifest := regexp.MustCompile("(?s)```yaml\n(apiVersion: v1\nkind: Pod\n.*?)```").FindStringSubmatch(string(text))
	if backup == nil || manifest == nil {
		t.Fatal("the page has no command that takes a backup, or no pod that restores one")
	}
	engine, pod := engineOf(t, kustomized(t, "engine")), objects(t, []byte(manifest[1]))[0]
	running := containerOf(t, engine, backup[2])
	args, _, _ := unstructured.NestedStringSlice(running, "args")
	if engine.GetName() != backup[1] || !slices.Contains(args, "--data="+backup[4]) {
		t.Errorf("%q is not of %s with %q", backup[0], engine.GetName(), args)
	}
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	if len(containers) != 1 {
		t.Fatalf("the pod has %d containers", len(containers))
	}
	restoring := containers[0].(map[string]any)
	args, _, _ = unstructured.NestedStringSlice(restoring, "args")
	if want := []string{"engine", "restore", backup[3], "--data=" + backup[4]}; !slices.Equal(args, want) {
		t.Errorf("the pod runs %q, want %q", args, want)
	}
	mounts, _, _ := unstructured.NestedSlice(restoring, "volumeMounts")
	of, _, _ := unstructured.NestedSlice(running, "volumeMounts")
	if len(mounts) != 1 || !cmp.Equal(mounts[0], of[0]) {
		t.Errorf("the pod mounts %v, and the engine %v", mounts, of)
	}
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	want := []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data-" + engine.GetName() + "-0"}}}
	if diff := cmp.Diff(want, volumes); diff != "" {
		t.Errorf("volumes of the pod (-want +got):\n%s", diff)
	}
	user, _, _ := unstructured.NestedMap(pod.Object, "spec", "securityContext")
	same, _, _ := unstructured.NestedMap(engine.Object, "spec", "template", "spec", "securityContext")
	if diff := cmp.Diff(same, user); diff != "" {
		t.Errorf("the pod runs as another user (-engine +pod):\n%s", diff)
	}
	isAccepted(t, []*unstructured.Unstructured{pod}, false)
}
