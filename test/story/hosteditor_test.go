package story

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// TestWhoMayNotWritePoliciesCannotRunLiveUpdates lets a member of a team ask for an update and
// restart the machine. The member has the shipped roles for hosts, BIOS settings and firmware. The
// update happens only when the administrator allows it.
func TestWhoMayNotWritePoliciesCannotRunLiveUpdates(t *testing.T) {
	t.Parallel()
	r, m := startHostInUse(t)

	ann := m.asHostEditor(t)
	attribute, value := changeableAttribute(t, r.Machine(0).BMC())
	ann.asksFor(t, attribute, value)
	m.differs(t, true)
	ann.mayNotWritePolicies(t)
	ann.isOnlyRestarted(t)

	policy := m.policy(metal3v1alpha1.UpdateOnPreparing)
	if err := m.kube.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	m.seesPolicy(t, policy)
	ann.mayNotWritePolicies(t)
	ann.isOnlyRestarted(t)

	m.edits(t, policy, func() { policy.Spec = m.policy(metal3v1alpha1.UpdateOnReboot).Spec })
	ann.pends(t, metal3v1alpha1.UpdateWaitingForRebootReason)
	if r.flashes() != 0 || r.Machine(0).BMC().BIOS()[attribute] == value {
		t.Error("the machine was updated before its restart")
	}
	ann.restarts(t)
	ann.isServiced(t, attribute, value)
	ann.pends(t, metal3v1alpha1.UpToDateReason)
}

// asHostEditor returns the same host for a member of the group in config/samples/host_editors.yaml.
// The sample gives this group the roles of config/rbac/users in the namespace of the host.
func (m *managed) asHostEditor(t *testing.T) *managed {
	t.Helper()
	roles, err := filepath.Glob("../../config/rbac/users/*.yaml")
	if err != nil || len(roles) == 0 {
		t.Fatalf("no roles: %v", err)
	}
	for _, file := range append(roles, "../../config/samples/host_editors.yaml") {
		for _, obj := range manifest(t, file) {
			switch obj.GetKind() {
			case "Kustomization":
				continue
			case "RoleBinding":
				obj.SetNamespace(m.host.Namespace)
			}
			if err := m.kube.Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
	config := plane.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ann", Groups: []string{"rack1-team", "system:authenticated"}}
	ann := *m
	if ann.kube, err = client.New(config, client.Options{Scheme: m.kube.Scheme()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { // until the API server has seen all bindings
		for _, list := range []client.ObjectList{
			&metal3v1alpha1.BareMetalHostList{}, &metal3v1alpha1.HostFirmwareSettingsList{},
			&metal3v1alpha1.HostFirmwareComponentsList{}, &metal3v1alpha1.HostUpdatePolicyList{},
		} {
			if err := ann.kube.List(ctx, list, client.InNamespace(m.host.Namespace)); err != nil {
				return err
			}
		}
		return nil
	})
	return &ann
}

// manifest reads the objects of a file.
func manifest(t *testing.T, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, obj)
	}
}

// mayNotWritePolicies tries to allow live updates of the host, and everything else that writes policies.
func (m *managed) mayNotWritePolicies(t *testing.T) {
	t.Helper()
	allowed, ctx := m.policy(metal3v1alpha1.UpdateOnReboot), t.Context()
	merge := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"firmwareSettings":"onReboot","firmwareUpdates":"onReboot"}}`))
	for what, err := range map[string]error{
		"create":     m.kube.Create(ctx, allowed.DeepCopy()),
		"update":     m.kube.Update(ctx, allowed.DeepCopy()),
		"patch":      m.kube.Patch(ctx, allowed.DeepCopy(), merge),
		"delete":     m.kube.Delete(ctx, allowed.DeepCopy()),
		"delete all": m.kube.DeleteAllOf(ctx, allowed.DeepCopy(), client.InNamespace(m.host.Namespace)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s a policy: got %v, want that it is forbidden", what, err)
		}
	}
	if t.Failed() {
		t.FailNow() // otherwise the machine would be updated
	}
}

// seesPolicy waits until the operator has made the host the owner of its policy.
func (m *managed) seesPolicy(t *testing.T, policy *metal3v1alpha1.HostUpdatePolicy) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := m.kube.Get(ctx, m.host, policy); err != nil {
			return err
		}
		if !slices.ContainsFunc(policy.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == m.host.Name }) {
			return errors.New("the policy has no owner")
		}
		return nil
	})
}

// isOnlyRestarted restarts the machine while no policy allows its update, and checks that nothing
// else was done to the machine.
func (m *managed) isOnlyRestarted(t *testing.T) {
	t.Helper()
	isBlocked := func() {
		t.Helper()
		message := m.pends(t, metal3v1alpha1.UpdateBlockedByPolicyReason)
		if want := "set spec.firmwareSettings and spec.firmwareUpdates of HostUpdatePolicy " + m.host.Name; !strings.Contains(message, want) {
			t.Errorf("message %q, want one that says: %s", message, want)
		}
	}
	machine := m.Machine(0).BMC()
	settings, components, before := machine.BIOS(), machine.Components(), len(m.Recorder().Effects("0", 0))
	restarts := []string{string(bmc.SoftPowerOff), string(bmc.PowerOn), effect.Boot}
	done := func() (kinds []string) {
		for _, e := range m.Recorder().Effects("0", 0)[before:] {
			kinds = append(kinds, e.Kind)
		}
		return kinds
	}
	isBlocked()
	m.restarts(t)
	eventually(t, func(context.Context) error {
		if kinds := done(); len(kinds) < len(restarts) {
			return errors.New("the machine has not restarted: " + strings.Join(kinds, ", "))
		}
		return nil
	})
	m.isOnAgain(t)
	if diff := cmp.Diff(restarts, done()); diff != "" {
		t.Errorf("done to the machine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(settings, machine.BIOS()); diff != "" || len(machine.PendingBIOS()) > 0 {
		t.Errorf("BIOS settings have changed, or will at the next boot to %v (-before +after):\n%s", machine.PendingBIOS(), diff)
	}
	if diff := cmp.Diff(components, machine.Components()); diff != "" {
		t.Errorf("firmware has changed (-before +after):\n%s", diff)
	}
	isBlocked()
}
