package v1beta2

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// NetworkData is what the network data of a machine is rendered from. Its parts become those
// of OpenStack's network_data.json.
type NetworkData struct {
	// links are the interfaces of the machine.
	// +optional
	Links NetworkLinks `json:"links,omitzero"`
	// networks are the addresses on them.
	// +optional
	Networks Networks `json:"networks,omitzero"`
	// services are used in all networks.
	// +optional
	Services NetworkServices `json:"services,omitzero"`
}

// NetworkLinks are the interfaces of a machine, by kind.
type NetworkLinks struct {
	// ethernets are network cards.
	// +optional
	// +listType=atomic
	Ethernets []EthernetLink `json:"ethernets,omitempty"`
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
	VLANs []VLANLink `json:"vlans,omitempty"`
}

// NetworkLink is what all links have.
type NetworkLink struct {
	// id is what other parts of the network data call the link.
	// +required
	ID string `json:"id"`
	// name is the name of the interface. An interface with the MAC address is renamed;
	// without one, the interface of this name is used.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9._-]*$`
	Name string `json:"name,omitempty"`
	// mtu is the largest packet, in bytes.
	// +optional
	// +kubebuilder:default=1500
	// +kubebuilder:validation:Maximum=9000
	MTU int32 `json:"mtu,omitempty"`
	// macAddress is the MAC address of the interface.
	// +optional
	MACAddress *LinkMACAddress `json:"macAddress,omitempty"`
}

// LinkMACAddress is a MAC address, from the first source that is set.
type LinkMACAddress struct {
	// string is the address itself.
	// +optional
	String *string `json:"string,omitempty"`
	// fromHostInterface is the name of an interface in the host's hardware details.
	// +optional
	FromHostInterface *string `json:"fromHostInterface,omitempty"`
	// fromAnnotation is an annotation with the address.
	// +optional
	FromAnnotation *AnnotationSource `json:"fromAnnotation,omitempty"`
}

// AnnotationSource is an annotation that a value is taken from.
type AnnotationSource struct {
	// object is whose annotation it is.
	// +required
	Object SourceObject `json:"object"`
	// annotation is the key of the annotation.
	// +required
	Annotation string `json:"annotation"`
}

// EthernetLink is a network card.
type EthernetLink struct {
	NetworkLink `json:",inline"`
	// type is the kind of card; phy is a real one.
	// +required
	// +kubebuilder:validation:Enum=bridge;dvs;hw_veb;hyperv;ovs;tap;vhostuser;vif;phy
	Type string `json:"type"`
}

// BondSettings are what a bond has in every version.
type BondSettings struct {
	NetworkLink `json:",inline"`
	// bondMode is how the links are used.
	// +required
	// +kubebuilder:validation:Enum="balance-rr";"active-backup";"balance-xor";"broadcast";"balance-tlb";"balance-alb";"802.3ad"
	BondMode string `json:"bondMode"`
	// bondXmitHashPolicy is how the link of a packet is chosen in the modes balance-xor and
	// 802.3ad.
	// +optional
	// +kubebuilder:validation:Enum="layer2";"layer3+4";"layer2+3"
	BondXmitHashPolicy string `json:"bondXmitHashPolicy,omitempty"`
	// bondLinks are the IDs of the links.
	// +optional
	// +listType=atomic
	BondLinks []string `json:"bondLinks,omitempty"`
}

// BondLink joins other links.
type BondLink struct {
	BondSettings `json:",inline"`
	// parameters are handed on as they are, with bond_ before their names.
	// +optional
	// +listType=map
	// +listMapKey=name
	Parameters []LinkParameter `json:"parameters,omitempty"`
}

// BridgeSettings are what a bridge has in every version.
type BridgeSettings struct {
	NetworkLink `json:",inline"`
	// bridgeLinks are the IDs of the links.
	// +optional
	// +listType=atomic
	BridgeLinks []string `json:"bridgeLinks,omitempty"`
	// acceptRA is whether IPv6 router advertisements are accepted. Unset is not rendered.
	// +optional
	AcceptRA *bool `json:"acceptRA,omitempty"`
}

