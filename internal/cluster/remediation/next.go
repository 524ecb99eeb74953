package remediation

import "github.com/ingot-metal/ingot/api/infrastructure/v1beta2"

// obstacle is a reason for which a host cannot be remediated. Empty means that there is none.
type obstacle string

// Obstacles, as reasons of events.
const (
	noMachine obstacle = "NoMachine"
	noHost    obstacle = "NoHost"
	noBMC     obstacle = "NoPowerManagement"
	neverOff  obstacle = "PowerOffDisabled"
	offline   obstacle = "HostOffline"
)

// holdState is the state of the annotation with which the remediation holds the host off.
type holdState int

const (
	noHold       holdState = iota
	outdatedHold           // it is ours, but not of this attempt
	currentHold
)

// requestState is the state of the annotation for recovery on the Machine.
type requestState int

const (
	noRequest       requestState = iota
	foreignRequest               // somebody else has set it
	outdatedRequest              // it is ours, but not of this attempt
	currentRequest
	fulfilledRequest // this attempt has set it, and it was removed since
)

// nodeState is what is known of the Node of the Machine.
type nodeState int

const (
	unknownNode nodeState = iota // the workload cluster does not answer
	absentNode
	presentNode
)

// taintState says whether the Node is out of service, and by whom.
type taintState int

const (
	noTaint taintState = iota
	foreignTaint
	ourTaint
)

// facts are what a pass has read.
type facts struct {
	paused    bool
	deleting  bool
	finalizer bool
	// orphaned means that the Machine or its Cluster is gone or being deleted.
	orphaned bool
	// healthy means that the health check is content with the Machine.
	healthy  bool
	obstacle obstacle
	// early means that the machine has not had its time to become a Node: it has no host yet, is being
	// deployed, or boots for the first time.
	early bool
	// undeployable means that, unless the machine has a Node, nothing can be deployed on the host. A
	// power cycle would change nothing, and nothing could prove that the host is off.
	undeployable bool
	// reopens means that the remediation failed because the machine had no host, and that the
	// machine has or will have one.
	reopens     bool
	strategy    v1beta2.RemediationType
	phase       v1beta2.RemediationPhase
	released    bool
	retriesLeft bool

	// expired means that the timeout has passed since the host was released, late since the host
	// was confirmed to be off, and undoExpired since the remediation was deleted.
	expired, late, undoExpired bool
	// ahead means that the time of the release is in the future now.
	ahead bool
	// delayed means that the release was so long ago that, if there is still a hold, the
	// remediation has kept the host off since.
	delayed bool
	// unseen means that no pass checked the machine when its time was over, or that its Node was
	// not known then. The verdict of the health check may be outdated.
	unseen bool
	// extended means that the health check has got more time in this attempt.
	extended bool

	// endangered means that nothing of ours holds the host off, and that the control plane would lose
	// its majority without the machine. It is read only if a hold comes next.
	endangered bool
	// nodeless means that the Machine names no Node. It is read together with endangered, and false
	// whenever that is not read.
	nodeless bool
	// stranded means that the condition has shown for the timeout that the control plane would lose
	// its majority.
	stranded bool
	hold     holdState
	// stray means that there are holds of ours on other hosts or under another key.
	stray     bool
	proven    bool
	poweredOn bool
	// recovering means that recovery by annotation holds the host off.
	recovering bool
	// hostMarked means that the host is marked as unhealthy, whoever has done that.
	hostMarked bool
	// controlPlane means that the Machine belongs to a control plane, which may be away because of it.
	controlPlane bool
	// ourMark means that this remediation has marked the host as unhealthy.
	ourMark bool
	// skipped means that somebody else has set the annotation on the Machine that keeps it from
	// being remediated.
	skipped bool
	// told means that the owner of the Machine was told to replace it.
	told bool
	// awaited means that the Machine has the condition by which the health check says that it waits
	// for remediation.
	awaited bool
	request requestState
	// marked means that the Machine says that we have set the annotation for recovery, whether
	// it is still there or not.
	marked bool

	node nodeState
	// ready means that the Node is Ready.
	ready bool
	// otherNode means that the hold was not set for this Node.
	otherNode bool
	// leaving means that the Node is being deleted and has finalizers.
	leaving bool
	// taintable means that the workload cluster acts on the out-of-service taint.
	taintable bool
	taint     taintState
	// recorded means that the Node may have our taint.
	recorded bool
	// inherited means that CAPM3 began the attempt. A taint of the Node is ours to remove then.
	inherited bool
	// occupied means that the Node still has pods or volumes that have to go.
	occupied bool
	backup   bool
	// incomplete means that the Node lacks something of the backup.
	incomplete bool
}

