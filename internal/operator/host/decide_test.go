package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func testHost(change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", UID: "u1", Generation: 1}}
	if change != nil {
		change(h)
	}
	return h
}

func TestDecideImport(t *testing.T) {
	for _, tt := range []struct {
		name      string
		host      func(*v1alpha1.BareMetalHost)
		inspected bool
		want      importStep
	}{
		{"details arrived", nil, true, importDone},
		{"details present", func(h *v1alpha1.BareMetalHost) { h.Status.HardwareDetails = &v1alpha1.HardwareDetails{} }, false, importDone},
		{"no details yet", nil, false, importWait},
		{"nobody wants details", func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = v1alpha1.InspectionModeDisabled }, false, importDone},
		{"externally provisioned", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, true, importLeave},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideImport(testHost(tt.host), tt.inspected); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestDecidePrepareInEveryNodeState(t *testing.T) {
	want := map[node.State]prepareStep{
		node.Enroll:        prepareManage,
		node.Verifying:     prepareWait,
		node.Inspecting:    prepareWait,
		node.InspectWait:   prepareWait,
		node.InspectFailed: prepareFailed,
		node.Manageable:    prepareProvide,
		node.Cleaning:      prepareWait,
		node.CleanWait:     prepareWait,
		node.CleanFailed:   prepareFailed,
		node.AdoptFailed:   prepareFailed,
		node.Available:     prepareDone,
	}
	for _, state := range node.States() {
		step, known := want[state]
		if !known {
			step = prepareBlocked
		}
		got, message := decidePrepare(testHost(nil), provisioner.Node{State: state}, attempt{})
		if got != step {
			t.Errorf("node in %q: got %d, want %d", state, got, step)
		}
		if (got == prepareBlocked || got == prepareFailed) && message == "" {
			t.Errorf("node in %q: no message", state)
		}
	}
}

func TestDecidePrepareAfterAttempts(t *testing.T) {
	raid := func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}}
	}
	broken := func(s node.State) provisioner.Node {
		return provisioner.Node{State: s, LastError: "the disk is on fire"}
	}
	for _, tt := range []struct {
		name        string
		host        func(*v1alpha1.BareMetalHost)
		node        provisioner.Node
		last        attempt
		want        prepareStep
		wantMessage string
	}{
		{"old error of the node", nil, broken(node.Enroll), attempt{}, prepareManage, ""},
		{"manage failed", nil, broken(node.Enroll), attempt{asked: prepareManage, hasAsked: true}, prepareFailed, "the disk is on fire"},
		{"manage worked, provide was not sent", nil, broken(node.Manageable), attempt{asked: prepareManage, hasAsked: true}, prepareProvide, ""},
		{"provide failed", nil, broken(node.Manageable), attempt{asked: prepareProvide, hasAsked: true}, prepareFailed, "the disk is on fire"},
		{"answer of the verb was lost", nil, provisioner.Node{State: node.Enroll}, attempt{asked: prepareManage, hasAsked: true}, prepareManage, ""},
		{"cleaning failed", nil, broken(node.CleanFailed), attempt{asked: prepareProvide, hasAsked: true}, prepareFailed, `The node is in state "clean failed": the disk is on fire`},
		{"failure was shown, wait is on", nil, broken(node.CleanFailed), attempt{failed: true, waiting: true}, prepareHold, ""},
		{"wait is over after a failed state", nil, broken(node.CleanFailed), attempt{failed: true}, prepareManage, ""},
		{"wait is over after a failed verb", nil, broken(node.Enroll), attempt{failed: true}, prepareManage, ""},
		{"a person brought the node to available", nil, broken(node.Available), attempt{failed: true, waiting: true}, prepareDone, ""},
		{"engine works again by itself", nil, broken(node.Cleaning), attempt{failed: true, waiting: true}, prepareWait, ""},
		{"maintenance", nil, provisioner.Node{State: node.Manageable, Maintenance: true, MaintenanceReason: "fan"}, attempt{}, prepareBlocked, "The node is in maintenance: fan"},
		{"in use", nil, provisioner.Node{State: node.Active}, attempt{}, prepareBlocked, `The node is in state "active": another client uses it`},
		{"RAID", raid, provisioner.Node{State: node.Manageable}, attempt{}, prepareFailed, "RAID cannot be configured on a host without a BMC in this version; remove spec.raid"},
		{"RAID on a node that is available", raid, provisioner.Node{State: node.Available}, attempt{}, prepareDone, ""},
		{"RAID that asks for nothing", func(h *v1alpha1.BareMetalHost) {
			h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{}}
		}, provisioner.Node{State: node.Manageable}, attempt{}, prepareProvide, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, message := decidePrepare(testHost(tt.host), tt.node, tt.last)
			if got != tt.want || message != tt.wantMessage {
				t.Errorf("got %d %q, want %d %q", got, message, tt.want, tt.wantMessage)
			}
		})
	}
}

