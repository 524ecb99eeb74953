package instance_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/sim/instance"
)

// oneCluster has a machine of the control plane and a worker. Its arguments are the host and the
// port of the endpoint.
const oneCluster = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3MachineTemplate
metadata: {name: one}
spec: {template: {spec: {image: {url: http://a/b, checksum: http://a/c}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: one}
spec:
  template:
    spec:
      joinConfiguration:
        nodeRegistration:
          name: '{{ ds.meta_data.name }}'
          kubeletExtraArgs:
          - {name: provider-id, value: 'metal3://{{ ds.meta_data.providerid }}'}
          - {name: node-labels, value: 'metal3.io/uuid={{ ds.meta_data.uuid }}'}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: one}
spec:
  replicas: 1
  version: v1.36.3
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: one}
  kubeadmConfigSpec:
    clusterConfiguration:
      etcd:
        external:
          endpoints: ["https://127.0.0.1:2379"]
          caFile: /etc/kubernetes/pki/etcd/ca.crt
          certFile: /etc/kubernetes/pki/apiserver-etcd-client.crt
          keyFile: /etc/kubernetes/pki/apiserver-etcd-client.key
    initConfiguration: &registration
      nodeRegistration:
        name: '{{ ds.meta_data.name }}'
        kubeletExtraArgs:
        - {name: provider-id, value: 'metal3://{{ ds.meta_data.providerid }}'}
    joinConfiguration: *registration
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Cluster
metadata: {name: one}
spec: {controlPlaneEndpoint: {host: %[1]s, port: %[2]s}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: one}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: one}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: one}
spec:
  clusterName: one
  replicas: 1
  template:
    spec:
      clusterName: one
      version: v1.36.3
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: one}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: one}
`

// provider does for Cluster API what an infrastructure provider does: it deploys machines with
// their bootstrap data.
type provider struct {
	client.Client
	machines machines
	deployed map[string]int // machine indexes by the names of Metal3Machines
}

func TestClusterAPITakesSimulatedMachinesForNodes(t *testing.T) {
	workload := newCluster(t, controlplanetest.Start(t, controlplanetest.Options{Workload: &controlplane.WorkloadOptions{}}))
	management := controlplanetest.Start(t, controlplanetest.Options{ClusterAPI: true}).Config()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, v1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(management, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	p := provider{Client: client.NewNamespacedClient(api, "default"), machines: newMachines(t, 2, instance.Options{}), deployed: map[string]int{}}
	p.create(t, workload)

	var machines clusterv1.MachineList
	eventually(t, func() error {
		if err := p.provide(t); err != nil {
			return err
		}
		if err := p.List(t.Context(), &machines); err != nil {
			return err
		}
		for _, machine := range machines.Items {
			if machine.Status.NodeRef.Name == "" || machine.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("the Machine %s is %s, its Node is %q; %d deployed", machine.Name, machine.Status.Phase, machine.Status.NodeRef.Name, len(p.deployed))
			}
		}
		if len(machines.Items) != 2 {
			return fmt.Errorf("there are %d Machines, want 2", len(machines.Items))
		}
		return nil
	})
	eventually(t, func() error {
		kcp := &unstructured.Unstructured{}
		kcp.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta2")
		kcp.SetKind("KubeadmControlPlane")
		if err := p.Get(t.Context(), client.ObjectKey{Name: "one"}, kcp); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(kcp.Object, "status", "conditions")
		for _, item := range conditions {
			condition, _ := item.(map[string]any)
			if condition["type"] == "ControlPlaneComponentsHealthy" && condition["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("the control plane is not healthy: %v", conditions)
	})
	for _, machine := range machines.Items {
		node := workload.awaitReady(t, machine.Status.NodeRef.Name, corev1.ConditionTrue)
		eventually(t, func() error {
			if node = workload.node(t, node.Name); hasTaint(node, clusterv1.NodeUninitializedTaint.Key) {
				return fmt.Errorf("the Node %s is not initialized", node.Name)
			}
			return nil
		})
	}
}

// create creates the objects of a cluster whose API server already runs.
func (p provider) create(t *testing.T, workload cluster) {
	t.Helper()
	secrets, err := workload.plane.ClusterSecrets("default", "one")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if err := p.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	host, port, err := net.SplitHostPort(workload.endpoint())
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(fmt.Sprintf(oneCluster, host, port), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := p.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s: %v", text, err)
		}
	}
}

// provide does what is due.
func (p provider) provide(t *testing.T) error {
	t.Helper()
	ctx := t.Context()
	var infrastructure v1beta2.Metal3Cluster
	if err := p.Get(ctx, client.ObjectKey{Name: "one"}, &infrastructure); err != nil {
		return err
	}
	if infrastructure.Status.Initialization.Provisioned == nil {
		if err := p.provisioned(ctx, &infrastructure); err != nil {
			return err
		}
	}
	var all v1beta2.Metal3MachineList
	if err := p.List(ctx, &all); err != nil {
		return err
	}
	for _, m3m := range all.Items {
		if _, done := p.deployed[m3m.Name]; done {
			continue
		}
		machine, err := related.Machine(ctx, p, &m3m)
		if err != nil || machine == nil || machine.Spec.Bootstrap.DataSecretName == nil {
			return fmt.Errorf("the Metal3Machine %s has no data: %w", m3m.Name, err)
		}
		var secret corev1.Secret
		if err := p.Get(ctx, client.ObjectKey{Name: *machine.Spec.Bootstrap.DataSecretName}, &secret); err != nil {
			return err
		}
		i := len(p.deployed)
		p.deployed[m3m.Name] = i
		id := fmt.Sprintf("default/host-%d/%s", i, m3m.Name)
		p.machines.deploy(t, i, m3m.Name, string(secret.Data["value"]), map[string]any{"providerid": id})
		m3m.Spec.ProviderID = "metal3://" + id
		if err := p.Update(ctx, &m3m); err != nil {
			return err
		}
		if err := p.provisioned(ctx, &m3m); err != nil {
			return err
		}
	}
	return nil
}

// provisioned tells Cluster API that an object of the infrastructure is provisioned.
func (p provider) provisioned(ctx context.Context, object client.Object) error {
	return p.Status().Patch(ctx, object, client.RawPatch(client.Merge.Type(), []byte(`{"status":{"initialization":{"provisioned":true}}}`)))
}
