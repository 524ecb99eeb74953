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

// The first step of each workflow in each state of the node. States that a row lacks
// belong to other clients.
func TestEveryOperationKnowsWhatToDoInEveryStateOfItsNode(t *testing.T) {
	const waits, ends, fails, blocks = "wait", "done", "failed", "blocked"
	name := func(s workStep) string {
		switch s.action {
		case workAsk:
			return s.request
		case workWait:
			return waits
		case workDone:
			return ends
		case workFailed:
			return fails
		default:
			return blocks
		}
	}
	registered := map[node.State]string{}
	for _, state := range node.States() {
		registered[state] = ends
	}
	registered[node.Enroll], registered[node.Verifying] = askManage, waits
	for operation, tt := range map[string]struct {
		workflow workflow
		want     map[node.State]string
	}{
		"register": {registerWorkflow, registered},
		"inspect": {inspectWorkflow, map[node.State]string{
			node.Enroll: askManage, node.Verifying: waits, node.Manageable: askInspect, node.Available: askManage,
			node.Inspecting: waits, node.InspectWait: waits, node.InspectFailed: fails,
			node.Cleaning: waits, node.CleanWait: waits, node.CleanFailed: askManage, node.AdoptFailed: askManage,
		}},
		"prepare": {prepareWorkflow, map[node.State]string{
			node.Enroll: askManage, node.Verifying: waits, node.Manageable: askProvide, node.Available: ends,
			node.Inspecting: waits, node.InspectWait: waits, node.InspectFailed: askManage,
			node.Cleaning: waits, node.CleanWait: waits, node.CleanFailed: fails, node.AdoptFailed: fails,
		}},
		"configure": {configureWorkflow, map[node.State]string{
			node.Enroll: askManage, node.Verifying: waits, node.Manageable: askClean, node.Available: askManage,
			node.Inspecting: waits, node.InspectWait: waits, node.InspectFailed: askManage,
			node.Cleaning: waits, node.CleanWait: waits, node.CleanFailed: fails, node.AdoptFailed: fails,
		}},
		"provision": {provisionWorkflow, map[node.State]string{
			node.Enroll: askManage, node.Verifying: waits, node.Manageable: askProvide, node.Available: askDeploy,
			node.Cleaning: waits, node.CleanWait: waits, node.CleanFailed: fails,
			node.Deploying: waits, node.DeployWait: waits, node.DeployHold: waits, node.DeployFailed: fails, node.Active: ends,
		}},
		"adopt": {adoptWorkflow, map[node.State]string{
			node.Enroll: askManage, node.Verifying: waits, node.Manageable: askAdopt, node.Adopting: waits, node.AdoptFailed: fails,
			node.Active: ends, node.Servicing: ends, node.ServiceWait: ends, node.ServiceHold: ends, node.ServiceFailed: ends,
			node.Rescue: ends, node.Rescuing: waits, node.RescueWait: waits, node.RescueFailed: ends,
			node.Unrescuing: waits, node.UnrescueFailed: ends,
		}},
		"deprovision": {deprovisionWorkflow, map[node.State]string{
			node.Enroll: askManage, node.Verifying: waits, node.Manageable: askProvide, node.Available: ends,
			node.Active: askUndeploy, node.DeployWait: askUndeploy, node.DeployFailed: askUndeploy, node.DeployHold: askAbort,
			node.Deploying: waits, node.Deleting: waits, node.ErrorState: fails,
			node.Cleaning: waits, node.CleanWait: waits, node.CleanHold: waits, node.CleanFailed: fails,
			node.Inspecting: waits, node.InspectWait: waits, node.InspectFailed: askManage,
			node.Adopting: waits, node.AdoptFailed: askAdopt,
			node.Servicing: waits, node.ServiceWait: askAbort, node.ServiceHold: askAbort, node.ServiceFailed: askUndeploy,
			node.Rescue: askUndeploy, node.Rescuing: waits, node.RescueWait: askUndeploy, node.RescueFailed: askUndeploy,
			node.Unrescuing: waits, node.UnrescueFailed: askUndeploy,
		}},
	} {
		for _, state := range node.States() {
			want, known := tt.want[state]
			if !known {
				want = blocks
			}
			got, message := decideWork(tt.workflow, provisioner.Node{State: state}, v1alpha1.OperationStatus{}, tolerance{})
			if name(got) != want {
				t.Errorf("%s with the node in %q: %s, want %s", operation, state, name(got), want)
			}
			if (got.action == workBlocked || got.action == workFailed) && message == "" {
				t.Errorf("%s with the node in %q: no message", operation, state)
			}
		}
	}
}

