package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// restoring copies the status from an annotation into a host that was never reconciled here:
// discovery created it, or it was moved from another cluster.
//
// Whoever may write hosts may write this annotation, so the node in it counts only if the host may
// have that node. Nothing is restored until the engine has been asked. A host that is being deleted
// asks a few times and then goes on without the node: its deletion has to end even without the
// engine, and must not treat an unverified node as the host's own.
type restoring struct {
	data       hardwareData
	owners     ownership
	readings   *hardware.Readings
	maxBackoff time.Duration
	metrics    *Metrics
}

func (p restoring) reconcile(ctx context.Context, s *scope) (result, error) {
	leaves := decideDelete(s.host)
	deleted := !s.host.DeletionTimestamp.IsZero() && leaves != deleteAfterAttach
	if deleted && leaves == deleteIgnore {
		return result{}, nil
	}
	delete(s.host.Annotations, v1alpha1.ReleasedAnnotation) // the host is not paused any more
	text, there := s.host.Annotations[v1alpha1.StatusAnnotation]
	if !there {
		return result{}, nil
	}
	if s.host.Status.LastUpdated != nil || strings.TrimSpace(text) == "" {
		delete(s.host.Annotations, v1alpha1.StatusAnnotation)
		return result{}, nil
	}
	status, err := decodeStatus(text)
	if err != nil {
		delete(s.host.Annotations, v1alpha1.StatusAnnotation)
		s.warn(eventInvalidAnnotationValue, "Annotation %s is ignored: %v", v1alpha1.StatusAnnotation, err)
		return result{}, nil
	}
	if pause := s.wait(v1alpha1.OperationDelete, p.maxBackoff); deleted && pause > 0 {
		s.unrestored = true
		s.working(v1alpha1.DeletingReason, messageNotDeleted)
		return stoppedFor(pause), nil
	}
	refusal, err := p.refusal(ctx, s, status.Provisioning, v1alpha1.ReleaseOf(text))
	if errors.Is(err, errNotReleased) && !deleted {
		s.unrestored = true
		s.waiting("Node %s still belongs to this host in another cluster: pause the host there with the annotation %s and with the same annotation %s as here, or remove extra.%s from the node if that cluster is gone",
			status.Provisioning.ID, v1alpha1.PausedAnnotation, v1alpha1.StatusAnnotation, v1alpha1.NodeMarkKey)
		return stoppedFor(releasePoll), nil
	}
	if err != nil && !deleted {
		s.unrestored = true
		return result{}, err
	}
	if err != nil && !errors.Is(err, errNotReleased) {
		return p.unchecked(s, status.Provisioning.ID, err)
	}
	if err := p.readDetails(ctx, s, status); err != nil {
		return result{}, err
	}
	delete(s.host.Annotations, v1alpha1.StatusAnnotation)
	s.host.Status, s.restored = *status, refusal == nil
	s.host.Status.PowerOffHolds = nil // the machine was off then, which proves nothing now
	// The HostFirmwareSettings and HostFirmwareComponents were moved as well, and have other UIDs
	// and generations here. With the old ones they would count as other objects. Without its node
	// the host may get another machine, which was given nothing.
	for _, record := range []*v1alpha1.UpdateRecord{&s.host.Status.Updates.Settings, &s.host.Status.Updates.Components} {
		moved := v1alpha1.UpdateRecord{}
		if refusal == nil {
			moved.RequestedDigest, moved.AppliedDigest = record.RequestedDigest, record.AppliedDigest
		}
		*record = moved
	}
	s.host.Status.Operation.QueuedAt = nil // the former wait gives the host no place before those that wait here
	if refusal == nil {
		return result{}, nil
	}
	s.host.Status.Provisioning.ID = ""
	if deleted {
		s.warn(eventNodeKept, "%v", refusal)
		s.moveTo(v1alpha1.StateDeleting) // the machine of that node is not this host's
		return result{}, nil
	}
	if state := s.state(); !s.host.HasBMC() && linkedStates[state] || state == v1alpha1.StateNone || state == v1alpha1.StateRegistering {
		s.moveTo(v1alpha1.StateUnmanaged) // the error stays there until the host gets a node
	}
	return stopped(), &failure{v1alpha1.OperationRegister, refusal}
}

// unchecked handles a host that is being deleted while the engine cannot be asked whose node its
// annotation names.
func (p restoring) unchecked(s *scope, id string, err error) (result, error) {
	if errors.Is(err, provisioner.ErrBusy) {
		s.unrestored = true
		return stopped(), err
	}
	if s.operation(v1alpha1.OperationDelete).Failures+1 < deleteAttempts {
		s.unrestored = true
		s.working(v1alpha1.DeletingReason, messageNotDeleted)
		return stopped(), &failure{v1alpha1.OperationDelete, fmt.Errorf("read node %s: %w", truncate(id, maxNodeID), err)}
	}
	delete(s.host.Annotations, v1alpha1.StatusAnnotation)
	s.warn(eventDeleteGaveUp, "Node %q may still be in the engine and has to be deleted there if it is this host's: %s", truncate(id, maxNodeID), node.CutText(err.Error()))
	count(p.metrics.deleteGaveUp, s.host)
	s.moveTo(v1alpha1.StateDeleting)
	return result{}, nil
}

