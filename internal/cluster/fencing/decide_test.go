package fencing

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// factsOf returns facts of a row. With a hold, health checks are suspended for it and the Node is
// saved. With a hold and off, the host is proven to be off.
func factsOf(s situation) facts {
	machine := &clusterv1.Machine{}
	machine.Namespace, machine.Name, machine.UID = testNamespace, "machine-0", "machine-uid-0"
	machine.Annotations = map[string]string{}
	if s.requested {
		machine.Annotations[v1beta2.ExternalRemediationAnnotation] = ""
	}
	value := hold{
		Mode: v1alpha1.RebootModeHard, Nonce: "N", Cluster: testCluster, Machine: refOf(machine),
		Node: &nodeRef{"node-0", "node-uid-0"}, RequestedAt: *at(testNow),
	}
	host := offHost(holdKey, encode(value))
	host.Status.PowerOffHolds[1].ConfirmedAt = at(testNow)
	host.Status.PoweredOn = s.on
	if !s.held {
		host.Annotations, host.Status.PowerOffHolds = nil, nil
	} else {
		machine.Annotations[clusterv1.MachineSkipRemediationAnnotation] = v1beta2.SkipRemediationMarker
		machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{Hold: "N"})
		machine.Annotations[v1beta2.RestorePendingAnnotation] = encode(backup{Node: *value.Node})
	}
	f := facts{now: testNow, machine: machine, host: host}
	if s.node {
		f.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "node-uid-0"}}
	}
	return f
}

var testLimits = limits{budget: 1, nodeTimeout: DefaultNodeTimeout}

// specified are the 16 rows: Node, request, on, hold.
var specified = map[[4]int]action{
	{0, 0, 0, 0}: doNothing, // the specification lacks this row
	{0, 0, 0, 1}: removeHold,
	{0, 0, 1, 0}: doNothing,
	{0, 0, 1, 1}: doNothing,
	{0, 1, 0, 0}: doNothing,
	{0, 1, 0, 1}: removeRequest,
	{0, 1, 1, 0}: addHold,
	{0, 1, 1, 1}: doNothing,
	{1, 0, 0, 0}: doNothing,
	{1, 0, 0, 1}: removeHold,
	{1, 0, 1, 0}: doNothing,
	{1, 0, 1, 1}: doNothing,
	{1, 1, 0, 0}: doNothing,
	{1, 1, 0, 1}: deleteNode,
	{1, 1, 1, 0}: addHold,
	{1, 1, 1, 1}: doNothing,
}

func row(bits [4]int) situation {
	return situation{node: bits[0] == 1, requested: bits[1] == 1, on: bits[2] == 1, held: bits[3] == 1}
}

func TestEachRowOfTheTruthTableHasTheActionOfTheSpecification(t *testing.T) {
	if len(table) != len(specified) || len(specified) != 16 {
		t.Fatalf("%d rows, and %d specified, want 16", len(table), len(specified))
	}
	for bits, want := range specified {
		for _, extra := range []bool{false, true} { // nothing extra is due
			l := testLimits
			l.extra = extra
			got := decide(factsOf(row(bits)), l).do
			if extra && bits == [4]int{1, 1, 0, 0} {
				want = noteOff
			}
			if got != want {
				t.Errorf("row %v, extra actions %t: %s, want %s", bits, extra, got, want)
			}
		}
	}
}

