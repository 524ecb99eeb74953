package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Annotations and labels that people and controllers put on a BareMetalHost.
const (
	// PausedAnnotation stops reconciliation of a host, deletion included,
	// while it is there. Any value counts.
	PausedAnnotation = "baremetalhost.metal3.io/paused"

	// PausedByClusterAPI is the value of PausedAnnotation that the Cluster API
	// provider writes; it removes the annotation only when it finds this value.
	PausedByClusterAPI = "metal3.io/capm3"

	// DeletedForMoveAnnotation is on objects that clusterctl deletes because it has moved them
	// to another cluster. It takes all other annotations away before, that of a pause included.
	DeletedForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

	// DetachedAnnotation requests that the host's node is deleted from the engine
	// without changing the machine. Its value is free text or JSON: {"deleteAction": "delete" or
	// "delay", "force": bool}.
	DetachedAnnotation = "baremetalhost.metal3.io/detached"

	// StatusAnnotation carries a whole status as JSON. It is restored once
	// into a host that was never reconciled, and then removed.
	StatusAnnotation = "baremetalhost.metal3.io/status"

	// ReleasedAnnotation says of a paused host that the engine's node is released for the host
	// that is restored from StatusAnnotation in another cluster: it has the SHA-256 of that
	// annotation, as NodeReleaseKey has it in the node. Written by the operator. Whoever moves the
	// host waits for it: when the object here is gone, nobody releases its node.
	ReleasedAnnotation = "metal3.io/released"

	// RebootAnnotation requests one power cycle. Its value is empty or JSON:
	// {"mode": "soft" or "hard", "force": bool}.
	RebootAnnotation = "reboot.metal3.io"

	// RebootAnnotationPrefix begins the keys that hold a host powered off
	// until their owners remove them.
	RebootAnnotationPrefix = "reboot.metal3.io/"

	// InspectAnnotation, when empty, requests a new inspection. The value
	// "disabled" is the deprecated form of spec.inspectionMode: disabled.
	InspectAnnotation = "inspect.metal3.io"

	// HardwareDetailsAnnotation carries hardware details as JSON for a host
	// that has none yet, or whose inspection is disabled.
	HardwareDetailsAnnotation = "inspect.metal3.io/hardwaredetails"

	// ConfirmedOffAnnotation says that a person made sure that the machine of a host
	// without a BMC is off, during a deprovisioning that waits for it. Any value counts. The
	// operator removes it at the end of that deprovisioning, and when another one, or a
	// deployment, begins: what was confirmed before does not count.
	ConfirmedOffAnnotation = "metal3.io/confirmed-off"

	// AbandonedAnnotation says that the machine of a host without a BMC is gone and will
	// not boot again: a deprovisioning that waits for it ends, and so does the wait of a host
	// in use whose node the engine has lost. Any value counts.
	AbandonedAnnotation = "metal3.io/abandoned"

	// RequireAnnotationAnnotation on a HostUpdatePolicy lets live updates begin only with
	// RebootAnnotation, and not whenever the host is powered on. Any value counts.
	RequireAnnotationAnnotation = "metal3.io/require-annotation"

	// UnhealthyAnnotation makes the Cluster API provider skip a host.
	UnhealthyAnnotation = "capm3.metal3.io/unhealthy"

	// AllowDuplicateAnnotation, with any value, lets a host have the boot MAC address or the
	// BMC of another host. It is for the time of a move, when both exist.
	AllowDuplicateAnnotation = "metal3.io/allow-duplicate"

	// DiscoverySourceAnnotation tells where a discovered host comes from:
	// "<namespace>/<name of the discovery resource>/<engine node ID>".
	DiscoverySourceAnnotation = "discovery.metal3.io/source"

	// PowerManagementLabel says how the power of a host can be controlled. Its
	// only value is PowerManagementNone; hosts with a BMC do not have it.
	PowerManagementLabel = "metal3.io/power-management"

	// PowerManagementNone marks a host without a BMC.
	PowerManagementNone = "none"

	// UnreviewedLabel marks discovered hosts that a person has to check
	// before they are used, when the discovery's host template sets it.
	UnreviewedLabel = "discovery.metal3.io/unreviewed"

	// RebuildAnnotation asks to remove what is deployed on a host in use and to deploy its
	// spec anew, also when the image is the same. Its value does not matter. The operator
	// removes it at the start.
	RebuildAnnotation = "rebuild.metal3.io"

	// InspectDisabled is the value of InspectAnnotation that turns inspection
	// off.
	InspectDisabled = "disabled"
)

// NodeMarkKey is the key in the extra data of the engine's nodes that names the host that
// a node belongs to: "<UID of the cluster's namespace kube-system>/<namespace>/<host>".
const NodeMarkKey = "ingot_host"

