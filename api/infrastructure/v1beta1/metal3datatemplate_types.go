package v1beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// MetaData is what the metadata of a machine is rendered from. Each entry makes one key.
type MetaData struct {
	// strings are fixed values.
	// +optional
	// +listType=atomic
	Strings []v1beta2.MetaDataString `json:"strings,omitempty"`
	// objectNames are names of objects.
	// +optional
	// +listType=atomic
	ObjectNames []v1beta2.MetaDataObjectName `json:"objectNames,omitempty"`
	// indexes are computed from the index of the data.
	// +optional
	// +listType=atomic
	Indexes []v1beta2.MetaDataIndex `json:"indexes,omitempty"`
	// namespaces are the namespace of the data.
	// +optional
	// +listType=atomic
	Namespaces []v1beta2.MetaDataNamespace `json:"namespaces,omitempty"`
	// ipAddressesFromIPPool are addresses that the machine gets from pools.
	// +optional
	// +listType=atomic
	IPAddressesFromPool []v1beta2.FromPool `json:"ipAddressesFromIPPool,omitempty"`
	// prefixesFromIPPool are the lengths of the prefixes of these addresses.
	// +optional
	// +listType=atomic
	PrefixesFromPool []v1beta2.FromPool `json:"prefixesFromIPPool,omitempty"`
	// gatewaysFromIPPool are the gateways of these addresses.
	// +optional
	// +listType=atomic
	GatewaysFromPool []v1beta2.FromPool `json:"gatewaysFromIPPool,omitempty"`
	// dnsServersFromIPPool are the DNS servers of the pools.
	// +optional
	// +listType=atomic
	DNSServersFromPool []v1beta2.FromPool `json:"dnsServersFromIPPool,omitempty"`
	// fromHostInterfaces are MAC addresses of the host.
	// +optional
	// +listType=atomic
	FromHostInterfaces []v1beta2.MetaDataHostInterface `json:"fromHostInterfaces,omitempty"`
	// fromLabels are labels of objects; one that is missing is rendered empty.
	// +optional
	// +listType=atomic
	FromLabels []v1beta2.MetaDataFromLabel `json:"fromLabels,omitempty"`
	// fromAnnotations are annotations of objects; one that is missing is rendered empty.
	// +optional
	// +listType=atomic
	FromAnnotations []v1beta2.MetaDataFromAnnotation `json:"fromAnnotations,omitempty"`
}

// NetworkData is what the network data of a machine is rendered from.
type NetworkData struct {
	// links are the interfaces of the machine.
	// +optional
	Links NetworkLinks `json:"links,omitzero"`
	// networks are the addresses on them.
	// +optional
	Networks v1beta2.Networks `json:"networks,omitzero"`
	// services are used in all networks.
	// +optional
	Services v1beta2.NetworkServices `json:"services,omitzero"`
}

// NetworkLinks are the interfaces of a machine, by kind.
type NetworkLinks struct {
	// ethernets are network cards.
	// +optional
	// +listType=atomic
	Ethernets []v1beta2.EthernetLink `json:"ethernets,omitempty"`
	// bonds join other links.
	// +optional
	// +listType=atomic
	Bonds []BondLink `json:"bonds,omitempty"`
	// bridges connect other links.
	// +optional
	// +listType=atomic
	Bridges []BridgeLink `json:"bridges,omitempty"`
	// vlans are virtual networks on other links.
	// +optional
	// +listType=atomic
	VLANs []v1beta2.VLANLink `json:"vlans,omitempty"`
}

// BondLink joins other links.
type BondLink struct {
	v1beta2.BondSettings `json:",inline"`
	// parameters are handed on as they are, with bond_ before their names.
	// +optional
	Parameters map[string]apiextensionsv1.JSON `json:"parameters,omitempty"`
}

// BridgeLink connects other links.
type BridgeLink struct {
	v1beta2.BridgeSettings `json:",inline"`
	// parameters are handed on as they are, with bridge_ before their names.
	// +optional
	Parameters map[string]apiextensionsv1.JSON `json:"parameters,omitempty"`
}

// Metal3DataTemplateSpec says how the data of machines is rendered. Written by users.
type Metal3DataTemplateSpec struct {
	// clusterName is the Cluster that the template belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	ClusterName string `json:"clusterName"`
	// templateReference is a name that earlier versions compared templates by.
	// +optional
	TemplateReference string `json:"templateReference,omitempty"`
	// metaData is what the metadata is rendered from.
	// +optional
	MetaData *MetaData `json:"metaData,omitempty"`
	// networkData is what the network data is rendered from.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`
}

// Metal3DataTemplateStatus is which data was rendered from a template. Written by the
// operator.
type Metal3DataTemplateStatus struct {
	// lastUpdated is when the status changed last.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// indexes are the indexes that are in use, by the Metal3Machine.
	// +optional
	Indexes map[string]int32 `json:"indexes,omitempty"`
}

// Metal3DataTemplate is what metadata and network data of machines are rendered from.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type Metal3DataTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the data is rendered.
	// +optional
	Spec Metal3DataTemplateSpec `json:"spec,omitzero"`
	// status is which data was rendered.
	// +optional
	Status Metal3DataTemplateStatus `json:"status,omitzero"`
}

// Metal3DataTemplateList is a list of templates.
// +kubebuilder:object:root=true
type Metal3DataTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []Metal3DataTemplate `json:"items"`
}
