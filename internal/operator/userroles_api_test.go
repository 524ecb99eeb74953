package operator_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// userRoles returns the roles for people by name.
func userRoles(b *bench) map[string]rbacv1.ClusterRole {
	b.Helper()
	files, err := filepath.Glob("../../config/rbac/users/*.yaml")
	if err != nil || len(files) == 0 {
		b.Fatalf("no roles: %v", err)
	}
	roles := map[string]rbacv1.ClusterRole{}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		for _, obj := range b.decode(file) {
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &role, true); err != nil {
				b.Fatalf("%s: %v", file, err)
			}
			roles[role.Name] = role
		}
	}
	return roles
}

// TestEachKindHasAViewerAndAnEditor also checks what else the roles allow.
func TestEachKindHasAViewerAndAnEditor(t *testing.T) {
	roles := userRoles(&bench{TB: t})
	reading := []string{"get", "list", "watch"}
	writing := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	for _, crd := range definitions(t) {
		for suffix, verbs := range map[string][]string{"viewer": reading, "editor": writing} {
			name := "ingot-" + crd.Spec.Names.Singular + "-" + suffix
			role, there := roles[name]
			if !there {
				t.Errorf("there is no role %s", name)
				continue
			}
			delete(roles, name)
			if rule := role.Rules[0]; !slices.Equal(rule.Verbs, verbs) || rule.Resources[0] != crd.Spec.Names.Plural {
				t.Errorf("%s: got %v of %v", name, rule.Verbs, rule.Resources)
			}
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					plural, sub, _ := strings.Cut(resource, "/")
					if plural != crd.Spec.Names.Plural || sub != "" && (sub != "status" || !isSubset(rule.Verbs, reading)) {
						t.Errorf("%s gives %v of %s", name, rule.Verbs, resource)
					}
				}
			}
		}
	}
	for name := range roles {
		t.Errorf("role %s is for no kind", name)
	}
}

func isSubset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// TestHostEditorsCannotAllowLiveUpdates acts as a member of the group that the sample names.
func TestHostEditorsCannotAllowLiveUpdates(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	for _, role := range userRoles(b) {
		b.create(&role)
	}
	for _, binding := range b.decode("../../config/samples/host_editors.yaml") {
		binding.SetNamespace(b.namespace)
		b.create(binding)
	}
	config := plane.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ann", Groups: []string{"rack1-team", "system:authenticated"}}
	ann, err := client.New(config, client.Options{Scheme: b.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	b.create(b.object("HostUpdatePolicy", "web", `spec: {firmwareSettings: onPreparing}`))

	patch := func(kind, body string) error {
		return ann.Patch(t.Context(), b.object(kind, "web", `{}`), client.RawPatch(types.MergePatchType, []byte(body)))
	}
	for what, do := range map[string]func() error{
		"create a host": func() error { return ann.Create(t.Context(), b.object("BareMetalHost", "web", `spec: {online: true}`)) },
		"create settings": func() error {
			return ann.Create(t.Context(), b.object("HostFirmwareSettings", "web", `spec: {settings: {}}`))
		},
		"create firmware": func() error {
			return ann.Create(t.Context(), b.object("HostFirmwareComponents", "web", `spec: {updates: []}`))
		},
		"see a policy": func() error {
			policy := b.object("HostUpdatePolicy", "web", `{}`)
			return ann.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)
		},
	} {
		b.eventually(what, func() string { // until the API server has seen the roles
			if err := do(); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	if err := patch("BareMetalHost", `{"metadata":{"annotations":{"reboot.metal3.io":""}}}`); err != nil {
		t.Errorf("request a reboot: %v", err)
	}
	for what, err := range map[string]error{
		"change a policy":          patch("HostUpdatePolicy", `{"spec":{"firmwareSettings":"onReboot"}}`),
		"delete a policy":          ann.Delete(t.Context(), b.object("HostUpdatePolicy", "web", `{}`)),
		"create a policy":          ann.Create(t.Context(), b.object("HostUpdatePolicy", "db", `spec: {firmwareUpdates: onReboot}`)),
		"write a host's status":    ann.Status().Patch(t.Context(), b.object("BareMetalHost", "web", `{}`), client.RawPatch(types.MergePatchType, []byte(`{"status":{"poweredOn":true}}`))),
		"create a data image":      ann.Create(t.Context(), b.object("DataImage", "web", `spec: {url: "http://192.0.2.2/a"}`)),
		"edit a schema":            ann.Create(t.Context(), b.object("FirmwareSchema", "web", `spec: {schema: {}}`)),
		"act in another namespace": ann.List(t.Context(), &v1alpha1.HostUpdatePolicyList{}, client.InNamespace("default")),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want that it is forbidden", what, err)
		}
	}
}
