package remediation

import (
	"testing"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

const (
	running  = v1beta2.RemediationRunning
	waiting  = v1beta2.RemediationWaiting
	deleting = v1beta2.RemediationDeletingMachine
	failed   = v1beta2.RemediationFailed
)

func TestEachSituationHasItsAction(t *testing.T) {
	reboot := facts{finalizer: true, strategy: v1beta2.RebootRemediation, phase: running, poweredOn: true}
	off := reboot
	off.hold, off.proven, off.poweredOn, off.node, off.taintable = currentHold, true, false, presentNode, true
	released := reboot
	released.released, released.node = true, presentNode
	byAnnotation := reboot
	byAnnotation.strategy, byAnnotation.node = v1beta2.AnnotationRemediation, absentNode
	inWait := released
	inWait.phase = waiting
	byCAPM3 := inWait
	byCAPM3.released, byCAPM3.inherited = false, true
	ended := inWait
	ended.expired = true
	taken := reboot
	taken.deleting, taken.node = true, presentNode
	stopped := reboot
	stopped.phase, stopped.node = failed, presentNode

	for _, tt := range []struct {
		name   string
		from   facts
		change func(*facts)
		want   action
	}{
		{"paused", reboot, func(f *facts) { f.paused = true }, rest},
		{"paused and deleted", taken, func(f *facts) { f.paused, f.hold = true, currentHold }, rest},
		{"new", reboot, func(f *facts) { f.finalizer, f.phase = false, "" }, addFinalizer},
		{"new without a host", reboot, func(f *facts) { f.phase, f.obstacle = "", noHost }, fail},
		{"new and its machine has no host yet", reboot, func(f *facts) { f.phase, f.obstacle, f.early = "", noHost, true }, waitForStart},
		{"new and its machine is being deployed", reboot, func(f *facts) { f.phase, f.early = "", true }, waitForStart},
		{"new and its host cannot be deployed", reboot, func(f *facts) { f.phase, f.undeployable, f.retriesLeft, f.node = "", true, true, absentNode }, markHost},
		{"new, its host cannot be deployed and it has a Node", reboot, func(f *facts) { f.phase, f.undeployable, f.node = "", true, presentNode }, waitForStart},
		{"new, its host cannot be deployed and its Node is not known", reboot, func(f *facts) { f.phase, f.undeployable, f.node = "", true, unknownNode }, waitForStart},
		{"new and its host, which is marked, cannot be deployed", reboot, func(f *facts) { f.phase, f.undeployable, f.hostMarked, f.node = "", true, true, absentNode }, tellOwner},
		{"new and its host cannot be deployed, owner told", reboot, func(f *facts) {
			f.phase, f.undeployable, f.hostMarked, f.told, f.node = "", true, true, true, absentNode
		}, handOver},
		{"began and its host cannot be deployed", reboot, func(f *facts) { f.undeployable = true }, setHold},
		{"began and its machine has no host any more", reboot, func(f *facts) { f.obstacle, f.early = noHost, true }, fail},
		{"with finalizer", reboot, func(f *facts) { f.phase = "" }, begin},
		{"Machine being deleted before it began", reboot, func(f *facts) { f.phase, f.orphaned, f.node = "", true, absentNode }, rest},

		{"began", reboot, nil, setHold},
		{"new and is skipped", reboot, func(f *facts) { f.phase, f.skipped = "", true }, waitWhileSkipped},
		{"began and is skipped", reboot, func(f *facts) { f.skipped = true }, waitWhileSkipped},
		{"held and is skipped", reboot, func(f *facts) { f.skipped, f.hold = true, currentHold }, waitForPowerOff},
		{"off and is skipped", off, func(f *facts) { f.skipped, f.recorded = true, true }, taintNode},
		{"tainted without hold and is skipped", reboot, func(f *facts) { f.skipped, f.recorded = true, true }, setHold},
		{"released and is skipped", released, func(f *facts) { f.skipped, f.poweredOn = true, false }, waitForPowerOn},
		{"annotation: began and is skipped", byAnnotation, func(f *facts) { f.skipped = true }, waitWhileSkipped},
		{"annotation: withdrawn and is skipped, with a backup", byAnnotation, func(f *facts) { f.skipped, f.backup = true, true }, waitWhileSkipped},
		{"annotation: withdrawn and is skipped, tainted perhaps", byAnnotation, func(f *facts) { f.skipped, f.recorded = true, true }, forgetTaint},
		{"annotation: withdrawn and is skipped, with a hold", byAnnotation, func(f *facts) { f.skipped, f.hold = true, currentHold }, removeHold},
		{"annotation: withdrawn and is skipped, with a hold elsewhere", byAnnotation, func(f *facts) { f.skipped, f.stray = true, true }, removeHold},
		{"annotation: set and is skipped", byAnnotation, func(f *facts) { f.skipped, f.request = true, currentRequest }, withdraw},
		{"annotation: of an earlier attempt and is skipped", byAnnotation, func(f *facts) { f.skipped, f.request, f.marked = true, outdatedRequest, true }, withdraw},
		{"annotation: of somebody else and is skipped", byAnnotation, func(f *facts) { f.skipped, f.request = true, foreignRequest }, waitForRequest},
		{"annotation: set, held off and is skipped", byAnnotation, func(f *facts) { f.skipped, f.request, f.recovering = true, currentRequest, true }, waitForRecovery},
		{"annotation: removed and is skipped", byAnnotation, func(f *facts) { f.skipped, f.request, f.marked = true, fulfilledRequest, true }, release},
		{"began and the control plane needs the machine", reboot, func(f *facts) { f.endangered = true }, waitForControlPlane},
		{"began and the control plane may need the machine, which never had a Node", reboot, func(f *facts) { f.endangered, f.nodeless, f.node = true, true, absentNode }, waitForControlPlane},
		{"began and the control plane may need the machine for long, which never had a Node", reboot, func(f *facts) {
			f.endangered, f.nodeless, f.stranded, f.node = true, true, true, absentNode
		}, markHost},
		{"began and the control plane may need the machine for long, whose Node is new", reboot, func(f *facts) {
			f.endangered, f.nodeless, f.stranded, f.node = true, true, true, presentNode
		}, waitForControlPlane},
		{"began and the control plane may need the machine for long, whose Node is not known", reboot, func(f *facts) {
			f.endangered, f.nodeless, f.stranded, f.node = true, true, true, unknownNode
		}, waitForNode},
		{"began and the control plane needs the machine for long", reboot, func(f *facts) { f.endangered, f.stranded, f.node = true, true, absentNode }, waitForControlPlane},
		{"hold of an earlier attempt", reboot, func(f *facts) { f.hold = outdatedHold }, setHold},
		{"hold from before a move", reboot, func(f *facts) { f.stray = true }, setHold},
		{"hold from before a move beside a new one", off, func(f *facts) { f.stray, f.taint = true, ourTaint }, removeHold},
		{"hold on a host that was lost", reboot, func(f *facts) { f.stray, f.obstacle = true, noHost }, fail},
		{"host switched off by its spec meanwhile", off, func(f *facts) { f.obstacle = offline }, fail},
		{"held and on", reboot, func(f *facts) { f.hold = currentHold }, waitForPowerOff},
		{"held, off and not proven", reboot, func(f *facts) { f.hold, f.poweredOn, f.node, f.late = currentHold, false, presentNode, true }, waitForPowerOff},
		{"off", off, nil, recordTaint},
		{"off, and held for another Node", off, func(f *facts) { f.otherNode, f.recorded = true, true }, setHold},
		{"off in an old cluster, and held for another Node", off, func(f *facts) { f.otherNode, f.taintable, f.backup = true, false, true }, setHold},
		{"off for long, and held for another Node", off, func(f *facts) { f.otherNode, f.late = true, true }, release},
		{"off and the taint is recorded", off, func(f *facts) { f.recorded = true }, taintNode},
		{"off in an old cluster", off, func(f *facts) { f.taintable = false }, backUpNode},
		{"off in an old cluster with backup", off, func(f *facts) { f.taintable, f.backup = false, true }, deleteNode},
		{"off in an old cluster and the Node has finalizers", off, func(f *facts) { f.taintable, f.backup, f.leaving = false, true, true }, waitForNode},
		{"off and the Node has finalizers for long", off, func(f *facts) { f.backup, f.leaving, f.late = true, true, true }, release},
		{"on again and the old Node has finalizers", released, func(f *facts) { f.backup, f.leaving = true, true }, waitForNode},
		{"off and the Node with backup is gone", off, func(f *facts) { f.backup, f.node = true, absentNode }, release},
		{"off and there is no Node", off, func(f *facts) { f.node = absentNode }, release},
		{"off and the workload cluster does not answer", off, func(f *facts) { f.node = unknownNode }, waitForNode},
		{"off and the workload cluster does not answer for long", off, func(f *facts) { f.node, f.late = unknownNode, true }, release},
		{"out of service with pods", off, func(f *facts) { f.taint, f.occupied = ourTaint, true }, waitForPods},
		{"out of service with pods for long", off, func(f *facts) { f.taint, f.occupied, f.late = ourTaint, true, true }, release},
		{"out of service and empty", off, func(f *facts) { f.taint = ourTaint }, release},
		{"put out of service by a person", off, func(f *facts) { f.taint, f.occupied = foreignTaint, true }, waitForPods},
		{"put out of service by a person and empty", off, func(f *facts) { f.taint = foreignTaint }, release},

		{"begun by CAPM3", reboot, func(f *facts) { f.inherited, f.hold, f.node = true, outdatedHold, presentNode }, setHold},
		{"begun by CAPM3 without an answer", reboot, func(f *facts) { f.inherited, f.hold, f.node = true, outdatedHold, unknownNode }, waitForNode},
		{"put out of service by CAPM3", reboot, func(f *facts) {
			f.inherited, f.hold, f.node, f.taint = true, outdatedHold, presentNode, ourTaint
		}, recordTaint},
		{"put out of service by CAPM3 and recorded", reboot, func(f *facts) {
			f.inherited, f.hold, f.node, f.taint, f.recorded = true, outdatedHold, presentNode, ourTaint, true
		}, setHold},

		{"released with taint", released, func(f *facts) { f.taint, f.hold, f.poweredOn = ourTaint, currentHold, false }, untaintNode},
		{"released with hold", released, func(f *facts) { f.hold, f.poweredOn = currentHold, false }, removeHold},
		{"released with hold long ago", released, func(f *facts) { f.hold, f.delayed, f.expired = currentHold, true, true }, releaseAnew},
		{"released with taint long ago", released, func(f *facts) { f.taint, f.hold, f.delayed = ourTaint, currentHold, true }, untaintNode},
		{"released with hold and without an answer, never tainted", released, func(f *facts) { f.hold, f.node = currentHold, unknownNode }, removeHold},
		{"released with hold and without an answer, tainted perhaps", released, func(f *facts) {
			f.hold, f.node, f.recorded, f.expired, f.late = currentHold, unknownNode, true, true, true
		}, waitForNode},
		{"released with hold, and the taint is gone", released, func(f *facts) { f.hold, f.recorded = currentHold, true }, forgetTaint},
		{"released with hold, and the Node is gone", released, func(f *facts) { f.hold, f.node, f.recorded = currentHold, absentNode, true }, forgetTaint},
		{"somebody else removed the hold, without an answer", released, func(f *facts) { f.node, f.recorded = unknownNode, true }, awaitHealth},
		{"released and off", released, func(f *facts) { f.poweredOn = false }, waitForPowerOn},
		{"released and off for long", released, func(f *facts) { f.poweredOn, f.expired = false, true }, awaitHealth},
		{"on again", released, nil, awaitHealth},
		{"on again without its Node", released, func(f *facts) { f.backup, f.node = true, absentNode }, waitForNode},
		{"on again without its Node for long", released, func(f *facts) { f.backup, f.node, f.expired = true, absentNode, true }, awaitHealth},
		{"on again with a bare Node", released, func(f *facts) { f.backup, f.incomplete = true, true }, restoreNode},
		{"on again with the Node restored", released, func(f *facts) { f.backup = true }, dropBackup},

		{"annotation: began", byAnnotation, nil, request},
		{"annotation: of an earlier attempt", byAnnotation, func(f *facts) { f.request, f.marked = outdatedRequest, true }, request},
		{"annotation: of somebody else", byAnnotation, func(f *facts) { f.request = foreignRequest }, waitForRequest},
		{"annotation: set", byAnnotation, func(f *facts) { f.request, f.marked = currentRequest, true }, waitForRecovery},
		{"annotation: removed", byAnnotation, func(f *facts) { f.request, f.marked = fulfilledRequest, true }, release},
		{"annotation: began beside a hold", byAnnotation, func(f *facts) { f.hold = currentHold }, removeHold},
		{"annotation: began beside a taint", byAnnotation, func(f *facts) { f.hold, f.recorded, f.node, f.taint = currentHold, true, presentNode, ourTaint }, untaintNode},
		{"annotation: began beside a hold of CAPM3, without an answer", byAnnotation, func(f *facts) { f.hold, f.inherited, f.node = outdatedHold, true, unknownNode }, waitForNode},
		{"annotation: set beside a hold", byAnnotation, func(f *facts) { f.hold, f.request, f.marked = currentHold, currentRequest, true }, removeHold},
		{"annotation: of somebody else beside a hold", byAnnotation, func(f *facts) { f.hold, f.request = currentHold, foreignRequest }, removeHold},
		{"annotation: set and held off beside a hold", byAnnotation, func(f *facts) {
			f.hold, f.request, f.marked, f.recovering = currentHold, currentRequest, true, true
		}, waitForRecovery},
		{"annotation: removed beside a hold", byAnnotation, func(f *facts) { f.hold, f.request, f.marked = currentHold, fulfilledRequest, true }, release},
		{"annotation: released with a hold", byAnnotation, func(f *facts) { f.released, f.hold, f.poweredOn = true, currentHold, false }, removeHold},
		{"annotation: began and the control plane may need the machine", byAnnotation, func(f *facts) { f.endangered, f.nodeless = true, true }, waitForControlPlane},
		{"annotation: set and the control plane may need the machine", byAnnotation, func(f *facts) {
			f.endangered, f.nodeless, f.request, f.marked = true, true, currentRequest, true
		}, withdraw},
		{"annotation: of somebody else and the control plane may need the machine", byAnnotation, func(f *facts) {
			f.endangered, f.nodeless, f.stranded, f.request = true, true, true, foreignRequest
		}, waitForRequest},
		{"annotation: removed and the control plane may need the machine", byAnnotation, func(f *facts) {
			f.endangered, f.nodeless, f.stranded, f.request, f.marked = true, true, true, fulfilledRequest, true
		}, release},
		{"annotation: began and the control plane may need the machine for long", byAnnotation, func(f *facts) {
			f.endangered, f.nodeless, f.stranded = true, true, true
		}, markHost},
		{"annotation: began and the control plane may need the machine for long, whose Node is not known", byAnnotation, func(f *facts) {
			f.endangered, f.nodeless, f.stranded, f.node = true, true, true, unknownNode
		}, waitForNode},
		{"annotation: held off", byAnnotation, func(f *facts) { f.released, f.recovering, f.marked = true, true, true }, waitForPowerOn},
		{"annotation: off", byAnnotation, func(f *facts) { f.released, f.poweredOn = true, false }, waitForPowerOn},
		{"annotation: off for long", byAnnotation, func(f *facts) { f.released, f.poweredOn, f.expired = true, false, true }, awaitHealth},
		{"annotation: on", byAnnotation, func(f *facts) { f.released = true }, awaitHealth},

		{"waiting", inWait, nil, waitForHealth},
		{"waiting and the clock was set back", ended, func(f *facts) { f.ahead, f.retriesLeft = true, true }, releaseAnew},
		{"off and the clock was set back", released, func(f *facts) { f.ahead, f.poweredOn = true, false }, releaseAnew},
		{"taken back and the clock was set back", taken, func(f *facts) { f.ahead = true }, removeFinalizer},
		{"waiting by CAPM3", byCAPM3, nil, release},
		{"waiting by CAPM3 without an answer", byCAPM3, func(f *facts) { f.node = unknownNode }, waitForNode},
		{"waiting by CAPM3 with hold and without an answer", byCAPM3, func(f *facts) { f.hold, f.node = outdatedHold, unknownNode }, waitForNode},
		{"waiting by CAPM3 with hold", byCAPM3, func(f *facts) { f.hold = outdatedHold }, removeHold},
		{"waiting by CAPM3 with taint", byCAPM3, func(f *facts) { f.taint, f.hold = ourTaint, outdatedHold }, untaintNode},
		{"waiting by CAPM3 without an answer for long", byCAPM3, func(f *facts) { f.node, f.inherited = unknownNode, false }, release},
		{"waiting and host lost", inWait, func(f *facts) { f.obstacle = noHost }, fail},
		{"waiting with a taint that could not be removed", inWait, func(f *facts) { f.taint = ourTaint }, untaintNode},
		{"waiting with a taint that was not found before", inWait, func(f *facts) { f.recorded = true }, forgetTaint},
		{"waiting with a hold that came back", inWait, func(f *facts) { f.hold = outdatedHold }, removeHold},
		{"waiting and the Node comes late", inWait, func(f *facts) { f.backup, f.incomplete = true, true }, restoreNode},
		{"waited long enough and healthy", ended, func(f *facts) { f.healthy = true }, waitForHealth},
		{"waited long enough with retries", ended, func(f *facts) { f.retriesLeft = true }, begin},
		{"waited long enough", ended, nil, markHost},
		{"waited long enough with retries, without an answer", ended, func(f *facts) { f.retriesLeft, f.node = true, unknownNode }, waitForNode},
		{"waited long enough without an answer", ended, func(f *facts) { f.node = unknownNode }, waitForNode},
		{"host marked, without an answer", ended, func(f *facts) { f.hostMarked, f.node = true, unknownNode }, waitForNode},
		{"owner told, without an answer", ended, func(f *facts) { f.hostMarked, f.told, f.node = true, true, unknownNode }, handOver},
		{"waited long enough without an answer of its own API server", ended, func(f *facts) { f.controlPlane, f.node = true, unknownNode }, markHost},
		{"waited long enough and is skipped", ended, func(f *facts) { f.skipped, f.retriesLeft = true, true }, waitWhileSkipped},
		{"host marked and is skipped", ended, func(f *facts) { f.skipped, f.hostMarked = true, true }, waitWhileSkipped},
		{"owner told and is skipped", ended, func(f *facts) { f.skipped, f.hostMarked, f.told = true, true, true }, handOver},
		{"waiting and is skipped", inWait, func(f *facts) { f.skipped = true }, waitForHealth},
		{"no pass ran when the time was over", ended, func(f *facts) { f.unseen, f.retriesLeft = true, true }, releaseAnew},
		{"waited long enough and the Node is Ready", ended, func(f *facts) { f.ready, f.retriesLeft = true, true }, extend},
		{"waited long enough, and again, and the Node is Ready", ended, func(f *facts) { f.ready, f.extended, f.retriesLeft = true, true, true }, begin},
		{"host marked", ended, func(f *facts) { f.hostMarked = true }, tellOwner},
		{"owner told", ended, func(f *facts) { f.hostMarked, f.told = true, true }, handOver},
		{"handed over", ended, func(f *facts) { f.phase = deleting }, rest},

		{"taken back", taken, nil, removeFinalizer},
		{"taken back before it began", taken, func(f *facts) { f.finalizer = false }, rest},
		{"taken back with everything", taken, func(f *facts) { f.marked, f.taint, f.hold, f.backup = true, ourTaint, currentHold, true }, withdraw},
		{"taken back with annotation", taken, func(f *facts) { f.request = outdatedRequest }, withdraw},
		{"taken back with somebody else's annotation", taken, func(f *facts) { f.request = foreignRequest }, removeFinalizer},
		{"taken back with taint", taken, func(f *facts) { f.taint, f.hold = ourTaint, currentHold }, untaintNode},
		{"taken back with hold long ago", taken, func(f *facts) { f.hold, f.delayed = currentHold, true }, removeHold},
		{"taken back with hold", taken, func(f *facts) { f.hold = currentHold }, removeHold},
		{"taken back with hold and without an answer, never tainted", taken, func(f *facts) { f.hold, f.node = currentHold, unknownNode }, removeHold},
		{"taken back with hold and without an answer, tainted perhaps", taken, func(f *facts) {
			f.hold, f.node, f.recorded, f.undoExpired = outdatedHold, unknownNode, true, true
		}, waitForNode},
		{"taken back without hold and an answer, tainted perhaps", taken, func(f *facts) { f.node, f.recorded, f.undoExpired = unknownNode, true, true }, waitForNode},
		{"Machine being deleted without an answer, never tainted", off, func(f *facts) { f.orphaned, f.node = true, unknownNode }, removeHold},
		{"Machine being deleted without an answer, tainted perhaps", off, func(f *facts) { f.orphaned, f.node, f.recorded = true, unknownNode, true }, waitForNode},
		{"its host given back without an answer, tainted perhaps", taken, func(f *facts) {
			f.orphaned, f.node, f.recorded, f.stray, f.obstacle = true, unknownNode, true, true, noHost
		}, removeHold},
		{"its host given back and nothing left, tainted perhaps", taken, func(f *facts) { f.orphaned, f.node, f.recorded = true, unknownNode, true }, removeFinalizer},
		{"taken back with a hold elsewhere", taken, func(f *facts) { f.stray, f.obstacle = true, noHost }, removeHold},
		{"taken back with a marked host", taken, func(f *facts) { f.ourMark, f.hostMarked = true, true }, unmarkHost},
		{"taken back with a host that somebody else marked", taken, func(f *facts) { f.hostMarked = true }, removeFinalizer},
		{"taken back because the machine became healthy after all", taken, func(f *facts) { f.ourMark, f.told, f.healthy = true, true, true }, unmarkHost},
		{"taken back after its owner was told", taken, func(f *facts) { f.ourMark, f.told = true, true }, removeFinalizer},
		{"taken back with the Machine and a marked host", taken, func(f *facts) { f.ourMark, f.orphaned = true, true }, removeFinalizer},
		{"taken back and the Node is back", taken, func(f *facts) { f.backup, f.incomplete = true, true }, restoreNode},
		{"taken back and the Node is restored", taken, func(f *facts) { f.backup = true }, dropBackup},
		{"taken back and the Node is not back", taken, func(f *facts) { f.backup, f.node = true, absentNode }, waitForNode},
		{"taken back and the Node is not back for long", taken, func(f *facts) { f.backup, f.node, f.undoExpired = true, absentNode, true }, removeFinalizer},
		{"taken back from CAPM3 with hold and without an answer", taken, func(f *facts) {
			f.inherited, f.hold, f.node = true, outdatedHold, unknownNode
		}, waitForNode},
		{"taken back without an answer", taken, func(f *facts) { f.node = unknownNode }, waitForNode},
		{"taken back without an answer for long", taken, func(f *facts) { f.node, f.undoExpired = unknownNode, true }, removeFinalizer},
		{"taken back and the Machine waits for it", taken, func(f *facts) { f.awaited = true }, forgetRequest},
		{"taken back with hold and the Machine waits for it", taken, func(f *facts) { f.awaited, f.hold = true, currentHold }, removeHold},
		{"taken back with its Machine, which waits for it", taken, func(f *facts) { f.awaited, f.orphaned = true, true }, removeFinalizer},
		{"failed and the Machine waits for it", stopped, func(f *facts) { f.awaited = true }, rest},
		{"taken back with its Machine", taken, func(f *facts) { f.node, f.orphaned, f.backup = unknownNode, true, true }, removeFinalizer},
		{"Machine being deleted", off, func(f *facts) { f.orphaned = true }, removeHold},
		{"Machine being deleted and nothing left", reboot, func(f *facts) { f.orphaned, f.node = true, presentNode }, rest},

		{"failed", stopped, nil, rest},
		{"failed without an answer", stopped, func(f *facts) { f.obstacle, f.node = noBMC, unknownNode }, rest},
		{"failed without an answer, tainted perhaps", stopped, func(f *facts) { f.node, f.recorded = unknownNode, true }, waitForNode},
		{"failed without an answer, Node deleted", stopped, func(f *facts) { f.node, f.backup = unknownNode, true }, waitForNode},
		{"handed over without an answer", stopped, func(f *facts) { f.phase, f.node = deleting, unknownNode }, rest},
		{"failed without a host and has one", stopped, func(f *facts) { f.reopens = true }, reopen},
		{"failed without a host and has one, with hold", stopped, func(f *facts) { f.reopens, f.hold = true, currentHold }, removeHold},
		{"failed with hold", stopped, func(f *facts) { f.hold = currentHold }, removeHold},
		{"failed with taint", stopped, func(f *facts) { f.taint = ourTaint }, untaintNode},
		{"failed with annotation", stopped, func(f *facts) { f.request, f.marked = currentRequest, true }, withdraw},
		{"failed and Node not back", stopped, func(f *facts) { f.backup, f.node = true, absentNode }, waitForNode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.from
			if tt.change != nil {
				tt.change(&f)
			}
			if got := next(f); got != tt.want {
				t.Errorf("action %d, want %d: %+v", got, tt.want, f)
			}
		})
	}
}

