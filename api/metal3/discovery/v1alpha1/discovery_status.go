package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BareMetalHostDiscoveryStatus is the observed state, and what the discovery
// controller did. The controller writes all of it; users may remove tombstones.
type BareMetalHostDiscoveryStatus struct {
	// observedGeneration is the generation of the spec that was acted on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastPollTime is the time of the last successful poll of the engine. While
	// nothing else changes it is written every ten minutes.
	// +optional
	LastPollTime *metav1.Time `json:"lastPollTime,omitempty"`

	// lastCreateTime is when the last host was created.
	// +optional
	LastCreateTime *metav1.Time `json:"lastCreateTime,omitempty"`

	// counts sum up the last poll.
	// +optional
	Counts DiscoveryCounts `json:"counts,omitzero"`

	// skipped are nodes that did not become hosts, in the order of their IDs.
	// At most 50 are listed, those first that a person has to do something about;
	// counts.skipped has them all.
	// +optional
	// +listType=map
	// +listMapKey=nodeID
	// +kubebuilder:validation:MaxItems=50
	Skipped []SkippedNode `json:"skipped,omitempty"`

	// tombstones are machines whose hosts were deleted while spec.rediscovery
	// was deny. Remove an entry to let its machine become a host again. Beyond
	// 200 the oldest are dropped.
	// +optional
	// +listType=map
	// +listMapKey=mac
	// +kubebuilder:validation:MaxItems=200
	Tombstones []Tombstone `json:"tombstones,omitempty"`

	// conditions are Ready, EngineReachable, NameTemplateUsable and Conflict.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DiscoveryCounts sum up a poll.
type DiscoveryCounts struct {
	// engineNodes is how many nodes the engine knows.
	// +optional
	EngineNodes int32 `json:"engineNodes"`
	// matched is the number of them that have a host, whoever created it.
	// +optional
	Matched int32 `json:"matched"`
	// created is how many hosts that this resource created exist.
	// +optional
	Created int32 `json:"created"`
	// skipped is how many nodes could become hosts but did not, each for a
	// reason.
	// +optional
	Skipped int32 `json:"skipped"`
	// failed is how many hosts could not be created because of an error of the API
	// server that may be temporary. The condition Ready has one of the errors.
	// +optional
	Failed int32 `json:"failed"`
}

// SkippedNode is a node that did not become a host.
type SkippedNode struct {
	// nodeID is the UUID of the engine's node.
	// +required
	NodeID string `json:"nodeID"`
	// mac is the boot MAC address, if there is one.
	// +optional
	MAC string `json:"mac,omitempty"`
	// reason says why.
	// +required
	Reason SkipReason `json:"reason"`
	// message says what to do about it.
	// +optional
	Message string `json:"message,omitempty"`
	// since is when the node was first skipped for this reason.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
}

// Tombstone is a machine whose host was deleted.
type Tombstone struct {
	// mac is the boot MAC address of the host, in lower case: 6, 8 or 20 pairs of hexadecimal
	// digits separated by colons.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{2}((:[0-9a-f]{2}){5}|(:[0-9a-f]{2}){7}|(:[0-9a-f]{2}){19})$`
	// +kubebuilder:validation:MaxLength=59
	MAC string `json:"mac"`
	// deletedAt is when the deletion was seen.
	// +optional
	DeletedAt metav1.Time `json:"deletedAt,omitempty"`
}
