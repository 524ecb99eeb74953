// Package manifests checks the manifests of Ingot's installation against a real API server.
package manifests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
)

var plane = controlplanetest.New(controlplanetest.Options{})

func TestMain(m *testing.M) { os.Exit(plane.Run(m)) }

const namespace = "ingot-system"

// run returns what a command writes.
func run(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, &failure)
	}
	return out
}

// objects reads the documents of a rendered manifest.
func objects(t *testing.T, manifest []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(obj.Object) > 0 {
			all = append(all, obj)
		}
	}
}

// kustomized renders a folder of config with the kustomize that kubectl has.
func kustomized(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	return built(t, filepath.Join("..", "..", "config", folder))
}

// built renders any folder likewise.
func built(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	assets, err := controlplane.AssetsDir()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, run(t, exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "kustomize", folder)))
}

// warningRecorder collects warnings of the API server.
type warningRecorder struct {
	mu       sync.Mutex
	warnings []string
}

func (h *warningRecorder) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

// isAccepted applies objects at the API server without storing them. The server checks them as
// strictly as it can: fields that it does not know are errors, and so is what the
// restricted profile of pod security would refuse, unless the objects need more.
func isAccepted(t *testing.T, all []*unstructured.Unstructured, privileged bool) {
	t.Helper()
	config := plane.Config(t)
	var said warningRecorder
	config.WarningHandlerWithContext = &said
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	profile := "restricted"
	if privileged {
		profile = "privileged"
	}
	inNamespace(t, config, profile)
	for _, obj := range all {
		err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.DryRunAll, client.ForceOwnership, client.FieldOwner("manifests-test"))
		if err != nil {
			t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
	for _, w := range said.warnings {
		t.Errorf("warning: %s", w)
	}
}

// inNamespace makes the namespace of the objects, with a profile of pod security.
func inNamespace(t *testing.T, config *rest.Config, profile string) {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := c.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	before := ns.DeepCopy()
	ns.Labels = map[string]string{"pod-security.kubernetes.io/warn": profile}
	if err := c.Patch(t.Context(), ns, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// named lists objects as kind/name, in order.
func named(all []*unstructured.Unstructured) []string {
	var names []string
	for _, obj := range all {
		names = append(names, obj.GetKind()+"/"+obj.GetName())
	}
	slices.Sort(names)
	return names
}

func TestTheWholeInstallationIsAcceptedByTheAPIServer(t *testing.T) {
	all := kustomized(t, "deploy")
	for _, want := range []string{
		"CustomResourceDefinition/baremetalhosts.metal3.io", "ClusterRole/ingot-host", "ClusterRole/ingot-metrics-reader",
		"Deployment/ingot-host", "Deployment/ingot-discovery", "Deployment/ingot-firmware", "StatefulSet/ingot-engine", "Service/ingot-engine",
	} {
		if !slices.Contains(named(all), want) {
			t.Errorf("config/deploy has no %s", want)
		}
	}
	isAccepted(t, all, false)
}

func TestKindsAndRolesAloneAreAcceptedByTheAPIServer(t *testing.T) {
	isAccepted(t, kustomized(t, "."), false)
}
