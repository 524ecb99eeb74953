package cluster

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/controlplane"
)

// Version is the version of Kubernetes that the machines have.
const Version = "v" + controlplane.KubernetesVersion

// registration has the machine register as the Node that the metadata names, with the provider ID of its host.
func registration() bootstrapv1.NodeRegistrationOptions {
	providerID := "metal3://{{ ds.meta_data.providerid }}"
	return bootstrapv1.NodeRegistrationOptions{
		Name:             "{{ ds.meta_data.name }}",
		KubeletExtraArgs: []bootstrapv1.Arg{{Name: "provider-id", Value: &providerID}},
	}
}

// MachineTemplate returns a template of machines with the image that the world serves and the data of the cluster's
// Metal3DataTemplate, on hosts with these labels.
func (c *Cluster) MachineTemplate(name string, labels map[string]string) *v1beta2.Metal3MachineTemplate {
	url, checksum := c.Image()
	t := &v1beta2.Metal3MachineTemplate{ObjectMeta: c.Meta(name)}
	t.Spec.Template.Spec = v1beta2.Metal3MachineSpec{
		Image:                 v1beta2.Image{URL: url, Checksum: checksum, ChecksumType: "sha256", DiskFormat: "raw"},
		DataTemplate:          &v1beta2.ObjectReference{Name: c.Name},
		AutomatedCleaningMode: v1beta2.CleaningModeDisabled,
	}
	t.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchLabels: labels}
	return t
}

// CreateData creates what machines boot with: the Metal3DataTemplate, which names machines, and the KubeadmConfigTemplate, by
// which they join.
func (c *Cluster) CreateData(tb testing.TB) {
	tb.Helper()
	data := &v1beta2.Metal3DataTemplate{ObjectMeta: c.Meta(c.Name)}
	data.Spec.ClusterName = c.Name
	data.Spec.MetaData = &v1beta2.MetaData{ObjectNames: []v1beta2.MetaDataObjectName{{Key: "name", Object: "machine"}}}
	c.Create(tb, data)
	config := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: c.Meta(c.Name)}
	config.Spec.Template.Spec.JoinConfiguration.NodeRegistration = registration()
	c.Create(tb, config)
}

// Deployment returns a MachineDeployment that replaces one machine after the other, without a surge. Its template of
// machines and its own name are the cluster's.
func (c *Cluster) Deployment(replicas int32) *clusterv1.MachineDeployment {
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	d := &clusterv1.MachineDeployment{ObjectMeta: c.Meta(c.Name)}
	d.Spec.ClusterName, d.Spec.Replicas = c.Name, &replicas
	d.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
		Type:          clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: &none, MaxUnavailable: &one},
	}
	d.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: c.Name, Version: Version, InfrastructureRef: c.Infrastructure("Metal3MachineTemplate"),
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfigTemplate", Name: c.Name,
		}},
	}
	return d
}

// ControlPlaneRef refers to the KubeadmControlPlane of a cluster of this name.
func ControlPlaneRef(name string) *clusterv1.ContractVersionedObjectReference {
	return &clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: name}
}

// ControlPlane returns a KubeadmControlPlane without a surge, whose etcd is that of the API server which runs already. Its
// template of machines and its own name are the cluster's.
func (c *Cluster) ControlPlane(replicas int32) *controlplanev1.KubeadmControlPlane {
	none := intstr.FromInt32(0)
	k := &controlplanev1.KubeadmControlPlane{ObjectMeta: c.Meta(c.Name)}
	k.Spec.Replicas, k.Spec.Version = &replicas, Version
	k.Spec.MachineTemplate.Spec.InfrastructureRef = c.Infrastructure("Metal3MachineTemplate")
	k.Spec.Rollout.Strategy = controlplanev1.KubeadmControlPlaneRolloutStrategy{
		Type:          controlplanev1.RollingUpdateStrategyType,
		RollingUpdate: controlplanev1.KubeadmControlPlaneRolloutStrategyRollingUpdate{MaxSurge: &none},
	}
	k.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{
		Endpoints: []string{"https://127.0.0.1:2379"},
		CAFile:    "/etc/kubernetes/pki/etcd/ca.crt",
		CertFile:  "/etc/kubernetes/pki/apiserver-etcd-client.crt",
		KeyFile:   "/etc/kubernetes/pki/apiserver-etcd-client.key",
	}
	k.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration = registration()
	k.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration = registration()
	return k
}

// Machines lists the Machines of the cluster.
func (c *Cluster) Machines(ctx context.Context) ([]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := c.Kube.List(ctx, &list, client.InNamespace(c.Name))
	return list.Items, err
}

// AwaitNodes waits until the cluster has exactly so many Machines, all of them with a Ready Node, and returns the names of their
// hosts by those of the Machines.
func (c *Cluster) AwaitNodes(tb testing.TB, count int) (hosts map[string]string) {
	tb.Helper()
	Eventually(tb, func(ctx context.Context) error {
		machines, err := c.Machines(ctx)
		if err != nil {
			return err
		}
		if len(machines) != count {
			return fmt.Errorf("there are %d Machines, want %d", len(machines), count)
		}
		hosts, err = c.HostsOfReady(ctx, machines)
		return err
	})
	return hosts
}

// HostsOfReady returns the names of the hosts of Machines by those of the Machines, or an error if one has no Ready Node.
func (c *Cluster) HostsOfReady(ctx context.Context, machines []clusterv1.Machine) (map[string]string, error) {
	consumers, err := c.Consumers(ctx)
	if err != nil {
		return nil, err
	}
	hosts := map[string]string{}
	for _, m := range machines {
		switch ready, err := c.NodeReady(ctx, m.Status.NodeRef.Name); {
		case err != nil:
			return nil, err
		case !ready || !m.DeletionTimestamp.IsZero():
			return nil, fmt.Errorf("the Machine %s is %s and has no Ready Node", m.Name, m.Status.Phase)
		}
		for host, consumer := range consumers {
			if consumer == m.Spec.InfrastructureRef.Name {
				hosts[m.Name] = host
			}
		}
		if hosts[m.Name] == "" {
			return nil, fmt.Errorf("the Machine %s has no host", m.Name)
		}
	}
	return hosts, nil
}

// NodeReady reports whether there is a Node of this name that is Ready.
func (c *Cluster) NodeReady(ctx context.Context, name string) (bool, error) {
	node, err := c.Node(ctx, name)
	if err != nil || node == nil {
		return false, err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, nil
		}
	}
	return false, nil
}

// Node reads a Node of the workload cluster; nil if there is none.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	if name == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	if err := c.Workload.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return node, nil
}

// nodeFinalizer keeps a Node that is being deleted.
const nodeFinalizer = "example.com/volumes"

// KeepNode gives a Node a finalizer, so that it stays when it is deleted, or takes that away.
func (c *Cluster) KeepNode(tb testing.TB, name string, kept bool) {
	tb.Helper()
	Eventually(tb, func(ctx context.Context) error {
		node, err := c.Node(ctx, name)
		if err != nil || node == nil {
			return fmt.Errorf("there is no Node %s: %w", name, err)
		}
		before := node.DeepCopy()
		if kept {
			controllerutil.AddFinalizer(node, nodeFinalizer)
		} else {
			controllerutil.RemoveFinalizer(node, nodeFinalizer)
		}
		return c.Workload.Patch(ctx, node, client.MergeFrom(before))
	})
}
