package host

import (
	"strings"
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
		{"something is deployed", func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.Image.URL = "https://images/a" }, true, importUsed},
		{"something is deployed by a method", func(h *v1alpha1.BareMetalHost) {
			h.Status.Provisioning.CustomDeploy = &v1alpha1.CustomDeploy{Method: "m1"}
		}, false, importUsed},
		{"externally provisioned", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, true, importLeave},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideImport(testHost(tt.host), tt.inspected); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestResultOfAnInspectionIsCollectedWhenTheEngineHasStoredIt(t *testing.T) {
	asked := v1alpha1.OperationStatus{Name: v1alpha1.OperationInspect, Request: askInspect, Accepted: true}
	for _, tt := range []struct {
		name string
		node provisioner.Node
		want inspectStep
	}{
		{"under way", provisioner.Node{State: node.InspectWait, Busy: true}, inspectWork},
		{"over, and the node is locked", provisioner.Node{State: node.Manageable, StateChangedAt: testNow, Busy: true}, inspectAwait},
		{"over", provisioner.Node{State: node.Manageable, StateChangedAt: testNow}, inspectCollect},
		{"forgotten by an engine with an older database", provisioner.Node{State: node.Manageable}, inspectWork},
		{"over with an error", provisioner.Node{State: node.Manageable, StateChangedAt: testNow, LastError: "no disk", Busy: true}, inspectWork},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideInspection(testHost(nil), tt.node, asked); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestInspectionOfMetal3sOperatorThatIsOverIsNotRepeated(t *testing.T) {
	over := provisioner.Node{State: node.Manageable, InspectedAt: testNow.Add(time.Minute)}
	failed, earlier, locked := over, over, over
	failed.LastError, earlier.InspectedAt, locked.Busy = "no disk", testNow.Add(-time.Minute), true
	for _, tt := range []struct {
		name   string
		node   provisioner.Node
		change func(*v1alpha1.BareMetalHost)
		record v1alpha1.OperationStatus
		want   inspectStep
	}{
		{"over", over, nil, v1alpha1.OperationStatus{}, inspectCollect},
		{"over, and the node is locked", locked, nil, v1alpha1.OperationStatus{}, inspectAwait},
		{"over with an error", failed, nil, v1alpha1.OperationStatus{}, inspectWork},
		{"another one, from before", earlier, nil, v1alpha1.OperationStatus{}, inspectWork},
		{"never inspected", provisioner.Node{State: node.Manageable}, nil, v1alpha1.OperationStatus{}, inspectWork},
		{"the inventory could not be read", over, nil, v1alpha1.OperationStatus{Name: v1alpha1.OperationInspect, Failures: 1}, inspectWork},
		{"a person has asked to inspect again", over, func(h *v1alpha1.BareMetalHost) {
			h.Status.HardwareDetails = &v1alpha1.HardwareDetails{}
		}, v1alpha1.OperationStatus{}, inspectWork},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := testHost(tt.change)
			h.Status.OperationHistory.Inspect.Start = metav1.NewTime(testNow)
			if got := decideInspection(h, tt.node, tt.record); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// unproven is why a node in use is not the host's although it has its name.
func unproven(use string) string {
	return "node n1 has the name of this host and no mark, and it is in use: " + use + ". It may be another cluster's; if it is this host's, " +
		"whoever manages the engine sets extra.ingot_host of the node to c1/metal/web"
}

func TestDecideLinkRefusesNodesOfOthers(t *testing.T) {
	lock := func(host string) string { return provisioner.MarkOf("c1", "metal", host).Lock("n1") }
	taken := "node n1 is in use: it is being taken for another host (instance " + lock("db") + ")"
	for _, tt := range []struct {
		name   string
		node   provisioner.Node
		owners []*v1alpha1.BareMetalHost
		want   string
	}{
		{"free node", provisioner.Node{ID: "n1", State: node.Enroll}, nil, ""},
		{"free node named for the host", provisioner.Node{ID: "n1", Name: "metal~web", State: node.Manageable}, nil, ""},
		{"node in use named for the host, in its status", provisioner.Node{ID: "linked", Name: "metal~web", State: node.Active}, nil, ""},
		{"node in use named for the host, with it as instance", provisioner.Node{ID: "n1", Name: "metal~web", State: node.Active, InstanceID: "uid"}, nil, ""},
		{"node in use named for the host", provisioner.Node{ID: "n1", Name: "metal~web", State: node.Active}, nil, unproven("it is in state active")},
		{
			"node named for the host, with another instance",
			provisioner.Node{ID: "n1", Name: "metal~web", State: node.Available, InstanceID: "i1"},
			nil, unproven("it has the instance i1"),
		},
		{
			"node named for the host, with an owner",
			provisioner.Node{ID: "n1", Name: "metal~web", State: node.Available, Owner: "team"},
			nil, unproven("its owner is team"),
		},
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
			nil, "node n1 is in use: it belongs to host metal/db; delete one of the two hosts, or correct the address",
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
			"node n1 belongs to host metal/db; delete one of the two hosts, or correct the address",
		},
		{"named otherwise", provisioner.Node{ID: "n1", Name: "db", State: node.Enroll}, nil, "node n1 is in use: it has the name db"},
		{"with an instance", provisioner.Node{ID: "n1", InstanceID: "i1", State: node.Enroll}, nil, "node n1 is in use: it has the instance i1"},
		{"active", provisioner.Node{ID: "n1", State: node.Active}, nil, "node n1 is in use: it is in state active"},
		{"locked for the host", provisioner.Node{ID: "n1", InstanceID: lock("web"), State: node.Enroll}, nil, ""},
		{"locked for the host, with its name and in use", provisioner.Node{ID: "linked", Name: "metal~web", InstanceID: provisioner.Mark("c1/metal/web").Lock("linked"), State: node.Active}, nil, ""},
		{"locked for the host and the node of somebody", provisioner.Node{ID: "n1", InstanceID: lock("web"), Name: "db"}, nil, "node n1 is in use: it has the name db"},
		{"locked for another host", provisioner.Node{ID: "n1", InstanceID: lock("db"), State: node.Enroll}, nil, taken},
		{"locked for another host, named for the host, in its status", provisioner.Node{ID: "linked", InstanceID: lock("db"), Name: "metal~web"}, nil, strings.ReplaceAll(taken, "n1", "linked")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := testHost(func(h *v1alpha1.BareMetalHost) { h.UID, h.Status.Provisioning.ID = "uid", "linked" })
			if got := decideLink(h, tt.node, "c1/metal/web", tt.owners); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHostOfABusyNodeWaitsLongerEachTimeAndBrieflyAfterAnAnswer(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	refused := func() time.Duration {
		l.engine.SetFailing(provisioner.ErrBusy)
		return l.pass("web")
	}
	first, second := refused(), refused()
	if first > 4*time.Second || second <= 4*time.Second {
		t.Errorf("waits of %s and %s, want the second one longer", first, second)
	}
	l.engine.SetFailing(nil)
	l.pass("web")
	if again := refused(); again != first {
		t.Errorf("wait of %s after an answer, want %s", again, first)
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