// Requests of workflows must be verbs that the provision state machine takes.
func TestEveryRequestIsPossibleInItsState(t *testing.T) {
	verbs := map[string]node.Trigger{
		askManage: node.OnManage, askProvide: node.OnProvide, askInspect: node.OnInspect, askClean: node.OnClean,
		askDeploy: node.OnDeploy, askUndeploy: node.OnDelete, askAdopt: node.OnAdopt, askAbort: node.OnAbort,
	}
	for operation, w := range map[string]workflow{
		"register": registerWorkflow, "inspect": inspectWorkflow, "prepare": prepareWorkflow, "configure": configureWorkflow,
		"provision": provisionWorkflow, "adopt": adoptWorkflow, "adopt a free node": adoptFreeWorkflow, "deprovision": deprovisionWorkflow,
		"deprovision at last": overdueWorkflow,
	} {
		for state, step := range w {
			if step.request == "" {
				continue
			}
			if _, ok := node.Next(state, verbs[step.request]); !ok {
				t.Errorf("%s asks for %s of a node in %q, which the engine refuses", operation, step.request, state)
			}
		}
	}
}

func TestDecideWorkAfterRequestsAndFailures(t *testing.T) {
	at := metav1.NewTime(testNow)
	micro := metav1.NewMicroTime(testNow)
	asked := func(request string) v1alpha1.OperationStatus {
		return v1alpha1.OperationStatus{Name: v1alpha1.OperationPrepare, Request: request, Accepted: true, NodeChangedAt: &micro}
	}
	failed := v1alpha1.OperationStatus{Name: v1alpha1.OperationPrepare, Failures: 1, FailedAt: &at}
	broken := func(s node.State) provisioner.Node {
		return provisioner.Node{State: s, LastError: "the disk is on fire", StateChangedAt: testNow.Add(time.Second)}
	}
	for _, tt := range []struct {
		name    string
		node    provisioner.Node
		record  v1alpha1.OperationStatus
		waiting bool
		want    workStep
		message string
	}{
		{"old error of the node", broken(node.Enroll), v1alpha1.OperationStatus{}, false, toManage, ""},
		{"manage failed", broken(node.Enroll), asked(askManage), false, stepFails, "the disk is on fire"},
		{"manage worked, provide was not sent", broken(node.Manageable), asked(askManage), false, toProvide, ""},
		{"provide failed", broken(node.Manageable), asked(askProvide), false, stepFails, "the disk is on fire"},
		{"engine is slow to begin", provisioner.Node{State: node.Enroll}, asked(askManage), false, toManage, ""},
		{"cleaning failed", broken(node.CleanFailed), asked(askProvide), false, failsManage, `The node is in state "clean failed": the disk is on fire`},
		{"failure was shown, wait is on", broken(node.CleanFailed), failed, true, workStep{action: workHold}, ""},
		{"wait is over after a failed state", broken(node.CleanFailed), failed, false, toManage, ""},
		{"wait is over after a failed verb", broken(node.Enroll), failed, false, toManage, ""},
		{"failed again after the wait", broken(node.CleanFailed), v1alpha1.OperationStatus{Failures: 1, Request: askProvide, Accepted: true}, false, failsManage, `The node is in state "clean failed": the disk is on fire`},
		{"request after the wait was recorded and not sent", provisioner.Node{State: node.CleanFailed, LastError: "the disk is on fire", StateChangedAt: testNow}, v1alpha1.OperationStatus{Failures: 1, Request: askManage, NodeChangedAt: &micro}, false, toManage, ""},
		{"operator aborted the work itself", broken(node.CleanFailed), asked(askAbort), false, toManage, ""},
		{"a person brought the node to available", broken(node.Available), failed, true, stepDone, ""},
		{"engine works again by itself", broken(node.Cleaning), failed, true, stepWaits, ""},
		{"maintenance", provisioner.Node{State: node.Manageable, Maintenance: true, MaintenanceReason: "fan"}, v1alpha1.OperationStatus{}, false, workStep{}, "The node is in maintenance: fan"},
		{"maintenance for failed cleaning, failure was shown", provisioner.Node{State: node.CleanFailed, Maintenance: true, Fault: "clean failure"}, failed, false, toManage, ""},
		{"maintenance for a power failure", provisioner.Node{State: node.CleanFailed, Maintenance: true, Fault: "power failure"}, failed, false, workStep{}, "The node is in maintenance"},
		{"in error", provisioner.Node{State: node.ErrorState}, v1alpha1.OperationStatus{}, false, workStep{}, `The node is in state "error": another client uses it`},
		{
			"request never came",
			provisioner.Node{State: node.Manageable, LastError: "old", StateChangedAt: testNow},
			v1alpha1.OperationStatus{Request: askProvide, NodeChangedAt: &micro},
			false, toProvide, "",
		},
		{
			"request was accepted, and the engine's database is older",
			provisioner.Node{State: node.Manageable, LastError: "old", StateChangedAt: testNow.Add(-time.Hour)},
			asked(askProvide), false, toProvide, "",
		},
		{
			"request came, its answer was lost",
			provisioner.Node{State: node.Manageable, LastError: "new", StateChangedAt: testNow.Add(time.Second)},
			v1alpha1.OperationStatus{Request: askProvide, NodeChangedAt: &micro},
			false, stepFails, "new",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, message := decideWork(prepareWorkflow, tt.node, tt.record, tolerance{waiting: tt.waiting})
			if got.action != tt.want.action || got.request != tt.want.request && tt.want.request != "" || message != tt.message {
				t.Errorf("got %+v %q, want %+v %q", got, message, tt.want, tt.message)
			}
		})
	}
}