func TestHostIsAvailableExactlyWhenItsNodeIs(t *testing.T) {
	for _, state := range node.States() {
		want := availablePrepare
		if state == node.Available {
			want = availableStay
		}
		if got := decideAvailable(testHost(nil), provisioner.Node{State: state}); got != want {
			t.Errorf("node in %q: got %d, want %d", state, got, want)
		}
	}
	external := testHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	if got := decideAvailable(external, provisioner.Node{State: node.Available}); got != availableLeave {
		t.Errorf("externally provisioned: got %d, want %d", got, availableLeave)
	}
}

func TestDecideDeleteInEveryState(t *testing.T) {
	states := []v1alpha1.ProvisioningState{
		v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateImporting, v1alpha1.StateRegistering,
		v1alpha1.StateMatchProfile, v1alpha1.StateInspecting, v1alpha1.StatePreparing, v1alpha1.StateReady,
		v1alpha1.StateAvailable, v1alpha1.StateProvisioning, v1alpha1.StateProvisioned,
		v1alpha1.StateExternallyProvisioned, v1alpha1.StateDeprovisioning, v1alpha1.StatePoweringOffBeforeDelete,
	}
	claimed := func(state v1alpha1.ProvisioningState, detached string) *v1alpha1.BareMetalHost {
		return testHost(func(h *v1alpha1.BareMetalHost) {
			h.Finalizers = []string{v1alpha1.HostFinalizer}
			h.Status.Provisioning.State = state
			if detached != "" {
				h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: detached}
			}
		})
	}
	for _, state := range states {
		if got := decideDelete(claimed(state, "")); got != deleteEnter {
			t.Errorf("%q: got %d, want to enter deleting", state, got)
		}
	}
	for _, tt := range []struct {
		name string
		host *v1alpha1.BareMetalHost
		want deleteStep
	}{
		{"deleting", claimed(v1alpha1.StateDeleting, ""), deleteNode},
		{"never claimed", testHost(nil), deleteIgnore},
		{"detached and to be kept", claimed(v1alpha1.StateAvailable, `{"deleteAction":"delay"}`), deleteHold},
		{"detached", claimed(v1alpha1.StateAvailable, `{"deleteAction":"delete"}`), deleteEnter},
		{"detached with free text", claimed(v1alpha1.StateAvailable, "on loan"), deleteEnter},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideDelete(tt.host); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestDecideLinkRefusesNodesOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		node   provisioner.Node
		owners []*v1alpha1.BareMetalHost
		want   string
	}{
		{"free node", provisioner.Node{ID: "n1", State: node.Enroll}, nil, ""},
		{"node named for the host", provisioner.Node{ID: "n1", Name: "metal~web", State: node.Active}, nil, ""},
		{"node with the host's mark", provisioner.Node{ID: "n1", Mark: "c1/metal/web", State: node.Active}, nil, ""},
		{
			"node with the host's mark, in another host's status",
			provisioner.Node{ID: "n1", Mark: "c1/metal/web"},
			[]*v1alpha1.BareMetalHost{testHost(func(h *v1alpha1.BareMetalHost) { h.Name = "db" })},
			"",
		},
		{
			"node with another host's mark",
			provisioner.Node{ID: "n1", Mark: "c1/metal/db", State: node.Enroll},
			nil, "node n1 is in use: extra.ingot_host names another host",
		},
		{
			"node named for the host, with another cluster's mark",
			provisioner.Node{ID: "n1", Name: "metal~web", Mark: "c2/metal/web"},
			nil, "node n1 is in use: extra.ingot_host names another host",
		},
		{"in the host's status without a mark", provisioner.Node{ID: "linked", State: node.Active}, nil, "node linked is in use: it is in state active"},
		{
			"node of another host",
			provisioner.Node{ID: "n1", State: node.Enroll},
			[]*v1alpha1.BareMetalHost{testHost(func(h *v1alpha1.BareMetalHost) { h.Name = "db" })},
			"node n1 belongs to host metal/db; delete one of the two hosts",
		},
		{"named otherwise", provisioner.Node{ID: "n1", Name: "db", State: node.Enroll}, nil, "node n1 is in use: it has the name db"},
		{"with an instance", provisioner.Node{ID: "n1", InstanceID: "i1", State: node.Enroll}, nil, "node n1 is in use: it has the instance i1"},
		{"active", provisioner.Node{ID: "n1", State: node.Active}, nil, "node n1 is in use: it is in state active"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := testHost(func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.ID = "linked" })
			if got := decideLink(h, tt.node, "c1/metal/web", tt.owners); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBackoffDoublesWithinItsLimitAndLosesAtMostHalf(t *testing.T) {
	const limit = 30 * time.Minute
	for n := range 20 {
		full := min(time.Minute<<min(n, maxDoublings), limit)
		for _, key := range []string{"a", "b", "c", "d"} {
			got := backoff(n, limit, key)
			if got > full || got < full/2 {
				t.Errorf("attempt %d of %s: %s, want between %s and %s", n, key, got, full/2, full)
			}
			if again := backoff(n, limit, key); again != got {
				t.Errorf("attempt %d of %s: %s and then %s, want the same", n, key, got, again)
			}
		}
	}
	if backoff(3, limit, "a") == backoff(3, limit, "b") {
		t.Error("two hosts come back at the same moment")
	}
}

func TestWaitAfterFailureEndsWithTimeOrWithANewSpec(t *testing.T) {
	failedAt := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	host := testHost(func(h *v1alpha1.BareMetalHost) {
		at := metav1.NewTime(failedAt)
		h.Status.ErrorType, h.Status.ErrorCount, h.Status.LastUpdated = v1alpha1.ErrorPreparation, 2, &at
		h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ProgressingCondition, ObservedGeneration: 1}}
	})
	waitAt := func(at time.Time, change func(*v1alpha1.BareMetalHost), kind v1alpha1.ErrorType) time.Duration {
		h := host.DeepCopy()
		if change != nil {
			change(h)
		}
		return newScope(h, at, time.Minute).wait(kind, 30*time.Minute)
	}
	if got := waitAt(failedAt, nil, v1alpha1.ErrorPreparation); got < 2*time.Minute || got > 4*time.Minute {
		t.Errorf("at once: %s, want 2 to 4 minutes", got)
	}
	if got := waitAt(failedAt.Add(5*time.Minute), nil, v1alpha1.ErrorPreparation); got != 0 {
		t.Errorf("later: %s, want no wait", got)
	}
	if got := waitAt(failedAt, func(h *v1alpha1.BareMetalHost) { h.Generation = 2 }, v1alpha1.ErrorPreparation); got != 0 {
		t.Errorf("with a new spec: %s, want no wait", got)
	}
	if got := waitAt(failedAt, nil, v1alpha1.ErrorRegistration); got != 0 {
		t.Errorf("for another operation: %s, want no wait", got)
	}
}

func TestDecodeStatus(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		wantErr    bool
	}{
		{"partial", `{"provisioning":{"ID":"n1"}}`, false},
		{"keys of a newer operator", `{"operationalStatus":"OK","future":{"x":1}}`, false},
		{"error that old schemas lack", `{"operationalStatus":"error","errorType":"detach error"}`, false},
		{"unknown status", `{"operationalStatus":"great"}`, true},
		{"unknown error", `{"errorType":"bad luck"}`, true},
		{"no JSON", `{`, true},
		{"wrong type", `{"provisioning":[]}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := decodeStatus(tt.text); (err != nil) != tt.wantErr {
				t.Errorf("error = %v, want one: %v", err, tt.wantErr)
			}
		})
	}
}

func TestOnlyUsableConditionsAreRestored(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	usable := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Provisioned", LastTransitionTime: at}
	got := usableConditions([]metav1.Condition{
		{Type: "Ready", Status: "Maybe", Reason: "Provisioned", LastTransitionTime: at},
		usable,
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Error", LastTransitionTime: at},
		{Type: "Manageable", Status: metav1.ConditionTrue, LastTransitionTime: at},
	})
	if len(got) != 1 || got[0] != usable {
		t.Errorf("got %v, want only %v", got, usable)
	}
}
