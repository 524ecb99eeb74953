package operator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestStatusAnnotationIsRestoredOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("demo-restored")
	status, err := json.Marshal(map[string]any{"provisioning": map[string]any{"ID": id}})
	if err != nil {
		t.Fatal(err)
	}
	h := b.plainHost("restored", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: string(status)}
	})
	got := b.inState("restored", v1alpha1.StateAvailable)
	if got.Status.Provisioning.ID != id {
		t.Errorf("node = %s, want %s from the annotation", got.Status.Provisioning.ID, id)
	}
	// A second annotation is dropped, because the host has a status.
	b.update(h, func() {
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: `{"provisioning":{"ID":"other","state":"provisioned"}}`}
	})
	b.eventually("annotation removed", func() string {
		if _, there := b.host("restored").Annotations[v1alpha1.StatusAnnotation]; there {
			return "it is still there"
		}
		return ""
	})
	if got := b.host("restored").Status.Provisioning; got.ID != id || got.State != v1alpha1.StateAvailable {
		t.Errorf("provisioning = %+v, want it unchanged", got)
	}
}

// TestAvailableHostIsRestoredThoughFinalizerAndLabelAreMissing creates hosts as a backup without
// metadata does. The status that the operator writes first has to be valid for the API server.
func TestAvailableHostIsRestoredThoughFinalizerAndLabelAreMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	restored := func(id string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{
				v1alpha1.StatusAnnotation: fmt.Sprintf(`{"operationalStatus":"OK","provisioning":{"ID":%q,"state":"available"}}`, id),
			}
		}
	}
	b.plainHost("plain", restored(b.boot("demo-plain")))
	b.bmcHost("web", restored(""))
	for _, name := range []string{"plain", "web"} {
		b.hasCondition(name, v1alpha1.AvailableForProvisioningCondition, metav1.ConditionTrue, v1alpha1.AvailableReason)
		h := b.host(name)
		if !slices.Contains(h.Finalizers, v1alpha1.HostFinalizer) {
			t.Errorf("%s has the finalizers %q, want the operator's", name, h.Finalizers)
		}
		if _, there := h.Labels[v1alpha1.PowerManagementLabel]; there == h.HasBMC() {
			t.Errorf("%s has the labels %v", name, h.Labels)
		}
	}
}

func TestUnusableStatusAnnotationIsReportedAndIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.plainHost("demo-odd", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: `{"operationalStatus":"on fire"}`}
	})
	b.hasEvent("demo-odd", "InvalidAnnotationValue")
	b.inState("demo-odd", v1alpha1.StateAvailable)
}

func TestRebootOfHostWithoutBMCIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.plainHost("demo-reboot", nil)
	b.inState("demo-reboot", v1alpha1.StateAvailable)
	const hold = v1alpha1.RebootAnnotationPrefix + "fence"
	b.update(h, func() {
		h.Annotations = map[string]string{v1alpha1.RebootAnnotation: "", hold: `{"mode":"hard"}`}
	})
	b.eventually("one-time request removed", func() string {
		annotations := b.host("demo-reboot").Annotations
		if _, there := annotations[v1alpha1.RebootAnnotation]; there {
			return "it is still there"
		}
		if _, there := annotations[hold]; !there {
			t.Fatal("the hold of somebody else was removed")
		}
		return ""
	})
	b.hasEvent("demo-reboot", "PowerManagementUnsupported")
	b.eventually("hold named in the condition", func() string {
		for _, c := range b.host("demo-reboot").Status.Conditions {
			if c.Type == v1alpha1.PowerManagementSupportedCondition && c.Message == "The host has no BMC; these annotations have no effect: "+hold {
				return ""
			}
		}
		return "conditions: " + conditionText(b.host("demo-reboot").Status.Conditions)
	})
}

