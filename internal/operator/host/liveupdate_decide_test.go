package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// serviceCase is a view of a host in use that is online, and whose update is wanted.
func serviceCase(state node.State, change func(*serviceView)) serviceView {
	v := serviceView{
		node:     provisioner.Node{State: state, Power: node.PowerOn, StateChangedAt: testNow},
		requests: powerRequests{online: true, holds: map[string]string{}},
		wanted:   true, ready: true, kept: true,
	}
	if change != nil {
		change(&v)
	}
	return v
}

// both applies changes to a view.
func both(changes ...func(*serviceView)) func(*serviceView) {
	return func(v *serviceView) {
		for _, change := range changes {
			change(v)
		}
	}
}

func TestDecideService(t *testing.T) {
	before := metav1.NewMicroTime(testNow)
	off := func(v *serviceView) { v.node.Power = node.PowerOff }
	cycle := func(v *serviceView) { v.requests.cycle = true }
	held := func(v *serviceView) { v.requests.holds["reboot.metal3.io/fence"] = "" }
	offline := func(v *serviceView) { v.requests.online = false }
	neverOff := func(v *serviceView) { v.requests.neverOff = true }
	explicit := func(v *serviceView) { v.explicit = true }
	unwanted := func(v *serviceView) { v.wanted, v.ready, v.kept = false, false, false }
	nothing := func(v *serviceView) { v.wanted, v.ready = false, false }
	unseen := func(v *serviceView) { v.ready = false }
	waiting := func(v *serviceView) { v.waiting = true }
	failed := func(v *serviceView) { v.record.Failures = 1 }
	broken := func(v *serviceView) { v.node.LastError = "the firmware does not fit" }
	maintained := func(v *serviceView) { v.node.Maintenance = true }
	byEngine := func(v *serviceView) { v.node.Maintenance, v.node.Fault = true, node.FaultServiceFailure }
	powerless := func(v *serviceView) { v.node.Maintenance, v.node.Fault = true, node.FaultPowerFailure }
	writing := func(v *serviceView) { v.node.Step = firmwareStep }
	guarded := func(v *serviceView) { v.node.GuardsFirmware = true }
	observed := func(v *serviceView) { v.observed = true }
	noRamdisk := func(v *serviceView) { v.noRamdisk = true }
	asked := func(request string, accepted bool) func(*serviceView) {
		return func(v *serviceView) {
			v.record.Request, v.record.Accepted, v.record.NodeChangedAt = request, accepted, &before
		}
	}
	inherited := func(v *serviceView) { v.inherited = true }
	later := func(v *serviceView) { v.node.StateChangedAt = testNow.Add(time.Second) }
	for _, tt := range []struct {
		name   string
		state  node.State
		change func(*serviceView)
		want   serviceStep
	}{
		{"nothing is wanted and the machine is off", node.Active, both(nothing, off), serviceNone},
		{"on without a request", node.Active, nil, serviceNone},
		{"on, restart requested: it is powered off first", node.Active, cycle, serviceNone},
		{"off after a requested restart", node.Active, both(off, cycle), serviceBegin},
		{"off and to be on", node.Active, off, serviceBegin},
		{"off while the power still changes", node.Active, both(off, func(v *serviceView) { v.node.TargetPower = node.PowerOff }), serviceNone},
		{"off while the engine is at work", node.Active, both(off, func(v *serviceView) { v.node.Busy = true }), serviceNone},
		{"power not known", node.Active, func(v *serviceView) { v.node.Power = "" }, serviceNone},
		{"off and to stay off", node.Active, both(off, offline), serviceNone},
		{"off, held", node.Active, both(off, held), serviceNone},
		{"off, held, restart requested", node.Active, both(off, cycle, held), serviceNone},
		{"off, the policy demands the annotation", node.Active, both(off, explicit), serviceNone},
		{"off, the policy demands the annotation, which is there", node.Active, both(off, explicit, cycle), serviceBegin},
		{"off, nobody has compared the newest version", node.Active, both(off, unseen), serviceNone},
		{"off, in maintenance", node.Active, both(off, maintained), serviceNone},
		{"off, in maintenance of the engine", node.Active, both(off, byEngine), serviceBegin},
		{"off, in maintenance for its power", node.Active, both(off, powerless), serviceNone},
		{"must not be off, no request", node.Active, neverOff, serviceNone},
		{"must not be off, restart requested", node.Active, both(neverOff, cycle), serviceBegin},
		{"must not be off, lost its power", node.Active, both(neverOff, off), serviceBegin},

		{"no ramdisk, restart requested", node.Active, both(noRamdisk, cycle), serviceUnbootable},
		{"no ramdisk, restart requested, held", node.Active, both(noRamdisk, cycle, held), serviceNone},
		{"no ramdisk, off and to be on", node.Active, both(noRamdisk, off), serviceNone},
		{"no ramdisk, must not be off, restart requested", node.Active, both(noRamdisk, neverOff, cycle), serviceUnbootable},
		{"no ramdisk, nothing is wanted, restart requested", node.Active, both(noRamdisk, nothing, cycle), serviceNone},

		{"recorded, not sent", node.Active, both(off, asked(askService, false)), serviceSend},
		{"recorded, not sent, held since", node.Active, both(off, asked(askService, false), held), serviceEnd},
		{"recorded, not sent, withdrawn since", node.Active, both(off, asked(askService, false), unwanted), serviceEnd},
		{"sent, answer lost, it runs", node.Servicing, both(asked(askService, false), later), serviceWait},
		{"sent, answer lost, it has succeeded", node.Active, both(asked(askService, false), later), serviceDone},
		{"sent, answer lost, it was aborted", node.Active, both(asked(askService, false), later, broken), serviceFailed},
		{"it has succeeded", node.Active, both(asked(askService, true), later), serviceDone},
		{"it has succeeded, and the power cannot be read since", node.Active, both(asked(askService, true), later, broken, powerless), serviceDone},
		{"it has succeeded and is not wanted any more", node.Active, both(asked(askService, true), later, unwanted), serviceDone},
		{"it was aborted and is not wanted any more", node.Active, both(asked(askService, true), later, broken, unwanted), serviceEnd},
		{"accepted, the engine's database is older", node.Active, asked(askService, true), serviceSend},
		{"accepted, the engine's database is older, withdrawn", node.Active, both(asked(askService, true), unwanted), serviceEnd},
		{"its outcome is not seen yet", node.Active, both(asked(askObserve, true), nothing), serviceObserve},
		{"its outcome is not seen yet, and the power failed", node.Active, both(asked(askObserve, true), nothing, broken), serviceObserve},
		{"its outcome is seen", node.Active, both(asked(askObserve, true), nothing, observed), serviceSeen},

		{"it runs", node.ServiceWait, asked(askService, true), serviceWait},
		{"it runs, withdrawn", node.ServiceWait, both(asked(askService, true), unwanted), serviceAbort},
		{"it runs, withdrawn, engine at work", node.Servicing, both(asked(askService, true), unwanted), serviceWait},
		{"it writes firmware, withdrawn", node.ServiceWait, both(asked(askService, true), unwanted, writing), serviceWait},
		{"it runs, and its end is recorded", node.ServiceWait, asked(askAbort, false), serviceAbort},
		{"it runs, and the engine has the abort", node.ServiceWait, asked(askAbort, true), serviceWait},
		{"it writes firmware, and its end is recorded", node.ServiceWait, both(asked(askAbort, false), writing), serviceWait},
		{"it writes firmware, withdrawn, the engine ends the component first", node.ServiceWait, both(asked(askService, true), unwanted, writing, guarded), serviceAbort},
		{"it is held, withdrawn", node.ServiceHold, both(asked(askService, true), unwanted), serviceAbort},
		{"another client services", node.ServiceWait, nothing, serviceWait},
		{"another client services, and an update waits", node.Servicing, nil, serviceWait},
		{"the service of another client failed", node.ServiceFailed, nothing, serviceBlocked},
		{"that of Metal3's operator failed", node.ServiceFailed, both(nothing, inherited), serviceAbort},
		{"that of Metal3's operator failed, a person set maintenance", node.ServiceFailed, both(nothing, inherited, maintained), serviceBlocked},

		{"it failed", node.ServiceFailed, asked(askService, true), serviceFailed},
		{"it failed, the engine set maintenance", node.ServiceFailed, both(asked(askService, true), byEngine), serviceFailed},
		{"it failed, a person set maintenance", node.ServiceFailed, both(asked(askService, true), maintained), serviceBlocked},
		{"it failed and is not wanted any more", node.ServiceFailed, both(asked(askService, true), unwanted), serviceAbort},
		{"the failure is shown: back to active, also during the pause", node.ServiceFailed, both(failed, waiting), serviceAbort},
		{"aborted while it ran: once more, to active", node.ServiceFailed, asked(askAbort, true), serviceAbort},
		{"back in active after a failure", node.Active, both(failed, asked(askAbort, true)), servicePause},
		{"back in active, not wanted any more", node.Active, both(nothing, asked(askAbort, true)), serviceEnd},
		{"back in active, another version is wanted", node.Active, asked(askAbort, true), serviceRestart},
		{"back in active and off, another version is wanted", node.Active, both(off, asked(askAbort, true)), serviceBegin},
		{"back in active, another version is not compared yet", node.Active, both(unseen, asked(askAbort, true)), serviceNone},
		{"failed, pause", node.Active, both(failed, waiting), serviceNone},
		{"failed, pause, off", node.Active, both(failed, waiting, off), serviceNone},
		{"failed, pause over, on", node.Active, failed, serviceRestart},
		{"failed, pause over, off", node.Active, both(failed, off), serviceBegin},
		{"failed, pause over, the policy demands the annotation", node.Active, both(failed, off, explicit), serviceBegin},
		{"failed, pause over, must not be off", node.Active, both(failed, neverOff), serviceBegin},
		{"failed, pause over, held", node.Active, both(failed, held), serviceNone},
		{"failed, reverted or withdrawn", node.Active, both(failed, nothing), serviceEnd},
		{"failed, withdrawn during the pause", node.Active, both(failed, nothing, waiting), serviceEnd},
		{"rescued", node.Rescue, off, serviceNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideService(serviceCase(tt.state, tt.change)); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestServiceNeverBeginsWhereItMustNot goes through all that can be combined.
func TestServiceNeverBeginsWhereItMustNot(t *testing.T) {
	flags := []func(*serviceView, bool){
		func(v *serviceView, on bool) { v.wanted = on },
		func(v *serviceView, on bool) { v.ready = on },
		func(v *serviceView, on bool) { v.kept = on },
		func(v *serviceView, on bool) { v.waiting = on },
		func(v *serviceView, on bool) { v.explicit = on },
		func(v *serviceView, on bool) { v.requests.online = on },
		func(v *serviceView, on bool) { v.requests.neverOff = on },
		func(v *serviceView, on bool) { v.requests.cycle = on },
		func(v *serviceView, on bool) { v.node.Maintenance = on },
		func(v *serviceView, on bool) {
			if on {
				v.requests.holds["reboot.metal3.io/fence"] = ""
			}
		},
		func(v *serviceView, on bool) {
			if on {
				v.record.Failures = 1
			}
		},
	}
	for _, state := range node.States() {
		for _, request := range []string{"", askService, askAbort, askObserve} {
			for _, power := range []node.PowerState{node.PowerOn, node.PowerOff, ""} {
				for bits := range 1 << len(flags) {
					v := serviceCase(state, func(v *serviceView) {
						v.record.Request, v.node.Power = request, power
						now := metav1.NewMicroTime(testNow)
						v.record.NodeChangedAt = &now
						for i, set := range flags {
							set(v, bits>>i&1 == 1)
						}
					})
					checkService(t, v, decideService(v))
				}
			}
		}
	}
}

func checkService(t *testing.T, v serviceView, got serviceStep) {
	t.Helper()
	begins := got == serviceBegin || got == serviceSend || got == serviceRestart
	switch {
	case begins && (v.node.State != node.Active || !v.wanted || !v.ready || !v.requests.online || len(v.requests.holds) > 0 || v.node.Maintenance):
		t.Fatalf("step %d of %+v: a live update begins", got, v)
	case (got == serviceBegin || got == serviceRestart) && v.waiting:
		t.Fatalf("step %d of %+v: a live update begins during its pause", got, v)
	case got == serviceSend && !v.kept:
		t.Fatalf("step %d of %+v: what is not wanted is sent", got, v)
	case got == serviceBegin && v.node.Power != node.PowerOff && !v.requests.neverOff:
		t.Fatalf("step %d of %+v: the engine would cut the power", got, v)
	case got == serviceRestart && v.requests.neverOff:
		t.Fatalf("step %d of %+v: a machine is powered off that must not be", got, v)
	case got == serviceAbort && v.record.Request == "" && v.record.Failures == 0:
		t.Fatalf("step %d of %+v: the service of another client is aborted", got, v)
	}
}

func TestWhatAnObjectAsksForDependsOnItsConditionsAndOnTheRecord(t *testing.T) {
	conditions := func(generation int64, valid, changed metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{
			{Type: v1alpha1.ValidCondition, Status: valid, ObservedGeneration: generation, Message: "no such setting"},
			{Type: v1alpha1.ChangeDetectedCondition, Status: changed, ObservedGeneration: generation},
		}
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	object := &v1alpha1.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{UID: "s1", Generation: 3}}
	for _, tt := range []struct {
		name       string
		conditions []metav1.Condition
		clean      bool
		record     v1alpha1.UpdateRecord
		withdrawn  bool
		version    int64
		ready      bool
		kept       bool
	}{
		{name: "nobody has looked", kept: true},
		{name: "an older version was compared", conditions: conditions(2, yes, yes), kept: true},
		{name: "invalid", conditions: conditions(3, no, yes), kept: true},
		{name: "the machine has it", conditions: conditions(3, yes, no), kept: true},
		{name: "the machine differs", conditions: conditions(3, yes, yes), version: 3, ready: true, kept: true},
		{name: "the machine differs, not permitted", conditions: conditions(3, yes, yes), withdrawn: true, kept: true},
		{name: "applied, and still shown as different", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{UID: "s1", Applied: 3}, kept: true},
		{name: "another object was applied", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{UID: "s0", Applied: 3}, version: 3, ready: true, kept: true},
		{name: "applied in another cluster", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{AppliedDigest: "same"}, kept: true},
		{name: "something else was applied in another cluster", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{AppliedDigest: "other"}, version: 3, ready: true, kept: true},
		{name: "applied in another cluster, and requested there", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{AppliedDigest: "same", RequestedDigest: "same"}, version: 3, ready: true, kept: true},
		{name: "another object with the same content was applied", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{UID: "s0", Applied: 3, AppliedDigest: "same"}, version: 3, ready: true, kept: true},
		{name: "another object was requested, and this one asks for nothing", clean: true, record: v1alpha1.UpdateRecord{UID: "s0", Requested: 3}},
		{name: "another object was requested", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{UID: "s0", Requested: 3}, version: 3, ready: true},
		{name: "an older version was applied", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{UID: "s1", Applied: 2}, version: 3, ready: true, kept: true},
		{name: "requested, a part is visible already", conditions: conditions(3, yes, no), record: v1alpha1.UpdateRecord{UID: "s1", Requested: 3}, version: 3, ready: true, kept: true},
		{name: "requested, not permitted any more", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{UID: "s1", Requested: 3}, withdrawn: true},
		{name: "requested, changed since, not compared", conditions: conditions(2, yes, yes), record: v1alpha1.UpdateRecord{UID: "s1", Requested: 2}, version: 2, kept: true},
		{name: "requested, changed since", conditions: conditions(3, yes, yes), record: v1alpha1.UpdateRecord{UID: "s1", Requested: 2}, version: 3, ready: true},
		{name: "requested, reverted since", conditions: conditions(3, yes, no), record: v1alpha1.UpdateRecord{UID: "s1", Requested: 2}},
		{name: "requested, emptied since, not compared", clean: true, record: v1alpha1.UpdateRecord{UID: "s1", Requested: 2}},
		{name: "requested, invalid since", conditions: conditions(3, no, yes), record: v1alpha1.UpdateRecord{UID: "s1", Requested: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := change{digest: "same", record: tt.record, withdrawn: tt.withdrawn}.of(object, tt.conditions, tt.clean)
			if c.version() != tt.version || c.ready() != tt.ready || c.kept() != tt.kept {
				t.Errorf("version %d, ready %t, kept %t; want %d, %t, %t", c.version(), c.ready(), c.kept(), tt.version, tt.ready, tt.kept)
			}
		})
	}
}
