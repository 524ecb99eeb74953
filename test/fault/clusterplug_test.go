//go:build fault

package fault_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/test/cluster"
)

// replaceByPluggedIn lets a machine that stays broken be replaced by one that nobody has
// registered. That machine is plugged in and discovered, the deployment is scaled to it, and it
// becomes a Node.
func (l *clusterLife) replaceByPluggedIn() {
	l.t.Helper()
	l.Create(l.t, &discoveryv1alpha1.BareMetalHostDiscovery{ObjectMeta: l.Meta(l.Name), Spec: discoveryv1alpha1.BareMetalHostDiscoverySpec{
		ResourceNameTemplate: discoveryv1alpha1.ResourceNameTemplate{Prefix: "new-", HardwareDetails: discoveryv1alpha1.DetailSerialNumber},
		PollInterval:         metav1.Duration{Duration: 5 * time.Second},
		HostTemplate:         discoveryv1alpha1.HostTemplate{Labels: pool},
	}})
	l.checkHealth(v1beta2.AnnotationRemediation, shortTimeout)
	l.followHosts()

	s := l.silence(l.shape.used[0])
	l.Machine(s.host).Break(true)
	s.isPowered(4) // with one retry
	l.HostShows(l.t, s.host, "given up", isUnhealthy)
	plugged := l.PlugIn(l.t)
	l.Gone(l.t, s.machine)
	for machine, host := range l.AwaitNodes(l.t, len(l.shape.used)) {
		if host == l.shape.used[1] {
			continue
		}
		h, err := l.Host(l.t.Context(), host)
		if err != nil || h.Spec.BootMACAddress != plugged.BootMAC() || h.HasBMC() {
			l.t.Errorf("the Machine %s is on %+v, %v, want the machine that was plugged in", machine, h.Spec, err)
		}
	}
	l.isFree(s.host)
	l.endHealthCheck()
}

// followHosts makes the size of the deployment follow its hosts, and waits until it does.
func (l *clusterLife) followHosts() {
	l.t.Helper()
	cluster.Change(l.t, l.Cluster, l.deployment, func(d *clusterv1.MachineDeployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1beta2.AutoscaleToHostsAnnotation, "")
	})
	cluster.Eventually(l.t, func(ctx context.Context) error {
		if err := l.Kube.Get(ctx, client.ObjectKeyFromObject(l.deployment), l.deployment); err != nil {
			return err
		}
		if shown := meta.FindStatusCondition(l.deployment.Status.Conditions, v1beta2.AutoscaledToHostsCondition); shown == nil || shown.Reason != v1beta2.AutoscaleFollowsReason {
			return fmt.Errorf("the condition is %+v, want the reason %s", shown, v1beta2.AutoscaleFollowsReason)
		}
		return nil
	})
}
