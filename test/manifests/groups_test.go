package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
)

// forClusterAPI are the values that switch the groups of controllers for Cluster API on, and nothing else: the manifests
// have the webhooks apart.
var forClusterAPI = []string{"operator.cluster.enabled=true", "operator.remediation.enabled=true", "operator.autoscale.enabled=true", "webhooks.optional=true"}

func TestInstallationsForClusterAPIAreAcceptedByTheAPIServer(t *testing.T) {
	for name, all := range map[string][]*unstructured.Unstructured{
		"config/deploy-clusterapi": kustomized(t, "deploy-clusterapi"),
		"config/clusterctl":        kustomized(t, "clusterctl"),
		"the chart":                rendered(t, namespace, forClusterAPI...),
	} {
		for _, want := range []string{"Deployment/ingot-host", "Deployment/ingot-cluster", "Deployment/ingot-remediation", "Deployment/ingot-autoscale"} {
			if !slices.Contains(named(all), want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
		isAccepted(t, all, false)
	}
}

// TestOnlyGroupsThatRunHaveServiceAccounts holds for each group alone, too.
func TestOnlyGroupsThatRunHaveServiceAccounts(t *testing.T) {
	always := []string{"ingot-discovery", "ingot-firmware", "ingot-host"}
	for _, tt := range []struct {
		what string
		all  []*unstructured.Unstructured
		want []string
	}{
		{"config/deploy", kustomized(t, "deploy"), always},
		{"the chart", rendered(t, namespace), always},
		{"config/clusterapi/remediation", kustomized(t, "clusterapi/remediation"), []string{"ingot-remediation"}},
		{"the chart with one group", rendered(t, namespace, "operator.remediation.enabled=true", "webhooks.enabled=true"), append([]string{"ingot-remediation"}, always...)},
	} {
		slices.Sort(tt.want)
		accounts := map[string][]string{}
		for _, obj := range tt.all {
			switch kind := obj.GetKind(); kind {
			case "Deployment", "ServiceAccount", "ClusterRoleBinding":
				accounts[kind] = append(accounts[kind], obj.GetName())
			}
		}
		for kind, names := range accounts {
			names = slices.DeleteFunc(names, func(name string) bool { // those that are no groups
				return slices.Contains([]string{"ingot-webhook", "ingot-metrics-review", "ingot-host-upstream-lease"}, name)
			})
			slices.Sort(names)
			if !slices.Equal(names, tt.want) {
				t.Errorf("%s has the %s objects %v, want %v", tt.what, kind, names, tt.want)
			}
		}
	}
}

// TestDeploymentsRunWithTheRolesOfTheirGroups asks the API server, with the roles stored, what the service account of
// each Deployment may do.
func TestDeploymentsRunWithTheRolesOfTheirGroups(t *testing.T) {
	for where, all := range map[string][]*unstructured.Unstructured{
		namespace:   kustomized(t, "deploy-clusterapi"),
		"elsewhere": rendered(t, "elsewhere", forClusterAPI...), // the chart
	} {
		admin := as(t, plane.Config(t), "")
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: where}}
		if err := admin.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		accounts := map[string]string{} // of Deployments
		for _, obj := range all {
			if strings.HasPrefix(obj.GetAPIVersion(), rbacv1.GroupName) || obj.GetKind() == "ServiceAccount" {
				if err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.ForceOwnership, client.FieldOwner("roles-test")); err != nil {
					t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
				}
			}
			if obj.GetKind() == "Deployment" {
				account, _, err := unstructured.NestedString(obj.Object, "spec", "template", "spec", "serviceAccountName")
				if err != nil {
					t.Fatal(err)
				}
				accounts[obj.GetName()] = account
			}
		}
		for _, group := range []string{"host", "discovery", "firmware", "cluster", "remediation", "autoscale"} {
			user := "system:serviceaccount:" + where + ":" + accounts["ingot-"+group]
			lease := authorizationv1.ResourceAttributes{Namespace: where, Group: "coordination.k8s.io", Resource: "leases", Verb: "update", Name: "ingot-" + group}
			needs := append(roleOf(t, group), lease, authorizationv1.ResourceAttributes{Group: "authentication.k8s.io", Resource: "tokenreviews", Verb: "create"})
			for _, need := range needs {
				eventually(t, user+" may do what its group does", func() string { // until the API server knows the roles
					if !may(t, admin, user, need) {
						return need.String()
					}
					return ""
				})
			}
			lease.Name = "ingot-of-another-group"
			for _, foreign := range []authorizationv1.ResourceAttributes{lease, {Group: rbacv1.GroupName, Resource: "clusterroles", Verb: "patch"}, {Resource: "secrets", Verb: "deletecollection"}} {
				if may(t, admin, user, foreign) {
					t.Errorf("%s may %v", user, foreign.String())
				}
			}
		}
	}
}

// roleOf is each right in the role of a group that is generated from what its controllers do.
func roleOf(t *testing.T, group string) []authorizationv1.ResourceAttributes {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", group, "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []authorizationv1.ResourceAttributes
	for _, obj := range objects(t, text) {
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					right := authorizationv1.ResourceAttributes{Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Verb: verb}
					if len(rule.ResourceNames) > 0 {
						right.Name = rule.ResourceNames[0]
					}
					all = append(all, right)
				}
			}
		}
	}
	return all
}

// may asks the API server whether a user has a right.
func may(t *testing.T, admin client.Client, user string, right authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
	if err := admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// TestNotesSayThatClusterAPIIsMissing installs the chart without storing anything, in a cluster without Cluster API and
// in one with it.
func TestNotesSayThatClusterAPIIsMissing(t *testing.T) {
	t.Parallel()
	const needed, missing, unread = "need Cluster API", "does not have the kinds of Cluster API", "webhooks.enabled is not set"
	server := controlplanetest.Start(t, controlplanetest.Options{})
	notes := func(values ...string) string {
		args := []string{"install", "ingot", chart(t), "--kubeconfig", server.Kubeconfig(), "--namespace", namespace, "--dry-run=server"}
		for _, v := range values {
			args = append(args, "--set", v)
		}
		_, text, found := strings.Cut(string(run(t, helm(t, args...))), "NOTES:")
		if !found {
			t.Fatal("helm shows no notes")
		}
		return text
	}
	if text := notes(); strings.Contains(text, needed) || strings.Contains(text, missing) {
		t.Errorf("without the groups that need it: %s", text)
	}
	if text := notes(forClusterAPI...); !strings.Contains(text, "cluster, remediation, autoscale: these "+needed) || !strings.Contains(text, missing) {
		t.Errorf("without Cluster API: %s", text)
	}
	if text := notes(); strings.Contains(text, unread) {
		t.Errorf("without kinds that are converted: %s", text)
	}
	if text := notes(forClusterAPI...); !strings.Contains(text, unread) {
		t.Errorf("without the webhook that converts kinds: %s", text)
	}
	if text := notes(append(forClusterAPI, "webhooks.enabled=true")...); strings.Contains(text, unread) {
		t.Errorf("with the webhook that converts kinds: %s", text)
	}
	admin := as(t, server.Config(), "")
	if err := admin.Create(t.Context(), parsed(t, machines)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "silence about Cluster API once its kinds are there", func() string {
		if text := notes(forClusterAPI...); !strings.Contains(text, needed) || strings.Contains(text, missing) {
			return text
		}
		return ""
	})
}
