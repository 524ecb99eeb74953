package operator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
)

// TestControllersOfRecoveryAndScalingNeedNoMoreThanTheirRoles runs each group under its service
// account, with the roles of config/rbac, until it has reported what is wrong with an object.
func TestControllersOfRecoveryAndScalingNeedNoMoreThanTheirRoles(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
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
	b.brokenMachine("worker")
	b.sizedDeployment("sized")
	b.recoveryAndScalingAreRefused("worker", "sized")
}

// brokenMachine creates a Machine without a host and asks in both ways for its recovery.
func (b *bench) brokenMachine(name string) {
	b.Helper()
	b.machine(name)
	machine := &clusterv1.Machine{}
	b.read(machine, name)
	b.update(machine, func() {
		machine.Annotations = map[string]string{v1beta2.ExternalRemediationAnnotation: ""}
	})
	remediation := &v1beta2.Metal3Remediation{ObjectMeta: b.meta(name)}
	remediation.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: machine.UID}}
	b.create(remediation)
}

// sizedDeployment creates a MachineDeployment that is to be scaled to the number of hosts, but
// whose template is gone.
func (b *bench) sizedDeployment(name string) {
	b.Helper()
	sized := &clusterv1.MachineDeployment{ObjectMeta: b.meta(name)}
	sized.Annotations = map[string]string{v1beta2.AutoscaleToHostsAnnotation: ""}
	sized.Spec.ClusterName = "edge"
	sized.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: "gone"}
	b.create(sized)
}

// recoveryAndScalingAreRefused waits until the controllers have reported what is wrong with both
// objects.
func (b *bench) recoveryAndScalingAreRefused(machine, deployment string) {
	b.Helper()
	b.machineCondition(machine, v1beta2.RemediatingCondition, metav1.ConditionFalse, v1beta2.RemediationImpossibleReason)
	b.eventually("a remediation that waits for a host", func() string {
		remediation := &v1beta2.Metal3Remediation{}
		b.read(remediation, machine)
		for _, c := range remediation.Status.Conditions {
			if c.Reason == v1beta2.WaitingForHostReason {
				return ""
			}
		}
		return fmt.Sprintf("conditions %v", remediation.Status.Conditions)
	})
	b.hasEvent(deployment, "AutoscaleRefused")
}

// TestControlPlanesOfOtherGroupsNeedARoleOfTheirOwn deletes a machine of such a control plane,
// before and after the role from docs/cluster-api.md exists.
func TestControlPlanesOfOtherGroupsNeedARoleOfTheirOwn(t *testing.T) {
	t.Parallel()
	const group, kind, plural = "example.org", "ExampleControlPlane", "examplecontrolplanes"
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	kinds := clusterAPIKinds()
	kinds[plural+".yaml"] = lenientKind(group, kind, plural)
	if err := controlplane.InstallCRDs(t.Context(), config, kinds); err != nil {
		t.Fatal(err)
	}
	b := newIdleBenchOn(t, config)
	b.install()
	b.startCluster(config, asGroup(operator.GroupCluster))
	owner := &unstructured.Unstructured{}
	owner.SetAPIVersion(group + "/v1beta2")
	owner.SetKind(kind)
	owner.SetNamespace(b.namespace)
	owner.SetName("edge")
	b.create(owner)
	b.availableHost("host")
	// released deletes a machine of the control plane, and returns why its host is not kept.
	released := func(name string) (reason, message string) {
		m := b.machine(name)
		b.claimed(1)
		b.setState("host", v1alpha1.StateProvisioned)
		machine := &clusterv1.Machine{ObjectMeta: b.meta(name)}
		b.update(machine, func() {
			machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
			machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}
		})
		b.remove(m)
		b.eventually("a host without image", func() string {
			if b.host("host").Spec.Image != nil {
				return "it has one"
			}
			return ""
		})
		b.read(m, name)
		c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.HostReservedCondition)
		if c == nil || c.Status != metav1.ConditionFalse {
			t.Fatalf("conditions are %s, want that the host is not kept", conditionText(m.Status.Conditions))
		}
		b.setState("host", v1alpha1.StateAvailable)
		b.isGone(m)
		return c.Reason, c.Message
	}
	forbidden := `cannot get resource "` + plural + `" in API group "` + group + `"`
	if reason, message := released("first"); reason != "OwnerUnreadable" || !strings.Contains(message, forbidden) {
		t.Errorf("the host is not kept for %s (%s), want what is forbidden", reason, message)
	}
	for _, obj := range b.decode(documentedRole(t, plural)) {
		b.create(obj)
	}
	reviews := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SubjectAccessReviews()
	b.eventually("the operator may read control planes", func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + operatorNamespace + ":ingot-" + operator.GroupCluster,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: b.namespace, Group: group, Resource: plural, Verb: "get"},
		}}
		review, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || !review.Status.Allowed {
			return fmt.Sprint("not allowed: ", err)
		}
		return ""
	})
	if reason, message := released("second"); reason != "TemplateMissing" {
		t.Errorf("the host is not kept for %s (%s), want what the control plane says", reason, message)
	}
}

// documentedRole writes the manifest of docs/cluster-api.md that names the resource into a file.
func documentedRole(t *testing.T, resource string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/cluster-api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		if !strings.Contains(string(block[1]), resource) {
			continue
		}
		file := filepath.Join(t.TempDir(), "role.yaml")
		if err := os.WriteFile(file, block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Fatalf("docs/cluster-api.md has no role for %s", resource)
	return ""
}
