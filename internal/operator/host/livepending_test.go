package host

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// TestConditionSaysWhatAnUpdateOfAHostInUseWaitsFor gives each reason a sentence with what to do.
func TestConditionSaysWhatAnUpdateOfAHostInUseWaitsFor(t *testing.T) {
	policy := func(settings, firmware v1alpha1.UpdatePolicy) *v1alpha1.HostUpdatePolicy {
		return &v1alpha1.HostUpdatePolicy{Spec: v1alpha1.HostUpdatePolicySpec{FirmwareSettings: settings, FirmwareUpdates: firmware}}
	}
	wanted := settingsObject(3, true, map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(9)})
	firmware := componentsObject(4, nil, v1alpha1.FirmwareUpdate{Component: "bmc", URL: "https://images/bmc"})
	allowed := updateObjects{settings: wanted, policy: policy(v1alpha1.UpdateOnReboot, "")}
	invalid := settingsObject(3, true, map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(999)})
	invalid.Status.Conditions[0].Status, invalid.Status.Conditions[0].Message = metav1.ConditionFalse, "BootTimeout is too long"
	unseen := settingsObject(3, true, map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(9)})
	unseen.Status.Conditions = nil
	for _, tt := range []struct {
		name    string
		objects updateObjects
		change  func(*serviceView)
		step    serviceStep
		tooOld  bool
		reason  string // "" removes the condition, "-" leaves it as it is
		says    string
		event   bool
	}{
		{name: "no objects"},
		{name: "the machine has it", objects: updateObjects{settings: settingsObject(3, false, nil)}, reason: v1alpha1.UpToDateReason},
		{name: "not compared yet", objects: updateObjects{settings: unseen}, reason: "-"},
		{name: "invalid", objects: updateObjects{settings: invalid, policy: allowed.policy}, reason: v1alpha1.UpdateFailedReason, says: "BootTimeout is too long"},
		{name: "no policy", objects: updateObjects{settings: wanted}, reason: v1alpha1.UpdateBlockedByPolicyReason, says: "set spec.firmwareSettings of HostUpdatePolicy web to onReboot"},
		{name: "policy forbids both", objects: updateObjects{settings: wanted, components: firmware, policy: policy("", v1alpha1.UpdateOnPreparing)}, reason: v1alpha1.UpdateBlockedByPolicyReason, says: "spec.firmwareSettings and spec.firmwareUpdates"},
		{name: "policy of another operator", objects: updateObjects{settings: wanted, policy: policy("onService", "")}, reason: v1alpha1.UpdateBlockedByPolicyReason, says: `spec.firmwareSettings is "onService", which is unknown`, event: true},
		{name: "engine too old", objects: allowed, tooOld: true, reason: v1alpha1.UpdateEngineTooOldReason, says: "upgrade"},
		{name: "held", objects: allowed, change: func(v *serviceView) { v.requests.holds["reboot.metal3.io/fence"] = "" }, reason: v1alpha1.UpdateBlockedByFencingReason, says: "reboot.metal3.io/fence"},
		{name: "waits", objects: allowed, reason: v1alpha1.UpdateWaitingForRebootReason, says: "Generation 3 of HostFirmwareSettings"},
		{name: "waits, must not be off", objects: allowed, change: func(v *serviceView) { v.requests.neverOff = true }, reason: v1alpha1.UpdateWaitingForRebootReason, says: "spec.disablePowerOff"},
		{name: "waits, off", objects: allowed, change: func(v *serviceView) { v.requests.online = false }, reason: v1alpha1.UpdateWaitingForRebootReason, says: "set spec.online"},
		{name: "waits for the annotation", objects: allowed, change: func(v *serviceView) { v.explicit = true }, reason: v1alpha1.UpdateWaitingForRebootReason, says: "which the policy demands"},
		{name: "in maintenance", objects: allowed, change: func(v *serviceView) {
			v.node.ID, v.node.Maintenance, v.node.MaintenanceReason = "n1", true, "new power supply"
		}, reason: v1alpha1.UpdateNodeInMaintenanceReason, says: "`ingot node maintenance unset n1` ends that: new power supply"},
		{name: "in maintenance since it failed", objects: allowed, change: func(v *serviceView) {
			v.record.Failures, v.node.Maintenance = 1, true
		}, reason: v1alpha1.UpdateNodeInMaintenanceReason},
		{name: "in maintenance for its power", objects: allowed, change: func(v *serviceView) {
			v.node.Maintenance, v.node.Fault = true, node.FaultPowerFailure
		}, reason: v1alpha1.UpdateNodeInMaintenanceReason, says: "the engine ends that"},
		{name: "in maintenance of the engine", objects: allowed, change: func(v *serviceView) {
			v.node.Maintenance, v.node.Fault = true, node.FaultServiceFailure
		}, reason: v1alpha1.UpdateWaitingForRebootReason},
		{name: "begins", objects: allowed, step: serviceBegin, reason: v1alpha1.UpdateRunningReason},
		{name: "runs", objects: allowed, change: func(v *serviceView) { v.record.Request = askService }, step: serviceWait, reason: v1alpha1.UpdateRunningReason},
		{name: "another client services", objects: allowed, step: serviceWait, reason: v1alpha1.UpdateWaitingForRebootReason},
		{name: "failed", objects: allowed, change: func(v *serviceView) { v.record.Failures = 1 }, reason: v1alpha1.UpdateFailedReason, says: "tried again after a wait"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := passOver(v1alpha1.StateProvisioned, func(s *scope) {
				s.changes = changesOf(tt.objects, s.host)
				s.node = &provisioner.Node{ID: "n1", State: node.Active}
			})
			permitted := s.changes.permitted()
			v := serviceCase(node.Active, func(v *serviceView) { v.wanted = permitted.wanted() })
			if tt.change != nil {
				tt.change(&v)
			}
			got := liveUpdate{maxAttempts: 3}.pending(s, v, permitted, tt.step, tt.tooOld)
			switch {
			case tt.reason == "-":
				if got != nil {
					t.Errorf("got %+v, want the condition left alone", *got)
				}
			case got == nil:
				t.Error("the condition is left alone")
			case got.reason != tt.reason || !strings.Contains(got.message, tt.says):
				t.Errorf("got %s %q, want %s with %q", got.reason, got.message, tt.reason, tt.says)
			}
			if (len(s.events) > 0) != tt.event {
				t.Errorf("events %v, want one: %t", s.events, tt.event)
			}
		})
	}
}

