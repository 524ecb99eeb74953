package v1alpha1

import (
	hostv1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BareMetalHostDiscoverySpec says which machines become hosts, and how these
// are called. Users write all of it. A change affects hosts made from then on
// and never those that exist.
type BareMetalHostDiscoverySpec struct {
	// resourceNameTemplate says how hosts are named.
	// +required
	ResourceNameTemplate ResourceNameTemplate `json:"resourceNameTemplate"`

	// pollInterval is the longest time between two comparisons of the engine's nodes
	// with the hosts, at least 5s. A change of an unused node leads to one after 5s at
	// the latest. The default is 30s.
	// +optional
	// +kubebuilder:default:="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s')",message="pollInterval must be at least 5s"
	PollInterval metav1.Duration `json:"pollInterval,omitzero"`

	// suspend stops the discovery of new machines. The default is false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// onlyAutoDiscovered restricts discovery to nodes that the engine enrolled
	// by itself. The default, false, takes every node that has no host and
	// belongs to nobody.
	// +optional
	OnlyAutoDiscovered bool `json:"onlyAutoDiscovered,omitempty"`

	// ignoredMACAddresses are MAC addresses of machines that never become
	// hosts. One of a machine's addresses is enough.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`
	IgnoredMACAddresses []string `json:"ignoredMACAddresses,omitempty"`

	// rediscovery says what happens when a machine whose host was deleted boots
	// the ramdisk again: "allow", the default, creates a new host; "deny" keeps
	// the machine's MAC address in status.tombstones and creates none until
	// that entry is removed.
	// +optional
	// +kubebuilder:default:=allow
	Rediscovery RediscoveryPolicy `json:"rediscovery,omitempty"`

	// hostTemplate has the initial values of new hosts.
	// +optional
	HostTemplate HostTemplate `json:"hostTemplate,omitzero"`

	// maxHosts is the largest number of existing hosts that this resource has
	// created. It limits what unknown machines can cause. 0, the default,
	// means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxHosts int32 `json:"maxHosts,omitempty"`
}

// ResourceNameTemplate says how a host is named:
// prefix + detail + suffix. Characters that a name
// may not have are replaced in the detail, and names longer than 63 characters are cut.
// +kubebuilder:validation:XValidation:rule="size(self.prefix) + size(self.suffix) <= 51",message="prefix and suffix together must leave at least 12 of 63 characters for the detail"
// +kubebuilder:validation:XValidation:rule="self.hardwareDetails != 'provisioning-id' || size(self.prefix) + size(self.suffix) > 0",message="provisioning-id needs a prefix or a suffix, because a host must not be named like a UUID"
type ResourceNameTemplate struct {
	// prefix is put before the detail as it is. The default is empty.
	// +optional
	// +kubebuilder:default:=""
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*))?$`
	Prefix string `json:"prefix,omitempty"`

	// suffix is put after the detail as it is. The default is empty.
	// +optional
	// +kubebuilder:default:=""
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([a-z0-9.-]*[a-z0-9])?$`
	Suffix string `json:"suffix,omitempty"`

	// hardwareDetails chooses the detail: "hostname" is the first label of the
	// host name of the ramdisk, "ip" the address of the first NIC that has
	// one, "serial-number" the chassis' serial number, "boot-mac" the MAC
	// address of the boot NIC, "provisioning-id" the UUID of the engine's node.
	// +required
	HardwareDetails HardwareDetail `json:"hardwareDetails"`

	// fallback is used for a machine that does not report the chosen detail:
	// "boot-mac", the default, uses its MAC address; "none" creates no
	// host.
	// +optional
	// +kubebuilder:default:=boot-mac
	Fallback NameFallback `json:"fallback,omitempty"`
}

// HardwareDetail is a property of a machine that can be used in names.
// +kubebuilder:validation:Enum=hostname;ip;serial-number;boot-mac;provisioning-id
type HardwareDetail string

