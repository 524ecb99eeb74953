package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperationStatus is the record of the operation that the operator works on, or worked
// on last. What to retry, and when, is decided by it alone.
type OperationStatus struct {
	// name is the operation. Empty means that there was none yet.
	// +optional
	Name OperationName `json:"name,omitempty"`

	// request is the last request to the engine for the operation. Empty means none since
	// the operation began or failed.
	// +optional
	Request string `json:"request,omitempty"`

	// accepted is true when the engine accepted the request. While it is false, an
	// interruption may have kept the answer.
	// +optional
	Accepted bool `json:"accepted,omitempty"`

	// nodeChangedAt is when the node's provision state had changed last, by the engine's
	// clock, before the request or the failure. A later time shows that the engine got a
	// request. Without one, a request that was accepted is made again: the engine's database
	// is older.
	// +optional
	NodeChangedAt *metav1.MicroTime `json:"nodeChangedAt,omitempty"`

	// plan is a fingerprint of what was asked for, to tell whether that is still wanted.
	// +optional
	Plan string `json:"plan,omitempty"`

	// raid are the volumes in the request, which may differ from those that are asked for by now.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// failures is how often the operation failed in a row.
	// +optional
	Failures int `json:"failures,omitempty"`

	// failedAt is when it failed last. The wait before the next attempt begins there.
	// +optional
	FailedAt *metav1.Time `json:"failedAt,omitempty"`

	// generation is the host's generation at the last request or failure, or when the host
	// began to be prepared. Another one ends the wait.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// inputs is a fingerprint of the annotations and credentials at the last request or
	// failure. Another one ends the wait.
	// +optional
	Inputs string `json:"inputs,omitempty"`

	// queuedAt is since when the operation has been waiting for a slot.
	// +optional
	QueuedAt *metav1.Time `json:"queuedAt,omitempty"`
}

// OperationName is an operation on a host.
type OperationName string

// Operations.
const (
	// OperationRegister creates the node and checks the access to its BMC.
	OperationRegister OperationName = "register"
	// OperationImport reads what the engine found out about a discovered machine.
	OperationImport OperationName = "import"
	// OperationInspect reads the hardware.
	OperationInspect OperationName = "inspect"
	// OperationPrepare configures the hardware and makes the node available.
	OperationPrepare OperationName = "prepare"
	// OperationAdopt takes a node over whose machine is in use.
	OperationAdopt OperationName = "adopt"
	// OperationProvision deploys.
	OperationProvision OperationName = "provision"
	// OperationDeprovision removes a deployment.
	OperationDeprovision OperationName = "deprovision"
	// OperationPower changes the power.
	OperationPower OperationName = "power"
	// OperationService updates a machine that is in use.
	OperationService OperationName = "service"
	// OperationDetach deletes the node of a host that stays.
	OperationDetach OperationName = "detach"
	// OperationDelete deletes the node of a host that goes.
	OperationDelete OperationName = "delete"
)

// PowerOffHold is a request of an annotation to keep the host powered off.
type PowerOffHold struct {
	// key is the name of the annotation, and value its value. A value of more than 256
	// bytes is stored as its SHA-256 digest, "sha256:" and 64 hexadecimal digits.
	// +required
	Key string `json:"key"`
	// +optional
	Value string `json:"value,omitempty"`

	// requestedAt is when the engine accepted the request to power the machine off that
	// this annotation caused.
	// +required
	RequestedAt metav1.Time `json:"requestedAt"`

	// confirmedAt is when the engine, after that request, had read that the machine is
	// off. Unset means that this is not known. The whole record is removed before the
	// machine is powered on.
	// +optional
	ConfirmedAt *metav1.Time `json:"confirmedAt,omitempty"`
}
