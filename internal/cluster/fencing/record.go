package fencing

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hold is the value of the annotation that holds a host off for a Machine. The host operator
// reads mode and ignores the rest.
type hold struct {
	Mode v1alpha1.RebootMode `json:"mode"`
	// Nonce makes each value a new one, so that a record of an earlier hold proves nothing.
	Nonce string `json:"nonce"`
	// Cluster is the name of the Cluster.
	Cluster string     `json:"cluster"`
	Machine machineRef `json:"machine"`
	// Node is the Node that the machine had when the hold was set. Nil means none.
	Node        *nodeRef    `json:"node,omitempty"`
	RequestedAt metav1.Time `json:"requestedAt"`
}

type machineRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

type nodeRef struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// stage is how far a recovery is: the value of the annotation
// remediation.metal3.io/stage. The truth table does not need it.
type stage struct {
	// Hold is the nonce of the hold for which health checks are suspended. Empty means none.
	Hold string `json:"hold,omitempty"`
	// ReleasedAt is the time since which the host may be powered on. Unset means that it may not.
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`
	// OffSince is the time since which the host is seen off without a hold. Unset means that it is
	// not.
	OffSince *metav1.Time `json:"offSince,omitempty"`
}

// holdKey is the annotation with a hold.
const holdKey = v1beta2.MachineRemediationAnnotation

// holdOf returns the hold on a host, or nil when there is none of ours.
func holdOf(h *v1alpha1.BareMetalHost) *hold {
	var read hold
	if !decode(h.Annotations, holdKey, &read) || read.Nonce == "" || read.Machine.Name == "" || read.Machine.UID == "" {
		return nil
	}
	return &read
}

// isHeld reports whether a host has the annotation, whoever set it.
func isHeld(h *v1alpha1.BareMetalHost) bool {
	_, held := h.Annotations[holdKey]
	return held
}

// isOf reports whether a hold was set for this very Machine.
func (h *hold) isOf(m *clusterv1.Machine) bool { return h.Machine == refOf(m) }

func refOf(m *clusterv1.Machine) machineRef {
	return machineRef{Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}

// nodeUID returns the UID of the Node that the hold was set for, or "".
func (h *hold) nodeUID() types.UID {
	if h.Node == nil {
		return ""
	}
	return h.Node.UID
}

// stageOf returns the stage of a Machine, or nil if it has none. A stage that cannot be read is
// returned as empty, so that it is written anew.
func stageOf(m *clusterv1.Machine) *stage {
	if _, ok := m.Annotations[v1beta2.RemediationStageAnnotation]; !ok {
		return nil
	}
	var read stage
	if !decode(m.Annotations, v1beta2.RemediationStageAnnotation, &read) {
		return &stage{}
	}
	return &read
}

// isRequested reports whether the Machine has the request.
func isRequested(m *clusterv1.Machine) bool {
	_, requested := m.Annotations[v1beta2.ExternalRemediationAnnotation]
	return requested
}

// isForced reports whether the request of a Machine is to be followed even while the machine boots.
func isForced(m *clusterv1.Machine) bool {
	return m.Annotations[v1beta2.ExternalRemediationAnnotation] == v1beta2.ForcedRemediation
}

// isMarked reports whether we have suspended the health checks of a Machine.
func isMarked(m *clusterv1.Machine) bool {
	return m.Annotations[clusterv1.MachineSkipRemediationAnnotation] == v1beta2.SkipRemediationMarker
}

// isConcerned reports whether a Machine has anything that a pass may act on.
func isConcerned(m *clusterv1.Machine) bool {
	_, pending := m.Annotations[v1beta2.RestorePendingAnnotation]
	return pending || isRequested(m) || isMarked(m) || stageOf(m) != nil
}

func decode(annotations map[string]string, key string, into any) bool {
	value, ok := annotations[key]
	return ok && json.Unmarshal([]byte(value), into) == nil
}

// encode returns the value of an annotation. The types of this package can always be encoded.
func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", value, err))
	}
	return string(text)
}

func at(t time.Time) *metav1.Time {
	stamp := metav1.NewTime(t)
	return &stamp
}
