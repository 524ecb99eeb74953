package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane"
)

const (
	// claimants is how many Metal3Machines are created at the same time. There are as many hosts.
	claimants = 100
	// claimPause is the pause between two looks at the hosts.
	claimPause = 250 * time.Millisecond
	// workloadCluster is the name of the Cluster to which the machines belong.
	workloadCluster = "bench"
)

// benchClaims measures how long machines that are created at the same time take until each holds a
// host, while Cluster API's own managers run, too. It also measures what the machines cost the API
// server.
func benchClaims(ctx context.Context, b *bench) (err error) {
	c, err := b.startClusterWith(ctx, controlplane.Options{ClusterAPI: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	d, err := b.startDiscovery(ctx, c, "--controllers", "host,discovery,firmware,cluster", "--allow-local-image-urls")
	if err != nil {
		return err
	}
	defer d.kill()
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	if err := d.powerOn(b, claimants); err != nil {
		return err
	}
	if err := d.operator.awaitAvailable(ctx, claimants); err != nil {
		return err
	}
	if err := c.createWorkloadCluster(ctx); err != nil {
		return err
	}
	image, err := serveImage(ctx)
	if err != nil {
		return err
	}
	defer image.close()
	before, err := c.writes(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := c.createMachines(ctx, image); err != nil {
		return err
	}
	if err := c.awaitClaims(ctx, func(*v1alpha1.BareMetalHost) bool { return true }); err != nil {
		return err
	}
	held := time.Since(begun)
	if err := c.awaitClaims(ctx, func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.State == v1alpha1.StateProvisioned }); err != nil {
		return err
	}
	deployed := time.Since(begun)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lastWritesTime):
	}
	after, err := c.writes(ctx)
	if err != nil {
		return err
	}
	cost := after.minus(before)
	what := fmt.Sprintf("%d Metal3Machines created at once", claimants)
	b.add(figure{name: what + ": each holds a host", value: held.Seconds(), unit: "s", target: 60, best: least})
	b.add(figure{name: what + ": each is deployed", value: deployed.Seconds(), unit: "s"})
	b.add(figure{name: what + ": writes of Metal3Machines for each, with Cluster API's", value: cost.machines / claimants, unit: "writes"})
	// The bench itself has created one Secret for each.
	b.add(figure{name: what + ": writes of hosts and Secrets for each, until deployed", value: cost.objects/claimants - 1, unit: "writes"})
	b.add(figure{name: what + ": events for each", value: cost.events / claimants, unit: "events"})
	return nil
}

// createWorkloadCluster creates a Cluster with ready infrastructure. The Cluster has no API server.
func (c *cluster) createWorkloadCluster(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: hostNamespace, Name: workloadCluster}
	infrastructure := &v1beta2.Metal3Cluster{ObjectMeta: meta}
	infrastructure.Spec.ControlPlaneEndpoint = v1beta2.APIEndpoint{Host: "127.0.0.1", Port: 1}
	whole := &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: workloadCluster,
		},
	}}
	if err := errors.Join(c.client.Create(ctx, infrastructure), c.client.Create(ctx, whole)); err != nil {
		return fmt.Errorf("create a Cluster: %w", err)
	}
	return poll(ctx, claimPause, func() (bool, error) {
		err := c.client.Get(ctx, kube.ObjectKeyFromObject(whole), whole)
		ready := whole.Status.Initialization.InfrastructureProvisioned
		return ready != nil && *ready, err
	})
}

// createMachines creates Machines with bootstrap data, and their Metal3Machines, as the controllers
// of machine sets do.
func (c *cluster) createMachines(ctx context.Context, image servedImage) error {
	return c.createEach(ctx, claimants, func(i int) error {
		meta := metav1.ObjectMeta{
			Namespace: hostNamespace, Name: fmt.Sprintf("worker-%03d", i), Labels: map[string]string{clusterv1.ClusterNameLabel: workloadCluster},
		}
		data := &corev1.Secret{ObjectMeta: meta, Type: clusterv1.ClusterSecretType, StringData: map[string]string{"value": "#cloud-config\n"}}
		m3m := &v1beta2.Metal3Machine{ObjectMeta: meta, Spec: v1beta2.Metal3MachineSpec{
			Image: v1beta2.Image{URL: image.url, Checksum: image.checksum, ChecksumType: "sha256", DiskFormat: "raw"},
		}}
		machine := &clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{
			ClusterName: workloadCluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: &meta.Name},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: meta.Name},
		}}
		for _, object := range []kube.Object{data, m3m, machine} {
			if err := c.client.Create(ctx, object); err != nil {
				return fmt.Errorf("create %T: %w", object, err)
			}
		}
		return nil
	})
}

// awaitClaims waits until each machine is the consumer of one host that satisfies like.
func (c *cluster) awaitClaims(ctx context.Context, like func(*v1alpha1.BareMetalHost) bool) error {
	held := 0
	err := poll(ctx, claimPause, func() (bool, error) {
		var hosts v1alpha1.BareMetalHostList
		if err := c.client.List(ctx, &hosts, kube.InNamespace(hostNamespace)); err != nil {
			return false, err
		}
		hostsOf := map[string]string{}
		for i := range hosts.Items {
			h := &hosts.Items[i]
			ref := h.Spec.ConsumerRef
			if ref == nil || !like(h) {
				continue
			}
			if other, there := hostsOf[ref.Name]; there {
				return false, fmt.Errorf("the machine %s holds the hosts %s and %s", ref.Name, other, h.Name)
			}
			hostsOf[ref.Name] = h.Name
		}
		held = len(hostsOf)
		return held == claimants, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the hosts of %d machines, last seen %d: %w", claimants, held, err)
	}
	return nil
}
