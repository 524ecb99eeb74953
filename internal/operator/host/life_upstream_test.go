package host

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// leftBehind is a host as Metal3's operator leaves it. Its status lacks the records of this
// operator. Its node has the name of the host, the host's UID as instance while something is
// deployed, and no mark.
type leftBehind struct {
	state v1alpha1.ProvisioningState
	// node is the state of the node, "" for none.
	node node.State
	// spec and status are changes of the host.
	spec, status func(*v1alpha1.BareMetalHost)
	// then is the state that the node gets when the engine has done what Metal3's operator asked
	// for.
	then node.State
	// to is the state in which the host rests, and does is what is asked of the machine until then.
	to   v1alpha1.ProvisioningState
	does []string
}

func leftBehinds() map[string]leftBehind {
	deployed := func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.Image = *testImage("a") }
	attempted := func(h *v1alpha1.BareMetalHost) { h.Status.LastAttemptedImage = testImage("a") }
	method := func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: "install"} }
	byMethod := func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.CustomDeploy = h.Spec.CustomDeploy }
	bothNamed := func(h *v1alpha1.BareMetalHost) { method(h); withImage(h) }
	external := func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	volumesAsked := func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = volumes(hardwareVolume, nil)
		h.Status.Provisioning.RAID = h.Spec.RAID.DeepCopy()
	}
	volumesFailed := func(h *v1alpha1.BareMetalHost) {
		volumesAsked(h)
		h.Status.ErrorType, h.Status.ErrorMessage, h.Status.ErrorCount = v1alpha1.ErrorPreparation, "a disk is missing", 1
		h.Status.OperationalStatus = v1alpha1.OperationalStatusError
	}
	updateFailed := func(h *v1alpha1.BareMetalHost) {
		deployed(h)
		h.Status.ErrorType, h.Status.ErrorMessage, h.Status.ErrorCount = v1alpha1.ErrorServicing, "the firmware is not signed", 1
		h.Status.OperationalStatus = v1alpha1.OperationalStatusError
	}
	unread := func(h *v1alpha1.BareMetalHost) { h.Status.HardwareDetails = nil }
	const (
		available, inUse, externally = v1alpha1.StateAvailable, v1alpha1.StateProvisioned, v1alpha1.StateExternallyProvisioned
		provisioning, deprovisioning = v1alpha1.StateProvisioning, v1alpha1.StateDeprovisioning
	)
	return map[string]leftBehind{
		"registering, before it asked for anything": {
			v1alpha1.StateRegistering, node.Enroll, nil, unread, "", available, []string{"manage", "inspect", "provide", "power on"},
		},
		"registering":         {v1alpha1.StateRegistering, node.Verifying, nil, unread, node.Manageable, available, []string{"inspect", "provide", "power on"}},
		"registered":          {v1alpha1.StateRegistering, node.Manageable, nil, unread, "", available, []string{"inspect", "provide", "power on"}},
		"inspecting":          {v1alpha1.StateInspecting, node.InspectWait, nil, unread, "", available, []string{"provide", "power on"}},
		"match profile":       {v1alpha1.StateMatchProfile, node.Manageable, nil, nil, "", available, []string{"provide", "power on"}},
		"preparing":           {v1alpha1.StatePreparing, node.Manageable, nil, nil, "", available, []string{"provide", "power on"}},
		"preparing, cleaning": {v1alpha1.StatePreparing, node.CleanWait, nil, nil, node.Available, available, nil},
		"preparing, volumes failed": {
			v1alpha1.StatePreparing, node.CleanFailed, nil, volumesFailed, "", available, []string{"manage", "set raid", "clean", "provide", "power on"},
		},
		"preparing, volumes failed, managed": {
			v1alpha1.StatePreparing, node.Manageable, nil, volumesFailed, "", available, []string{"set raid", "clean", "provide", "power on"},
		},
		"preparing, volumes about to fail": {
			v1alpha1.StatePreparing, node.CleanWait, nil, volumesAsked, node.CleanFailed, available, []string{"manage", "set raid", "clean", "provide", "power on"},
		},
		"ready":                              {v1alpha1.StateReady, node.Available, nil, nil, "", available, nil},
		"available":                          {available, node.Available, nil, nil, "", available, nil},
		"provisioning":                       {provisioning, node.DeployWait, withImage, attempted, node.Active, inUse, nil},
		"provisioning, older":                {provisioning, node.DeployWait, withImage, nil, node.Active, inUse, nil},
		"provisioning, both":                 {provisioning, node.DeployWait, bothNamed, attempted, node.Active, inUse, nil},
		"provisioning, deployed":             {provisioning, node.Active, withImage, nil, "", inUse, nil},
		"provisioning by method":             {provisioning, node.DeployWait, method, nil, node.Active, inUse, nil},
		"provisioned":                        {inUse, node.Active, withImage, deployed, "", inUse, nil},
		"provisioned by method":              {inUse, node.Active, method, byMethod, "", inUse, nil},
		"provisioned by method, image added": {inUse, node.Active, bothNamed, byMethod, "", inUse, nil},
		"provisioned, method added":          {inUse, node.Active, bothNamed, deployed, "", inUse, nil},
		"provisioned, live update failed":    {inUse, node.ServiceFailed, withImage, updateFailed, "", inUse, []string{"abort"}},
		"externally provisioned":             {externally, node.Active, external, nil, "", externally, nil},
		"deprovisioning":                     {deprovisioning, node.Deleting, nil, deployed, node.Available, available, nil},
		"deprovisioning, cleaning":           {deprovisioning, node.CleanWait, nil, deployed, node.Available, available, nil},
	}
}