func TestExtraActionsAreTakenOnlyWhenTheyAreSwitchedOn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bits   [4]int
		change func(f *facts)
		want   action // with the extra actions
	}{
		{"a withdrawn hold without effect expires", [4]int{0, 0, 1, 1}, func(f *facts) { f.now = testNow.Add(holdExpiry) }, removeHold},
		{"the same with a Node", [4]int{1, 0, 1, 1}, func(f *facts) { f.now = testNow.Add(holdExpiry) }, removeHold},
		{"it does not expire before", [4]int{1, 0, 1, 1}, func(f *facts) {
			f.now = testNow.Add(holdExpiry - time.Second)
			resume(f.machine.Annotations)
		}, doNothing},
		{"the request is fulfilled when the Node was deleted for it", [4]int{0, 1, 0, 0}, func(f *facts) {
			f.machine.Annotations[v1beta2.RestorePendingAnnotation] = encode(backup{Node: nodeRef{"node-0", "node-uid-0"}})
		}, removeRequest},
		{"a host that is off is noted", [4]int{1, 1, 0, 0}, func(*facts) {}, noteOff},
		{"it has its grace", [4]int{1, 1, 0, 0}, func(f *facts) {
			f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{OffSince: at(testNow)})
			f.now = testNow.Add(offGrace - time.Second)
		}, doNothing},
		{"and is held after it", [4]int{1, 1, 0, 0}, func(f *facts) {
			f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{OffSince: at(testNow)})
			f.now = testNow.Add(offGrace)
		}, addHold},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, extra := range []bool{false, true} {
				f, l := factsOf(row(tt.bits)), testLimits
				l.extra = extra
				tt.change(&f)
				got := decide(f, l).do
				switch {
				case extra && got != tt.want:
					t.Errorf("%s, want %s", got, tt.want)
				case !extra && slices.Contains([]action{removeHold, addHold, removeRequest, noteOff, deleteNode}, got):
					t.Errorf("%s without the extra actions", got)
				}
			}
		})
	}
}

func TestAMachineThatBootsIsPoweredOffAgainOnlyIfThatIsForcedOrTheExtraActionsAreOff(t *testing.T) {
	booting, back := [4]int{0, 1, 1, 0}, [4]int{1, 1, 1, 0}
	for _, tt := range []struct {
		name  string
		bits  [4]int
		since time.Duration // since the host may be on
		value string        // of the request
		want  action        // with the extra actions
	}{
		{"it boots", booting, time.Minute, "", doNothing},
		{"it boots nearly too long", booting, DefaultNodeTimeout - time.Second, "", doNothing},
		{"it boots too long", booting, DefaultNodeTimeout, "", addHold},
		{"it is back", back, time.Minute, "", removeRequest},
		{"it is back late", back, DefaultNodeTimeout, "", addHold},
		{"the clock was set back", booting, -time.Minute, "", addHold},
		{"forced", booting, time.Minute, v1beta2.ForcedRemediation, addHold},
		{"forced and back", back, time.Minute, v1beta2.ForcedRemediation, addHold},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, extra := range []bool{false, true} {
				f, l := factsOf(row(tt.bits)), testLimits
				l.extra = extra
				f.machine.Annotations[v1beta2.ExternalRemediationAnnotation] = tt.value
				f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{ReleasedAt: at(testNow.Add(-tt.since))})
				f.machine.Annotations[v1beta2.RestorePendingAnnotation] = encode(backup{Node: nodeRef{"node-0", "node-uid-before"}})
				want := addHold
				if extra {
					want = tt.want
				}
				d := decide(f, l)
				if d.do != want || want == doNothing && d.reason != v1beta2.WaitingForNodeReason {
					t.Errorf("extra actions %t: %s with reason %q, want %s", extra, d.do, d.reason, want)
				}
			}
		})
	}
}

func TestNothingIsDoneWhileNothingIsKnownAboutTheNode(t *testing.T) {
	for bits, want := range specified {
		s := row(bits)
		f := factsOf(s)
		f.node, f.unreachable = nil, "no answer"
		if want != removeHold { // which does not depend on the Node
			want = doNothing
		}
		d := decide(f, testLimits)
		if d.do != want {
			t.Errorf("row %v: %s, want %s", bits, d.do, want)
		}
		if !s.held && d.reason != v1beta2.WorkloadClusterUnreachableReason {
			t.Errorf("row %v: the condition says %q", bits, d.reason)
		}
	}
}