func TestHardwareDetailsFromTheAnnotation(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	supplied := map[string]string{v1alpha1.HardwareDetailsAnnotation: `{"hostname":"supplied"}`}
	hostname := func(name string) string {
		if h := b.host(name); h.Status.HardwareDetails != nil {
			return h.Status.HardwareDetails.Hostname
		}
		return ""
	}
	consumed := func(name string) {
		t.Helper()
		b.eventually("annotation of "+name+" consumed", func() string {
			if _, there := b.host(name).Annotations[v1alpha1.HardwareDetailsAnnotation]; there {
				return "it is still there"
			}
			return ""
		})
	}

	b.plainHost("demo-unmanaged-none", func(h *v1alpha1.BareMetalHost) { h.Annotations = supplied })
	consumed("demo-unmanaged-none")
	if got := hostname("demo-unmanaged-none"); got != "supplied" {
		t.Errorf("host without details has host name %q, want the supplied one", got)
	}
	b.hasEvent("demo-unmanaged-none", "UpdateHardwareDetails")

	existing := b.plainHost("demo-existing", nil)
	b.inState("demo-existing", v1alpha1.StateAvailable)
	b.update(existing, func() { existing.Annotations = supplied })
	consumed("demo-existing")
	b.hasEvent("demo-existing", "RemoveAnnotation")
	if got := hostname("demo-existing"); got != "demo-existing" {
		t.Errorf("details from inspection were replaced by those of %s", got)
	}
	b.update(existing, func() {
		existing.Annotations, existing.Spec.InspectionMode = supplied, v1alpha1.InspectionModeDisabled
	})
	consumed("demo-existing")
	if got := hostname("demo-existing"); got != "supplied" {
		t.Errorf("host without inspection has host name %q, want the supplied one", got)
	}

	b.plainHost("demo-unmanaged-broken", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.HardwareDetailsAnnotation: `{"ramMebibytes":"much"}`}
	})
	consumed("demo-unmanaged-broken")
	b.hasEvent("demo-unmanaged-broken", "InvalidAnnotationValue")
}

// TestAnnotationsThatTheAPIServerRefusesStopNothing is about values that decode, but that are not
// valid in a status or HardwareData.
func TestAnnotationsThatTheAPIServerRefusesStopNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, annotation := range map[string][2]string{
		"demo-refused-status":  {v1alpha1.StatusAnnotation, `{"provisioning":{"state":"available","image":{"url":"a","format":"zzz"}}}`},
		"demo-refused-details": {v1alpha1.HardwareDetailsAnnotation, `{"nics":[{"mac":"zz"}]}`},
	} {
		b.plainHost(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{annotation[0]: annotation[1]} })
		b.hasEvent(name, "InvalidAnnotationValue")
		b.inState(name, v1alpha1.StateAvailable)
	}
	deleted := b.plainHost("demo-refused-deleted", func(h *v1alpha1.BareMetalHost) {
		h.Finalizers = []string{v1alpha1.HostFinalizer}
		h.Annotations = map[string]string{
			v1alpha1.PausedAnnotation: "", v1alpha1.HardwareDetailsAnnotation: `{"nics":[{"mac":"zz"}]}`,
			v1alpha1.StatusAnnotation: `{"provisioning":{"state":"available","image":{"url":"a","format":"zzz"}}}`,
		}
	})
	b.remove(deleted)
	b.update(deleted, func() { delete(deleted.Annotations, v1alpha1.PausedAnnotation) })
	b.gone("demo-refused-deleted")
}

func TestManyAnnotationsWithoutEffectAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.plainHost("demo-holds", func(h *v1alpha1.BareMetalHost) {
		for i := range 1000 {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, fmt.Sprintf("%s%060d", v1alpha1.RebootAnnotationPrefix, i), "")
		}
	})
	h := b.inState("demo-holds", v1alpha1.StateAvailable)
	for _, c := range h.Status.Conditions {
		if c.Type == v1alpha1.PowerManagementSupportedCondition && !strings.HasSuffix(c.Message, ", and 990 more") {
			t.Errorf("message %q, want the number of those that are not named", c.Message)
		}
	}
}
