package fencing

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

const (
	testKey   = "reboot.metal3.io/some-owner"
	testValue = `{"mode":"hard","nonce":"1"}`
)

// offHost is a host that is proven to be off by a hold.
func offHost(key, value string) *v1alpha1.BareMetalHost {
	confirmed := metav1.NewTime(time.Unix(1700000000, 0))
	h := &v1alpha1.BareMetalHost{}
	h.Namespace, h.Name = "metal", "rack1-node1"
	h.Annotations = map[string]string{key: value}
	h.Spec.Online = true
	h.Spec.BMC = v1alpha1.BMCDetails{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", CredentialsName: "bmc"}
	h.Status.OperationalStatus = v1alpha1.OperationalStatusOK
	h.Status.Provisioning = v1alpha1.ProvisionStatus{State: v1alpha1.StateProvisioned, ID: "6f3e9b0e-2c50-4a8d-9fd2-4f0d8c5b9c11"}
	h.Status.PowerOffHolds = []v1alpha1.PowerOffHold{
		{Key: "reboot.metal3.io/another-owner", RequestedAt: confirmed},
		{Key: key, Value: recordedValue(value), RequestedAt: confirmed, ConfirmedAt: &confirmed},
	}
	return h
}

func TestOnlyAConfirmedRecordOfThisVeryHoldProvesThatAHostIsOff(t *testing.T) {
	long := `{"mode":"hard","nonce":"` + strings.Repeat("1", 300) + `"}`
	for _, tt := range []struct {
		name   string
		value  string
		change func(h *v1alpha1.BareMetalHost)
		why    string // empty means proven
	}{
		{"confirmed", testValue, func(*v1alpha1.BareMetalHost) {}, ""},
		{"confirmed, value stored as a digest", long, func(*v1alpha1.BareMetalHost) {}, ""},
		{"another error", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorServicing }, ""},
		{"asked, not confirmed", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds[1].ConfirmedAt = nil }, "not confirmed"},
		{"an earlier value is confirmed", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds[1].Value = "" }, "earlier value"},
		{"a long value as it is", long, func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds[1].Value = long }, "earlier value"},
		{"no record", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds = h.Status.PowerOffHolds[:1] }, "no record"},
		{"no records at all", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds = nil }, "keeps no such records"},
		{"powered on again", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.PoweredOn = true }, "is on"},
		{"hold gone", testValue, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil }, "does not have the annotation"},
		{"hold replaced", testValue, func(h *v1alpha1.BareMetalHost) { h.Annotations[testKey] = "" }, "another value"},
		{"power error", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorPowerManagement }, "power management error"},
		{"registration error", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorRegistration }, "registration error"},
		{"provisioned registration error", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorProvisionedRegistration }, "registration error"},
		{"detach error", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorDetach }, "detach error"},
		{"detaching", testValue, func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.DetachedAnnotation] = "" }, "detached"},
		{"detached", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusDetached }, "detached"},
		{"paused", testValue, func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.PausedAnnotation] = "" }, "paused"},
		{"being deleted", testValue, func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, "being deleted"},
		{"unknown to the engine", testValue, func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.ID = "" }, "no node in the engine"},
		{"no BMC", testValue, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }, "no BMC"},
		{"power off disabled", testValue, func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff = true }, "disablePowerOff"},
		{"the BMC of another machine", testValue, func(h *v1alpha1.BareMetalHost) {
			h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.IdentityVerifiedCondition, Status: metav1.ConditionFalse}}
		}, "another machine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := offHost(testKey, tt.value)
			tt.change(h)
			err := ProvenOff(h, testKey, tt.value)
			switch {
			case tt.why == "" && err != nil:
				t.Errorf("not proven: %v", err)
			case tt.why != "" && err == nil:
				t.Errorf("proven, want an error about %q", tt.why)
			case tt.why != "" && !strings.Contains(err.Error(), tt.why):
				t.Errorf("error %q, want one about %q", err, tt.why)
			}
		})
	}
}