// next returns what a pass does.
func next(f facts) action {
	switch {
	case f.paused:
		return rest
	case f.deleting && !f.finalizer:
		return rest
	case f.deleting, f.orphaned:
		return undo(f)
	case !f.finalizer:
		return addFinalizer
	case f.phase == v1beta2.RemediationFailed, f.phase == v1beta2.RemediationDeletingMachine:
		if a := undo(f); a != rest || !f.reopens {
			return a
		}
		return reopen
	case f.phase == "" && f.early:
		return waitForStart
	case f.obstacle != "":
		return fail
	case f.ahead:
		return releaseAnew
	case f.phase == v1beta2.RemediationWaiting:
		return wait(f)
	case f.skipped && f.isUntouched():
		return waitWhileSkipped
	case f.phase == "" && f.undeployable && f.node != absentNode: // it may have been deployed all the same
		return waitForStart
	case f.phase == "" && f.undeployable:
		return handMachineOver(f)
	case f.phase != v1beta2.RemediationRunning:
		return begin
	case f.strategy == v1beta2.AnnotationRemediation:
		return recoverByAnnotation(f)
	case !f.released:
		return fence(f)
	default:
		return powerOn(f)
	}
}

// isUntouched reports whether nothing was done to the machine in this attempt.
func (f facts) isUntouched() bool {
	begun := f.phase == v1beta2.RemediationRunning
	return !begun || !f.released && f.hold == noHold && !f.stray && !f.recorded && !f.backup && f.request == noRequest
}

// fence has the host powered off. Once that is proven, it has the Node put out of service or
// deleted.
func fence(f facts) action {
	switch {
	case f.endangered:
		return keepOn(f)
	case f.inherited && f.node == unknownNode:
		return waitForNode
	case f.inherited && f.taint == ourTaint && !f.recorded:
		// Only the hold, which setHold replaces, says that the taint is ours to remove.
		return recordTaint
	case f.hold != currentHold:
		return setHold
	case f.stray: // only now, because the host has to stay off
		return removeHold
	case !f.proven:
		return waitForPowerOff
	case f.late, f.node == absentNode:
		return release
	case f.node == unknownNode:
		return waitForNode
	case f.taint != noTaint && f.occupied:
		return waitForPods
	case f.taint != noTaint:
		return release
	case f.otherNode: // another Node needs a proof of its own
		return setHold
	case f.backup && f.leaving:
		return waitForNode
	case f.backup:
		return deleteNode
	case f.taintable && !f.recorded:
		return recordTaint
	case f.taintable:
		return taintNode
	default:
		return backUpNode
	}
}

// keepOn leaves a machine on that the control plane needs. One that never had a Node may be a member
// of etcd all the same. After the timeout its owner has to replace it, and asks etcd before it does.
func keepOn(f facts) action {
	switch {
	case f.nodeless && f.node == unknownNode:
		return waitForNode
	case f.nodeless && f.stranded && f.node == absentNode:
		return handMachineOver(f)
	default:
		return waitForControlPlane
	}
}

// powerOn lets the host be powered on. It puts the Node in service first: volumes of a Node that is
// out of service are detached, even if a running system writes to them.
func powerOn(f facts) action {
	switch {
	case !f.isInService():
		return letRun(f)
	case f.expired:
		return awaitHealth
	case !f.poweredOn:
		return waitForPowerOn
	case f.backup && !f.isBack():
		return waitForNode
	case f.backup:
		return restore(f)
	default:
		return awaitHealth
	}
}

// isInService reports whether nothing of ours keeps the machine from its work.
func (f facts) isInService() bool {
	return f.taint != ourTaint && (!f.recorded || f.node == unknownNode) && f.hold == noHold && !f.stray
}