// NodeReleaseKey is the key in the extra data of the engine's nodes that says that the host
// named by NodeMarkKey is paused in order to move to another cluster: the SHA-256 of its
// annotation with the status, in hexadecimal digits. The same host in another cluster takes
// the node over when it is restored from that very annotation.
const NodeReleaseKey = "ingot_released"

// NodeCredentialsKey is the key in the extra data of the engine's nodes that says which version of which
// Secret the credentials in the node come from: a digest of the Secret's UID and resource version, which tells nothing of
// what the Secret holds. It goes back with the node when the engine is started on an older database.
const NodeCredentialsKey = "ingot_credentials" //nolint:gosec // the name of a key

// maxStatusAnnotation is the most that a StatusAnnotation may hold, in bytes. All annotations of an object together
// may have 256 KiB.
const maxStatusAnnotation = 128 << 10

// EncodeStatus returns a status as StatusAnnotation carries it: without the hardware details when it would be too long with
// them. They are in the HardwareData of a host, from which they are restored.
func EncodeStatus(status BareMetalHostStatus) (string, error) {
	text, err := json.Marshal(status)
	if err == nil && len(text) > maxStatusAnnotation {
		status.HardwareDetails = nil
		text, err = json.Marshal(status)
	}
	return string(text), err
}

// ReleaseOf is what NodeReleaseKey and ReleasedAnnotation have for a StatusAnnotation: its SHA-256, in
// hexadecimal digits.
func ReleaseOf(status string) string {
	sum := sha256.Sum256([]byte(status))
	return hex.EncodeToString(sum[:])
}

// Finalizers.
const (
	// HostFinalizer keeps a deleted host until its node is deleted from the engine.
	HostFinalizer = "baremetalhost.metal3.io"

	// HardwareDataFinalizer keeps HardwareData as long as its host.
	HardwareDataFinalizer = "baremetalhost.metal3.io/hardwareData"

	// SecretFinalizer keeps the Secret with the credentials of a BMC as long as a host
	// refers to it.
	SecretFinalizer = "baremetalhost.metal3.io/secret"
)

// The label of the Secrets that hosts use, and its value.
const (
	SecretLabel      = "environment.metal3.io"
	SecretLabelValue = "baremetal"
)

// MoveLabel has clusterctl move an object that no other one owns, whatever its value is.
const MoveLabel = "clusterctl.cluster.x-k8s.io/move"

// RebootMode says how a host is powered off for a reboot annotation.
type RebootMode string

// Reboot modes.
const (
	// RebootModeSoft asks the operating system to shut down; it is the default.
	RebootModeSoft RebootMode = "soft"
	// RebootModeHard cuts the power.
	RebootModeHard RebootMode = "hard"
)

// RebootArguments is the JSON value of a reboot annotation.
type RebootArguments struct {
	// Mode is soft or hard; empty means soft.
	Mode RebootMode `json:"mode,omitempty"`
	// Force interrupts an inspection or a deployment that is under way.
	Force bool `json:"force,omitempty"`
}

// ParseRebootArguments reads the value of a reboot annotation. Empty means a soft cycle,
// and keys that it does not know are ignored, because owners of holds keep data of their own
// there. A value that is no JSON, or an unknown mode, is an error; what is returned
// with it asks for a soft cycle.
func ParseRebootArguments(value string) (RebootArguments, error) {
	if value == "" {
		return RebootArguments{}, nil
	}
	var args RebootArguments
	if err := json.Unmarshal([]byte(value), &args); err != nil {
		return RebootArguments{}, fmt.Errorf("decode JSON: %w", err)
	}
	switch args.Mode {
	case "", RebootModeSoft, RebootModeHard:
		return args, nil
	default:
		return RebootArguments{Force: args.Force}, fmt.Errorf("mode %q is unknown; soft and hard are known", args.Mode)
	}
}

// DetachDeleteAction says what deleting a detached host does.
type DetachDeleteAction string

// Delete actions of a detached host.
const (
	// DetachDeleteActionDelete removes the host at once; it is the default.
	DetachDeleteActionDelete DetachDeleteAction = "delete"
	// DetachDeleteActionDelay keeps the host until it is attached again.
	DetachDeleteActionDelay DetachDeleteAction = "delay"
)

// DetachArguments is the JSON value of DetachedAnnotation.
type DetachArguments struct {
	// DeleteAction is delete or delay; empty means delete.
	DeleteAction DetachDeleteAction `json:"deleteAction,omitempty"`
	// Force detaches also while the engine works on the host.
	Force bool `json:"force,omitempty"`
}
