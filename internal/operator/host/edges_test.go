package host

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// edge is a host in a state, as any earlier operator may have left it, and where it goes.
type edge struct {
	name string // of the host, for the demo engine
	from v1alpha1.ProvisioningState
	// node is the state of the host's node, "" for no node.
	node node.State
	// plain is a host without a BMC.
	plain  bool
	change func(*v1alpha1.BareMetalHost)
	to     v1alpha1.ProvisioningState
}

func edges() map[string]edge {
	withDetails := func(h *v1alpha1.BareMetalHost) { h.Status.HardwareDetails = &v1alpha1.HardwareDetails{} }
	external := func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	uninspected := func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = v1alpha1.InspectionModeDisabled }
	deployed := func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Status.Provisioning.Image, h.Status.LastAttemptedImage = *h.Spec.Image, h.Spec.Image
	}
	removed := func(h *v1alpha1.BareMetalHost) {
		deployed(h)
		h.Spec.Image = nil
	}
	annotated := func(key, value string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{key: value} }
	}
	volumes := func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
	}
	asked := func(name v1alpha1.OperationName, request string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			h.Status.Operation = v1alpha1.OperationStatus{Name: name, Request: request, Accepted: true}
		}
	}
	both := func(changes ...func(*v1alpha1.BareMetalHost)) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			for _, change := range changes {
				change(h)
			}
		}
	}
	const (
		none, unmanaged, importing, registering = v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateImporting, v1alpha1.StateRegistering
		inspecting, preparing, available        = v1alpha1.StateInspecting, v1alpha1.StatePreparing, v1alpha1.StateAvailable
		provisioning, inUse, externally         = v1alpha1.StateProvisioning, v1alpha1.StateProvisioned, v1alpha1.StateExternallyProvisioned
		deprovisioning                          = v1alpha1.StateDeprovisioning
	)
	return map[string]edge{
		"new":                             {"web", none, "", false, nil, registering},
		"new, without BMC, known":         {"demo-web", none, "", true, nil, importing},
		"new, without BMC, unknown":       {"demo-unmanaged", none, "", true, nil, unmanaged},
		"unmanaged gets a BMC":            {"web", unmanaged, "", false, nil, registering},
		"unmanaged is known now":          {"demo-web", unmanaged, "", true, nil, importing},
		"unmanaged stays":                 {"demo-unmanaged", unmanaged, "", true, nil, unmanaged},
		"importing gets a BMC":            {"web", importing, node.Enroll, false, nil, registering},
		"importing lost its node":         {"demo-web", importing, "", true, nil, unmanaged},
		"importing is external":           {"demo-web", importing, node.Enroll, true, external, externally},
		"importing has details":           {"demo-web", importing, node.Enroll, true, withDetails, preparing},
		"importing without inventory":     {"demo-importing", importing, node.Enroll, true, nil, importing},
		"registering lost its BMC":        {"web", registering, "", true, nil, unmanaged},
		"registered":                      {"web", registering, node.Manageable, false, nil, inspecting},
		"registered, details known":       {"web", registering, node.Manageable, false, withDetails, preparing},
		"registered, no inspection":       {"web", registering, node.Manageable, false, uninspected, preparing},
		"registered, disabled the old":    {"web", registering, node.Manageable, false, annotated(v1alpha1.InspectAnnotation, "disabled"), preparing},
		"registered, external":            {"web", registering, node.Manageable, false, external, externally},
		"registering hangs":               {"demo-registering", registering, "", false, nil, registering},
		"match profile":                   {"web", v1alpha1.StateMatchProfile, node.Manageable, false, withDetails, preparing},
		"inspected":                       {"web", inspecting, node.Manageable, false, nil, preparing},
		"inspecting becomes external":     {"web", inspecting, node.Manageable, false, external, externally},
		"inspection is not wanted now":    {"web", inspecting, node.Manageable, false, uninspected, preparing},
		"prepared":                        {"web", preparing, node.Manageable, false, nil, available},
		"ready":                           {"web", v1alpha1.StateReady, node.Available, false, nil, available},
		"available stays":                 {"web", available, node.Available, false, nil, available},
		"available is external":           {"web", available, node.Available, false, external, externally},
		"available, inspect again":        {"web", available, node.Available, false, annotated(v1alpha1.InspectAnnotation, ""), inspecting},
		"available, inspection disabled":  {"web", available, node.Available, false, annotated(v1alpha1.InspectAnnotation, "disabled"), available},
		"available, other volumes":        {"web", available, node.Available, false, volumes, preparing},
		"available, node left":            {"web", available, node.Manageable, false, nil, preparing},
		"available, image":                {"web", available, node.Available, false, withImage, provisioning},
		"available, image, off":           {"web", available, node.Available, false, both(withImage, func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false }), available},
		"available, deploy method":        {"web", available, node.Available, false, func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: "install"} }, provisioning},
		"available, empty image":          {"web", available, node.Available, false, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{} }, available},
		"deployed":                        {"web", provisioning, node.Available, false, deployed, inUse},
		"deployed, while nobody looked":   {"web", provisioning, node.Active, false, deployed, inUse},
		"deployment fails":                {"demo-provisioning-error", provisioning, node.Available, false, deployed, deprovisioning},
		"image taken away while it waits": {"web", provisioning, node.DeployWait, false, both(removed, asked(v1alpha1.OperationProvision, askDeploy)), deprovisioning},
		"in use":                          {"web", inUse, node.Active, false, deployed, inUse},
		"in use, inspect again":           {"web", inUse, node.Active, false, both(deployed, annotated(v1alpha1.InspectAnnotation, "")), inUse},
		"in use, image taken away":        {"web", inUse, node.Active, false, removed, deprovisioning},
		"in use, other image":             {"web", inUse, node.Active, false, both(deployed, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("b") }), deprovisioning},
		"in use, same image, other sum":   {"web", inUse, node.Active, false, both(deployed, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{URL: h.Spec.Image.URL, Checksum: "x"} }), inUse},
		"in use, deploy method added":     {"web", inUse, node.Active, false, both(deployed, func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: "install"} }), inUse},
		"in use, said to be external":     {"web", inUse, node.Active, false, both(removed, external), inUse},
		"external stays, whatever it has": {"web", externally, node.Active, false, both(external, withImage), externally},
		"external no more":                {"web", externally, node.Active, false, withImage, inUse},
		"deprovisioned":                   {"web", deprovisioning, node.Active, false, removed, available},
		"deprovisioned, already clean":    {"web", deprovisioning, node.Available, false, removed, available},
		"deprovisioning fails":            {"demo-deprovisioning-error", deprovisioning, node.Active, false, removed, deprovisioning},
		"not deleted, though it says so":  {"web", v1alpha1.StateDeleting, node.Available, false, nil, v1alpha1.StateDeleting},
		"state of another version":        {"web", "dreaming", node.Available, false, nil, "dreaming"},
	}
}

