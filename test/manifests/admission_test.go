package manifests

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// machines is the kind of Cluster API's Machines, as far as the policies look at it.
const machines = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.cluster.x-k8s.io, annotations: {api-approved.kubernetes.io: "for a test"}}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {kind: Machine, listKind: MachineList, plural: machines, singular: machine}
  versions:
  - name: v1beta2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}}
`

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestOnlyThoseWithTheVerbMayRequestPowerCycles acts as users with the shipped roles, and as one
// who may write everything but has not the verbs.
func TestOnlyThoseWithTheVerbMayRequestPowerCycles(t *testing.T) {
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	admin := as(t, config, "")
	create := func(obj client.Object) {
		t.Helper()
		if err := admin.Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
		}
	}
	create(parsed(t, machines))
	for _, obj := range kustomized(t, "rbac") {
		create(obj)
	}
	create(parsed(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: writer}, rules: [
		{apiGroups: [cluster.x-k8s.io], resources: [machines, machines/status], verbs: [create, get, patch, update]},
		{apiGroups: [metal3.io], resources: [baremetalhosts, baremetalhosts/status], verbs: [create, get, patch, update]}]}`))
	const ns = "racks"
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	for user, roles := range map[string][]string{
		"writer": {"writer"}, "mover": {"writer", "ingot-clusterctl-move"}, "remediator": {"ingot-machine-remediator"}, "editor": {"ingot-baremetalhost-editor"},
	} {
		for _, role := range roles {
			create(&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user + "-" + role},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			})
		}
	}
	kinds := map[string]string{"Machine": "cluster.x-k8s.io/v1beta2", "BareMetalHost": "metal3.io/v1alpha1"}
	object := func(kind, name, annotations string) *unstructured.Unstructured {
		return parsed(t, fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s, annotations: %s}, spec: {online: true}}`,
			kinds[kind], kind, ns, name, annotations))
	}
	const request, hold = "host.metal3.io/external-remediation", "reboot.metal3.io/machine-remediation"
	eventually(t, "the kind Machine", func() string { // until the API server serves it
		return text(admin.Create(t.Context(), object("Machine", "quiet", `{team: a}`)))
	})
	create(object("Machine", "asked", `{`+request+`: "", remediation.metal3.io/stage: "{}"}`))
	create(object("BareMetalHost", "quiet", `{team: a}`))
	create(object("BareMetalHost", "held", `{`+hold+`: '{"mode":"hard"}'}`))
	for _, obj := range kustomized(t, "admission") {
		create(obj)
	}

	users := map[string]client.Client{}
	for _, user := range []string{"writer", "mover", "remediator", "editor"} {
		users[user] = as(t, config, user)
	}
	users["host controller"] = as(t, config, "system:serviceaccount:"+namespace+":ingot-host", "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	// Nothing of this is stored, so that each case begins alike.
	added := func(kind, annotations string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Create(t.Context(), object(kind, "new", annotations), client.DryRunAll)
		}
	}
	changed := func(kind, name, annotations string) func(client.Client) error {
		body, err := yaml.YAMLToJSON([]byte(`{metadata: {annotations: ` + annotations + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		return func(c client.Client) error {
			return c.Patch(t.Context(), object(kind, name, "{}"), client.RawPatch(types.MergePatchType, body), client.DryRunAll)
		}
	}
	status := func(kind, name string) func(client.Client) error {
		return func(c client.Client) error {
			body := `{"metadata":{"annotations":{"` + request + `":"x","` + hold + `":"x"}},"status":{"poweredOn":true,"errorMessage":"","errorCount":0,"operationalStatus":"OK","provisioning":{"ID":"","state":""}}}`
			return c.Status().Patch(t.Context(), object(kind, name, "{}"), client.RawPatch(types.MergePatchType, []byte(body)), client.DryRunAll)
		}
	}
	eventually(t, "enforcement of the policies", func() string {
		for _, do := range []func(client.Client) error{added("Machine", `{`+request+`: ""}`), added("BareMetalHost", `{reboot.metal3.io: ""}`)} {
			if err := do(users["writer"]); !apierrors.IsForbidden(err) || !strings.Contains(text(err), "needs the verb") {
				return fmt.Sprint(err)
			}
		}
		return ""
	})
	for _, tt := range []struct {
		what    string
		do      func(client.Client) error
		allowed []string
		refused []string
	}{
		{"create a Machine with the request", added("Machine", `{`+request+`: ""}`), []string{"mover"}, []string{"writer"}},
		{"create a Machine", added("Machine", `{team: a}`), []string{"mover", "writer"}, nil},
		{"create a Machine without annotations", added("Machine", `null`), []string{"writer"}, nil},
		{"request recovery", changed("Machine", "quiet", `{`+request+`: ""}`), []string{"mover", "remediator"}, []string{"writer"}},
		{"request recovery among other changes", changed("Machine", "quiet", `{`+request+`: "", team: b}`), []string{"remediator"}, []string{"writer"}},
		{"change a request", changed("Machine", "asked", `{`+request+`: "again"}`), []string{"remediator"}, []string{"writer"}},
		{"withdraw a request", changed("Machine", "asked", `{`+request+`: null}`), []string{"remediator"}, []string{"writer"}},
		{"withdraw a request among other changes", changed("Machine", "asked", `{`+request+`: null, team: b}`), []string{"remediator"}, []string{"writer"}},
		{"remove all annotations with a request", changed("Machine", "asked", `null`), []string{"remediator"}, []string{"writer"}},
		{"have a Node get labels and taints", changed("Machine", "quiet", `{remediation.metal3.io/restore-pending: '{"node":{"name":"a","uid":"b"}}'}`), []string{"mover", "remediator"}, []string{"writer"}},
		{"remove what a recovery keeps", changed("Machine", "asked", `{remediation.metal3.io/stage: null}`), []string{"remediator"}, []string{"writer"}},
		{"create a Machine with what a recovery keeps", added("Machine", `{remediation.metal3.io/stage: "{}"}`), []string{"mover"}, []string{"writer"}},
		{"write other annotations beside a request", changed("Machine", "asked", `{team: b}`), []string{"writer", "remediator"}, nil},
		{"write the status of a Machine", status("Machine", "quiet"), []string{"writer"}, nil},

		{"create a host with a hold", added("BareMetalHost", `{`+hold+`: ""}`), []string{"mover", "editor"}, []string{"writer"}},
		{"create a host", added("BareMetalHost", `{team: a}`), []string{"mover", "writer", "editor"}, nil},
		{"create a host without annotations", added("BareMetalHost", `null`), []string{"writer"}, nil},
		{"reboot a host", changed("BareMetalHost", "quiet", `{reboot.metal3.io: ""}`), []string{"mover", "editor", "host controller"}, []string{"writer"}},
		{"reboot a host among other changes", changed("BareMetalHost", "quiet", `{reboot.metal3.io: "", team: b}`), []string{"editor"}, []string{"writer"}},
		{"hold a host off", changed("BareMetalHost", "quiet", `{`+hold+`: ""}`), []string{"editor"}, []string{"writer"}},
		{"hold a host off with a second hold", changed("BareMetalHost", "held", `{reboot.metal3.io/b: ""}`), []string{"editor"}, []string{"writer"}},
		{"change a hold", changed("BareMetalHost", "held", `{`+hold+`: ""}`), []string{"editor"}, []string{"writer"}},
		{"remove a hold", changed("BareMetalHost", "held", `{`+hold+`: null}`), []string{"editor", "host controller"}, []string{"writer"}},
		{"remove a hold among other changes", changed("BareMetalHost", "held", `{`+hold+`: null, team: b}`), []string{"editor"}, []string{"writer"}},
		{"remove all annotations with a hold", changed("BareMetalHost", "held", `null`), []string{"editor"}, []string{"writer"}},
		{"write other annotations beside a hold", changed("BareMetalHost", "held", `{team: b}`), []string{"writer", "editor"}, nil},
		{"write the status of a host", status("BareMetalHost", "held"), []string{"writer", "host controller"}, nil},
	} {
		for _, user := range tt.allowed {
			if err := tt.do(users[user]); err != nil {
				t.Errorf("%s may not %s: %v", user, tt.what, err)
			}
		}
		for _, user := range tt.refused {
			if err := tt.do(users[user]); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "needs the verb") {
				t.Errorf("%s, %s: %v, want it refused by the policy", user, tt.what, err)
			}
		}
	}
}

// as is a client with the rights of a user; without a name, of an administrator.
func as(t *testing.T, config *rest.Config, user string, groups ...string) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// eventually waits until check returns "", and fails with what it said last.
func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	polltest.Until(t, 3*time.Minute, what, func() error {
		if problem := check(); problem != "" {
			return errors.New(problem)
		}
		return nil
	})
}

func TestTheChartHasThePoliciesWhenTheyAreSwitchedOn(t *testing.T) {
	isAccepted(t, kustomized(t, "admission"), false)
	policies := func(values ...string) []*unstructured.Unstructured {
		var found []*unstructured.Unstructured
		for _, obj := range rendered(t, namespace, append(values, "engine.enabled=false")...) {
			if strings.HasPrefix(obj.GetKind(), "ValidatingAdmissionPolicy") {
				found = append(found, obj)
			}
		}
		return found
	}
	if found := policies(); len(found) > 0 {
		t.Errorf("by default there are %v", named(found))
	}
	want, got := map[string]any{}, map[string]any{}
	for _, obj := range kustomized(t, "admission") {
		want[obj.GetKind()+"/"+obj.GetName()] = obj.Object
	}
	for _, obj := range policies("admissionPolicies.enabled=true") {
		got[obj.GetKind()+"/"+obj.GetName()] = obj.Object
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 4 {
		t.Errorf("config and chart differ (-config +chart):\n%s", diff)
	}
}
