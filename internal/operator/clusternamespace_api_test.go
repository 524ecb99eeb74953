package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/operator"
)

// versions returns the resource versions of a cluster's objects in the namespace, by kind and name.
func (b *bench) versions() map[string]string {
	b.Helper()
	versions := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"Cluster": &clusterv1.ClusterList{}, "Machine": &clusterv1.MachineList{}, "MachineDeployment": &clusterv1.MachineDeploymentList{},
		"Metal3Cluster": &v1beta2.Metal3ClusterList{}, "Metal3Machine": &v1beta2.Metal3MachineList{}, "Metal3Remediation": &v1beta2.Metal3RemediationList{},
		"BareMetalHost": &v1alpha1.BareMetalHostList{}, "Secret": &corev1.SecretList{},
	} {
		if err := b.client.List(b.Context(), list, client.InNamespace(b.namespace)); err != nil {
			b.Fatal(err)
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			one, err := meta.Accessor(obj)
			if err == nil {
				versions[kind+" "+one.GetName()] = one.GetResourceVersion()
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return versions
}

// TestClusterInANamespaceThatIsNotWatchedIsLeftAlone runs all controllers of Cluster API in one
// namespace. Another namespace holds the same objects from before the controllers started.
func TestClusterInANamespaceThatIsNotWatchedIsLeftAlone(t *testing.T) {
	t.Parallel()
	config := plane.Config(t)
	if err := controlplane.InstallCRDs(t.Context(), config, clusterAPIKinds()); err != nil {
		t.Fatal(err)
	}
	elsewhere := newIdleBenchOn(t, config)
	elsewhere.workloadCluster()
	elsewhere.availableHost("host")
	elsewhere.machine("worker")
	elsewhere.brokenMachine("broken")
	elsewhere.sizedDeployment("sized")
	before := elsewhere.versions()

	b := newClusterBench(t, config, func(o *operator.Options) {
		o.Controllers = []string{operator.GroupCluster, operator.GroupRemediation, operator.GroupAutoscale}
	})
	b.availableHost("host")
	b.machine("worker")
	b.claimed(1)
	b.brokenMachine("broken") // which gets no host
	b.sizedDeployment("sized")
	b.recoveryAndScalingAreRefused("broken", "sized")
	if diff := cmp.Diff(before, elsewhere.versions()); diff != "" {
		t.Errorf("versions in the other namespace (-before +after):\n%s", diff)
	}
}
