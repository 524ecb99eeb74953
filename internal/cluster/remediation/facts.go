package remediation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// Defaults of the strategy, as in the CRD.
const (
	defaultRetries = 1
	defaultTimeout = 600 * time.Second
)

func strategyOf(r *v1beta2.Metal3Remediation) (v1beta2.RemediationType, int32, time.Duration) {
	kind, retries, timeout := v1beta2.RebootRemediation, int32(defaultRetries), defaultTimeout
	if s := r.Spec.Strategy; s != nil {
		if s.Type != "" {
			kind = s.Type
		}
		if s.RetryLimit > 0 {
			retries = s.RetryLimit
		}
		if s.TimeoutSeconds > 0 {
			timeout = time.Duration(s.TimeoutSeconds) * time.Second
		}
	}
	return kind, retries, timeout
}

// remediationFacts sets the facts that the remediation itself shows.
func (s *scope) remediationFacts() {
	m := s.remediation
	s.deleting, s.finalizer = !m.DeletionTimestamp.IsZero(), controllerutil.ContainsFinalizer(m, v1beta2.RemediationFinalizer)
	s.phase, s.released, s.retriesLeft = m.Status.Phase, m.Status.ReleasedAt != nil, m.Status.RetryCount < s.retryLimit
	s.expired, s.undoExpired = s.isOver(m.Status.ReleasedAt), s.isOver(m.DeletionTimestamp)
	s.inherited = s.phase == v1beta2.RemediationWaiting && !s.released
	s.backup = hasBackup(m)
	_, s.recorded = m.Annotations[v1beta2.OutOfServiceAnnotation]
	s.timeFacts()
}

// timeFacts sets the facts that the time since the release decides.
func (s *scope) timeFacts() {
	if !s.released {
		return
	}
	since := s.now.Sub(s.remediation.Status.ReleasedAt.Time)
	shown := shownReason(s.remediation)
	s.ahead, s.delayed = since < 0, since >= poll
	if s.phase == v1beta2.RemediationWaiting {
		s.unseen = s.isUnseen(s.remediation.Status.ReleasedAt) || shown == v1beta2.NodeUnknownReason
		s.extended = shown == v1beta2.WaitingForHealthCheckReason
	}
}

// machineFacts sets the facts that the Machine shows, and those that say whether it can be
// remediated. It needs the facts of the remediation.
func (s *scope) machineFacts() {
	m, machine := s.remediation, s.machine
	s.obstacle = obstacleOf(s)
	if machine == nil {
		s.paused, s.orphaned = related.IsPaused(nil, m), hasMachine(m)
		return
	}
	s.paused = related.IsPaused(s.cluster, m) || related.IsPaused(s.cluster, machine)
	s.orphaned = s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero() || !machine.DeletionTimestamp.IsZero()
	s.healthy = meta.IsStatusConditionTrue(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	_, s.controlPlane = machine.Labels[clusterv1.MachineControlPlaneLabel]
	s.told = meta.IsStatusConditionFalse(machine.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
	s.awaited = meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineExternallyRemediatedCondition) != nil
	skip, skipped := machine.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	// With the marker, recovery by annotation suspends the health checks.
	s.skipped = skipped && skip != v1beta2.SkipRemediationMarker
	s.request, s.marked = requestStateOf(m, machine), isMarked(m, machine)
	s.early, s.undeployable = startOf(s)
	s.reopens = s.phase == v1beta2.RemediationFailed && shownReason(m) == string(noHost) && (s.early || s.obstacle == "")
}

// hostFacts sets the facts that the host shows. It needs the facts of the remediation.
func (s *scope) hostFacts(provenOff func(*v1alpha1.BareMetalHost, string, string) error) {
	if s.host == nil {
		return
	}
	m := s.remediation
	s.hold = holdStateOf(m, s.host)
	s.inherited = s.inherited || s.hold == outdatedHold && holdOf(s.host.Annotations[holdKey(m)]) == nil
	s.poweredOn = s.host.Status.PoweredOn
	_, s.recovering = s.host.Annotations[v1beta2.MachineRemediationAnnotation]
	var mark string
	mark, s.hostMarked = s.host.Annotations[v1alpha1.UnhealthyAnnotation]
	s.ourMark = mark == markOf(m)
	if s.hold == currentHold {
		s.proofFacts(provenOff)
	}
}

// proofFacts sets whether the host is proven to be off, and whether it has been so for the timeout.
func (s *scope) proofFacts(provenOff func(*v1alpha1.BareMetalHost, string, string) error) {
	key := holdKey(s.remediation)
	if err := provenOff(s.host, key, s.host.Annotations[key]); err != nil {
		s.why = err.Error()
		return
	}
	s.proven = true
	for _, hold := range s.host.Status.PowerOffHolds {
		s.late = s.late || hold.Key == key && s.isOver(hold.ConfirmedAt)
	}
}

// attempts returns how many attempts began. The number is one too high for a remediation that an
// earlier version began, because that version counted attempts where this one counts retries. Such
// a machine gets as many attempts as the earlier version would have given it.
func (s *scope) attempts() int32 { return s.remediation.Status.RetryCount + 1 }

// replacementReason says why the owner of the machine has to replace it.
func (s *scope) replacementReason() string {
	switch {
	case s.remediation.Status.LastRemediated == nil:
		return fmt.Sprintf("The host had an error for %s and could not be deployed", s.timeout)
	case shownReason(s.remediation) == v1beta2.WaitingForControlPlaneReason:
		return fmt.Sprintf("The machine has no Node, and for %s it could not be powered off, because it may be a member of etcd that the control plane needs", s.timeout)
	}
	return fmt.Sprintf("The machine did not become healthy in %d attempts", s.attempts())
}

// isHeld reports whether the remediation holds the host off. The hold may be from an earlier
// attempt or from before a move.
func (s *scope) isHeld() bool { return len(holds(s.remediation, s.host)) > 0 }

// isOver reports whether the timeout has passed since a time. A time that is as far in the future
// counts as well: the clock was set back after it, and that must not make the timeout longer.
func (s *scope) isOver(since *metav1.Time) bool {
	return since != nil && s.now.Sub(since.Time).Abs() >= s.timeout
}

// hasMachine reports whether a remediation names a Machine as its owner, be the Machine there or
// not.
func hasMachine(m *v1beta2.Metal3Remediation) bool {
	return slices.ContainsFunc(m.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind == "Machine" })
}

