package up

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/instance"
)

// errEarlierCluster means that the data folder has a cluster whose disks the simulator has
// forgotten.
var errEarlierCluster = errors.New("simulated machines forget their disks when ingot up stops, and with them the cluster of the last start; delete the data folder or choose another one")

const (
	// clusterName is the name of the workload cluster and of everything in it.
	clusterName = "demo"
	// controlPlaneMachines is how many machines the control plane gets; the others become workers.
	controlPlaneMachines = 1
)

// clusterManifest has the objects of the cluster. It is a text/template whose delimiters differ
// from those of cloud-init.
//
//go:embed cluster.yaml
var clusterManifest string

// clusterValues are the values for the template of the manifest.
type clusterValues struct {
	Namespace, Name, Version string
	Host, Port               string // of the API server
	ControlPlane, Workers    int    // machines
	Image, Checksum          string
}

// workloadDir is the data folder of the workload cluster's control plane.
func (u *Up) workloadDir() string { return filepath.Join(u.opts.DataDir, "workload") }

// manifestOfCluster is the file with the workload cluster. It is written when the cluster is made.
func (u *Up) manifestOfCluster() string { return filepath.Join(u.opts.DataDir, clusterName+".yaml") }

// runInstance returns what the operating system of a machine does; nil if machines do not become
// Nodes.
func (u *Up) runInstance() func(context.Context, sim.Instance) {
	if !u.opts.ClusterAPI {
		return nil
	}
	if u.instances == nil {
		u.instances = instance.New(instance.Options{Heartbeat: u.opts.Heartbeat})
	}
	return u.instances.Run
}

// startWorkload starts the control plane of the workload cluster.
func (u *Up) startWorkload(ctx context.Context) (string, error) {
	if !u.opts.Cluster {
		return "", nil
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		DataDir: u.workloadDir(), Workload: &controlplane.WorkloadOptions{}, Volatile: u.opts.Volatile,
	})
	if err != nil {
		return "", err
	}
	u.onStop("workload API", func(context.Context) error { return plane.Stop() })
	u.watch("Workload API", plane.Failed())
	u.workload = plane
	return plane.Config().Host, nil
}

// makeCluster creates the objects of a workload cluster. Its Machines get the discovered hosts and
// join it.
func (u *Up) makeCluster(ctx context.Context) (string, error) {
	if !u.opts.Cluster {
		return "", nil
	}
	c, err := client.New(u.Config(), client.Options{})
	if err != nil {
		return "", fmt.Errorf("connect to the cluster at %s: %w", u.config.Host, err)
	}
	secrets, err := u.workload.ClusterSecrets(namespace, clusterName)
	if err != nil {
		return "", err
	}
	manifest, err := u.renderCluster()
	if err != nil {
		return "", err
	}
	// This comes before the first object, because openData refuses exactly those folders that have
	// this file.
	if err := os.WriteFile(u.manifestOfCluster(), manifest, 0o600); err != nil {
		return "", fmt.Errorf("write the manifest of the cluster: %w", err)
	}
	for _, secret := range secrets {
		if err := c.Create(ctx, secret); err != nil {
			return "", fmt.Errorf("create the Secret %s: %w", secret.Name, err)
		}
	}
	if err := createAll(ctx, c, manifest); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%s with %d machines", namespace, clusterName, u.opts.Machines), nil
}

// renderCluster returns the manifest of the cluster.
func (u *Up) renderCluster() ([]byte, error) {
	api, err := url.Parse(u.workload.Config().Host)
	if err != nil {
		return nil, fmt.Errorf("read the address of the workload cluster: %w", err)
	}
	t, err := template.New("cluster").Delims("[[", "]]").Parse(clusterManifest)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, clusterValues{
		Namespace: namespace, Name: clusterName, Version: "v" + controlplane.KubernetesVersion, Host: api.Hostname(), Port: api.Port(),
		ControlPlane: controlPlaneMachines, Workers: u.opts.Machines - controlPlaneMachines, Image: u.image, Checksum: u.imageSum,
	})
	return text.Bytes(), err
}

// createAll creates the objects of a manifest.
func createAll(ctx context.Context, c client.Client, manifest []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a manifest: %w", err)
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// readyNodes counts the Nodes of the workload cluster that are Ready.
func readyNodes(ctx context.Context, c client.Client) (int, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return 0, fmt.Errorf("list the Nodes of the workload cluster: %w", err)
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready, nil
}

// clusterHints returns commands to try with the workload cluster.
func (u *Up) clusterHints(kubectl string) string {
	if u.workload == nil {
		return ""
	}
	return fmt.Sprintf(`
The machines are Nodes of a workload cluster, whose objects are in %[2]s:

  %[1]s get cluster,kubeadmcontrolplane,machinedeployment,machine,metal3machine
  %[1]s --kubeconfig %[3]s get nodes -o wide
`, kubectl, u.manifestOfCluster(), u.workload.Kubeconfig())
}