// unprovenHosts are changes after which a host is not proven to be off.
var unprovenHosts = map[string]func(h *v1alpha1.BareMetalHost){
	"no record":         func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds = nil },
	"not confirmed":     func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds[1].ConfirmedAt = nil },
	"another hold":      func(h *v1alpha1.BareMetalHost) { h.Status.PowerOffHolds[1].Value = "sha256:0" },
	"power error":       func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorPowerManagement },
	"registration":      func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorRegistration },
	"detached":          func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.DetachedAnnotation] = "" },
	"paused":            func(h *v1alpha1.BareMetalHost) { h.Annotations[v1alpha1.PausedAnnotation] = "" },
	"no BMC":            func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} },
	"power off refused": func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff = true },
	"powered on":        func(h *v1alpha1.BareMetalHost) { h.Status.PoweredOn = true },
}

func TestWithoutProofNeitherNodeNorRequestIsTouched(t *testing.T) {
	for name, change := range unprovenHosts {
		for _, bits := range [][4]int{{1, 1, 0, 1}, {0, 1, 0, 1}} {
			for _, age := range []time.Duration{0, ConfirmTimeout, 100 * time.Hour} {
				for _, extra := range []bool{false, true} {
					f, l := factsOf(row(bits)), testLimits
					l.extra = extra
					change(f.host)
					f.now = testNow.Add(age)
					if got := decide(f, l).do; got != doNothing && got != endSkip {
						t.Errorf("%s, row %v, after %s, extra actions %t: %s", name, bits, age, extra, got)
					}
				}
			}
		}
	}
}

func TestHostsThatCannotBeFencedAreRefusedAndTheRequestIsKept(t *testing.T) {
	for name, want := range map[string]string{
		"no BMC": v1beta2.RemediationImpossibleReason, "power off refused": v1beta2.RemediationImpossibleReason,
		"detached": v1beta2.RemediationImpossibleReason, "paused": v1beta2.WaitingForHostReason,
		"power error": "", "registration": "", // the hold waits for the BMC
	} {
		f := factsOf(situation{node: true, requested: true, on: true})
		f.host.Annotations = map[string]string{}
		unprovenHosts[name](f.host)
		d := decide(f, testLimits)
		if want == "" && d.do != addHold || want != "" && (d.do != doNothing || d.reason != want) {
			t.Errorf("%s: %s with reason %q, want reason %q", name, d.do, d.reason, want)
		}
	}
}

