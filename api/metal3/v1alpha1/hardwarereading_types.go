package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HardwareReading identifies what a status was read from. The engine reads a machine
// while it registers, inspects, cleans, deploys or services it, so what it shows after a
// change of provision state holds until the next one.
type HardwareReading struct {
	// nodeID is the UUID of the engine's node.
	// +required
	NodeID string `json:"nodeID"`
	// stateChangedAt is when the provision state of the node had last changed before the
	// reading, by the clock of the engine. Absent when it never had.
	// +optional
	StateChangedAt metav1.MicroTime `json:"stateChangedAt,omitzero"`
	// inspectedAt is when the last inspection before the reading ended, by the clock of
	// the engine. Absent when there was none.
	// +optional
	InspectedAt metav1.MicroTime `json:"inspectedAt,omitzero"`
}
