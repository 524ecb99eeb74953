package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Metal3ClusterSpec says how a cluster on BareMetalHosts is reached. Written by users.
type Metal3ClusterSpec struct {
	// controlPlaneEndpoint is where the API server of the cluster is reached. People choose
	// it; nothing makes an address of it. The cluster is not ready while it is unset.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitzero"`

	// cloudProviderEnabled says that a cloud provider in the cluster sets the provider IDs of
	// Nodes. Unset or false, Ingot sets them.
	// +optional
	CloudProviderEnabled *bool `json:"cloudProviderEnabled,omitempty"`

	// failureDomains are where machines of the cluster can stand. They are copied into the
	// status, from which Cluster API spreads machines.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// Metal3ClusterStatus is what became of a cluster. Written by the operator.
type Metal3ClusterStatus struct {
	// conditions are Ready, BaremetalInfrastructureReady and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells Cluster API that machines can be made.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitzero"`

	// failureDomains are those of spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// lastUpdated is when the status changed last.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// deprecated groups what earlier versions had here.
	// +optional
	Deprecated *DeprecatedStatus `json:"deprecated,omitempty"`
}

// Metal3Cluster is the infrastructure of a Cluster whose machines are BareMetalHosts.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3clusters,categories=cluster-api,shortName=m3c;m3cluster;m3clusters;metal3c;metal3cluster
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Provisioned",type="string",JSONPath=".status.initialization.provisioned",description="Whether machines can be made"
// +kubebuilder:printcolumn:name="Error",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].message",description="Why it is not ready"
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

// GetConditions returns the conditions.
func (c *Metal3Cluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *Metal3Cluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
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
	Template Metal3ClusterTemplateResource `json:"template,omitzero"`
}

// Metal3ClusterTemplateResource is what Metal3Clusters are made of.
type Metal3ClusterTemplateResource struct {
	// metadata is what they have of labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitzero"`
	// spec is their spec.
	// +required
	Spec Metal3ClusterSpec `json:"spec"`
}

// Metal3ClusterTemplate makes Metal3Clusters for Clusters with a ClusterClass. Written by
// users.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=metal3clustertemplates,categories=cluster-api,shortName=m3ct
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
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