// leftDeleted are the states of hosts that are being deleted, as Metal3's operator leaves them.
func leftDeleted() map[string]leftBehind {
	return map[string]leftBehind{
		"powering off before delete": {state: v1alpha1.StatePoweringOffBeforeDelete, node: node.Available},
		"deleting":                   {state: v1alpha1.StateDeleting, node: node.Available},
		"deleting, in use":           {state: v1alpha1.StateDeleting, node: node.Active},
	}
}

// leave creates a host with its node as Metal3's operator leaves them.
func (l *life) leave(name string, left leftBehind) {
	l.Helper()
	l.add(name, func(h *v1alpha1.BareMetalHost) {
		h.Finalizers = []string{v1alpha1.HostFinalizer}
		secret := corev1.SecretReference{Namespace: "metal", Name: name + "-bmc"}
		credentials := v1alpha1.CredentialsStatus{Reference: &secret, Version: "1"}
		h.Status = v1alpha1.BareMetalHostStatus{
			OperationalStatus: v1alpha1.OperationalStatusOK, LastUpdated: &metav1.Time{Time: l.now}, HardwareProfile: "unknown",
			HardwareDetails: &v1alpha1.HardwareDetails{CPU: v1alpha1.CPU{Arch: "x86_64"}}, PoweredOn: true,
			GoodCredentials: credentials, TriedCredentials: credentials,
			OperationHistory: v1alpha1.OperationHistory{Register: v1alpha1.OperationMetric{Start: metav1.NewTime(l.now), End: metav1.NewTime(l.now)}},
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ProvisionedReason, LastTransitionTime: metav1.NewTime(l.now),
			}},
		}
		h.Status.Provisioning.State, h.Status.Provisioning.BootMode = left.state, v1alpha1.BootModeUEFI
		for _, change := range []func(*v1alpha1.BareMetalHost){left.spec, left.status} {
			if change != nil {
				change(h)
			}
		}
		if l.inNode(h, left.node); left.node == node.InspectWait {
			l.engine.Change(h.Status.Provisioning.ID, func(n *provisioner.Node) { n.State = node.Manageable })
			if err := l.engine.Inspect(l.Context(), h.Status.Provisioning.ID); err != nil {
				l.Fatal(err)
			}
		}
		l.engine.Change(h.Status.Provisioning.ID, func(n *provisioner.Node) {
			n.Mark = ""
			if left.node == node.DeployWait || left.node == node.Active || left.node == node.ServiceFailed {
				n.InstanceID = string(h.UID)
			}
		})
	})
}

