package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// APIEndpoint is where an API server is reached.
type APIEndpoint struct {
	// host is a DNS name or an IP address.
	// +required
	Host string `json:"host"`
	// port is the TCP port.
	// +required
	Port int32 `json:"port"`
}

// FailureDomain is where machines can stand.
type FailureDomain struct {
	// controlPlane says that machines of the control plane can stand there.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`
	// attributes are free.
	// +optional
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Metal3ClusterSpec says how a cluster on BareMetalHosts is reached. Written by users.
// +kubebuilder:validation:XValidation:rule="!has(self.noCloudProvider) || !has(self.cloudProviderEnabled) || self.noCloudProvider != self.cloudProviderEnabled",message="noCloudProvider contradicts cloudProviderEnabled; remove noCloudProvider, which is the older of the two"
type Metal3ClusterSpec struct {
	// controlPlaneEndpoint is where the API server of the cluster is reached.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitzero"`
	// noCloudProvider is the older name of the opposite of cloudProviderEnabled.
	// +optional
	NoCloudProvider *bool `json:"noCloudProvider,omitempty"`
	// cloudProviderEnabled says that a cloud provider in the cluster sets the provider IDs of
	// Nodes. Unset or false, Ingot sets them.
	// +optional
	CloudProviderEnabled *bool `json:"cloudProviderEnabled,omitempty"`
	// failureDomains are where machines of the cluster can stand, by name.
	// +optional
	FailureDomains map[string]FailureDomain `json:"failureDomains,omitempty"`
}

// V1Beta2Status is what version v1beta2 has under other names.
type V1Beta2Status struct {
	// conditions are those of version v1beta2.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Metal3ClusterStatus is what became of a cluster. Written by the operator.
type Metal3ClusterStatus struct {
	// lastUpdated is when the status changed last.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// failureReason is a word for an error that did not go away by itself.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`
	// failureMessage is a sentence about it.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`
	// ready becomes true when machines can be made.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// conditions are those of this version, which have a severity.
	// +optional
	// +listType=atomic
	Conditions []v1beta2.DeprecatedCondition `json:"conditions,omitempty"`
	// v1beta2 has what version v1beta2 has under other names.
	// +optional
	V1Beta2 *V1Beta2Status `json:"v1beta2,omitempty"`
	// failureDomains are those of spec.
	// +optional
	FailureDomains map[string]FailureDomain `json:"failureDomains,omitempty"`
}

// Metal3Cluster is the infrastructure of a Cluster whose machines are BareMetalHosts.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.ready",description="Whether machines can be made"
// +kubebuilder:printcolumn:name="Error",type="string",JSONPath=".status.failureReason",description="What did not go away by itself"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Where the API server is reached"
type Metal3Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the cluster is reached.
	// +optional
	Spec Metal3ClusterSpec `json:"spec,omitzero"`
	// status is what became of it.
	// +optional
	Status Metal3ClusterStatus `json:"status,omitzero"`
}

// Metal3ClusterList is a list of clusters.
// +kubebuilder:object:root=true
type Metal3ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the clusters.
	Items []Metal3Cluster `json:"items"`
}

// Metal3ClusterTemplateSpec has the template.
type Metal3ClusterTemplateSpec struct {
	// template is what Metal3Clusters are made of.
	// +required
	Template Metal3ClusterTemplateResource `json:"template"`
}

// Metal3ClusterTemplateResource is what Metal3Clusters are made of.
type Metal3ClusterTemplateResource struct {
	// spec is their spec.
	// +required
	Spec Metal3ClusterSpec `json:"spec"`
}

// Metal3ClusterTemplate makes Metal3Clusters for Clusters with a ClusterClass. Written by
// users.
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
type Metal3ClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the template.
	// +optional
	Spec Metal3ClusterTemplateSpec `json:"spec,omitzero"`
}

// Metal3ClusterTemplateList is a list of templates.
// +kubebuilder:object:root=true
type Metal3ClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []Metal3ClusterTemplate `json:"items"`
}
