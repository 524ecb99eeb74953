//go:build compat

package upstream_test

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/test/process"
)

// leavesUpdatesOfUsedHosts asks for another BIOS setting of a host in use. This engine cannot apply
// it: the host says so, and nothing else happens to the host.
func (h *ironicHosts) leavesUpdatesOfUsedHosts(host *v1alpha1.BareMetalHost) {
	h.t.Helper()
	before := len(h.done(0))
	settings := &v1alpha1.HostFirmwareSettings{ObjectMeta: h.meta(host.Name)}
	process.Eventually(h.t, hostWithin, "BIOS settings of host "+host.Name, func() bool {
		err := h.kube.Get(h.t.Context(), client.ObjectKeyFromObject(settings), settings)
		return err == nil && len(settings.Status.Settings) > 0
	})
	name, value := otherSetting(settings.Status.Settings)
	if name == "" {
		h.t.Fatalf("settings = %v, want one of those that the machine has", settings.Status.Settings)
	}
	must(h.t, "create policy", h.kube.Create(h.t.Context(), &v1alpha1.HostUpdatePolicy{
		ObjectMeta: h.meta(host.Name), Spec: v1alpha1.HostUpdatePolicySpec{FirmwareSettings: v1alpha1.UpdateOnReboot},
	}))
	h.change(settings, func() { settings.Spec.Settings = map[string]intstr.IntOrString{name: intstr.FromString(value)} })
	tooOld := func(got *v1alpha1.BareMetalHost) bool {
		c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.UpdatePendingCondition)
		return c != nil && c.Reason == v1alpha1.UpdateEngineTooOldReason
	}
	h.shows(host, "waiting for a newer engine", tooOld)
	if host.Status.Provisioning.State != v1alpha1.StateProvisioned || host.Status.ErrorType != "" {
		h.t.Errorf("the host is in %q with the error %q, want it provisioned without one", host.Status.Provisioning.State, host.Status.ErrorMessage)
	}
	h.change(settings, func() { settings.Spec.Settings = map[string]intstr.IntOrString{} })
	h.shows(host, "not waiting any more", func(got *v1alpha1.BareMetalHost) bool { return !tooOld(got) })
	if done := h.done(0)[before:]; len(done) != 0 {
		h.t.Errorf("%q was done to a machine in use", done)
	}
}

// otherSetting returns one of the present settings, with a value that it does not have.
func otherSetting(present map[string]string) (name, value string) {
	for _, a := range redfish.Profile(redfish.Vendors[0]).Attributes {
		for _, v := range a.Values {
			if now, there := present[a.Name]; there && a.Type == bmc.Enumeration && !a.ReadOnly && v != now {
				return a.Name, v
			}
		}
	}
	return "", ""
}