func TestNodeInAStateThatItsHostDoesNotExpectNamesTheWayOut(t *testing.T) {
	for name, tt := range map[string]struct {
		workflow workflow
		state    node.State
		want     string
	}{
		"in use, free in an older database":        {adoptWorkflow, node.Available, "ingot node manage n1"},
		"in use, a cleaning was dropped":           {adoptWorkflow, node.CleanFailed, "ingot node manage n1"},
		"in use, an inspection was dropped":        {adoptWorkflow, node.InspectFailed, "ingot node manage n1"},
		"in use, a removal was dropped":            {adoptWorkflow, node.ErrorState, v1alpha1.DetachedAnnotation},
		"in use, a deployment was dropped":         {adoptWorkflow, node.DeployFailed, v1alpha1.DetachedAnnotation},
		"free, deployed before a restore":          {prepareWorkflow, node.Active, "spec.externallyProvisioned"},
		"inspected, being deployed before that":    {inspectWorkflow, node.DeployWait, "spec.externallyProvisioned"},
		"in use, being cleaned by somebody":        {adoptWorkflow, node.Cleaning, "another client uses it"},
		"being deployed, and in service by others": {provisionWorkflow, node.Servicing, "another client uses it"},
	} {
		got, message := decideWork(tt.workflow, provisioner.Node{ID: "n1", State: tt.state}, v1alpha1.OperationStatus{}, tolerance{})
		if got.action != workBlocked || !strings.Contains(message, tt.want) {
			t.Errorf("%s: %+v %q, want it blocked with %q", name, got, message, tt.want)
		}
	}
}

