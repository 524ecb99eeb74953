package cluster

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Move moves the Cluster to another management cluster by clusterctl, as an administrator does.
func (c *Cluster) Move(tb testing.TB, to *Management) {
	tb.Helper()
	from := c.Management()
	for _, m := range []*Management{from, to} {
		labelDefinitions(tb, m)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), WaitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(root(tb), "tools", "clusterctl"), "tool", "clusterctl", //nolint:gosec // the arguments are the test's
		"move", "--namespace", c.Name, "--kubeconfig", from.Kubeconfig, "--to-kubeconfig", to.Kubeconfig)
	home := tb.TempDir()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "XDG_CONFIG_HOME="+home, "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	out, err := cmd.CombinedOutput()
	tb.Logf("clusterctl move:\n%s", out)
	if err != nil {
		tb.Fatal(err)
	}
	c.Kube = to.Kube
	c.Initialize(tb)
}

// root is the folder of the repository: the one above that of the test with the file go.mod.
func root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			tb.Fatal("the test does not run in the repository")
		}
		dir = above
	}
}

// labelDefinitions marks the definitions of Cluster API as those whose objects move, as "clusterctl init" does. Ingot's
// have the mark.
func labelDefinitions(tb testing.TB, m *Management) {
	tb.Helper()
	scheme, err := Scheme()
	if err != nil {
		tb.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	kube, err := client.New(m.Config, client.Options{Scheme: scheme})
	if err != nil {
		tb.Fatal(err)
	}
	var all apiextensionsv1.CustomResourceDefinitionList
	if err := kube.List(tb.Context(), &all); err != nil {
		tb.Fatal(err)
	}
	for _, crd := range all.Items {
		before := crd.DeepCopy()
		metav1.SetMetaDataLabel(&crd.ObjectMeta, "clusterctl.cluster.x-k8s.io", "")
		if !strings.HasSuffix(crd.Spec.Group, "cluster.x-k8s.io") {
			continue
		}
		if err := kube.Patch(tb.Context(), &crd, client.MergeFrom(before)); err != nil {
			tb.Fatal(err)
		}
	}
}

// PauseMachineSet has the only MachineSet of the Cluster make no Machines, or make them again.
func (c *Cluster) PauseMachineSet(tb testing.TB, paused bool) {
	tb.Helper()
	var sets clusterv1.MachineSetList
	if err := c.Kube.List(tb.Context(), &sets, client.InNamespace(c.Name)); err != nil {
		tb.Fatal(err)
	}
	if len(sets.Items) != 1 {
		tb.Fatalf("there are %d MachineSets, want 1", len(sets.Items))
	}
	Change(tb, c, &sets.Items[0], func(s *clusterv1.MachineSet) {
		delete(s.Annotations, clusterv1.PausedAnnotation)
		if paused {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, clusterv1.PausedAnnotation, "")
		}
	})
}

// PauseFree pauses a free host before a move, as an administrator does, and waits until its node is released.
func (c *Cluster) PauseFree(tb testing.TB, host string) {
	tb.Helper()
	c.ChangeHost(tb, host, func(h *v1alpha1.BareMetalHost) {
		status, err := json.Marshal(h.Status)
		if err != nil {
			tb.Error(err)
		}
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.PausedAnnotation, "moving")
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.StatusAnnotation, string(status))
	})
	c.HostShows(tb, host, "released", func(h *v1alpha1.BareMetalHost) bool {
		return h.Annotations[v1alpha1.ReleasedAnnotation] == v1alpha1.ReleaseOf(h.Annotations[v1alpha1.StatusAnnotation])
	})
}

// HasLeft fails the test unless nothing of the Cluster is left in the management cluster from which it moved.
func (c *Cluster) HasLeft(tb testing.TB, from client.Client) {
	tb.Helper()
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineList{}, &v1beta2.Metal3MachineList{}, &v1beta2.Metal3DataList{}, &v1alpha1.BareMetalHostList{},
	} {
		if err := from.List(tb.Context(), list, client.InNamespace(c.Name)); err != nil || meta.LenList(list) > 0 {
			tb.Errorf("left behind: %+v, %v", list, err)
		}
	}
}
