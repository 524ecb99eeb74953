package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProfileMatchStatus says whether hosts match a classification.
type ProfileMatchStatus string

// Results of a classification.
const (
	// ProfileNotMatchedYet is the result before the first classification.
	ProfileNotMatchedYet ProfileMatchStatus = ""
	// ProfileMatched means that at least one host matches.
	ProfileMatched ProfileMatchStatus = "matched"
	// ProfileUnmatched means that there are hosts and none matches.
	ProfileUnmatched ProfileMatchStatus = "unmatched"
	// ProfileNoHosts means that there are no hosts to look at.
	ProfileNoHosts ProfileMatchStatus = "No BareMetalHosts Found"
)

// ClassificationErrorType says what went wrong with a classification.
type ClassificationErrorType string

// Error types of a classification.
const (
	// ClassificationErrorNone means that nothing went wrong.
	ClassificationErrorNone ClassificationErrorType = ""
	// ClassificationErrorLabelUpdate means that a label could not be written.
	ClassificationErrorLabelUpdate ClassificationErrorType = "label update error"
	// ClassificationErrorLabelDelete means that a label could not be removed.
	ClassificationErrorLabelDelete ClassificationErrorType = "label delete error"
	// ClassificationErrorFetch means that the hosts could not be read.
	ClassificationErrorFetch ClassificationErrorType = "fetch BMH error"
	// ClassificationErrorEmpty means that spec restricts nothing.
	ClassificationErrorEmpty ClassificationErrorType = "Empty Profile Error"
)

// HardwareClassificationStatus is the result of a classification. Written by the
// operator.
type HardwareClassificationStatus struct {
	// errorType says what went wrong. Empty means nothing.
	// +optional
	ErrorType ClassificationErrorType `json:"errorType,omitempty"`
	// profileMatchStatus says whether hosts match: "matched", "unmatched" or "No
	// BareMetalHosts Found".
	// +optional
	ProfileMatchStatus ProfileMatchStatus `json:"profileMatchStatus,omitempty"`
	// matchedCount is the number of hosts that match.
	// +optional
	MatchedCount int `json:"matchedCount,omitempty"`
	// unmatchedCount is the number of hosts that do not match.
	// +optional
	UnmatchedCount int `json:"unmatchedCount,omitempty"`
	// errorHosts is the number of hosts with an error, whatever its type.
	// +optional
	ErrorHosts int `json:"errorHosts,omitempty"`
	// registrationErrorHosts is the number of hosts with a registration error.
	// +optional
	RegistrationErrorHosts int `json:"registrationErrorHosts,omitempty"`
	// introspectionErrorHosts is the number of hosts with an inspection error.
	// +optional
	IntrospectionErrorHosts int `json:"introspectionErrorHosts,omitempty"`
	// provisioningErrorHosts is the number of hosts with a provisioning error.
	// +optional
	ProvisioningErrorHosts int `json:"provisioningErrorHosts,omitempty"`
	// powerMgmtErrorHosts is the number of hosts with a power management error.
	// +optional
	PowerMgmtErrorHosts int `json:"powerMgmtErrorHosts,omitempty"`
	// provisionedRegistrationErrorHosts is the number of hosts with a provisioned
	// registration error.
	// +optional
	ProvisionedRegistrationErrorHosts int `json:"provisionedRegistrationErrorHosts,omitempty"`
	// preparationErrorHosts is the number of hosts with a preparation error.
	// +optional
	PreparationErrorHosts int `json:"preparationErrorHosts,omitempty"`
	// detachErrorHosts is the number of hosts with a detach error.
	// +optional
	DetachErrorHosts int `json:"detachErrorHosts,omitempty"`
	// errorMessage says what went wrong last and what to do about it. Empty means
	// nothing.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
}

// HardwareClassification puts a label on every host of its namespace whose
// hardware matches, and removes it from those that do not match any more.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hwc;hc
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:printcolumn:name="ProfileMatchStatus",type="string",JSONPath=".status.profileMatchStatus",description="Whether hosts match"
// +kubebuilder:printcolumn:name="MatchedHosts",type="integer",JSONPath=".status.matchedCount",description="Hosts that match"
// +kubebuilder:printcolumn:name="UnmatchedHosts",type="integer",JSONPath=".status.unmatchedCount",description="Hosts that do not match"
// +kubebuilder:printcolumn:name="ErrorHosts",type="integer",JSONPath=".status.errorHosts",description="Hosts with an error"
// +kubebuilder:printcolumn:name="RegistrationErrorHosts",type="integer",priority=1,JSONPath=".status.registrationErrorHosts",description="Hosts with a registration error"
// +kubebuilder:printcolumn:name="IntrospectionErrorHosts",type="integer",priority=1,JSONPath=".status.introspectionErrorHosts",description="Hosts with an inspection error"
// +kubebuilder:printcolumn:name="ProvisioningErrorHosts",type="integer",priority=1,JSONPath=".status.provisioningErrorHosts",description="Hosts with a provisioning error"
// +kubebuilder:printcolumn:name="PowerMgmtErrorHosts",type="integer",priority=1,JSONPath=".status.powerMgmtErrorHosts",description="Hosts with a power management error"
// +kubebuilder:printcolumn:name="ProvisionedRegistrationErrorHosts",type="integer",priority=1,JSONPath=".status.provisionedRegistrationErrorHosts",description="Hosts with a provisioned registration error"
// +kubebuilder:printcolumn:name="PreparationErrorHosts",type="integer",priority=1,JSONPath=".status.preparationErrorHosts",description="Hosts with a preparation error"
// +kubebuilder:printcolumn:name="DetachErrorHosts",type="integer",priority=1,JSONPath=".status.detachErrorHosts",description="Hosts with a detach error"
// +kubebuilder:printcolumn:name="Error",type="string",JSONPath=".status.errorMessage",description="What went wrong last"
type HardwareClassification struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which hosts match.
	// +optional
	Spec HardwareClassificationSpec `json:"spec,omitzero"`
	// status is the result.
	// +optional
	Status HardwareClassificationStatus `json:"status,omitzero"`
}

// HardwareClassificationList is a list of classifications.
// +kubebuilder:object:root=true
type HardwareClassificationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the classifications.
	Items []HardwareClassification `json:"items"`
}