func TestEachStateIsFollowedByTheOneThatItsHostAsksFor(t *testing.T) {
	for name, tt := range edges() {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			place := func(h *v1alpha1.BareMetalHost) {
				h.Finalizers = []string{v1alpha1.HostFinalizer}
				h.Status.Provisioning.State = tt.from
				if tt.node != "" && !tt.plain {
					l.inNode(h, tt.node)
				}
				if tt.node != "" && tt.plain {
					n, err := l.engine.Find(t.Context(), provisioner.Identity{Name: provisioner.NodeName("metal", h.Name)})
					if err != nil {
						t.Fatal(err)
					}
					h.Status.Provisioning.ID = n.ID
				}
				if tt.change != nil {
					tt.change(h)
				}
			}
			if tt.plain {
				l.addPlain(tt.name, place)
			} else {
				l.add(tt.name, place)
			}
			id := l.host(tt.name).Status.Provisioning.ID
			to := tt.from
			for range 12 {
				l.now = l.now.Add(l.pass(tt.name))
				if to = l.host(tt.name).Status.Provisioning.State; to != tt.from {
					break
				}
			}
			if to != tt.to {
				t.Errorf("from %q to %q, want %q: %s", tt.from, to, tt.to, l.host(tt.name).Status.ErrorMessage)
			}
			if got := l.host(tt.name).Status.Provisioning.ID; id != "" && got != id {
				t.Errorf("the host had node %s and has %q", id, got)
			}
		})
	}
}

// leaver is a host that is deleted, as any earlier operator may have left it.
type leaver struct {
	state v1alpha1.ProvisioningState
	// node is the state of its node, "" for none.
	node node.State
	// want is what its machine sees. Removing a deployment ends with the power off.
	want []string
}

var leavers = func() []leaver {
	const off, undeploy, abort, del = "power off", "undeploy", "abort", "delete"
	return []leaver{
		{v1alpha1.StateNone, "", nil},
		{v1alpha1.StateUnmanaged, "", nil},
		{v1alpha1.StateRegistering, node.Enroll, []string{del}},
		{v1alpha1.StateImporting, node.Enroll, []string{del}},
		{v1alpha1.StateInspecting, node.InspectWait, []string{off, del}},
		{v1alpha1.StateMatchProfile, node.Manageable, []string{off, del}},
		{v1alpha1.StatePreparing, node.CleanWait, []string{abort, off, del}},
		{v1alpha1.StateReady, node.Available, []string{off, del}},
		{v1alpha1.StateAvailable, node.Available, []string{off, del}},
		{v1alpha1.StateProvisioning, node.DeployWait, []string{undeploy, del}},
		{v1alpha1.StateProvisioned, node.Active, []string{undeploy, del}},
		{v1alpha1.StateExternallyProvisioned, node.Active, []string{off, del}},
		{v1alpha1.StateDeprovisioning, node.DeployFailed, []string{undeploy, del}},
		{v1alpha1.StatePoweringOffBeforeDelete, node.Available, []string{off, del}},
		{v1alpha1.StateDeleting, node.Available, []string{del}},
	}
}()

// placed is a life with the host of a leaver, changed as said.
func (tt leaver) placed(t *testing.T, change func(*v1alpha1.BareMetalHost)) *life {
	t.Helper()
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		h.Finalizers = []string{v1alpha1.HostFinalizer}
		h.Status.Provisioning.State = tt.state
		if tt.node != "" {
			l.inNode(h, tt.node)
		}
		if change != nil {
			change(h)
		}
	})
	return l
}

func TestHostsAreDeletedFromEveryState(t *testing.T) {
	for _, tt := range leavers {
		t.Run(stateNameOf(tt.state), func(t *testing.T) {
			l := tt.placed(t, nil)
			before := len(l.effects("web"))
			l.remove(l.host("web"))
			l.gone("web")
			l.does("web", before, tt.want...)
			for _, e := range l.engine.Effects("") {
				if e.Verb == demo.VerbProvide || e.Verb == demo.VerbInspect {
					t.Errorf("a host that is deleted asks for %s", e.Verb)
				}
			}
		})
	}
}

func stateNameOf(state v1alpha1.ProvisioningState) string {
	if state == v1alpha1.StateNone {
		return "none"
	}
	return strings.ReplaceAll(string(state), " ", "-")
}