// letRun puts the machine in service. The time that the machine has to become healthy begins when
// nothing keeps it off any more.
func letRun(f facts) action {
	a := putInService(f)
	if a == removeHold && f.delayed {
		return releaseAnew
	}
	return a
}

// putInService removes taint and hold. While it is not known whether the Node has the taint, the
// host stays off, however long that takes.
func putInService(f facts) action {
	switch {
	case f.taint == ourTaint:
		return untaintNode
	case f.recorded && f.node != unknownNode:
		return forgetTaint
	case (f.recorded || f.inherited && f.node == unknownNode) && f.hold != noHold:
		return waitForNode
	default:
		return removeHold
	}
}

// recoverByAnnotation has the host recovered by the annotation of its Machine.
func recoverByAnnotation(f facts) action {
	switch {
	case (f.skipped || f.endangered) && !f.released && !f.recovering && (f.request == currentRequest || f.request == outdatedRequest):
		return withdraw // nothing was done for the request yet
	case (f.released || !f.recovering && f.request != fulfilledRequest) && !f.isInService():
		// An attempt of the strategy Reboot may hold the host off. Recovery by annotation leaves
		// alone a host that something else keeps off.
		return letRun(f)
	case f.skipped && !f.released && f.request == noRequest:
		return waitWhileSkipped
	case !f.released && f.request == fulfilledRequest:
		return release
	case !f.released && f.request == currentRequest:
		return waitForRecovery
	case !f.released && f.request == foreignRequest:
		return waitForRequest
	case !f.released && f.endangered:
		return keepOn(f)
	case !f.released:
		return request
	case !f.expired && (f.recovering || !f.poweredOn):
		return waitForPowerOn
	default:
		return awaitHealth
	}
}

// wait gives the machine time to become healthy, and then tries again or gives it up. The health
// check does not take back its verdict while it cannot see the Node, is paused or does not run. So
// wait does not power a machine off again for something that may be long past. A machine of a
// control plane is powered off even if its Node is not known: an API server that is away because of
// the machine comes back only with it.
func wait(f facts) action {
	switch {
	case !f.isInService():
		return letRun(f)
	case f.inherited && f.node == unknownNode:
		return waitForNode
	case !f.released: // CAPM3 does not note the release
		return release
	case f.backup && f.isBack():
		return restore(f)
	case f.healthy, !f.expired:
		return waitForHealth
	case !f.retriesLeft && f.hostMarked && f.told:
		return handOver
	case f.skipped:
		return waitWhileSkipped
	case f.node == unknownNode && !f.controlPlane:
		return waitForNode
	case f.unseen:
		return releaseAnew
	case f.ready && !f.extended:
		return extend
	case f.retriesLeft:
		return begin
	default:
		return handMachineOver(f)
	}
}

// handMachineOver hands the machine over to its owner, which replaces it on another host.
func handMachineOver(f facts) action {
	switch {
	case !f.hostMarked:
		return markHost
	case !f.told:
		return tellOwner
	default:
		return handOver
	}
}

// undo removes everything that was set.
func undo(f facts) action {
	switch {
	case f.marked, f.request == currentRequest, f.request == outdatedRequest:
		return withdraw
	case !f.isInService():
		return putInService(f)
	case f.backup && f.isBack():
		return restore(f)
	case f.recorded && !f.orphaned: // the taint is not left on a machine that runs
		return waitForNode
	case f.deleting && !f.orphaned && f.ourMark && (f.healthy || !f.told):
		return unmarkHost // the machine stays on the host
	case (f.node == unknownNode && (f.deleting || f.inherited) || f.backup) && !f.orphaned && !f.undoExpired:
		return waitForNode
	case f.deleting && f.awaited && !f.orphaned: // the health check leaves this to whoever remediates
		return forgetRequest
	case f.deleting:
		return removeFinalizer
	default:
		return rest
	}
}

// isBack reports whether there is a Node that is not being deleted.
func (f facts) isBack() bool { return f.node == presentNode && !f.leaving }

// restore gives a Node that came back its labels and annotations, and then drops the backup.
func restore(f facts) action {
	if f.incomplete {
		return restoreNode
	}
	return dropBackup
}