// strip makes the status of a host what Metal3's operator writes: it knows nothing of the records.
func (l *life) strip(name string) {
	l.Helper()
	h := l.host(name)
	h.Status.Operation, h.Status.Updates, h.Status.PowerOffHolds = v1alpha1.OperationStatus{}, v1alpha1.UpdateStatus{}, nil
	h.Status.LastAttemptedCustomDeploy, h.Status.Conditions = nil, nil
	if err := l.api.Status().Update(l.Context(), h); err != nil {
		l.Fatal(err)
	}
}

// upstreamStates are the states that Metal3's operator knows.
var upstreamStates = []v1alpha1.ProvisioningState{
	v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateRegistering, v1alpha1.StateMatchProfile, v1alpha1.StateInspecting,
	v1alpha1.StatePreparing, v1alpha1.StateReady, v1alpha1.StateAvailable, v1alpha1.StateProvisioning, v1alpha1.StateProvisioned,
	v1alpha1.StateExternallyProvisioned, v1alpha1.StateDeprovisioning, v1alpha1.StatePoweringOffBeforeDelete, v1alpha1.StateDeleting,
}

// TestHostOfMetal3sOperatorGoesOnAndBack takes hosts over in every state, and gives them back. In
// neither direction is anything written to their disks a second time, or removed.
func TestHostOfMetal3sOperatorGoesOnAndBack(t *testing.T) {
	for name, left := range leftBehinds() {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine = demo.New(demo.Options{
				Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbInspect: 5 * time.Minute},
			})
			l.restart()
			l.leave("web", left)
			before := len(l.effects("web"))
			id, uid := l.host("web").Status.Provisioning.ID, string(l.host("web").UID)
			if left.then != "" {
				for range 3 {
					l.now = l.now.Add(l.pass("web"))
				}
				l.moved("web", left.then)
			}
			h := l.rests("web", left.to)
			l.does("web", before, left.does...)
			used := left.to != v1alpha1.StateAvailable
			check := func(when string) {
				t.Helper()
				n, err := l.engine.Node(t.Context(), id)
				if err != nil || h.Status.Provisioning.ID != id || h.Status.ErrorType != "" {
					t.Fatalf("%s: host with node %s and error %q, %v; want node %s", when, h.Status.Provisioning.ID, h.Status.ErrorMessage, err, id)
				}
				if n.Name != provisioner.NodeName("metal", "web") || n.Mark != provisioner.MarkOf("c1", "metal", "web") ||
					used && n.InstanceID != uid || !used && n.InstanceID != "" {
					t.Errorf("%s: node with name %s, mark %s and instance %q", when, n.Name, n.Mark, n.InstanceID)
				}
				if !slices.Contains(upstreamStates, h.Status.Provisioning.State) {
					t.Errorf("%s: state %q", when, h.Status.Provisioning.State)
				}
			}
			check("after the upgrade")

			effects := len(l.effects("web"))
			l.strip("web")
			l.restart()
			h = l.rests("web", left.to)
			l.does("web", effects)
			check("after the way back and another upgrade")
			if used {
				return
			}
			l.edit("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			if got := l.count("web", string(demo.VerbDeploy)); got != 1 {
				t.Errorf("%d times deployed, want once", got)
			}
		})
	}
}

// TestHostOfMetal3sOperatorIsDeletedFromEveryState deletes hosts before this operator has seen
// them. Their nodes are deleted although they have no mark, and what is deployed is removed first.
func TestHostOfMetal3sOperatorIsDeletedFromEveryState(t *testing.T) {
	all := leftBehinds()
	maps.Copy(all, leftDeleted())
	for name, left := range all {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.leave("web", left)
			id, before := l.host("web").Status.Provisioning.ID, len(l.effects("web"))
			l.remove(l.host("web"))
			for range 3 {
				if l.host("web") != nil {
					l.now = l.now.Add(l.pass("web"))
				}
			}
			if left.then != "" { // what Metal3's operator asked for ends now
				l.engine.Change(id, func(n *provisioner.Node) { n.State, n.StateChangedAt = left.then, l.now })
			}
			l.gone("web")
			if _, err := l.engine.Node(t.Context(), id); !errors.Is(err, provisioner.ErrNotFound) {
				t.Errorf("node %s is left: %v", id, err)
			}
			got := l.effects("web")[before:]
			for _, request := range got {
				if request != "undeploy" && request != "abort" && request != "power off" && request != "delete" {
					t.Errorf("asked of the machine: %q", got)
				}
			}
			removed := left.state == v1alpha1.StateProvisioned || left.state == v1alpha1.StateProvisioning
			if slices.Contains(got, "undeploy") != removed {
				t.Errorf("asked of the machine: %q; its deployment is to be removed: %v", got, removed)
			}
		})
	}
}