// every calls check with each combination of facts, except for combinations that no action depends
// on.
func every(check func(facts)) {
	both := []bool{false, true}
	phases := []v1beta2.RemediationPhase{"", running, waiting, deleting, failed}
	var bits [17]bool
	for n := range 1 << len(bits) {
		for i := range bits {
			bits[i] = n>>i&1 == 1
		}
		f := facts{
			finalizer: bits[0], deleting: bits[1], orphaned: bits[2], released: bits[3], expired: bits[4], late: bits[5], stray: bits[6],
			proven: bits[7], poweredOn: bits[8], taintable: bits[9], occupied: bits[10], backup: bits[11], incomplete: bits[12],
			retriesLeft: bits[13], hostMarked: bits[14], recorded: bits[15], otherNode: bits[16],
		}
		for _, f.phase = range phases {
			f.inherited = f.phase == waiting && !f.released
			for f.hold = noHold; f.hold <= currentHold; f.hold++ {
				for f.node = unknownNode; f.node <= presentNode; f.node++ {
					for f.taint = noTaint; f.taint <= ourTaint; f.taint++ {
						f.strategy, f.request, f.undoExpired = v1beta2.RebootRemediation, noRequest, false
						check(f)
					}
				}
			}
			for _, f.undoExpired = range both {
				for f.request = noRequest; f.request <= fulfilledRequest; f.request++ {
					f.strategy, f.hold, f.node, f.taint = v1beta2.AnnotationRemediation, noHold, absentNode, noTaint
					check(f)
				}
			}
		}
	}
}

