package v1alpha1

// NetworkInterface describes how one NIC is attached to the network. Exactly
// one of name and macAddress selects the NIC.
type NetworkInterface struct {
	// name is the NIC's name in the inventory: letters, digits, ".", "_" and "-".
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9._-]+$`
	Name string `json:"name,omitempty"`
	// macAddress is the NIC's MAC address.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`
	MACAddress string `json:"macAddress,omitempty"`
	// hostNetworkAttachment refers to the attachment that the NIC should get. The
	// key is always written, because other operators' schemas require it.
	// +optional
	HostNetworkAttachment HostNetworkAttachmentRef `json:"hostNetworkAttachment"`
	// switchPort is the switch port of the NIC. Unset, it comes from LLDP.
	// +optional
	SwitchPort *SwitchPort `json:"switchPort,omitempty"`
}

// HostNetworkAttachmentRef refers to a HostNetworkAttachment.
type HostNetworkAttachmentRef struct {
	// name is the object's name. Empty means no attachment.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace is the object's namespace. Unset means the host's.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// SwitchPort is a port of a switch.
type SwitchPort struct {
	// switchID identifies the switch, usually by its base MAC address.
	// +required
	SwitchID string `json:"switchID"`
	// portID identifies the port on the switch.
	// +required
	PortID string `json:"portID"`
	// switchSystemName is the name of the switch, for people.
	// +optional
	SwitchSystemName string `json:"switchSystemName,omitempty"`
}
