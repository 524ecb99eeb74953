package manifests

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// imagesOf are the images of all containers, each once.
func imagesOf(t *testing.T, all []*unstructured.Unstructured) []string {
	t.Helper()
	var images []string
	for _, obj := range all {
		for _, field := range []string{"initContainers", "containers"} {
			containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", field)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range containers {
				image, _, err := unstructured.NestedString(c.(map[string]any), "image")
				if err != nil {
					t.Fatal(err)
				}
				images = append(images, image)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// TestEachFolderAppliedAloneRunsTheImageOfTheWholeInstallation holds because an image without a tag would be the latest
// of a public registry.
func TestEachFolderAppliedAloneRunsTheImageOfTheWholeInstallation(t *testing.T) {
	whole := imagesOf(t, kustomized(t, "deploy"))
	if len(whole) != 1 || !strings.Contains(whole[0], ":") {
		t.Fatalf("config/deploy runs %v, want one image with a tag", whole)
	}
	for _, pattern := range []string{"*", "clusterapi/*"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "config", pattern, "kustomization.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d folders, %v", pattern, len(files), err)
		}
		for _, file := range files {
			folder := filepath.Join(filepath.Dir(pattern), filepath.Base(filepath.Dir(file)))
			if images := imagesOf(t, kustomized(t, folder)); len(images) > 0 && !slices.Equal(images, whole) {
				t.Errorf("config/%s runs %v, and config/deploy %v", folder, images, whole)
			}
		}
	}
}
