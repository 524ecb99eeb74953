package remediation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// holdArguments are the value of the annotation that holds a host off: what the host controller
// reads, and whose hold it is. After a move to another cluster the UID in the key is that of an
// object that is gone, and only the name says whose hold it is.
type holdArguments struct {
	Mode        v1alpha1.RebootMode `json:"mode"`
	Remediation string              `json:"remediation"`
	Nonce       string              `json:"nonce"`
	// Node is the Node that the machine had when the hold was set. Nil means that there was none, or
	// that it was not known.
	Node *heldNode `json:"node,omitempty"`
	// RequestedAt is when the hold was set.
	RequestedAt *metav1.Time `json:"requestedAt,omitempty"`
}

// heldNode is a Node that a hold was set for.
type heldNode struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// holdKey returns the key of the annotation with which a remediation holds a host off.
func holdKey(r *v1beta2.Metal3Remediation) string {
	return v1beta2.MetalRemediationAnnotationPrefix + string(r.UID)
}

// holdValue returns a value of that annotation for the running attempt and a Node, which may be
// nil.
func holdValue(r *v1beta2.Metal3Remediation, node *corev1.Node, now time.Time) string {
	arguments := holdArguments{Mode: v1alpha1.RebootModeHard, Remediation: r.Name, Nonce: nonce(r), RequestedAt: new(metav1.NewTime(now))}
	if node != nil {
		arguments.Node = &heldNode{node.Name, node.UID}
	}
	value, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // strings can be encoded
	}
	return string(value)
}

// nonce returns a text that differs in each attempt of each remediation of a name.
func nonce(r *v1beta2.Metal3Remediation) string {
	var began time.Time
	if r.Status.LastRemediated != nil {
		began = r.Status.LastRemediated.UTC()
	}
	return fmt.Sprintf("%d-%s", r.Status.RetryCount, began.Format(time.RFC3339))
}

func holdStateOf(r *v1beta2.Metal3Remediation, h *v1alpha1.BareMetalHost) holdState {
	value, there := h.Annotations[holdKey(r)]
	held := holdOf(value)
	switch {
	case !there:
		return noHold
	case held != nil && held.Remediation == r.Name && held.Nonce == nonce(r):
		return currentHold
	default:
		return outdatedHold
	}
}

// isHeldFor reports whether the hold on a host was set for this very Node.
func isHeldFor(r *v1beta2.Metal3Remediation, h *v1alpha1.BareMetalHost, node *corev1.Node) bool {
	held := holdOf(h.Annotations[holdKey(r)])
	return held != nil && held.Node != nil && held.Node.UID == node.UID
}

// holdOf parses the value of a hold. It returns nil if the hold is none of ours.
func holdOf(value string) *holdArguments {
	var arguments holdArguments
	if json.Unmarshal([]byte(value), &arguments) != nil || arguments.Mode != v1alpha1.RebootModeHard || arguments.Remediation == "" {
		return nil
	}
	return &arguments
}

// recoveryHeldAt returns when recovery by annotation began to hold a host off, or nil if its hold
// does not say.
func recoveryHeldAt(h *v1alpha1.BareMetalHost) *metav1.Time {
	var arguments holdArguments
	if json.Unmarshal([]byte(h.Annotations[v1beta2.MachineRemediationAnnotation]), &arguments) != nil {
		return nil
	}
	return arguments.RequestedAt
}

// holds returns the keys, sorted, of the annotations with which a remediation holds a host off: its
// own key, and the keys that it had in other clusters.
func holds(r *v1beta2.Metal3Remediation, h *v1alpha1.BareMetalHost) []string {
	var keys []string
	for key, value := range h.Annotations {
		if key == holdKey(r) || strings.HasPrefix(key, v1beta2.MetalRemediationAnnotationPrefix) && isHoldOf(r, value) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func isHoldOf(r *v1beta2.Metal3Remediation, value string) bool {
	held := holdOf(value)
	return held != nil && held.Remediation == r.Name
}

// markOf is the value with which a remediation marks a host as unhealthy.
func markOf(r *v1beta2.Metal3Remediation) string { return "Metal3Remediation/" + r.Name }

// requestPrefix returns the prefix of the values of the annotations that a remediation sets on its
// Machine.
func requestPrefix(r *v1beta2.Metal3Remediation) string { return "Metal3Remediation/" + r.Name + "/" }

// requestValue returns the value of these annotations in the running attempt.
func requestValue(r *v1beta2.Metal3Remediation) string { return requestPrefix(r) + nonce(r) }

func requestStateOf(r *v1beta2.Metal3Remediation, m *clusterv1.Machine) requestState {
	value, there := m.Annotations[v1beta2.ExternalRemediationAnnotation]
	switch {
	case there && value == requestValue(r):
		return currentRequest
	case there && !strings.HasPrefix(value, requestPrefix(r)):
		return foreignRequest
	case !there && m.Annotations[v1beta2.RequestedByAnnotation] == requestValue(r):
		return fulfilledRequest
	case there, isMarked(r, m):
		return outdatedRequest
	default:
		return noRequest
	}
}

// isMarked reports whether a Machine says that an attempt of this remediation has set the
// annotation for recovery.
func isMarked(r *v1beta2.Metal3Remediation, m *clusterv1.Machine) bool {
	return strings.HasPrefix(m.Annotations[v1beta2.RequestedByAnnotation], requestPrefix(r))
}
