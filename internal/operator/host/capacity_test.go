package host

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestHostsWaitForASlotInTheOrderInWhichTheyAsked(t *testing.T) {
	l := newLife(t, func(c *Config) { c.Capacity = 1 })
	name := func(i int) string { return fmt.Sprintf("demo-inspecting-%d", i) }
	for i := range 3 {
		l.add(name(i), func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = fmt.Sprintf("ipmi://192.0.2.%d", i+1) })
		for range 12 {
			l.now = l.now.Add(l.pass(name(i)))
		}
	}
	l.says(name(0), v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.InspectingReason)
	for _, i := range []int{1, 2} {
		if h := l.host(name(i)); h.Status.OperationalStatus != v1alpha1.OperationalStatusDelayed || h.Status.Provisioning.State != v1alpha1.StateRegistering {
			t.Errorf("%s is %q in state %q, want it delayed", name(i), h.Status.OperationalStatus, h.Status.Provisioning.State)
		}
		l.says(name(i), v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.QueuedReason)
	}
	// A machine that boots an image takes no slot.
	l.add(name(9), nil)
	l.rests(name(9), v1alpha1.StateInspecting)

	l.edit(name(0), func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	l.node(name(0), func(n *provisioner.Node) { n.State = node.Manageable })
	l.until(name(0), "out of its slot", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateExternallyProvisioned
	})
	for range 3 {
		l.pass(name(2)) // it asks first now, but it came later
		l.now = l.now.Add(time.Second)
	}
	if h := l.host(name(2)); h.Status.Provisioning.State != v1alpha1.StateRegistering {
		t.Errorf("%s went before %s", name(2), name(1))
	}
	if h := l.rests(name(1), v1alpha1.StateInspecting); h.Status.OperationalStatus != v1alpha1.OperationalStatusOK {
		t.Errorf("operational status %q", h.Status.OperationalStatus)
	}
}

func TestOwnStatusAndLabelsAreNoReasonForAPass(t *testing.T) {
	before := testHost(func(h *v1alpha1.BareMetalHost) {
		h.Annotations, h.Finalizers = map[string]string{"a": "b"}, []string{v1alpha1.HostFinalizer}
	})
	now := metav1.NewTime(testNow)
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		want   bool
	}{
		"nothing":     {func(*v1alpha1.BareMetalHost) {}, false},
		"status":      {func(h *v1alpha1.BareMetalHost) { h.Status.LastUpdated, h.Status.PoweredOn = &now, true }, false},
		"labels":      {func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"rack": "1"} }, false},
		"version":     {func(h *v1alpha1.BareMetalHost) { h.ResourceVersion = "7" }, false},
		"spec":        {func(h *v1alpha1.BareMetalHost) { h.Generation = 2 }, true},
		"annotations": {func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{"a": "c"} }, true},
		"finalizers":  {func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil }, true},
		"deletion":    {func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &now }, true},
	} {
		after := before.DeepCopy()
		tt.change(after)
		if got := relevant.Update(event.TypedUpdateEvent[*v1alpha1.BareMetalHost]{ObjectOld: before, ObjectNew: after}); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