func TestOnlyADeletionDoesNotWaitForABMCThatIsLost(t *testing.T) {
	lost := provisioner.Node{State: node.Deleting, Maintenance: true, Fault: node.FaultPowerFailure, MaintenanceReason: "no answer"}
	repaired := provisioner.Node{State: node.Deleting, Maintenance: true, MaintenanceReason: "fan"}
	for name, tt := range map[string]struct {
		node      provisioner.Node
		tolerance tolerance
		want      action
	}{
		"host that stays":                            {lost, tolerance{}, workBlocked},
		"host that is deleted":                       {lost, tolerance{leaving: true}, workFailed},
		"host that is deleted, after a failure":      {lost, tolerance{leaving: true, waiting: true}, workHold},
		"host that is deleted, whose node is mended": {repaired, tolerance{leaving: true}, workBlocked},
	} {
		if got, _ := decideWork(deprovisionWorkflow, tt.node, v1alpha1.OperationStatus{}, tt.tolerance); got.action != tt.want {
			t.Errorf("%s: action %d, want %d", name, got.action, tt.want)
		}
	}
}

func TestDeploymentThatIsYoungerThanARemovalIsNotRemovedByIt(t *testing.T) {
	before := metav1.NewMicroTime(testNow)
	accepted := v1alpha1.OperationStatus{Request: askUndeploy, Accepted: true, NodeChangedAt: &before}
	recorded := v1alpha1.OperationStatus{Request: askUndeploy, NodeChangedAt: &before}
	aborted := v1alpha1.OperationStatus{Request: askAbort, Accepted: true, NodeChangedAt: &before}
	for name, tt := range map[string]struct {
		state     node.State
		since     time.Duration
		record    v1alpha1.OperationStatus
		tolerance tolerance
		want      workStep
	}{
		"deployed since":                    {node.Active, time.Hour, accepted, tolerance{}, workStep{}},
		"deployed since, other inputs":      {node.Active, time.Hour, accepted, tolerance{outdated: true}, workStep{}},
		"deployed since, a person insists":  {node.Active, time.Hour, accepted, tolerance{rebuild: true}, workStep{workAsk, askUndeploy}},
		"deployed since, and being rescued": {node.Rescue, time.Hour, accepted, tolerance{}, workStep{}},
		"being deployed since":              {node.DeployWait, time.Hour, accepted, tolerance{}, workStep{workAsk, askUndeploy}},
		"the engine forgot the request":     {node.Active, 0, accepted, tolerance{}, workStep{workAsk, askUndeploy}},
		"the request was not sent":          {node.Active, time.Hour, recorded, tolerance{}, workStep{workAsk, askUndeploy}},
		"an update was aborted before":      {node.Active, time.Hour, aborted, tolerance{}, workStep{workAsk, askUndeploy}},
		"the removal failed":                {node.ErrorState, time.Hour, accepted, tolerance{}, workStep{workFailed, askUndeploy}},
	} {
		n := provisioner.Node{State: tt.state, StateChangedAt: testNow.Add(tt.since)}
		if got, message := decideWork(deprovisionWorkflow, n, tt.record, tt.tolerance); got != tt.want {
			t.Errorf("%s: %+v %q, want %+v", name, got, message, tt.want)
		}
	}
}

func TestFailureOfARequestWithOtherInputsIsNotCounted(t *testing.T) {
	record := v1alpha1.OperationStatus{Request: askManage, Accepted: true}
	refused := provisioner.Node{State: node.Enroll, LastError: "the BMC refuses the password", StateChangedAt: testNow}
	if got, _ := decideWork(registerWorkflow, refused, record, tolerance{}); got.action != workFailed {
		t.Errorf("with the same inputs: %+v, want a failure", got)
	}
	if got, _ := decideWork(registerWorkflow, refused, record, tolerance{outdated: true}); got != toManage {
		t.Errorf("with other inputs: %+v, want another request", got)
	}
}

