package operator_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/operator"
)

// TestControllersOfRecoveryAndScalingNeedNoMoreThanTheirRoles runs each of them under its service account, with the
// roles of config/rbac, until it has told what is wrong with an object.
func TestControllersOfRecoveryAndScalingNeedNoMoreThanTheirRoles(t *testing.T) {
	t.Parallel()
	config := controlplane.StartForTest(t, controlplane.TestOptions{})
	if err := controlplane.InstallCRDs(t.Context(), config, clusterAPIKinds()); err != nil {
		t.Fatal(err)
	}
	b := newIdleBenchOn(t, config)
	b.install()
	for _, group := range []string{operator.GroupRemediation, operator.GroupAutoscale} {
		b.startWith(config, func(o *operator.Options) {
			asGroup(group)(o)
			o.Engine = nil
		})
	}
	cluster := &clusterv1.Cluster{ObjectMeta: b.meta("edge")}
	b.create(cluster)
	b.machine("worker")
	machine := &clusterv1.Machine{}
	b.read(machine, "worker")
	b.update(machine, func() {
		machine.Annotations = map[string]string{v1beta2.ExternalRemediationAnnotation: ""}
	})
	b.machineCondition("worker", v1beta2.RemediatingCondition, metav1.ConditionFalse, v1beta2.RemediationImpossibleReason)

	remediation := &v1beta2.Metal3Remediation{ObjectMeta: b.meta("worker")}
	remediation.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "worker", UID: machine.UID}}
	b.create(remediation)
	b.eventually("a failed remediation", func() string {
		b.read(remediation, "worker")
		if remediation.Status.Phase != v1beta2.RemediationFailed {
			return "phase " + string(remediation.Status.Phase)
		}
		return ""
	})

	sized := &clusterv1.MachineDeployment{ObjectMeta: b.meta("sized")}
	sized.Annotations = map[string]string{v1beta2.AutoscaleToHostsAnnotation: ""}
	sized.Spec.ClusterName = "edge"
	sized.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: "gone"}
	b.create(sized)
	b.hasEvent("sized", "AutoscaleRefused")
}
