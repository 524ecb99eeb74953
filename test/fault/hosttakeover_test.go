//go:build fault

package fault_test

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// takeOver gives the host of a discovered machine the BMC of another machine, and then its own.
func (l *hostLife) takeOver() {
	l.t.Helper()
	before := l.read()
	_, since := l.machine.effects(0)
	l.create(l.secret())
	l.change(func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = l.bmcOf(l.machine.other()) })
	refused := func(h *v1alpha1.BareMetalHost) bool { return identityOf(h) == v1alpha1.IdentityMismatchReason }
	l.becomes("refused with the BMC of another machine", refused)
	l.annotate(v1alpha1.RebootAnnotation)
	l.becomes("refused again", func(h *v1alpha1.BareMetalHost) bool { return refused(h) && h.Status.ErrorCount > 1 })
	l.change(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.RebootAnnotation) })
	l.byHand = false
	l.change(func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = l.bmcOf(l.machine) })
	after := l.becomes("in use with its own BMC", func(h *v1alpha1.BareMetalHost) bool {
		return identityOf(h) == v1alpha1.IdentityVerifiedReason && inUse(h)
	})
	if after.Status.Provisioning.ID != before.Status.Provisioning.ID {
		l.t.Errorf("the host has node %s, want %s", after.Status.Provisioning.ID, before.Status.Provisioning.ID)
	}
	var n struct{ Driver string }
	// With an error, the engine is dead.
	if err := l.api.read("/v1/nodes/"+l.uuid, &n); err == nil && n.Driver != l.shape.driver {
		l.t.Errorf("the node has the driver %s, want %s", n.Driver, l.shape.driver)
	}
	l.nothingDone(since)
	l.runs()
}

// identityOf returns the reason of the condition that says whether the host is that of the machine
// behind its BMC.
func identityOf(h *v1alpha1.BareMetalHost) string {
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.IdentityVerifiedCondition)
	if c == nil {
		return ""
	}
	return c.Reason
}

// inUse reports whether a host with an image is as it should be.
func inUse(h *v1alpha1.BareMetalHost) bool {
	s := h.Status
	return s.Provisioning.State == v1alpha1.StateProvisioned && s.Provisioning.ID != "" && s.PoweredOn && s.ErrorType == "" &&
		s.OperationalStatus == v1alpha1.OperationalStatusOK
}

// nothingDone checks that nothing was done to the machine after a sequence number of effects.
func (l *hostLife) nothingDone(since int64) {
	l.t.Helper()
	effects, _ := l.machine.effects(since)
	if effects = slices.DeleteFunc(effects, func(e effect.Effect) bool { return e.Kind == effect.AgentCommand }); len(effects) > 0 {
		l.t.Errorf("done to the machine, which had to stay as it was:\n%s", describeEffects(effects))
	}
}

// checkOther checks that nothing was done to the machine next to that of the host, and that it is
// off.
func (l *hostLife) checkOther() {
	l.t.Helper()
	other := l.machine.other()
	if effects, _ := other.effects(0); len(effects) > 0 || other.observe().PowerState != string(bmc.Off) {
		l.t.Errorf("the other machine is %s; done to it:\n%s", other.observe().PowerState, describeEffects(effects))
	}
	var list struct{ Nodes []shownNode }
	if err := l.api.read("/v1/nodes", &list); err == nil && len(list.Nodes) > 0 {
		l.t.Errorf("the engine has the nodes %+v, want none after the deletion", list.Nodes)
	}
}