// obstacleOf says why the host of a remediation cannot be remediated, or is empty. A host whose
// spec keeps it off is meant to be off.
func obstacleOf(s *scope) obstacle {
	switch {
	case s.machine == nil:
		return noMachine
	case s.host == nil, !s.host.DeletionTimestamp.IsZero():
		return noHost
	case !s.host.HasBMC():
		return noBMC
	case s.host.Spec.DisablePowerOff:
		return neverOff
	case !s.host.Spec.Online:
		return offline
	default:
		return ""
	}
}

// startOf reports how far a machine is that never had a Node.
//
// early means that the machine has not had its time to become a Node. There is nothing to recover
// yet, and a power cycle would only interrupt its first boot. A deployment that fails ends that
// time at once, unless recovery by annotation comes next, which is only for machines that were
// deployed.
//
// undeployable means that the host has had an error for the timeout. The machine will never boot,
// unless the engine has deployed it all the same, as it does with a BMC that refuses other
// credentials.
//
// Both are false if the remediation had begun before it was moved to another cluster. Such a
// remediation leaves a hold under a former key, or a backup of the Node.
func startOf(s *scope) (early, undeployable bool) {
	m := s.metal3Machine
	switch {
	case m == nil, s.host != nil && s.isHeld(), s.backup, s.machine.Status.NodeRef.Name != "", s.obstacle != "" && s.obstacle != noHost:
		return false, false
	case m.Spec.ProviderID == "" && s.obstacle == noHost:
		return true, false
	case m.Spec.ProviderID == "":
		undeployable = s.isUndeployable()
		return !undeployable && (s.host.Status.ErrorType != v1alpha1.ErrorProvisioning || s.strategy == v1beta2.AnnotationRemediation), undeployable
	default:
		deployed := meta.FindStatusCondition(s.machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
		return s.obstacle == "" && deployed != nil && deployed.Status == metav1.ConditionTrue && !s.isOver(&deployed.LastTransitionTime), false
	}
}

// isUndeployable reports whether the host has an error and the condition has shown it for the
// timeout. While a machine is skipped, its host does not count as such, and the condition still
// shows the error.
func (s *scope) isUndeployable() bool {
	return !s.skipped && s.host.Status.ErrorType != "" && s.hasShown(v1beta2.HostErrorReason)
}

// hasShown reports whether the condition has shown a reason for at least the timeout, and a pass ran
// soon after it ended.
func (s *scope) hasShown(reason string) bool {
	since := s.blockedSince()
	return shownReason(s.remediation) == reason && s.isOver(since) && !s.isUnseen(since)
}

// blockedSince returns since when the condition shows a reason for which a machine without a Node
// is handed over after the timeout, or nil.
func (s *scope) blockedSince() *metav1.Time {
	shown := meta.FindStatusCondition(s.remediation.Status.Conditions, v1beta2.ProgressingCondition)
	if shown != nil && (shown.Reason == v1beta2.HostErrorReason || shown.Reason == v1beta2.WaitingForControlPlaneReason && s.nodeless) {
		return &shown.LastTransitionTime
	}
	return nil
}

// isUnseen reports whether the timeout after a time ended at least poll ago, so that no pass saw its
// end.
func (s *scope) isUnseen(since *metav1.Time) bool {
	return since != nil && s.now.Sub(since.Time).Abs() >= s.timeout+poll
}
