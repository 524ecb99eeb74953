package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
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
	if err := r.readObjects(ctx, s); err != nil {
		return nil, err
	}
	s.remediationFacts()
	s.machineFacts()
	s.hostFacts(r.ProvenOff)
	for _, part := range []func(context.Context, *scope) error{r.readControlPlane, r.readStrays, r.readNode} {
		if err := part(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readObjects reads the objects of the management cluster.
func (r *Reconciler) readObjects(ctx context.Context, s *scope) (err error) {
	if s.machine, err = related.Machine(ctx, r.Live, s.remediation); err != nil {
		return fmt.Errorf("read the Machine of Metal3Remediation %s: %w", s.remediation.Name, err)
	}
	if s.machine == nil {
		return nil
	}
	if s.cluster, err = related.ClusterOf(ctx, r.Live, s.machine); err != nil {
		return fmt.Errorf("read the Cluster of Machine %s: %w", s.machine.Name, err)
	}
	if s.metal3Machine, err = related.Metal3Machine(ctx, r.Live, s.machine); err != nil {
		return fmt.Errorf("read the Metal3Machine of Machine %s: %w", s.machine.Name, err)
	}
	if s.metal3Machine == nil {
		return nil
	}
	if s.host, err = related.Host(ctx, r.Live, s.metal3Machine); err != nil {
		return fmt.Errorf("read the host of Metal3Machine %s: %w", s.metal3Machine.Name, err)
	}
	return nil
}

// readControlPlane asks whether the control plane lets the host be held off, if a hold comes next.
// Recovery by annotation asks that itself, and waits without an end. So readControlPlane asks for
// this strategy only about a machine that never had a Node, which is handed over after the timeout.
func (r *Reconciler) readControlPlane(ctx context.Context, s *scope) error {
	if s.paused || s.host == nil || s.phase != v1beta2.RemediationRunning || s.released || s.isHeld() {
		return nil
	}
	nodeless := s.machine.Status.NodeRef.Name == ""
	if s.strategy != v1beta2.RebootRemediation && (!nodeless || s.recovering) {
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

// readStrays finds holds that are left from before a move to this cluster, or on a host that the
// machine has lost. Nothing else leaves such holds, so most passes need not search.
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