// BridgeLink connects other links.
type BridgeLink struct {
	BridgeSettings `json:",inline"`
	// parameters are handed on as they are, with bridge_ before their names.
	// +optional
	// +listType=map
	// +listMapKey=name
	Parameters []LinkParameter `json:"parameters,omitempty"`
}

// LinkParameter is handed on as it is.
type LinkParameter struct {
	// name is the name of the parameter, without the word for the kind of link.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// value is any JSON.
	// +optional
	Value apiextensionsv1.JSON `json:"value,omitzero"`
}

// VLANLink is a virtual network on another link.
type VLANLink struct {
	NetworkLink `json:",inline"`
	// vlanID is the number of the VLAN.
	// +required
	// +kubebuilder:validation:Maximum=4096
	VLANID int32 `json:"vlanID"`
	// vlanLink is the ID of the link.
	// +required
	VLANLink string `json:"vlanLink"`
}

// Networks are addresses, by the way in which machines get them.
type Networks struct {
	// ipv4 are IPv4 addresses from pools.
	// +optional
	// +listType=atomic
	IPv4 []NetworkIPv4 `json:"ipv4,omitempty"`
	// ipv6 are IPv6 addresses from pools.
	// +optional
	// +listType=atomic
	IPv6 []NetworkIPv6 `json:"ipv6,omitempty"`
	// ipv4DHCP are IPv4 addresses from DHCP.
	// +optional
	// +listType=atomic
	IPv4DHCP []NetworkIPv4DHCP `json:"ipv4DHCP,omitempty"`
	// ipv6DHCP are IPv6 addresses from DHCP.
	// +optional
	// +listType=atomic
	IPv6DHCP []NetworkIPv6DHCP `json:"ipv6DHCP,omitempty"`
	// ipv6SLAAC are IPv6 addresses from router advertisements.
	// +optional
	// +listType=atomic
	IPv6SLAAC []NetworkIPv6DHCP `json:"ipv6SLAAC,omitempty"`
}

// NetworkBase is what all networks have.
type NetworkBase struct {
	// id is the name of the network.
	// +required
	ID string `json:"id"`
	// link is the ID of the link.
	// +required
	Link string `json:"link"`
}

// AddressSource is the pool that an address comes from: what fromPoolAnnotation says, else
// fromPoolRef, else ipAddressFromIPPool.
type AddressSource struct {
	// ipAddressFromIPPool is the name of an IPPool of ipam.metal3.io.
	// +optional
	IPAddressFromIPPool string `json:"ipAddressFromIPPool,omitempty"`
	// fromPoolRef is a pool.
	// +optional
	FromPoolRef *IPPoolReference `json:"fromPoolRef,omitempty"`
	// fromPoolAnnotation is an annotation with the name of a pool.
	// +optional
	FromPoolAnnotation *AnnotationSource `json:"fromPoolAnnotation,omitempty"`
}

// IPPoolReference names a pool in the namespace of the data.
type IPPoolReference struct {
	// name is the name of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind is its kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// apiGroup is the group of its kind. Unset means ipam.metal3.io.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
}

// NetworkIPv4 is an IPv4 address from a pool.
type NetworkIPv4 struct {
	NetworkBase   `json:",inline"`
	AddressSource `json:",inline"`
	// routes are the routes of the network.
	// +optional
	// +listType=atomic
	Routes []RouteIPv4 `json:"routes,omitempty"`
}

// NetworkIPv6 is an IPv6 address from a pool.
type NetworkIPv6 struct {
	NetworkBase   `json:",inline"`
	AddressSource `json:",inline"`
	// routes are the routes of the network.
	// +optional
	// +listType=atomic
	Routes []RouteIPv6 `json:"routes,omitempty"`
}

// NetworkIPv4DHCP is an IPv4 address that the network gives.
type NetworkIPv4DHCP struct {
	NetworkBase `json:",inline"`
	// routes are the routes of the network.
	// +optional
	// +listType=atomic
	Routes []RouteIPv4 `json:"routes,omitempty"`
}

