//go:build fault

package fault_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/cluster"
)

// scaleToHosts gives every free host a machine.
func (l *clusterLife) scaleToHosts() {
	l.t.Helper()
	before := l.AwaitNodes(l.t, len(l.shape.used)-1)
	cluster.Change(l.t, l.Cluster, l.deployment, func(d *clusterv1.MachineDeployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1beta2.AutoscaleToHostsAnnotation, "")
	})
	all := slices.Sorted(maps.Keys(l.Hosts))
	l.areOn(l.AwaitNodes(l.t, len(all)), all...)
	l.ask(except(all, before)...)
}

// except returns the hosts without any of the machines.
func except(hosts []string, machines map[string]string) []string {
	taken := slices.Collect(maps.Values(machines))
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return slices.Contains(taken, host) })
}

// delete deletes the cluster, which frees its hosts. It also deletes the Metal3DataTemplate, which
// no cluster owns, and which stays until its machines are gone.
func (l *clusterLife) delete() {
	l.t.Helper()
	c := &clusterv1.Cluster{ObjectMeta: l.Meta(l.Name)}
	l.Delete(l.t, c)
	l.Delete(l.t, &v1beta2.Metal3DataTemplate{ObjectMeta: l.Meta(l.Name)})
	l.Gone(l.t, c)
	for host := range l.Hosts {
		l.isFree(host)
	}
	cluster.Eventually(l.t, func(ctx context.Context) error {
		for _, list := range []client.ObjectList{
			&clusterv1.MachineList{}, &v1beta2.Metal3ClusterList{}, &v1beta2.Metal3MachineList{}, &v1beta2.Metal3DataList{}, &v1beta2.Metal3DataClaimList{},
			&v1beta2.Metal3DataTemplateList{},
		} {
			if err := l.Kube.List(ctx, list, client.InNamespace(l.Name)); err != nil {
				return err
			}
			if n := meta.LenList(list); n > 0 {
				return fmt.Errorf("%T: %d are left", list, n)
			}
		}
		return nil
	})
}

// isFree waits until a host is free and off, and checks that nothing tells whose host it was.
func (l *clusterLife) isFree(host string) {
	l.t.Helper()
	l.HostIsFree(l.t, host)
	l.HostShows(l.t, host, "off and nobody's", func(h *v1alpha1.BareMetalHost) bool {
		return !h.Status.PoweredOn && h.Spec.Image == nil && h.Labels[clusterv1.ClusterNameLabel] == ""
	})
}
