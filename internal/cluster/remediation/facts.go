package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// scope is what one pass has read. A pass reads everything from the API servers and not from a
// cache, because decisions follow each other within seconds.
type scope struct {
	facts

	now         time.Time
	timeout     time.Duration
	retryLimit  int32
	remediation *v1beta2.Metal3Remediation
	// The objects that belong to the remediation; nil when there is none.
	machine       *clusterv1.Machine
	metal3Machine *v1beta2.Metal3Machine
	cluster       *clusterv1.Cluster
	host          *v1alpha1.BareMetalHost
	strays        []stray
	workload      client.Client
	workloadNode  *corev1.Node

	// why says what the pass waits for, where that is known.
	why string
	// lasting means that the other machines of the control plane are too few, even if all of them
	// are ready.
	lasting bool
}

// stray is a host with holds that are not where they should be.
type stray struct {
	host *v1alpha1.BareMetalHost
	keys []string
}

// read reads what belongs to a remediation.
func (r *Reconciler) read(ctx context.Context, remediation *v1beta2.Metal3Remediation) (*scope, error) {
	s := &scope{now: r.Now(), remediation: remediation}
	s.strategy, s.retryLimit, s.timeout = strategyOf(remediation)
	for _, part := range []func(context.Context, *scope) error{r.readObjects, r.readStrays, r.readNode} {
		if err := part(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

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

// readObjects reads the objects of the management cluster, and the facts that they show.
func (r *Reconciler) readObjects(ctx context.Context, s *scope) error {
	m := s.remediation
	var err error
	if s.machine, err = related.Machine(ctx, r.Live, m); err != nil {
		return fmt.Errorf("read the Machine of Metal3Remediation %s: %w", m.Name, err)
	}
	s.deleting, s.finalizer = !m.DeletionTimestamp.IsZero(), controllerutil.ContainsFinalizer(m, v1beta2.RemediationFinalizer)
	s.phase, s.released, s.retriesLeft = m.Status.Phase, m.Status.ReleasedAt != nil, m.Status.RetryCount < s.retryLimit
	s.expired, s.abandoned = s.isOver(m.Status.ReleasedAt), s.isOver(m.DeletionTimestamp)
	s.readTime()
	s.inherited = s.phase == v1beta2.RemediationWaiting && !s.released
	s.backup = hasBackup(m)
	_, s.recorded = m.Annotations[v1beta2.OutOfServiceAnnotation]
	if s.machine == nil {
		s.paused = related.IsPaused(nil, m)
		s.orphaned = hasMachine(m)
		s.obstacle = obstacleOf(s)
		return nil
	}
	if s.cluster, err = related.ClusterOf(ctx, r.Live, s.machine); err != nil {
		return fmt.Errorf("read the Cluster of Machine %s: %w", s.machine.Name, err)
	}
	if s.metal3Machine, err = related.Metal3Machine(ctx, r.Live, s.machine); err != nil {
		return fmt.Errorf("read the Metal3Machine of Machine %s: %w", s.machine.Name, err)
	}
	if s.metal3Machine != nil {
		if s.host, err = related.Host(ctx, r.Live, s.metal3Machine); err != nil {
			return fmt.Errorf("read the host of Metal3Machine %s: %w", s.metal3Machine.Name, err)
		}
	}
	s.paused = related.IsPaused(s.cluster, m) || related.IsPaused(s.cluster, s.machine)
	s.orphaned = s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero() || !s.machine.DeletionTimestamp.IsZero()
	s.healthy = meta.IsStatusConditionTrue(s.machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	_, s.controlPlane = s.machine.Labels[clusterv1.MachineControlPlaneLabel]
	s.told = meta.IsStatusConditionFalse(s.machine.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
	s.awaited = meta.FindStatusCondition(s.machine.Status.Conditions, clusterv1.MachineExternallyRemediatedCondition) != nil
	skip, skipped := s.machine.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	// With the marker, recovery by annotation suspends the health checks.
	s.skipped = skipped && skip != v1beta2.SkipRemediationMarker
	s.request, s.marked = requestStateOf(m, s.machine), isMarked(m, s.machine)
	s.obstacle = obstacleOf(s)
	s.early, s.undeployable = startOf(s)
	s.reopens = s.phase == v1beta2.RemediationFailed && shownReason(m) == string(noHost) && (s.early || s.obstacle == "")
	if s.host != nil {
		s.hold = holdStateOf(m, s.host)
		s.inherited = s.inherited || s.hold == outdatedHold && holdOf(s.host.Annotations[holdKey(m)]) == nil
		s.poweredOn = s.host.Status.PoweredOn
		_, s.recovering = s.host.Annotations[v1beta2.MachineRemediationAnnotation]
		var mark string
		mark, s.hostMarked = s.host.Annotations[v1alpha1.UnhealthyAnnotation]
		s.ourMark = mark == markOf(m)
		if s.hold == currentHold {
			s.readProof(r.ProvenOff)
		}
	}
	return r.readControlPlane(ctx, s)
}

// readControlPlane asks whether the control plane lets the host be held off, if a hold comes next.
// Recovery by annotation asks that itself, and waits without an end. So readControlPlane asks for
// this strategy only about a machine that never had a Node, which is given up after the timeout.
func (r *Reconciler) readControlPlane(ctx context.Context, s *scope) error {
	nodeless := s.machine.Status.NodeRef.Name == ""
	asks := s.strategy == v1beta2.RebootRemediation || nodeless && !s.recovering
	if s.paused || s.host == nil || !asks || s.phase != v1beta2.RemediationRunning || s.released || s.isHeld() {
		return nil
	}
	why, lasting, err := r.Guard.Endangered(ctx, s.machine)
	if err != nil {
		return fmt.Errorf("ask whether the control plane needs Machine %s: %w", s.machine.Name, err)
	}
	s.endangered, s.lasting, s.why = why != "", lasting, why
	s.nodeless = nodeless
	s.stranded = s.hasShown(v1beta2.WaitingForControlPlaneReason)
	return nil
}

// attempts returns how many attempts began. The number is one too high for a remediation that an
// earlier version began, because that version counted attempts where this one counts retries. Such
// a machine gets as many attempts as the earlier version would have given it.
func (s *scope) attempts() int32 { return s.remediation.Status.RetryCount + 1 }

// givenUp says why the machine is given up.
func (s *scope) givenUp() string {
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

// readTime sets the facts that the time since the release decides.
func (s *scope) readTime() {
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
// is given up after the timeout, or nil.
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

// readProof reads whether the host is proven to be off, and whether it has been so for the timeout.
func (s *scope) readProof(provenOff func(*v1alpha1.BareMetalHost, string, string) error) {
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

// readStrays finds holds that are left from before a move to this cluster, or on a host that the
// machine has lost. Nothing else leaves such holds, so most passes need not look.
func (r *Reconciler) readStrays(ctx context.Context, s *scope) error {
	ends := s.deleting || s.orphaned || s.obstacle != ""
	poweringOff := s.phase == v1beta2.RemediationRunning && !s.released
	if s.paused || !ends && !poweringOff {
		return nil
	}
	var all v1alpha1.BareMetalHostList
	if err := r.Live.List(ctx, &all, client.InNamespace(s.remediation.Namespace)); err != nil {
		return fmt.Errorf("list the hosts of namespace %s: %w", s.remediation.Namespace, err)
	}
	for i := range all.Items {
		h := &all.Items[i]
		keys := holds(s.remediation, h)
		if s.host != nil && h.UID == s.host.UID {
			keys = slices.DeleteFunc(keys, func(key string) bool { return key == holdKey(s.remediation) })
		}
		if len(keys) > 0 {
			s.strays = append(s.strays, stray{h, keys})
		}
	}
	s.stray = len(s.strays) > 0
	return nil
}

// isInitialized reports whether the API server of a workload cluster was ever up.
func isInitialized(c *clusterv1.Cluster) bool {
	up := c.Status.Initialization.ControlPlaneInitialized
	return up != nil && *up
}

// readNode reads the Node of the Machine if it matters. A workload cluster that does not answer is
// a fact and not an error.
func (r *Reconciler) readNode(ctx context.Context, s *scope) error {
	s.node = absentNode
	ends := s.deleting || s.orphaned
	undeployable := s.phase == "" && s.undeployable && !ends
	judged := s.phase == v1beta2.RemediationWaiting && s.expired && !ends
	poweringOff := s.strategy == v1beta2.RebootRemediation && s.phase == v1beta2.RemediationRunning && !s.released && (s.hold == currentHold || s.host == nil || s.endangered && !s.nodeless) && !s.proven
	switch {
	case s.paused, s.machine == nil, s.cluster == nil:
		return nil
	case undeployable && !isInitialized(s.cluster):
		return nil // no machine of it has run yet
	case undeployable:
	case s.strategy == v1beta2.AnnotationRemediation && !s.backup && !s.recorded && !s.inherited && !s.endangered && !judged:
		return nil
	case !ends && (s.phase == "" || poweringOff):
		return nil
	}
	if err := r.readWorkload(ctx, s); err != nil {
		s.node, s.why = unknownNode, err.Error()
		// The host must not stay off without limit.
		s.inherited = s.inherited && !s.isOver(s.remediation.Status.LastRemediated)
	}
	return nil
}

// doubt returns an error if the Node may belong to another machine. A Node that we have put out of
// service was the right one, and has to be put in service again.
func (r *Reconciler) doubt(ctx context.Context, s *scope) error {
	if s.host == nil || s.taint == ourTaint {
		return nil
	}
	why, err := r.DoubtNode(ctx, r.Live, s.machine, s.host, s.workloadNode)
	if err == nil && why != "" {
		return errors.New(why)
	}
	return err
}

func (r *Reconciler) readWorkload(ctx context.Context, s *scope) error {
	cluster := types.NamespacedName{Namespace: s.machine.Namespace, Name: s.machine.Spec.ClusterName}
	c, err := r.Workload.Client(ctx, cluster)
	if err != nil {
		return err
	}
	node, err := r.FindNode(ctx, c, s.machine, related.ProviderIDs(s.metal3Machine, s.host)...)
	if err == nil && node == nil && s.undeployable {
		node, err = unidentifiedNode(ctx, c, s.host, s.metal3Machine)
	}
	if err != nil || node == nil {
		return err
	}
	s.workload, s.workloadNode, s.taint = c, node, taintStateOf(s.remediation, node, s.inherited)
	if err := r.doubt(ctx, s); err != nil {
		return err
	}
	s.node, s.otherNode = presentNode, s.host != nil && !isHeldFor(s.remediation, s.host, node)
	if s.leaving = !node.DeletionTimestamp.IsZero(); s.leaving {
		s.why = fmt.Sprintf("Node %s is being deleted and still has the finalizers %s", node.Name, strings.Join(node.Finalizers, ", "))
	}
	s.ready = slices.ContainsFunc(node.Status.Conditions, isReady)
	s.incomplete = s.backup && putBack(s.remediation, node.DeepCopy())
	if s.phase != v1beta2.RemediationRunning || s.released || !s.proven {
		return nil
	}
	if s.taint == noTaint {
		v, err := r.Workload.Version(ctx, cluster)
		s.taintable = err == nil && v.AtLeast(taintVersion)
		return err
	}
	if s.why, err = occupant(ctx, c, node.Name); err != nil {
		return err
	}
	s.occupied = s.why != ""
	return nil
}