// Hardware details.
const (
	// DetailHostname is the host name of the ramdisk.
	DetailHostname HardwareDetail = "hostname"
	// DetailIP is the address of the first NIC that has one.
	DetailIP HardwareDetail = "ip"
	// DetailSerialNumber is the chassis' serial number.
	DetailSerialNumber HardwareDetail = "serial-number"
	// DetailBootMAC is the MAC address of the boot NIC.
	DetailBootMAC HardwareDetail = "boot-mac"
	// DetailProvisioningID is the UUID of the engine's node.
	DetailProvisioningID HardwareDetail = "provisioning-id"
)

// NameFallback says how to name a machine that lacks the chosen detail.
// +kubebuilder:validation:Enum=boot-mac;none
type NameFallback string

// Fallbacks.
const (
	// FallbackBootMAC names the machine by its MAC address.
	FallbackBootMAC NameFallback = "boot-mac"
	// FallbackNone creates no host.
	FallbackNone NameFallback = "none"
)

// RediscoveryPolicy says what happens to machines whose host was deleted.
// +kubebuilder:validation:Enum=allow;deny
type RediscoveryPolicy string

// Rediscovery policies.
const (
	// RediscoveryAllow creates a new host.
	RediscoveryAllow RediscoveryPolicy = "allow"
	// RediscoveryDeny creates no host.
	RediscoveryDeny RediscoveryPolicy = "deny"
)

// HostTemplate has the initial values of a new host. They are copied once.
type HostTemplate struct {
	// labels are added to the host.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are added to the host.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// online is spec.online of the host. The default is true.
	// +optional
	// +kubebuilder:default:=true
	Online *bool `json:"online,omitempty"`
	// automatedCleaningMode is spec.automatedCleaningMode of the host. Unset,
	// the host's own default applies.
	// +optional
	AutomatedCleaningMode hostv1alpha1.AutomatedCleaningMode `json:"automatedCleaningMode,omitempty"`
	// rootDeviceHints are spec.rootDeviceHints of the host.
	// +optional
	RootDeviceHints *hostv1alpha1.RootDeviceHints `json:"rootDeviceHints,omitempty"`
	// architecture is spec.architecture of the host. Unset, it comes from the
	// inventory.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// bootMode is spec.bootMode of the host. Unset, it is legacy for a machine whose
	// ramdisk was started in BIOS mode.
	// +optional
	BootMode hostv1alpha1.BootMode `json:"bootMode,omitempty"`
	// preprovisioningNetworkDataName is the field of the same name of the host.
	// +optional
	PreprovisioningNetworkDataName string `json:"preprovisioningNetworkDataName,omitempty"`
}

// BareMetalHostDiscovery creates a BareMetalHost in its namespace for each
// machine that the engine knows and that has no host anywhere. When several
// exist, the oldest that is not suspended takes all nodes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bmhd,path=baremetalhostdiscoveries
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether new machines become hosts"
// +kubebuilder:printcolumn:name="Discovered",type="integer",JSONPath=".status.counts.engineNodes",description="Nodes that the engine knows"
// +kubebuilder:printcolumn:name="Created",type="integer",JSONPath=".status.counts.created",description="Hosts that this resource created"
// +kubebuilder:printcolumn:name="LastPoll",type="date",JSONPath=".status.lastPollTime",description="Time since the last poll of the engine"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type BareMetalHostDiscovery struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the wanted state.
	// +required
	Spec BareMetalHostDiscoverySpec `json:"spec"`
	// status is the observed state, and what the controller did.
	// +optional
	Status BareMetalHostDiscoveryStatus `json:"status,omitzero"`
}

// BareMetalHostDiscoveryList is a list of discovery resources.
// +kubebuilder:object:root=true
type BareMetalHostDiscoveryList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the discovery resources.
	Items []BareMetalHostDiscovery `json:"items"`
}