// NetworkIPv6DHCP is an IPv6 address that the network gives.
type NetworkIPv6DHCP struct {
	NetworkBase `json:",inline"`
	// routes are the routes of the network.
	// +optional
	// +listType=atomic
	Routes []RouteIPv6 `json:"routes,omitempty"`
}

// RouteIPv4 is an IPv4 route.
type RouteIPv4 struct {
	// network is the address of the network.
	// +required
	Network IPv4Address `json:"network"`
	// prefix is the length of its prefix, at most 32.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	Prefix int32 `json:"prefix,omitempty"`
	// gateway is where packets go.
	// +required
	Gateway GatewayIPv4 `json:"gateway"`
	// services are used for this route.
	// +optional
	Services ServicesIPv4 `json:"services,omitzero"`
}

// RouteIPv6 is an IPv6 route.
type RouteIPv6 struct {
	// network is the address of the network.
	// +required
	Network IPv6Address `json:"network"`
	// prefix is the length of its prefix, at most 128.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	Prefix int32 `json:"prefix,omitempty"`
	// gateway is where packets go.
	// +required
	Gateway GatewayIPv6 `json:"gateway"`
	// services are used for this route.
	// +optional
	Services ServicesIPv6 `json:"services,omitzero"`
}

// GatewaySource is the pool that the address of a gateway comes from: what fromPoolAnnotation
// says, else fromPoolRef, else fromIPPool.
type GatewaySource struct {
	// fromIPPool is the name of an IPPool of ipam.metal3.io.
	// +optional
	FromIPPool *string `json:"fromIPPool,omitempty"`
	// fromPoolRef is a pool.
	// +optional
	FromPoolRef *IPPoolReference `json:"fromPoolRef,omitempty"`
	// fromPoolAnnotation is an annotation with the name of a pool.
	// +optional
	FromPoolAnnotation *AnnotationSource `json:"fromPoolAnnotation,omitempty"`
}

// GatewayIPv4 is the address of a gateway.
type GatewayIPv4 struct {
	GatewaySource `json:",inline"`
	// string is the address itself.
	// +optional
	String *IPv4Address `json:"string,omitempty"`
}

// GatewayIPv6 is the address of a gateway.
type GatewayIPv6 struct {
	GatewaySource `json:",inline"`
	// string is the address itself.
	// +optional
	String *IPv6Address `json:"string,omitempty"`
}

// NetworkServices are services of all networks.
type NetworkServices struct {
	// dns are addresses of DNS servers.
	// +optional
	// +listType=atomic
	DNS []IPAddress `json:"dns,omitempty"`
	// dnsFromIPPool is the name of an IPPool of ipam.metal3.io whose DNS servers are added.
	// +optional
	DNSFromIPPool *string `json:"dnsFromIPPool,omitempty"`
}

// ServicesIPv4 are services of an IPv4 route.
type ServicesIPv4 struct {
	// dns are addresses of DNS servers.
	// +optional
	// +listType=atomic
	DNS []IPv4Address `json:"dns,omitempty"`
	// dnsFromIPPool is the name of an IPPool of ipam.metal3.io whose DNS servers are added.
	// +optional
	DNSFromIPPool *string `json:"dnsFromIPPool,omitempty"`
}

// ServicesIPv6 are services of an IPv6 route.
type ServicesIPv6 struct {
	// dns are addresses of DNS servers.
	// +optional
	// +listType=atomic
	DNS []IPv6Address `json:"dns,omitempty"`
	// dnsFromIPPool is the name of an IPPool of ipam.metal3.io whose DNS servers are added.
	// +optional
	DNSFromIPPool *string `json:"dnsFromIPPool,omitempty"`
}

// IPAddress is an IPv4 or IPv6 address.
// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+$`
type IPAddress string

// IPv4Address is an IPv4 address.
// +kubebuilder:validation:Format=ipv4
type IPv4Address string

// IPv6Address is an IPv6 address.
// +kubebuilder:validation:Format=ipv6
type IPv6Address string