// inTable are the actions that depend on facts that every does not vary. The table above has them.
var inTable = map[action]bool{
	fail: true, reopen: true, handOver: true, releaseAnew: true, extend: true, unmarkHost: true, forgetRequest: true, waitForStart: true, waitForControlPlane: true, waitWhileSkipped: true,
}

func TestWhatHoldsForEverySituation(t *testing.T) {
	reached := map[action]bool{}
	every(func(f facts) {
		a := next(f)
		reached[a] = true
		if rule := broken(f, a); rule != "" {
			t.Fatalf("%s: action %d for %+v", rule, a, f)
		}
	})
	for a := range action(numberOfActions) {
		if !reached[a] && !inTable[a] {
			t.Errorf("no situation has action %d", a)
		}
	}
}

// broken returns the rule that an action breaks, or "".
func broken(f facts, a action) string {
	ends := f.deleting || f.orphaned || f.phase == failed || f.phase == deleting
	switch a {
	case taintNode, deleteNode, recordTaint, backUpNode:
		if f.otherNode {
			return "a Node is touched only when the hold was set for it"
		}
		if !f.proven || f.hold != currentHold || f.node != presentNode {
			return "a Node is touched only while its host is proven to be off"
		}
		if a == deleteNode && !f.backup {
			return "a Node is deleted only after its backup"
		}
		if a == taintNode && !f.recorded {
			return "a taint is recorded before it is set"
		}
	case release:
		if !f.proven && !f.inherited && f.strategy == v1beta2.RebootRemediation {
			return "a host may be powered on only after it was proven to be off"
		}
	case removeHold:
		held := f.phase == running && f.stray && !f.released && f.hold == currentHold
		if f.taint == ourTaint && !held {
			return "a taint goes before the hold"
		}
		if f.node == unknownNode && f.hold != noHold && f.recorded && !held {
			return "a hold stays while it is not known whether there is a taint"
		}
	case forgetTaint:
		if f.taint == ourTaint || f.node == unknownNode {
			return "a record of a taint goes only when that is known to be gone"
		}
	case markHost, tellOwner, handOver:
		if f.retriesLeft || !f.expired || f.phase != waiting {
			return "a machine is handed over only after its retries and its time"
		}
		if f.node == unknownNode {
			return "a machine is handed over only when it is known what became of it"
		}
	case begin:
		again := f.phase == waiting && f.expired && f.retriesLeft
		if f.phase != "" && !again {
			return "an attempt follows only after the time of the one before"
		}
		if again && f.node == unknownNode {
			return "an attempt follows only when it is known what became of the one before"
		}
	case removeFinalizer:
		if !f.deleting || f.hold != noHold || f.stray || f.taint == ourTaint || f.request == currentRequest {
			return "the finalizer goes last"
		}
	}
	switch a {
	case setHold, taintNode, backUpNode, deleteNode, request, begin, markHost, tellOwner:
		if ends || !f.finalizer {
			return "nothing is set before the finalizer, or at the end"
		}
	}
	return ""
}
