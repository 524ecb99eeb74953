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

// overIPMI is a host whose ramdisk boots over the network.
func overIPMI(number int, change func(*v1alpha1.BareMetalHost)) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.Address = fmt.Sprintf("ipmi://192.0.2.%d", number)
		if change != nil {
			change(h)
		}
	}
}

// inspects adds a host that takes a slot until it is freed.
func (l *life) inspects(name string, number int) {
	l.Helper()
	l.add(name, overIPMI(number, nil))
	l.rests(name, v1alpha1.StateInspecting)
}

func (l *life) free(name string) {
	l.Helper()
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	l.node(name, func(n *provisioner.Node) { n.State = node.Manageable })
	l.rests(name, v1alpha1.StateExternallyProvisioned)
}

func TestWorkThatBootsARamdiskWaitsForASlot(t *testing.T) {
	const other = "demo-inspecting-other"
	for name, tt := range map[string]struct {
		before  func(*v1alpha1.BareMetalHost)
		state   v1alpha1.ProvisioningState // "" for a host that is new
		begin   func(*life)
		request string
	}{
		"inspection": {nil, "", nil, "inspect"},
		"inspection again": {
			nil, v1alpha1.StateAvailable, func(l *life) { l.annotate("web", v1alpha1.InspectAnnotation, "") }, "inspect",
		},
		"deployment":   {nil, v1alpha1.StateAvailable, func(l *life) { l.edit("web", withImage) }, "deploy"},
		"its removal":  {withImage, v1alpha1.StateProvisioned, func(l *life) { l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }) }, "undeploy"},
		"its deletion": {withImage, v1alpha1.StateProvisioned, func(l *life) { l.remove(l.host("web")) }, "undeploy"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, func(c *Config) { c.Capacity = 1 })
			if tt.state != "" {
				l.add("web", overIPMI(1, tt.before))
				l.rests("web", tt.state)
				l.inspects(other, 2)
				tt.begin(l)
			} else {
				tt.state = v1alpha1.StateRegistering
				l.inspects(other, 2)
				l.add("web", overIPMI(1, tt.before))
			}
			before := l.count("web", tt.request)
			if h := l.rests("web", tt.state); h.Status.OperationalStatus != v1alpha1.OperationalStatusDelayed || l.count("web", tt.request) != before {
				t.Errorf("operational status %q, asked %q; want it delayed", h.Status.OperationalStatus, l.effects("web"))
			}
			l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.QueuedReason)
			l.free(other)
			l.until("web", "at work", func(*v1alpha1.BareMetalHost) bool { return l.count("web", tt.request) == before+1 })
		})
	}
}

func TestHostThatPausesAfterAFailureGivesItsSlotBack(t *testing.T) {
	const failing, other = "demo-inspection-error", "demo-inspecting-other"
	l := newLife(t, func(c *Config) { c.Capacity = 1 })
	l.add(failing, overIPMI(1, nil))
	l.fails(failing, v1alpha1.ErrorInspection)
	l.inspects(other, 2)
	l.now = l.now.Add(time.Hour)
	for range 5 {
		l.now = l.now.Add(l.pass(failing))
	}
	if got := l.count(failing, "inspect"); got != 1 {
		t.Errorf("%d inspections, though another host has the slot", got)
	}
	l.says(failing, v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.QueuedReason)
	l.free(other)
	l.until(failing, "inspected again", func(*v1alpha1.BareMetalHost) bool { return l.count(failing, "inspect") == 2 })

	// In the next pause it keeps its place in the queue, and keeps nobody from the slot.
	l.until(failing, "failed again", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Operation.Request == "" && h.Status.ErrorCount == 2
	})
	l.inspects("demo-inspecting-third", 3)
}

func TestPausedHostKeepsItsSlotOnlyUntilTheEngineHasDoneItsWork(t *testing.T) {
	const paused, other = "demo-inspecting-paused", "demo-inspecting-other"
	l := newLife(t, func(c *Config) { c.Capacity = 1 })
	l.inspects(paused, 1)
	l.annotate(paused, v1alpha1.PausedAnnotation, "")
	l.add(other, overIPMI(2, nil))
	l.rests(other, v1alpha1.StateRegistering)
	l.says(other, v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.QueuedReason)

	l.node(paused, func(n *provisioner.Node) { n.State = node.Manageable })
	l.rests(other, v1alpha1.StateInspecting)
	if h := l.host(paused); h.Status.Provisioning.State != v1alpha1.StateInspecting {
		t.Errorf("the paused host is in state %q, want it as it was", h.Status.Provisioning.State)
	}
}

func TestRestoredHostGetsNoPlaceBeforeThoseThatWait(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: `{"provisioning":{"state":"registering"},"operation":{"name":"register","queuedAt":"2001-01-01T00:00:00Z"}}`}
	})
	l.until("web", "restored", func(h *v1alpha1.BareMetalHost) bool { return h.Status.LastUpdated != nil })
	if at := l.host("web").Status.Operation.QueuedAt; at != nil {
		t.Errorf("queued at %v", at)
	}
}

func TestOnlyAHostThatTheEngineWorksOnTakesASlot(t *testing.T) {
	at := metav1.NewTime(testNow)
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		want   bool
	}{
		"at work":            {nil, true},
		"about to begin":     {func(h *v1alpha1.BareMetalHost) { h.Status.Operation = v1alpha1.OperationStatus{} }, true},
		"without a node":     {func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.ID = "" }, false},
		"waits for somebody": {func(h *v1alpha1.BareMetalHost) { h.Status.Operation.Request = "" }, false},
		"pauses": {func(h *v1alpha1.BareMetalHost) {
			h.Status.Operation.Request, h.Status.Operation.Failures, h.Status.Operation.FailedAt = "", 1, &at
		}, false},
		"queued":                {func(h *v1alpha1.BareMetalHost) { h.Status.Operation.QueuedAt = &at }, false},
		"in use":                {func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateProvisioned }, false},
		"boots an image":        {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = testAddress }, false},
		"has no BMC":            {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }, false},
		"address is no address": {func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "dreams://x" }, false},
	} {
		h := testHost(overIPMI(1, nil))
		h.Status.Provisioning = v1alpha1.ProvisionStatus{State: v1alpha1.StatePreparing, ID: "n1"}
		h.Status.Operation = v1alpha1.OperationStatus{Name: v1alpha1.OperationPrepare, Request: askProvide}
		if tt.change != nil {
			tt.change(h)
		}
		if got := isBusy(h); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
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
