package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UpdateStatus is the record of changes of BIOS settings and firmware: what the machine was
// given, and the live update that runs or failed. What has to be applied is decided by it and
// by the objects, so that nothing is applied twice.
type UpdateStatus struct {
	// settings is about HostFirmwareSettings.
	// +optional
	Settings UpdateRecord `json:"settings,omitzero"`

	// components is about HostFirmwareComponents.
	// +optional
	Components UpdateRecord `json:"components,omitzero"`

	// firmware are the updates of the version that was requested last.
	// +optional
	// +listType=atomic
	Firmware []FirmwareUpdate `json:"firmware,omitempty"`

	// written is the firmware that the engine wrote last for each component.
	// +optional
	// +listType=map
	// +listMapKey=component
	Written []WrittenFirmware `json:"written,omitempty"`

	// nodeID is the node that was asked for the live update. Another node of the host knows
	// nothing of it.
	// +optional
	NodeID string `json:"nodeID,omitempty"`

	// uncomparedSince is since when the preparation of the host has been waiting until somebody
	// compares the objects with the machine. Unset means that it does not wait for that.
	// +optional
	UncomparedSince *metav1.Time `json:"uncomparedSince,omitempty"`

	// service is the record of the live update. It is apart from status.operation, because the
	// power is changed between its attempts.
	// +optional
	Service OperationStatus `json:"service,omitzero"`
}

// UpdateRecord says which version of an object the machine was given.
type UpdateRecord struct {
	// uid is the object's UID. The numbers below are generations of that object.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// requested is the generation that the engine was asked to apply, until it has succeeded or
	// is not wanted any more. 0 means none.
	// +optional
	Requested int64 `json:"requested,omitempty"`

	// applied is the generation that was applied last. It is not applied again. 0 means none.
	// +optional
	Applied int64 `json:"applied,omitempty"`

	// requestedDigest identifies what the requested generation asks for. In another cluster, to
	// which the host is moved, the object has another UID and another generation, and only its
	// content tells that it is the same. Empty means unknown, as after an earlier version of the
	// operator.
	// +optional
	RequestedDigest string `json:"requestedDigest,omitempty"`

	// appliedDigest is the same for the applied generation.
	// +optional
	AppliedDigest string `json:"appliedDigest,omitempty"`
}

// WrittenFirmware is firmware that the engine wrote.
type WrittenFirmware struct {
	FirmwareUpdate `json:",inline"`

	// version is the version that the component showed afterwards. Empty means unknown.
	// +optional
	Version string `json:"version,omitempty"`
}
