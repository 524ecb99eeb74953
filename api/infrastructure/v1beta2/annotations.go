package v1beta2

// Finalizers.
const (
	// ClusterFinalizer keeps a deleted Metal3Cluster as long as it has Metal3Machines.
	ClusterFinalizer = "metal3cluster.infrastructure.cluster.x-k8s.io"
	// MachineFinalizer keeps a deleted Metal3Machine until its host is released.
	MachineFinalizer = "metal3machine.infrastructure.cluster.x-k8s.io"
	// RemediationFinalizer keeps a deleted Metal3Remediation until what it set on the
	// host is removed.
	RemediationFinalizer = "metal3remediation.infrastructure.cluster.x-k8s.io"
	// DataTemplateFinalizer keeps a deleted Metal3DataTemplate as long as data rendered
	// from it is in use.
	DataTemplateFinalizer = "metal3datatemplate.infrastructure.cluster.x-k8s.io"
	// DataFinalizer keeps a deleted Metal3Data until its addresses are given back.
	DataFinalizer = "metal3data.infrastructure.cluster.x-k8s.io"
	// DataClaimFinalizer keeps a deleted Metal3DataClaim until its Metal3Data is gone.
	DataClaimFinalizer = "metal3dataclaim.infrastructure.cluster.x-k8s.io"
)

// Annotations and labels of the objects of this group, of Machines and of workload
// clusters' Nodes.
const (
	// HostAnnotation on a Metal3Machine names its host: "<namespace>/<name>". Written by
	// the machine controller.
	HostAnnotation = "metal3.io/BareMetalHost"

	// LabelSyncPrefixesAnnotation on a Metal3Cluster lists, separated by commas, the
	// prefixes of the labels of hosts that their Nodes get, too.
	LabelSyncPrefixesAnnotation = "metal3.io/metal3-label-sync-prefixes"

	// SyncedLabelsAnnotation on a Node lists, separated by commas, the labels in domains of
	// Kubernetes that it got from its host. Written by the machine controller, which removes
	// such a label only when it is listed.
	SyncedLabelsAnnotation = "metal3.io/synced-labels"

	// NodeHostLabel on a Node has the UID of its host. People set it through the arguments
	// of kubelet; it is one of the ways to find the Node of a machine.
	NodeHostLabel = "metal3.io/uuid"

	// ExternalRemediationAnnotation on a Machine requests that its host is powered off, its
	// Node deleted and its host powered on again. Any value counts.
	ExternalRemediationAnnotation = "host.metal3.io/external-remediation"
	// ForcedRemediation is the value of ExternalRemediationAnnotation that is followed even if the
	// host was powered on a moment ago, where others are not.
	ForcedRemediation = "force"

	// RequestedByAnnotation on a Machine says which attempt of which Metal3Remediation has set
	// ExternalRemediationAnnotation. It has the same value, and stays when that is removed.
	RequestedByAnnotation = "remediation.metal3.io/requested-by"

	// OutOfServiceAnnotation on a Node names the Metal3Remediation that has set the taint
	// node.kubernetes.io/out-of-service: "<namespace>/<name>". On a Metal3Remediation it names the
	// Node that it may have put out of service: from before the taint is set until it is known to
	// be gone. The host is not powered on meanwhile.
	OutOfServiceAnnotation = "remediation.metal3.io/out-of-service"

	// NodeLabelsBackupAnnotation and NodeAnnotationsBackupAnnotation on a Metal3Remediation
	// have, as JSON, what its Node had when it was deleted. They are removed when the Node
	// that came back has it.
	NodeLabelsBackupAnnotation      = "remediation.metal3.io/node-labels-backup"
	NodeAnnotationsBackupAnnotation = "remediation.metal3.io/node-annotations-backup"

	// AutoscaleToHostsAnnotation on a MachineDeployment, or on a MachineSet without one, makes
	// its size follow the number of hosts that its machines can use. Any value counts, but
	// without a selector of hosts it has to be AutoscaleAllHosts.
	AutoscaleToHostsAnnotation = "metal3.io/autoscale-to-hosts"
	// AutoscaleAllHosts is the value of AutoscaleToHostsAnnotation that counts all hosts of the
	// namespace where the template of the machines selects none.
	AutoscaleAllHosts = "all-hosts"
	// AutoscaleMinAnnotation is the smallest size that AutoscaleToHostsAnnotation gives. Unset
	// means 0.
	AutoscaleMinAnnotation = "metal3.io/autoscale-min"
	// AutoscaleMaxAnnotation is the largest size that AutoscaleToHostsAnnotation gives. Unset
	// means no limit.
	AutoscaleMaxAnnotation = "metal3.io/autoscale-max"
	// AutoscaleFallingAnnotation records since when there are fewer hosts than replicas, and the
	// most that there were since, in JSON: {"since": time, "replicas": number}. Written by the
	// operator.
	AutoscaleFallingAnnotation = "metal3.io/autoscale-falling"
	// AutoscaleDeletionMark is the value of Cluster API's annotation
	// cluster.x-k8s.io/delete-machine on Machines without a host that go first when their set
	// becomes smaller. Written by the operator, which removes no other value.
	AutoscaleDeletionMark = "metal3.io/autoscale-to-hosts"
)

// Annotations and labels of BareMetalHosts.
const (
	// NodeReuseLabel on a host names the owner that it is reserved for: NodeReuseControlPlane
	// or NodeReuseMachineDeployment, and its name.
	NodeReuseLabel = "infrastructure.cluster.x-k8s.io/node-reuse"

	// NodeReuseControlPlane begins the value of NodeReuseLabel for a control plane.
	NodeReuseControlPlane = "cp-"
	// NodeReuseLegacyControlPlane is how older versions of Metal3's provider wrote NodeReuseControlPlane. It is only read.
	NodeReuseLegacyControlPlane = "kcp-"
	// NodeReuseMachineDeployment begins the value of NodeReuseLabel for a MachineDeployment.
	NodeReuseMachineDeployment = "md-"

	// ReservedAtAnnotation on a host is when it was reserved, in the form of RFC 3339.
	ReservedAtAnnotation = "metal3.io/reserved-at"

	// ConsumerHostUIDAnnotation on a host is the UID that the host had when spec.consumerRef was
	// written, by a claim or a reservation. With another one the reference comes from another
	// management cluster or from a backup, where the consumer had another UID, too: the
	// UID in it means nothing here.
	ConsumerHostUIDAnnotation = "metal3.io/consumer-host-uid"

	// FailureDomainLabel on a host is the failure domain that it stands in.
	FailureDomainLabel = "infrastructure.cluster.x-k8s.io/failure-domain"

	// MachineRemediationAnnotation holds a host powered off for a Machine with
	// ExternalRemediationAnnotation.
	MachineRemediationAnnotation = "reboot.metal3.io/machine-remediation"

	// MetalRemediationAnnotationPrefix begins the key that holds a host powered off for a
	// Metal3Remediation; its UID follows.
	MetalRemediationAnnotationPrefix = "reboot.metal3.io/metal3-remediation-"

	// LegacyUnhealthyAnnotation is an older key of the annotation capm3.metal3.io/unhealthy,
	// with which a host is not chosen.
	LegacyUnhealthyAnnotation = "capi.metal3.io/unhealthy"
)

// ProviderIDPrefix begins the provider ID of a machine, which is
// "metal3://<namespace>/<host>/<Metal3Machine>".
const ProviderIDPrefix = "metal3://"
