package related_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

func TestHostsAreNotPausedWhileTheEngineWorksOnThem(t *testing.T) {
	for state, want := range map[v1alpha1.ProvisioningState]bool{
		v1alpha1.StateNone: true, v1alpha1.StateUnmanaged: true, v1alpha1.StateAvailable: true, v1alpha1.StateReady: true,
		v1alpha1.StateProvisioned: true, v1alpha1.StateExternallyProvisioned: true,
		v1alpha1.StateRegistering: false, v1alpha1.StateImporting: false, v1alpha1.StateInspecting: false, v1alpha1.StatePreparing: false,
		v1alpha1.StateProvisioning: false, v1alpha1.StateDeprovisioning: false, v1alpha1.StateDeleting: false, v1alpha1.StatePoweringOffBeforeDelete: false,
	} {
		h := &v1alpha1.BareMetalHost{}
		h.Status.Provisioning.State = state
		if got := related.CanPause(h); got != want {
			t.Errorf("state %q: %v, want %v", state, got, want)
		}
		for _, key := range []string{v1alpha1.DetachedAnnotation, v1alpha1.PausedAnnotation} {
			h.Annotations = map[string]string{key: ""}
			if !related.CanPause(h) {
				t.Errorf("state %q: a host with %s cannot be paused", state, key)
			}
		}
	}
	serviced := &v1alpha1.BareMetalHost{}
	serviced.Status.Provisioning.State, serviced.Status.OperationalStatus = v1alpha1.StateProvisioned, v1alpha1.OperationalStatusServicing
	if related.CanPause(serviced) {
		t.Error("a host can be paused in a live update")
	}
}

// reconciled edits a host object to be one that its operator has reconciled and that has a node.
func reconciled(h *v1alpha1.BareMetalHost) {
	h.Status.LastUpdated, h.Status.Provisioning.ID = &metav1.Time{Time: time.Unix(1, 0)}, "node-1"
	h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PowerManagementSupportedCondition, Status: metav1.ConditionTrue}}
}

func TestHostMovesOnlyWhenItsNodeIsReleasedForItsStatus(t *testing.T) {
	h := &v1alpha1.BareMetalHost{}
	reconciled(h)
	pause := func() {
		t.Helper()
		if err := related.Pause(h); err != nil {
			t.Fatal(err)
		}
	}
	can := func(want bool, when string) {
		t.Helper()
		if got := related.CanMove(h); got != want {
			t.Errorf("can be moved %s: %v", when, got)
		}
	}
	release := func() {
		h.Annotations[v1alpha1.ReleasedAnnotation] = v1alpha1.ReleaseOf(h.Annotations[v1alpha1.StatusAnnotation])
	}
	can(false, "before it is paused")
	pause()
	can(false, "before its node is released")
	release()
	can(true, "with its node released")
	pause()
	can(true, "in the next pass")
	h.Status.PoweredOn = true // a pass that began before the pause
	pause()
	can(false, "with the node released for an older status")
	release()
	can(true, "with its node released for the status")
	related.Resume(h)
	can(false, "when it is not paused any more")
	pause()
	can(false, "with the release of an earlier pause")

	for name, change := range map[string]func(*v1alpha1.BareMetalHost){
		"without a node":        func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.ID = "" },
		"of another operator":   func(h *v1alpha1.BareMetalHost) { h.Status.Conditions = nil },
		"that was not restored": func(h *v1alpha1.BareMetalHost) { h.Status = v1alpha1.BareMetalHostStatus{} },
	} {
		h = &v1alpha1.BareMetalHost{}
		reconciled(h)
		change(h)
		pause()
		can(true, name)
	}
}

func TestHostThatWasNotRestoredKeepsTheStatusThatItCameWith(t *testing.T) {
	for _, paused := range []bool{false, true} {
		h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.StatusAnnotation: "from elsewhere"}}}
		if paused {
			h.Annotations[v1alpha1.PausedAnnotation] = v1alpha1.PausedByClusterAPI
		}
		if err := related.Pause(h); err != nil || h.Annotations[v1alpha1.StatusAnnotation] != "from elsewhere" || !related.CanMove(h) {
			t.Errorf("paused before: %v; error %v, annotations %v", paused, err, h.Annotations)
		}
	}
}

func TestStatusThatIsTooLongIsCarriedWithoutHardwareDetails(t *testing.T) {
	h := &v1alpha1.BareMetalHost{}
	reconciled(h)
	h.Status.HardwareDetails = &v1alpha1.HardwareDetails{}
	for i := range 5000 {
		h.Status.HardwareDetails.NICs = append(h.Status.HardwareDetails.NICs, v1alpha1.NIC{Name: fmt.Sprintf("eth%d", i), Model: "0x8086 0x1572"})
	}
	for pass := range 2 {
		if err := related.Pause(h); err != nil {
			t.Fatal(err)
		}
		text := h.Annotations[v1alpha1.StatusAnnotation]
		var status v1alpha1.BareMetalHostStatus
		if err := json.Unmarshal([]byte(text), &status); err != nil || len(text) > 128<<10 || status.Provisioning.ID != "node-1" || status.HardwareDetails != nil {
			t.Fatalf("%d bytes of status, error %v: %.200s", len(text), err, text)
		}
		if can := related.CanMove(h); can != (pass == 1) {
			t.Errorf("can be moved in pass %d: %t", pass, can)
		}
		h.Annotations[v1alpha1.ReleasedAnnotation] = v1alpha1.ReleaseOf(text)
	}
	if h.Status.HardwareDetails == nil {
		t.Error("the host lost its hardware details")
	}
}

func TestPauseCarriesTheStatusAndOnlyOurOwnEnds(t *testing.T) {
	for before, after := range map[string]string{"": v1alpha1.PausedByClusterAPI, "a person": "a person", v1alpha1.PausedByClusterAPI: v1alpha1.PausedByClusterAPI} {
		h := &v1alpha1.BareMetalHost{}
		h.Status.Provisioning.ID = "node-1"
		if before != "" {
			h.Annotations = map[string]string{v1alpha1.PausedAnnotation: before}
		}
		if err := related.Pause(h); err != nil {
			t.Fatal(err)
		}
		var status v1alpha1.BareMetalHostStatus
		if err := json.Unmarshal([]byte(h.Annotations[v1alpha1.StatusAnnotation]), &status); err != nil || status.Provisioning.ID != "node-1" {
			t.Errorf("status %q, error %v", h.Annotations[v1alpha1.StatusAnnotation], err)
		}
		if got := h.Annotations[v1alpha1.PausedAnnotation]; got != after {
			t.Errorf("a host paused by %q becomes one paused by %q, want %q", before, got, after)
		}
		related.Resume(h)
		if _, paused := h.Annotations[v1alpha1.PausedAnnotation]; paused != (after == "a person") || h.Annotations[v1alpha1.StatusAnnotation] == "" {
			t.Errorf("annotations after the end of the pause are %v", h.Annotations)
		}
	}
}