func TestStepsThatConfigureRunOnceAlsoWhenAnAnswerIsLost(t *testing.T) {
	before := metav1.NewMicroTime(testNow)
	later := testNow.Add(time.Second)
	wanted := configuration{plan: "p2"}
	requested := configuration{plan: "p2", changes: changes{settings: change{state: changeUnseen, generation: 3, record: v1alpha1.UpdateRecord{Requested: 2}}}}
	unseen := configuration{changes: changes{settings: change{state: changeUnseen, generation: 1}}}
	unseenAndVolumes := configuration{plan: "p2", changes: unseen.changes}
	record := func(plan string, accepted bool) v1alpha1.OperationStatus {
		return v1alpha1.OperationStatus{Request: askClean, Plan: plan, Accepted: accepted, NodeChangedAt: &before}
	}
	for _, tt := range []struct {
		name   string
		node   provisioner.Node
		record v1alpha1.OperationStatus
		wanted configuration
		want   configureStep
	}{
		{"nothing was asked for", provisioner.Node{State: node.Manageable}, v1alpha1.OperationStatus{}, wanted, configureIntend},
		{"recorded, not sent", provisioner.Node{State: node.Manageable, StateChangedAt: testNow}, record("p2", false), wanted, configureWork},
		{"recorded, not sent, clock with nanoseconds", provisioner.Node{State: node.Manageable, StateChangedAt: testNow.Add(999)}, record("p2", false), wanted, configureWork},
		{"sent, answer lost, steps have run", provisioner.Node{State: node.Manageable, StateChangedAt: later}, record("p2", false), wanted, configureDone},
		{"sent, answer lost, steps have failed", provisioner.Node{State: node.Manageable, StateChangedAt: later, LastError: "x"}, record("p2", false), wanted, configureWork},
		{"accepted, steps have run", provisioner.Node{State: node.Manageable, StateChangedAt: later}, record("p2", true), wanted, configureDone},
		{"accepted, the engine's database is as old as the request", provisioner.Node{State: node.Manageable, StateChangedAt: testNow}, record("p2", true), wanted, configureWork},
		{"accepted, the engine's database is older", provisioner.Node{State: node.Manageable, StateChangedAt: testNow.Add(-time.Hour)}, record("p2", true), wanted, configureWork},
		{"steps run", provisioner.Node{State: node.CleanWait}, record("p2", true), wanted, configureWork},
		{"steps run that are not wanted any more", provisioner.Node{State: node.CleanWait}, record("p1", true), wanted, configureAbort},
		{"steps run that cannot be interrupted", provisioner.Node{State: node.Cleaning}, record("p1", true), wanted, configureWork},
		{"another plan has run", provisioner.Node{State: node.Manageable, StateChangedAt: later}, record("p1", true), wanted, configureDone},
		{"another plan has failed", provisioner.Node{State: node.Manageable, StateChangedAt: later, LastError: "x"}, record("p1", true), wanted, configureIntend},
		{"another plan was not sent", provisioner.Node{State: node.Manageable, StateChangedAt: testNow}, record("p1", false), wanted, configureIntend},
		{"nothing is wanted", provisioner.Node{State: node.Manageable}, v1alpha1.OperationStatus{}, configuration{}, configureNothing},
		{"nothing is wanted any more, steps run", provisioner.Node{State: node.CleanWait}, record("p2", true), configuration{}, configureAbort},
		{"nothing is wanted any more, steps have run", provisioner.Node{State: node.Manageable, StateChangedAt: later}, record("p2", true), configuration{}, configureDone},
		{"a newer version is not compared yet", provisioner.Node{State: node.Manageable, StateChangedAt: testNow}, record("p1", false), requested, configureCompare},
		{"nobody has compared the settings", provisioner.Node{State: node.Manageable}, v1alpha1.OperationStatus{}, unseen, configureCompare},
		{"nobody has compared the settings, node is clean", provisioner.Node{State: node.Available}, v1alpha1.OperationStatus{}, unseen, configureCompare},
		{"nobody has compared the settings, node is not verified", provisioner.Node{State: node.Enroll}, v1alpha1.OperationStatus{}, unseen, configureNothing},
		{"nobody has compared the settings, disks are cleaned", provisioner.Node{State: node.CleanWait}, v1alpha1.OperationStatus{}, unseen, configureNothing},
		{"nobody has compared the settings, volumes are wanted", provisioner.Node{State: node.Manageable}, v1alpha1.OperationStatus{}, unseenAndVolumes, configureCompare},
		{"nobody has compared the settings, volumes are wanted, node is clean", provisioner.Node{State: node.Available}, v1alpha1.OperationStatus{}, unseenAndVolumes, configureWork},
		{"a newer version is not compared yet, steps have run", provisioner.Node{State: node.Manageable, StateChangedAt: later}, record("p2", true), requested, configureDone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideConfiguration(tt.wanted, tt.node, tt.record, false); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestWaitAfterFailureEndsWithTimeOrWithNewInputs(t *testing.T) {
	host := testHost(func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{"note": "a"} })
	s := newScope(host, testNow, time.Minute)
	for range 2 {
		s.fail(&failure{v1alpha1.OperationPrepare, errTest})
	}
	if got := s.host.Status; got.ErrorCount != 2 || got.ErrorType != v1alpha1.ErrorPreparation {
		t.Fatalf("status = %+v, want two errors of preparing", got)
	}
	waitAt := func(at time.Time, change func(*v1alpha1.BareMetalHost), name v1alpha1.OperationName) time.Duration {
		h := s.host.DeepCopy()
		if change != nil {
			change(h)
		}
		return newScope(h, at, time.Minute).wait(name, 30*time.Minute)
	}
	if got := waitAt(testNow, nil, v1alpha1.OperationPrepare); got < 2*time.Minute || got > 4*time.Minute {
		t.Errorf("at once: %s, want 2 to 4 minutes", got)
	}
	for name, got := range map[string]time.Duration{
		"later":                   waitAt(testNow.Add(5*time.Minute), nil, v1alpha1.OperationPrepare),
		"with a new spec":         waitAt(testNow, func(h *v1alpha1.BareMetalHost) { h.Generation = 2 }, v1alpha1.OperationPrepare),
		"with a new annotation":   waitAt(testNow, func(h *v1alpha1.BareMetalHost) { h.Annotations["note"] = "b" }, v1alpha1.OperationPrepare),
		"for another operation":   waitAt(testNow, nil, v1alpha1.OperationRegister),
		"after a request of ours": waitAt(testNow, func(h *v1alpha1.BareMetalHost) { h.Status.Operation.Request = askManage }, v1alpha1.OperationPrepare),
	} {
		if got != 0 {
			t.Errorf("%s: %s, want no wait", name, got)
		}
	}
	// Other changes of the status do not change the wait.
	written := func(h *v1alpha1.BareMetalHost) {
		now := metav1.NewTime(testNow.Add(time.Minute))
		h.Status.LastUpdated, h.Status.Conditions = &now, nil
	}
	if a, b := waitAt(testNow.Add(time.Minute), nil, v1alpha1.OperationPrepare), waitAt(testNow.Add(time.Minute), written, v1alpha1.OperationPrepare); a != b {
		t.Errorf("a write of the status changes the wait from %s to %s", a, b)
	}
}

func TestFailureOfADeploymentIsCountedOnceAndThenRemoved(t *testing.T) {
	failed := provisioner.Node{State: node.DeployFailed, StateChangedAt: testNow}
	now, before := metav1.NewMicroTime(testNow), metav1.NewMicroTime(testNow.Add(-time.Second))
	for name, tt := range map[string]struct {
		record v1alpha1.OperationStatus
		want   provisionStep
	}{
		"nothing is on record":              {v1alpha1.OperationStatus{}, provisionWork},
		"it was asked for":                  {v1alpha1.OperationStatus{Request: askDeploy, Accepted: true}, provisionWork},
		"one before it was counted":         {v1alpha1.OperationStatus{Failures: 1, NodeChangedAt: &before}, provisionWork},
		"it was counted":                    {v1alpha1.OperationStatus{Failures: 1, NodeChangedAt: &now}, provisionRemove},
		"an earlier version has counted it": {v1alpha1.OperationStatus{Failures: 1}, provisionRemove},
	} {
		host := testHost(withImage)
		host.Spec.Online, host.Status.LastAttemptedImage = true, host.Spec.Image
		if tt.record.Failures > 0 {
			host.Status.ErrorType = v1alpha1.ErrorProvisioning
		}
		if got := decideProvisioning(host, failed, tt.record); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
		if got, _ := decideWork(provisionWorkflow, failed, tt.record, tolerance{}); got.action != workFailed {
			t.Errorf("%s: action %d, want a failure: there is nothing to ask for", name, got.action)
		}
	}
}

func TestDecideProvisioningInterruptsOnlyWhatCanBeInterrupted(t *testing.T) {
	host := func(change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
		return testHost(func(h *v1alpha1.BareMetalHost) {
			h.Spec.Online, h.Spec.Image = true, &v1alpha1.Image{URL: "https://images/a"}
			h.Status.LastAttemptedImage = h.Spec.Image.DeepCopy()
			if change != nil {
				change(h)
			}
		})
	}
	failed := func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorProvisioning }
	other := func(h *v1alpha1.BareMetalHost) { h.Spec.Image.URL = "https://images/b" }
	method := func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: "m2"} }
	none := func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }
	offline := func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false }
	force := func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.RebootAnnotation: `{"force":true}`}
	}
	held := func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.RebootAnnotationPrefix + "x": `{"force":true}`}
	}
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.BareMetalHost)
		state  node.State
		want   provisionStep
	}{
		{"waits for its agent after a refusal", failed, node.DeployWait, provisionWork},
		{"is held by a step after a refusal", failed, node.DeployHold, provisionWork},
		{"waits for its agent, not to be online any more", offline, node.DeployWait, provisionWork},
		{"waits for its agent", nil, node.DeployWait, provisionWork},
		{"waits for its agent, another image", other, node.DeployWait, provisionRemove},
		{"waits for its agent, another method", method, node.DeployWait, provisionRemove},
		{"deploys, another method", method, node.Deploying, provisionWork},
		{"deployed, another method", method, node.Active, provisionWork},
		{"waits for its agent, no image", none, node.DeployWait, provisionRemove},
		{"waits for its agent, forced", force, node.DeployWait, provisionRemove},
		{"waits for its agent, forced by a key that holds it off", held, node.DeployWait, provisionWork},
		{"engine is at work, another image", other, node.Deploying, provisionWork},
		{"done, another image", other, node.Active, provisionWork},
		{"failed after a refusal", failed, node.DeployFailed, provisionWork}, // which records this failure
		{"image taken away in an available node", none, node.Available, provisionRemove},
		{"accepted, not to be online any more", offline, node.Available, provisionWork},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record := v1alpha1.OperationStatus{Request: askDeploy, Accepted: true}
			if got := decideProvisioning(host(tt.change), provisioner.Node{State: tt.state}, record); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.BareMetalHost)
		state  node.State
		want   provisionStep
	}{
		{"failed", failed, node.DeployFailed, provisionRemove},
		{"refused before anything was done", failed, node.Available, provisionWork},
		{"accepted after a refusal, and the answer was lost", failed, node.DeployWait, provisionWork},
		{"not asked yet, not to be online any more", offline, node.Available, provisionRemove},
	} {
		t.Run("no request: "+tt.name, func(t *testing.T) {
			if got := decideProvisioning(host(tt.change), provisioner.Node{State: tt.state}, v1alpha1.OperationStatus{}); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