func TestGuardsComeBeforeTheTable(t *testing.T) {
	fencing := situation{node: true, requested: true, on: false, held: true}
	toBegin := situation{node: true, requested: true, on: true}
	for _, tt := range []struct {
		name   string
		row    situation
		change func(f *facts)
		want   action
		reason string
	}{
		{"paused", fencing, func(f *facts) { f.paused = true }, doNothing, ""},
		{"paused with a stray hold", fencing, func(f *facts) { f.paused, f.stray = true, f.host }, doNothing, ""},
		{"a stray hold", fencing, func(f *facts) { f.stray = f.host }, removeStray, ""},
		{"the Machine is gone", fencing, func(f *facts) { f.machine, f.host = nil, nil }, doNothing, ""},
		{"the Machine is being deleted", fencing, func(f *facts) { f.machine.DeletionTimestamp = at(testNow) }, removeHold, ""},
		{"the Machine is being deleted and nothing is held", toBegin, func(f *facts) { f.machine.DeletionTimestamp = at(testNow) }, doNothing, ""},
		{"the host is gone", fencing, func(f *facts) { f.host = nil }, endSkip, ""},
		{"there is no host", toBegin, func(f *facts) { f.host = nil }, doNothing, v1beta2.RemediationImpossibleReason},
		{"a hold of somebody else", toBegin, func(f *facts) { f.host.Annotations = map[string]string{holdKey: `{"mode":"hard"}`} }, doNothing, v1beta2.ForeignHoldReason},
		{"somebody else has replaced the hold", fencing, func(f *facts) { f.host.Annotations[holdKey] = `{"mode":"hard"}` }, endSkip, ""},
		{"a hold of another Machine", fencing, func(f *facts) { f.machine.UID = "another" }, renewHold, ""},
		{"a hold for another Node", fencing, func(f *facts) { f.node.UID = "another" }, renewHold, ""},
		{"health checks are not suspended", fencing, func(f *facts) { delete(f.machine.Annotations, v1beta2.RemediationStageAnnotation) }, markCycle, ""},
		{"they are suspended for another hold", fencing, func(f *facts) {
			f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{Hold: "another"})
		}, markCycle, ""},
		{"the Node is not saved", fencing, func(f *facts) { delete(f.machine.Annotations, v1beta2.RestorePendingAnnotation) }, saveNode, ""},
		{"another Node is saved", fencing, func(f *facts) {
			f.machine.Annotations[v1beta2.RestorePendingAnnotation] = encode(backup{Node: nodeRef{"node-0", "another"}})
		}, saveNode, ""},
		{"the budget is taken", toBegin, func(f *facts) { f.occupied = []string{"host-1"} }, doNothing, v1beta2.WaitingForBudgetReason},
		{"the control plane needs it", toBegin, func(f *facts) { f.endangered = "1 of 3" }, doNothing, v1beta2.WaitingForControlPlaneReason},
		{"the control plane always needs it", toBegin, func(f *facts) { f.endangered, f.lasting = "0 of 1", true }, doNothing, v1beta2.RemediationImpossibleReason},
		{"the host is not provisioned", toBegin, func(f *facts) { f.host.Status.Provisioning.State = v1alpha1.StateProvisioning }, doNothing, v1beta2.WaitingForHostReason},
		{"the host is externally provisioned", toBegin, func(f *facts) { f.host.Status.Provisioning.State = v1alpha1.StateExternallyProvisioned }, addHold, ""},
		{"the budget is taken and the Node of an earlier cycle is back", toBegin, func(f *facts) {
			f.occupied = []string{"host-1"}
			f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{ReleasedAt: at(testNow)})
		}, closeCycle, v1beta2.WaitingForBudgetReason},
		{"an earlier cycle does not delay the next without the extra actions", toBegin, func(f *facts) {
			f.machine.Annotations[v1beta2.RemediationStageAnnotation] = encode(stage{ReleasedAt: at(testNow)})
		}, addHold, ""},
		{"another holder", toBegin, func(f *facts) { f.host.Annotations = map[string]string{testKey: ""} }, addHold, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := factsOf(tt.row)
			tt.change(&f)
			if d := decide(f, testLimits); d.do != tt.want || d.reason != tt.reason {
				t.Errorf("%s with reason %q, want %s with %q", d.do, d.reason, tt.want, tt.reason)
			}
		})
	}
}

func TestAMachineOfTheControlPlaneIsFencedOnlyIfTheOthersAreTheMajority(t *testing.T) {
	for _, tt := range []struct {
		machines, readyOthers int
		endangered, lasting   bool
	}{
		{1, 0, true, true},
		{2, 1, true, true},
		{2, 0, true, true},
		{3, 2, false, false},
		{3, 1, true, false},
		{5, 3, false, false},
		{5, 4, false, false},
		{5, 2, true, false},
		{5, 0, true, false},
	} {
		machines := make([]clusterv1.Machine, tt.machines)
		for i := range machines {
			machines[i].UID = types.UID(name("uid", i))
			if i >= 1 && i <= tt.readyOthers {
				machines[i].Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue}}
			}
		}
		if got, lasting := endangered(&machines[0], machines, nil); (got != "") != tt.endangered || lasting != tt.lasting {
			t.Errorf("%d machines, %d others ready: %q, lasting %t, want endangered %t, lasting %t", tt.machines, tt.readyOthers, got, lasting, tt.endangered, tt.lasting)
		}
	}
}
