package related_test

import (
	"encoding/json"
	"testing"

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
