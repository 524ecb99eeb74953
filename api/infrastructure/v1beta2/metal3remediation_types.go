package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RemediationType is a way to remediate.
// +kubebuilder:validation:Enum=Reboot;Annotation
type RemediationType string

// Ways to remediate.
const (
	// RebootRemediation powers the host off and on again, after the Node got an out-of-service
	// taint or was deleted.
	RebootRemediation RemediationType = "Reboot"
	// AnnotationRemediation sets the annotation host.metal3.io/external-remediation on the
	// Machine and waits for what follows.
	AnnotationRemediation RemediationType = "Annotation"
)

// RemediationPhase is how far a remediation is.
// +kubebuilder:validation:Enum=Running;Waiting;Deleting machine;Failed
type RemediationPhase string

// Phases of a remediation. Empty means that it has not begun.
const (
	// RemediationRunning means that the host is being powered off and on.
	RemediationRunning RemediationPhase = "Running"
	// RemediationWaiting means that the machine has until the timeout to become healthy.
	RemediationWaiting RemediationPhase = "Waiting"
	// RemediationDeletingMachine means that it did not, as often as the limit allows, and
	// that the owner of the Machine replaces it.
	RemediationDeletingMachine RemediationPhase = "Deleting machine"
	// RemediationFailed means that the host cannot be remediated.
	RemediationFailed RemediationPhase = "Failed"
)

// RemediationStrategy says how a machine is remediated.
type RemediationStrategy struct {
	// type is the way to remediate. Unset means Reboot.
	// +optional
	Type RemediationType `json:"type,omitempty"`
	// retryLimit is how often it is tried again, at least 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	RetryLimit int32 `json:"retryLimit,omitempty"`
	// timeoutSeconds is how long the machine has to become healthy before the next attempt,
	// in seconds, at least 100.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=100
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// Metal3RemediationSpec says how a machine is remediated. Written by the template.
type Metal3RemediationSpec struct {
	// strategy says how. Unset means a reboot, with the defaults.
	// +optional
	Strategy *RemediationStrategy `json:"strategy,omitempty"`
}

// Metal3RemediationStatus is how far a remediation is. Written by the operator.
type Metal3RemediationStatus struct {
	// conditions are Progressing.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is how far it is. Unset means that it has not begun.
	// +optional
	Phase RemediationPhase `json:"phase,omitempty"`
	// retryCount is how often it was tried again, the running attempt included. Unset means that the
	// first attempt is the only one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RetryCount int32 `json:"retryCount,omitempty"`
	// lastRemediated is when the last attempt began.
	// +optional
	LastRemediated *metav1.Time `json:"lastRemediated,omitempty"`
	// releasedAt is when the last attempt had done what needs the host to be off. Since then
	// the host may be powered on, and the timeout runs. Unset means that it is not so far.
	// +optional
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`
}

// Metal3Remediation remediates one Machine. MachineHealthChecks make it from a template when
// the Machine is unhealthy, and delete it when it is healthy again.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3remediations,categories=cluster-api,shortName=m3r;m3remediation
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
// +kubebuilder:printcolumn:name="Retry limit",type="string",JSONPath=".spec.strategy.retryLimit",description="How often it is tried again"
// +kubebuilder:printcolumn:name="Retry count",type="string",JSONPath=".status.retryCount",description="How often it was tried again"
// +kubebuilder:printcolumn:name="Last Remediated",type="string",JSONPath=".status.lastRemediated",description="When the last attempt began"
// +kubebuilder:printcolumn:name="Strategy",type="string",JSONPath=".spec.strategy.type",description="How it is tried"
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="How far it is"
type Metal3Remediation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the machine is remediated.
	// +optional
	Spec Metal3RemediationSpec `json:"spec,omitzero"`
	// status is how far that is.
	// +optional
	Status Metal3RemediationStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions.
func (r *Metal3Remediation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions.
func (r *Metal3Remediation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// Metal3RemediationList is a list of remediations.
// +kubebuilder:object:root=true
type Metal3RemediationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the remediations.
	Items []Metal3Remediation `json:"items"`
}

// Metal3RemediationTemplateSpec has the template.
type Metal3RemediationTemplateSpec struct {
	// template is what Metal3Remediations are made of.
	// +required
	Template Metal3RemediationTemplateResource `json:"template,omitzero"`
}

// Metal3RemediationTemplateResource is what Metal3Remediations are made of.
type Metal3RemediationTemplateResource struct {
	// spec is their spec.
	// +required
	Spec Metal3RemediationSpec `json:"spec"`
}

// Metal3RemediationTemplateStatus is there for clients that know it. Nobody writes it.
type Metal3RemediationTemplateStatus struct {
	// status has no meaning.
	// +optional
	Status Metal3RemediationStatus `json:"status,omitzero"`
}

// Metal3RemediationTemplate makes Metal3Remediations. Written by users, and named in
// MachineHealthChecks.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3remediationtemplates,categories=cluster-api,shortName=m3rt;m3remediationtemplate;m3remediationtemplates;metal3rt;metal3remediationtemplate
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io/move=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
type Metal3RemediationTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the template.
	// +optional
	Spec Metal3RemediationTemplateSpec `json:"spec,omitzero"`
	// status has no meaning.
	// +optional
	Status Metal3RemediationTemplateStatus `json:"status,omitzero"`
}

// Metal3RemediationTemplateList is a list of templates.
// +kubebuilder:object:root=true
type Metal3RemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []Metal3RemediationTemplate `json:"items"`
}
