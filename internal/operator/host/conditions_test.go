package host

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// passOver returns the scope of a pass that found the host in a state, with a
// node that is available and alive if there is one.
func passOver(state v1alpha1.ProvisioningState, change func(*scope)) *scope {
	h := testHost(func(h *v1alpha1.BareMetalHost) {
		h.Generation = 7
		h.Status.Provisioning.State = state
		if linkedStates[state] || state == v1alpha1.StateDeleting {
			h.Status.Provisioning.ID = "n1"
		}
	})
	s := newScope(h, testNow, 5*time.Minute)
	if linkedStates[state] {
		s.node = &provisioner.Node{ID: "n1", State: node.Available, Agent: provisioner.Agent{LastHeartbeat: testNow.Add(-time.Minute)}}
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestConditionsByStateAndStatus(t *testing.T) {
	failed := func(s *scope) {
		s.host.Status.ErrorType, s.host.Status.ErrorMessage = v1alpha1.ErrorPreparation, "disk on fire"
	}
	for _, tt := range []struct {
		name        string
		state       v1alpha1.ProvisioningState
		change      func(*scope)
		operational v1alpha1.OperationalStatus
		// want holds type=status/reason.
		want []string
	}{
		{
			"before the first pass", v1alpha1.StateNone, nil, v1alpha1.OperationalStatusDiscovered,
			[]string{"Manageable=False/NotManaged", "Ready=False/NotProvisioned", "AvailableForProvisioning=False/NotManageableReason"},
		},
		{
			"unmanaged", v1alpha1.StateUnmanaged, func(s *scope) { s.waiting("boot it") }, v1alpha1.OperationalStatusDiscovered,
			[]string{"Manageable=False/NotManaged", "Progressing=False/NotProgressing", "PowerManagementSupported=False/NoBMC"},
		},
		{
			"importing", v1alpha1.StateImporting, func(s *scope) { s.working(v1alpha1.ImportingReason, "reading") }, v1alpha1.OperationalStatusDiscovered,
			[]string{"Manageable=True/Manageable", "Progressing=True/Importing", "AvailableForProvisioning=False/NotAvailable"},
		},
		{
			"preparing", v1alpha1.StatePreparing, func(s *scope) { s.working(v1alpha1.PreparingReason, "at work") }, v1alpha1.OperationalStatusOK,
			[]string{"Progressing=True/Preparing", "Provisioned=False/NotProvisioned"},
		},
		{
			"preparation failed", v1alpha1.StatePreparing, failed, v1alpha1.OperationalStatusError,
			[]string{"Ready=False/Error", "Manageable=True/Manageable"},
		},
		{
			"available", v1alpha1.StateAvailable, nil, v1alpha1.OperationalStatusOK,
			[]string{"AvailableForProvisioning=True/Available", "Progressing=False/NotProgressing", "Healthy=Unknown/Unknown"},
		},
		{
			"available, agent silent", v1alpha1.StateAvailable,
			func(s *scope) { s.node.Agent.LastHeartbeat = testNow.Add(-6 * time.Minute) }, v1alpha1.OperationalStatusOK,
			[]string{"AvailableForProvisioning=False/AgentNotConnected"},
		},
		{
			"available, agent never heard of", v1alpha1.StateAvailable,
			func(s *scope) { s.node.Agent.LastHeartbeat = time.Time{} }, v1alpha1.OperationalStatusOK,
			[]string{"AvailableForProvisioning=False/AgentNotConnected"},
		},
		{
			"available, node in maintenance", v1alpha1.StateAvailable, func(s *scope) { s.node.Maintenance = true }, v1alpha1.OperationalStatusOK,
			[]string{"AvailableForProvisioning=False/NotAvailable"},
		},
		{
			"available, engine down", v1alpha1.StateAvailable,
			func(s *scope) {
				s.node, s.engineReason, s.engineError = nil, v1alpha1.EngineUnreachableReason, "connection refused"
			}, v1alpha1.OperationalStatusOK,
			[]string{"AvailableForProvisioning=Unknown/EngineUnreachable", "Manageable=Unknown/EngineUnreachable", "Progressing=False/NotProgressing"},
		},
		{
			"externally provisioned", v1alpha1.StateExternallyProvisioned, nil, v1alpha1.OperationalStatusOK,
			[]string{"Provisioned=True/Provisioned", "Ready=True/Provisioned", "AvailableForProvisioning=False/NotAvailable"},
		},
		{
			"deletion failed", v1alpha1.StateDeleting,
			func(s *scope) { s.host.Status.ErrorType = v1alpha1.ErrorRegistration }, v1alpha1.OperationalStatusError,
			[]string{"Manageable=False/RegistrationFailed", "Ready=False/Error"},
		},
		{
			"with a BMC", v1alpha1.StateNone, func(s *scope) { s.host.Spec.BMC.Address = "ipmi://192.0.2.1" }, v1alpha1.OperationalStatusOK,
			[]string{"Manageable=False/NotManaged", "PowerManagementSupported=True/Supported"},
		},
		{
			"provisioned", v1alpha1.StateProvisioned, func(s *scope) { s.node.State = node.Active }, v1alpha1.OperationalStatusOK,
			[]string{"Provisioned=True/Provisioned", "Ready=True/Provisioned", "AvailableForProvisioning=False/NotAvailable"},
		},
		{
			"provisioned, being adopted", v1alpha1.StateProvisioned, func(s *scope) { s.node.State = node.Adopting }, v1alpha1.OperationalStatusOK,
			[]string{"Provisioned=True/Provisioned", "Ready=True/Provisioned"},
		},
		{
			"provisioned, and free for the engine", v1alpha1.StateProvisioned, nil, v1alpha1.OperationalStatusOK,
			[]string{"Provisioned=True/Provisioned", "Ready=False/NotManageableReason"},
		},
		{
			"provisioning", v1alpha1.StateProvisioning, nil, v1alpha1.OperationalStatusOK,
			[]string{"Provisioned=False/Provisioning", "Ready=False/NotProvisioned", "AvailableForProvisioning=False/NotAvailable"},
		},
		{
			"inspecting", v1alpha1.StateInspecting, nil, v1alpha1.OperationalStatusOK,
			[]string{"Provisioned=False/NotProvisioned", "AvailableForProvisioning=False/Inspecting"},
		},
		{
			"waits for a slot", v1alpha1.StateAvailable, func(s *scope) { s.delayed = true }, v1alpha1.OperationalStatusDelayed,
			[]string{"Ready=False/NotProvisioned", "Manageable=True/Manageable"},
		},
		{
			"detached in use", v1alpha1.StateProvisioned, func(s *scope) { s.detached = true }, v1alpha1.OperationalStatusDetached,
			[]string{"Provisioned=True/Provisioned", "Ready=False/Detached"},
		},
		{
			"power failure in use", v1alpha1.StateProvisioned,
			func(s *scope) { s.host.Status.ErrorType = v1alpha1.ErrorPowerManagement }, v1alpha1.OperationalStatusError,
			[]string{"Manageable=False/PowerFailure", "Ready=False/Error", "Provisioned=True/Provisioned"},
		},
		{
			"registering", v1alpha1.StateRegistering,
			func(s *scope) {
				s.host.Spec.BMC.Address = "ipmi://192.0.2.1"
				s.working(v1alpha1.RegisteringReason, "trying")
			}, v1alpha1.OperationalStatusOK,
			[]string{"Manageable=False/Registering", "Progressing=True/Registering", "AvailableForProvisioning=False/NotManageableReason"},
		},
		{
			"deprovisioning", v1alpha1.StateDeprovisioning, func(s *scope) { s.working(v1alpha1.DeprovisioningReason, "cleaning") }, v1alpha1.OperationalStatusOK,
			[]string{"Progressing=True/Deprovisioning", "Provisioned=False/NotProvisioned", "Ready=False/NotProvisioned", "AvailableForProvisioning=False/NotAvailable"},
		},
		{
			"powering off before delete", v1alpha1.StatePoweringOffBeforeDelete,
			func(s *scope) { s.working(v1alpha1.PoweringOffBeforeDeleteReason, "off") }, v1alpha1.OperationalStatusOK,
			[]string{"Progressing=True/PoweringOffBeforeDelete", "Ready=False/NotProvisioned"},
		},
		{
			"deleting", v1alpha1.StateDeleting, func(s *scope) { s.working(v1alpha1.DeletingReason, "going") }, v1alpha1.OperationalStatusOK,
			[]string{"Progressing=True/Deleting", "Manageable=True/Manageable", "Ready=False/NotProvisioned"},
		},
		{
			"servicing", v1alpha1.StateProvisioned,
			func(s *scope) {
				s.host.Spec.BMC.Address = "ipmi://192.0.2.1"
				s.node.State = node.ServiceWait
			}, v1alpha1.OperationalStatusServicing,
			[]string{"Ready=False/Servicing", "Provisioned=True/Provisioned"},
		},
		{
			"with ignored holds", v1alpha1.StateAvailable, func(s *scope) { s.ignoredHolds = []string{"reboot.metal3.io/x"} }, v1alpha1.OperationalStatusOK,
			[]string{"PowerManagementSupported=False/NoBMC"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := passOver(tt.state, tt.change)
			summarize(s)
			if s.host.Status.OperationalStatus != tt.operational {
				t.Errorf("operational status %q, want %q", s.host.Status.OperationalStatus, tt.operational)
			}
			got := map[string]metav1.Condition{}
			for _, c := range s.host.Status.Conditions {
				got[c.Type] = c
				if c.Reason == "" || c.ObservedGeneration != 7 {
					t.Errorf("%s: reason %q, generation %d", c.Type, c.Reason, c.ObservedGeneration)
				}
			}
			for _, want := range tt.want {
				kind, _, _ := strings.Cut(want, "=")
				c := got[kind]
				if text := kind + "=" + string(c.Status) + "/" + c.Reason; text != want {
					t.Errorf("got %s (%s), want %s", text, c.Message, want)
				}
			}
		})
	}
}

func TestEachHealthOfTheHardwareHasItsCondition(t *testing.T) {
	for health, want := range map[string]struct {
		status metav1.ConditionStatus
		reason string
	}{
		"OK":       {metav1.ConditionTrue, v1alpha1.HealthyReason},
		"Warning":  {metav1.ConditionFalse, v1alpha1.HealthWarningReason},
		"Critical": {metav1.ConditionFalse, v1alpha1.HealthCriticalReason},
		"":         {metav1.ConditionUnknown, v1alpha1.HealthUnknownReason},
		"strange":  {metav1.ConditionUnknown, v1alpha1.HealthUnknownReason},
	} {
		s := passOver(v1alpha1.StateAvailable, func(s *scope) { s.host.Spec.BMC.Address, s.node.Health = "redfish://192.0.2.1", health })
		summarize(s)
		got := conditionOf(s.host.Status.Conditions, v1alpha1.HealthyCondition)
		if got.Status != want.status || got.Reason != want.reason || got.Message == "" {
			t.Errorf("health %q: %s/%s (%s), want %s/%s", health, got.Status, got.Reason, got.Message, want.status, want.reason)
		}
	}
}

func TestPowerIsAliveRamdisk(t *testing.T) {
	s := passOver(v1alpha1.StateAvailable, nil)
	summarize(s)
	if !s.host.Status.PoweredOn {
		t.Error("a machine whose ramdisk answers is shown as off")
	}
	s = passOver(v1alpha1.StateAvailable, func(s *scope) { s.node.Agent.LastHeartbeat = testNow.Add(-time.Hour) })
	summarize(s)
	if s.host.Status.PoweredOn {
		t.Error("a machine that is silent is shown as on")
	}
	s = passOver(v1alpha1.StateExternallyProvisioned, func(s *scope) { s.node.Agent.LastHeartbeat = time.Time{} })
	summarize(s)
	if !s.host.Status.PoweredOn {
		t.Error("a machine that somebody else deployed is shown as off")
	}
}

func TestConditionTimesChangeOnlyWithTheStatus(t *testing.T) {
	s := passOver(v1alpha1.StateAvailable, nil)
	summarize(s)
	before := conditionOf(s.host.Status.Conditions, v1alpha1.AvailableForProvisioningCondition)
	later := newScope(s.host, testNow.Add(time.Minute), 5*time.Minute)
	later.node = s.node
	summarize(later)
	after := conditionOf(later.host.Status.Conditions, v1alpha1.AvailableForProvisioningCondition)
	if !after.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("transition time moved from %s to %s", before.LastTransitionTime, after.LastTransitionTime)
	}
}

func TestRequestsWithoutEffectAreNamedByAnIdleHost(t *testing.T) {
	inspect := func(value string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.InspectAnnotation: value}
		}
	}
	for _, tt := range []struct {
		name   string
		state  v1alpha1.ProvisioningState
		change func(*v1alpha1.BareMetalHost)
		want   string
	}{
		{"nothing asked for", v1alpha1.StateAvailable, func(*v1alpha1.BareMetalHost) {}, "nothing to do"},
		{"inspection of a silent machine", v1alpha1.StateAvailable, inspect(""), "boot it into its ramdisk"},
		{"inspection of a machine in use", v1alpha1.StateProvisioned, inspect(""), "waits until the host is available"},
		{"inspection of another's machine", v1alpha1.StateExternallyProvisioned, inspect(""), "waits until the host is available"},
		{"inspection that is turned off", v1alpha1.StateAvailable, func(h *v1alpha1.BareMetalHost) {
			inspect("")(h)
			h.Spec.InspectionMode = v1alpha1.InspectionModeDisabled
		}, "disables inspection"},
		{"the old way to turn inspection off", v1alpha1.StateAvailable, inspect("disabled"), "nothing to do"},
		{"external, after it was deployed", v1alpha1.StateProvisioned, func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, "set it to false"},
		{"external", v1alpha1.StateExternallyProvisioned, func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, "nothing to do"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := testHost(func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = tt.state })
			tt.change(h)
			if got := progressing(newScope(h, testNow, 0)); !strings.Contains(got.Message, tt.want) {
				t.Errorf("Progressing says %q, want %q", got.Message, tt.want)
			}
		})
	}
}
