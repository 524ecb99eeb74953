package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RemediationStrategy says how a machine is remediated.
type RemediationStrategy struct {
	// type is the way to remediate: Reboot or Annotation.
	// +optional
	Type string `json:"type,omitempty"`
	// retryLimit is how often it is tried again.
	// +optional
	RetryLimit int32 `json:"retryLimit,omitempty"`
	// timeout is how long the machine has to become healthy before the next attempt.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Metal3RemediationSpec says how a machine is remediated. Written by the template.
type Metal3RemediationSpec struct {
	// strategy says how.
	// +optional
	Strategy *RemediationStrategy `json:"strategy,omitempty"`
}

// Metal3RemediationStatus is how far a remediation is. Written by the operator.
type Metal3RemediationStatus struct {
	// phase is how far it is.
	// +optional
	Phase string `json:"phase,omitempty"`
	// retryCount is how often it was tried again.
	// +optional
	RetryCount int32 `json:"retryCount,omitempty"`
	// lastRemediated is when the last attempt began.
	// +optional
	LastRemediated *metav1.Time `json:"lastRemediated,omitempty"`
}

// Metal3Remediation remediates one Machine.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
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
	Template Metal3RemediationTemplateResource `json:"template"`
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

// Metal3RemediationTemplate makes Metal3Remediations. Written by users.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
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
