package cluster

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/sim/kubeadm"
)

// Cluster is a namespace with a Cluster, whose API server runs already, and hosts for its machines. Whatever is in
// the namespace has the name of the cluster, unless there is more than one of a kind.
type Cluster struct {
	*World
	// Kube is the administrator of the management cluster that it is in.
	Kube client.Client
	// Name is that of the Cluster and of its namespace.
	Name string
	// Plane is the control plane of the workload cluster.
	Plane *controlplane.ControlPlane
	// Workload is the administrator of the workload cluster.
	Workload client.Client
	// Hosts are the machines of the hosts, by the names of the hosts.
	Hosts map[string]int
}

// NewCluster makes a Cluster that no machine belongs to yet, and that has no hosts. Without machines of a control plane it counts as initialized,
// and its machines may join at once. At the end of the
// test the rules are checked, and when it fails, everything in the namespace is shown.
func (w *World) NewCluster(tb testing.TB, name string, plane *controlplane.ControlPlane, controlPlane *clusterv1.ContractVersionedObjectReference) *Cluster {
	tb.Helper()
	nodes, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	c := &Cluster{World: w, Kube: w.Kube, Name: name, Plane: plane, Workload: nodes, Hosts: map[string]int{}}
	tb.Cleanup(func() {
		w.CheckRules(tb)
		if tb.Failed() {
			c.describe(tb)
		}
	})
	c.Create(tb, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	secrets, err := plane.ClusterSecrets(name, name)
	if err != nil {
		tb.Fatal(err)
	}
	for _, secret := range secrets {
		c.Create(tb, secret)
	}
	api, err := url.Parse(plane.Config().Host)
	if err != nil {
		tb.Fatal(err)
	}
	port, err := strconv.ParseInt(api.Port(), 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	infrastructure := &v1beta2.Metal3Cluster{ObjectMeta: c.Meta(name)}
	infrastructure.Spec.ControlPlaneEndpoint = v1beta2.APIEndpoint{Host: api.Hostname(), Port: int32(port)}
	cluster := &clusterv1.Cluster{ObjectMeta: c.Meta(name), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: c.Infrastructure("Metal3Cluster"),
	}}
	if controlPlane != nil {
		cluster.Spec.ControlPlaneRef = *controlPlane
	}
	c.Create(tb, infrastructure)
	c.Create(tb, cluster)
	if controlPlane == nil {
		if err := kubeadm.Install(tb.Context(), c.Plane.Config(), ""); err != nil {
			tb.Fatalf("prepare the workload cluster: %v", err)
		}
		c.Initialize(tb)
	}
	return c
}

// Initialize makes the Cluster say that its control plane is initialized, as it does when it has a machine of it. It does so
// again whenever that is lost until the test ends, because Cluster API writes all conditions as they were when it read the Cluster.
func (c *Cluster) Initialize(tb testing.TB) {
	tb.Helper()
	kube := c.Kube
	initialize := func(ctx context.Context) error {
		cluster := &clusterv1.Cluster{}
		if err := kube.Get(ctx, c.Key(c.Name), cluster); err != nil || isInitialized(cluster) {
			return err
		}
		yes := true
		cluster.Status.Initialization.ControlPlaneInitialized = &yes
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ClusterControlPlaneInitializedReason,
		})
		return kube.Status().Update(ctx, cluster)
	}
	Eventually(tb, initialize)
	var kept sync.WaitGroup
	tb.Cleanup(kept.Wait)
	kept.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-tb.Context().Done():
				return
			case <-ticker.C:
				if err := initialize(tb.Context()); apierrors.IsNotFound(err) { // moved or deleted
					return
				}
			}
		}
	})
}

func isInitialized(c *clusterv1.Cluster) bool {
	said := c.Status.Initialization.ControlPlaneInitialized
	return said != nil && *said && meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
}

// Meta is the metadata of an object of the namespace.
func (c *Cluster) Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.Name, Name: name}
}

// Key names an object of the namespace.
func (c *Cluster) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: c.Name, Name: name}
}

// Infrastructure refers to the object of a kind of Ingot's that has the name of the cluster.
func (c *Cluster) Infrastructure(kind string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: kind, Name: c.Name}
}

// Create creates an object.
func (c *Cluster) Create(tb testing.TB, object client.Object) {
	tb.Helper()
	if err := c.Kube.Create(tb.Context(), object); err != nil {
		tb.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// Change changes an object as kubectl edit does.
func Change[T client.Object](tb testing.TB, c *Cluster, object T, change func(T)) {
	tb.Helper()
	Eventually(tb, func(ctx context.Context) error {
		if err := c.Kube.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		before, _ := object.DeepCopyObject().(client.Object)
		change(object)
		return c.Kube.Patch(ctx, object, client.MergeFrom(before))
	})
}

// Delete deletes an object, and does not wait until it is gone.
func (c *Cluster) Delete(tb testing.TB, object client.Object) {
	tb.Helper()
	if err := c.Kube.Delete(tb.Context(), object); err != nil {
		tb.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// Gone waits until an object is no longer there.
func (c *Cluster) Gone(tb testing.TB, object client.Object) {
	tb.Helper()
	Eventually(tb, func(ctx context.Context) error {
		err := c.Kube.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("%T %s is still there", object, object.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}
