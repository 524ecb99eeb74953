package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SourceObject is an object that a value is taken from.
// +kubebuilder:validation:Enum=machine;metal3machine;baremetalhost
type SourceObject string

// Objects that values are taken from.
const (
	// SourceMachine is the Machine.
	SourceMachine SourceObject = "machine"
	// SourceMetal3Machine is the Metal3Machine.
	SourceMetal3Machine SourceObject = "metal3machine"
	// SourceBareMetalHost is the host of the machine.
	SourceBareMetalHost SourceObject = "baremetalhost"
)

// MetaData is what the metadata of a machine is rendered from. Each entry makes one key.
type MetaData struct {
	// strings are fixed values.
	// +optional
	// +listType=atomic
	Strings []MetaDataString `json:"strings,omitempty"`
	// objectNames are names of objects.
	// +optional
	// +listType=atomic
	ObjectNames []MetaDataObjectName `json:"objectNames,omitempty"`
	// indexes are computed from the index of the data.
	// +optional
	// +listType=atomic
	Indexes []MetaDataIndex `json:"indexes,omitempty"`
	// namespaces are the namespace of the data.
	// +optional
	// +listType=atomic
	Namespaces []MetaDataNamespace `json:"namespaces,omitempty"`
	// ipAddressesFromPool are addresses that the machine gets from pools.
	// +optional
	// +listType=atomic
	IPAddressesFromPool []FromPool `json:"ipAddressesFromPool,omitempty"`
	// prefixesFromPool are the lengths of the prefixes of these addresses.
	// +optional
	// +listType=atomic
	PrefixesFromPool []FromPool `json:"prefixesFromPool,omitempty"`
	// gatewaysFromPool are the gateways of these addresses.
	// +optional
	// +listType=atomic
	GatewaysFromPool []FromPool `json:"gatewaysFromPool,omitempty"`
	// dnsServersFromPool are the DNS servers of the pools.
	// +optional
	// +listType=atomic
	DNSServersFromPool []FromPool `json:"dnsServersFromPool,omitempty"`
	// fromHostInterfaces are MAC addresses of the host.
	// +optional
	// +listType=atomic
	FromHostInterfaces []MetaDataHostInterface `json:"fromHostInterfaces,omitempty"`
	// fromLabels are labels of objects; one that is missing is rendered empty.
	// +optional
	// +listType=atomic
	FromLabels []MetaDataFromLabel `json:"fromLabels,omitempty"`
	// fromAnnotations are annotations of objects; one that is missing is rendered empty.
	// +optional
	// +listType=atomic
	FromAnnotations []MetaDataFromAnnotation `json:"fromAnnotations,omitempty"`
}

// MetaDataString is a fixed value.
type MetaDataString struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
	// value is the value.
	// +required
	Value string `json:"value"`
}

// MetaDataObjectName is the name of an object.
type MetaDataObjectName struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
	// object is whose name it is.
	// +required
	Object SourceObject `json:"object"`
}

// MetaDataIndex is prefix, offset + step * index, and suffix.
type MetaDataIndex struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
	// offset is the value for the index 0.
	// +optional
	Offset int32 `json:"offset,omitempty"`
	// step is the difference between the values of two indexes.
	// +optional
	// +kubebuilder:default=1
	Step int32 `json:"step,omitempty"`
	// prefix stands before the number.
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// suffix stands after it.
	// +optional
	Suffix string `json:"suffix,omitempty"`
}

// MetaDataNamespace is the namespace of the data.
type MetaDataNamespace struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
}

// FromPool is a value from a pool of IP addresses.
type FromPool struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
	// name is the name of the pool, which is in the same namespace.
	// +required
	Name string `json:"name"`
	// apiGroup is the group of its kind. Unset means ipam.metal3.io.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// kind is its kind. Unset means IPPool.
	// +optional
	Kind string `json:"kind,omitempty"`
}

// MetaDataHostInterface is the MAC address of an interface of the host.
type MetaDataHostInterface struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
	// interface is the name of the interface in the host's hardware details.
	// +optional
	Interface string `json:"interface,omitempty"`
	// fromBootMAC takes spec.bootMACAddress of the host, and not an interface.
	// +optional
	FromBootMAC bool `json:"fromBootMAC,omitempty"`
}

// MetaDataFromLabel is the value of a label.
type MetaDataFromLabel struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
	// object is whose label it is.
	// +required
	Object SourceObject `json:"object"`
	// label is the key of the label.
	// +required
	Label string `json:"label"`
}

// MetaDataFromAnnotation is the value of an annotation.
type MetaDataFromAnnotation struct {
	// key is the key in the metadata.
	// +required
	Key string `json:"key"`
	// object is whose annotation it is.
	// +required
	Object SourceObject `json:"object"`
	// annotation is the key of the annotation.
	// +required
	Annotation string `json:"annotation"`
}

// Metal3DataTemplateSpec says how the data of machines is rendered. Written by users. A
// change holds for data that is rendered later.
type Metal3DataTemplateSpec struct {
	// clusterName is the Cluster that the template belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	ClusterName string `json:"clusterName"`
	// metaData is what the metadata is rendered from. Unset means that there is none.
	// +optional
	MetaData *MetaData `json:"metaData,omitempty"`
	// networkData is what the network data is rendered from. Unset means that there is none.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`
}

// Metal3DataTemplateStatus is which data was rendered from a template. Written by the
// operator.
type Metal3DataTemplateStatus struct {
	// indexes are the indexes that are in use.
	// +optional
	// +listType=map
	// +listMapKey=index
	Indexes []IndexEntry `json:"indexes,omitempty"`
	// lastUpdated is when the status changed last.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
}

// IndexEntry is an index that is in use.
type IndexEntry struct {
	// name is the Metal3Machine that uses it.
	// +required
	Name string `json:"name"`
	// index is the number, from 0.
	// +required
	Index int32 `json:"index"`
}

// Metal3DataTemplate is what metadata and network data of machines are rendered from.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3datatemplates,categories=cluster-api,shortName=m3dt;m3datatemplate;m3datatemplates;metal3dt;metal3datatemplate
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io/move=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
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