// refusal returns why the node of an annotation does not count for the host, or nil if it does or
// the annotation names none. It returns the same for a node that belongs to somebody else and for
// one that does not exist.
func (p restoring) refusal(ctx context.Context, s *scope, restored v1alpha1.ProvisionStatus, moving string) (refusal, err error) {
	id := restored.ID
	if id == "" {
		return nil, nil
	}
	err = provisioner.ErrNotFound
	if isNodeID(id) {
		err = p.read(ctx, s, restored, moving)
	}
	if isConflict(err) || errors.Is(err, provisioner.ErrNotFound) {
		advice := ""
		if restored.State == v1alpha1.StateNone && isMadeFor(s.host, id) {
			advice = "; discovery has just made this host: if another cluster has the node now, delete this host"
		}
		return fmt.Errorf("annotation %s names node %q, which does not belong to this host or does not exist, so the host starts without a node; "+
			"whoever manages the engine can see in extra.%s of the node whose it is, and sets it to %s if it is this host's%s",
			v1alpha1.StatusAnnotation, truncate(id, maxNodeID), v1alpha1.NodeMarkKey, p.owners.mark(s.host), advice), nil
	}
	return nil, err
}

// isMadeFor reports whether a host says that discovery made it for a node.
func isMadeFor(h *v1alpha1.BareMetalHost, nodeID string) bool {
	return strings.HasSuffix(h.Annotations[v1alpha1.DiscoverySourceAnnotation], "/"+nodeID)
}

// isNodeID reports whether an annotation names a node by its ID. The engine finds nodes by name as
// well.
func isNodeID(id string) bool {
	parsed, err := uuid.Parse(id)
	return err == nil && parsed.String() == id
}

// read returns nil when the host may have the node. A node that the same host has released in
// another cluster becomes this host's at once, because the annotation that proves the move goes
// with the pass. If the pass is not written, the mark stays, and the next pass finds it.
func (p restoring) read(ctx context.Context, s *scope, restored v1alpha1.ProvisionStatus, moving string) error {
	n, err := p.owners.read(ctx, s, restored.ID, restored.State)
	if err != nil {
		return err
	}
	mark := p.owners.mark(s.host)
	switch step, _ := decideClaim(s.host, n, mark, moving); step {
	case claimMoved:
		if n, err = p.owners.take(ctx, n, mark); err != nil {
			return err
		}
		s.found = &n
		return nil
	case claimAwaited:
		if err := p.owners.unlock(ctx, s.host, n); err != nil {
			return err
		}
		return errNotReleased
	default:
		s.found = &n
		return p.owners.check(ctx, s.host, n)
	}
}

// readDetails takes the hardware details from the HardwareData of the host, which came with it from
// another cluster. It keeps the details of the status if discovery has just read exactly these.
func (p restoring) readDetails(ctx context.Context, s *scope, status *v1alpha1.BareMetalHostStatus) error {
	if s.found != nil && p.readings.Has(s.found.ID, s.found.InspectedAt, status.HardwareDetails) {
		return nil
	}
	details, err := p.data.read(ctx, s.host)
	if details != nil {
		status.HardwareDetails = details
	}
	return err
}

// errNotReleased means that the cluster which the host comes from still uses the node.
var errNotReleased = errors.New("the node is not released yet")

// releasePoll is how often a host that moves checks for the release of its node. A change of the
// node triggers a pass earlier.
const releasePoll = 10 * time.Second

// maxNodeID is how much of an invalid node ID is repeated in messages, in bytes.
const maxNodeID = 64

// knownStatuses and knownErrors are the values that the schema allows. The API server would refuse
// a status with any other.
var (
	knownStatuses = []v1alpha1.OperationalStatus{
		v1alpha1.OperationalStatusNone, v1alpha1.OperationalStatusOK, v1alpha1.OperationalStatusDiscovered,
		v1alpha1.OperationalStatusError, v1alpha1.OperationalStatusDelayed, v1alpha1.OperationalStatusDetached,
		v1alpha1.OperationalStatusServicing,
	}
	knownErrors = []v1alpha1.ErrorType{
		v1alpha1.ErrorNone, v1alpha1.ErrorProvisionedRegistration, v1alpha1.ErrorRegistration, v1alpha1.ErrorInspection,
		v1alpha1.ErrorPreparation, v1alpha1.ErrorProvisioning, v1alpha1.ErrorPowerManagement, v1alpha1.ErrorServicing,
		v1alpha1.ErrorDetach,
	}
)

// decodeStatus reads a status. Keys that it does not know are ignored, so that
// hosts can come from newer operators.
func decodeStatus(text string) (*v1alpha1.BareMetalHostStatus, error) {
	var status v1alpha1.BareMetalHostStatus
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if !slices.Contains(knownStatuses, status.OperationalStatus) {
		return nil, fmt.Errorf("operationalStatus %q is unknown", status.OperationalStatus)
	}
	if !slices.Contains(knownErrors, status.ErrorType) {
		return nil, fmt.Errorf("errorType %q is unknown", status.ErrorType)
	}
	status.Conditions = usableConditions(status.Conditions)
	return &status, nil
}

// usableConditions keeps, of each type, the first condition that the schema allows. It is kept for
// the time of its last change.
func usableConditions(list []metav1.Condition) []metav1.Condition {
	var kept []metav1.Condition
	for _, c := range list {
		known := c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse || c.Status == metav1.ConditionUnknown
		if c.Type != "" && c.Reason != "" && known && !c.LastTransitionTime.IsZero() && meta.FindStatusCondition(kept, c.Type) == nil {
			kept = append(kept, c)
		}
	}
	return kept
}