func TestMachineOfADeletedHostIsNotPoweredOffWhileItIsUpdatedOrCleaned(t *testing.T) {
	h := testHost(func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.Address, h.Status.Provisioning.ID = "redfish://192.0.2.9/1", "n1"
		h.Status.GoodCredentials.Reference = &corev1.SecretReference{Name: "web-bmc"}
	})
	on := func(state node.State) *provisioner.Node { return &provisioner.Node{State: state, Power: node.PowerOn} }
	for _, tt := range []struct {
		name   string
		node   *provisioner.Node
		inTime bool
		want   offStep
	}{
		{"in use", on(node.Active), true, offAsk},
		{"engine at work", on(node.Servicing), true, offWait},
		{"update runs", on(node.ServiceWait), true, offAbort},
		{"update is held", on(node.ServiceHold), true, offAbort},
		{"update failed", on(node.ServiceFailed), true, offAsk},
		{"cleaning runs", on(node.CleanWait), true, offAbort},
		{"cleaning is held", on(node.CleanHold), true, offAbort},
		{"engine cleans", on(node.Cleaning), true, offWait},
		{"cleaning failed", on(node.CleanFailed), true, offAsk},
		{"cleaning runs for too long", on(node.CleanWait), false, offAsk},
		{"update runs for too long", on(node.ServiceWait), false, offAsk},
		{"engine at work for too long", on(node.Servicing), false, offAsk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideOff(h, tt.node, false, tt.inTime); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestUpdateIsGivenUpOnlyAsLongAsNothingChanges(t *testing.T) {
	host := testHost(func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{"note": "a"}
		h.Status.Provisioning.State = v1alpha1.StateProvisioned
	})
	objects := updateObjects{settings: settingsObject(3, true, map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(9)})}
	pass := func(h *v1alpha1.BareMetalHost, u updateObjects) *scope {
		s := newScope(h, testNow, time.Minute)
		s.changes = changesOf(u, s.host)
		return s
	}
	s := pass(host, objects)
	for range 3 {
		s.fail(&failure{v1alpha1.OperationService, errTest})
	}
	if s.host.Status.Operation.Name != "" || s.host.Status.ErrorType != v1alpha1.ErrorServicing {
		t.Errorf("operation %+v, error %q; want the failure in its own record", s.host.Status.Operation, s.host.Status.ErrorType)
	}
	p := liveUpdate{maxAttempts: 3}
	newer, allowed := objects, objects
	newer.settings = objects.settings.DeepCopy()
	newer.settings.Generation = 4
	allowed.policy = &v1alpha1.HostUpdatePolicy{Spec: v1alpha1.HostUpdatePolicySpec{FirmwareSettings: v1alpha1.UpdateOnReboot}}
	for name, tt := range map[string]struct {
		change  func(*v1alpha1.BareMetalHost)
		objects updateObjects
		want    bool
	}{
		"nothing":            {nil, objects, true},
		"another annotation": {func(h *v1alpha1.BareMetalHost) { h.Annotations["note"] = "b" }, objects, true},
		"a restart":          {func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.RebootAnnotation] = "" }, objects, false},
		"the host's spec":    {func(h *v1alpha1.BareMetalHost) { h.Generation = 2 }, objects, false},
		"the settings":       {nil, newer, false},
		"the policy":         {nil, allowed, false},
	} {
		h := s.host.DeepCopy()
		if tt.change != nil {
			tt.change(h)
		}
		now := pass(h, tt.objects)
		now.credentialsVersion = "other" // a Secret changes also when it gets a label
		if got := p.outOfAttempts(now, h.Status.Updates.Service); got != tt.want {
			t.Errorf("after a change of %s: given up %t, want %t", name, got, tt.want)
		}
	}
}