func TestHostThatMetal3sOperatorHasDetachedStaysDetached(t *testing.T) {
	l := newLife(t, nil)
	l.leave("web", leftBehind{
		state: v1alpha1.StateProvisioned, node: node.Active,
		spec: detached("", withImage), status: func(h *v1alpha1.BareMetalHost) {
			h.Status.Provisioning.Image, h.Status.OperationalStatus = *testImage("a"), v1alpha1.OperationalStatusDetached
		},
	})
	l.engine.Forget(l.host("web").Status.Provisioning.ID)
	h := l.host("web")
	h.Status.Provisioning.ID = ""
	if err := l.api.Status().Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	before := len(l.effects("web"))
	if h := l.rests("web", v1alpha1.StateProvisioned); h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached || h.Status.Provisioning.ID != "" {
		t.Errorf("operational status %q, node %q; want it detached", h.Status.OperationalStatus, h.Status.Provisioning.ID)
	}
	l.does("web", before)
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	l.until("web", "attached", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.ID != "" })
	l.rests("web", v1alpha1.StateProvisioned)
	l.does("web", before, "create", "manage", "adopt")
}

func TestFailedUpdateOfMetal3sOperatorIsEndedWhenAPersonAllowsThat(t *testing.T) {
	l := newLife(t, nil)
	l.leave("web", leftBehinds()["provisioned, live update failed"])
	l.node("web", func(n *provisioner.Node) { n.Maintenance = true })
	before := len(l.effects("web"))
	for range 5 {
		l.now = l.now.Add(l.pass("web"))
	}
	if h := l.host("web"); h.Status.ErrorType != v1alpha1.ErrorServicing {
		t.Errorf("error %q while a person keeps the node in maintenance, want it to stay", h.Status.ErrorType)
	}
	l.does("web", before)
	l.node("web", func(n *provisioner.Node) { n.Maintenance = false })
	l.rests("web", v1alpha1.StateProvisioned)
	l.does("web", before, "abort")
}

func TestMachineIsNotRestartedRightAfterTheTakeoverOfAFailedUpdate(t *testing.T) {
	l := newLife(t, nil)
	l.leave("web", leftBehinds()["provisioned, live update failed"])
	l.update("web")
	before := len(l.effects("web"))
	l.until("web", "free of the failed update", func(*v1alpha1.BareMetalHost) bool { return l.count("web", askAbort) == 1 })
	aborted := l.now
	l.until("web", "restarted", func(*v1alpha1.BareMetalHost) bool { return len(l.effects("web")) > before+1 })
	l.does("web", before, "abort", "soft power off")
	if pause := l.now.Sub(aborted); pause < 30*time.Second {
		t.Errorf("the machine is restarted after %s, want a pause", pause)
	}
	l.until("web", "updated", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Components.Applied == 4 })
}

func TestInspectionThatEndedWhileNeitherOperatorRanIsCollected(t *testing.T) {
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{
		Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbInspect: 5 * time.Minute},
	})
	l.restart()
	left := leftBehinds()["inspecting"]
	left.status = func(h *v1alpha1.BareMetalHost) {
		h.Status.HardwareDetails, h.Status.OperationHistory.Inspect.Start = nil, metav1.NewTime(l.now)
	}
	l.leave("web", left)
	before := len(l.effects("web"))
	l.now = l.now.Add(10 * time.Minute)
	if h := l.rests("web", v1alpha1.StateAvailable); h.Status.HardwareDetails == nil {
		t.Error("the host shows no hardware")
	}
	l.does("web", before, left.does...)
}
