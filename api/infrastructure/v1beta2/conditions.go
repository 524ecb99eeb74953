package v1beta2

// Condition types and reasons that every kind with conditions has. Cluster API reads them.
const (
	// ReadyCondition sums up the other conditions of an object.
	ReadyCondition = "Ready"
	// ReadyReason means that everything that was asked for is done.
	ReadyReason = "Ready"
	// NotReadyReason means that another condition says what is missing.
	NotReadyReason = "NotReady"
	// ReadyUnknownReason means that another condition could not be computed.
	ReadyUnknownReason = "ReadyUnknown"
	// DeletingReason means that the object is being deleted.
	DeletingReason = "Deleting"
	// DeletionFailedReason means that a deletion does not get on; it is tried again.
	DeletionFailedReason = "DeletionFailed"

	// PausedCondition reports whether the object, or its Cluster, is paused.
	PausedCondition = "Paused"
	// PausedReason means that nothing is done for the object.
	PausedReason = "Paused"
	// NotPausedReason means that the object is worked on.
	NotPausedReason = "NotPaused"
)

// Conditions of a Metal3Cluster.
const (
	// BaremetalInfrastructureReadyCondition reports whether machines of the cluster can be
	// provisioned.
	BaremetalInfrastructureReadyCondition = "BaremetalInfrastructureReady"

	// ControlPlaneEndpointFailedReason means that spec.controlPlaneEndpoint is missing or
	// cannot be used.
	ControlPlaneEndpointFailedReason = "ControlPlaneEndpointFailed"
	// FailedToGetOwnerClusterReason means that the Cluster that owns the object cannot be
	// read.
	FailedToGetOwnerClusterReason = "FailedToGetOwnerCluster"
	// InternalFailureReason means that something failed that the message names. The
	// spelling of its value is that of existing clusters.
	InternalFailureReason = "InternalFailureOccured"
)

// AssociateBareMetalHostCondition of a Metal3Machine reports whether it holds a host.
const AssociateBareMetalHostCondition = "AssociateBareMetalHost"

// Reasons of AssociateBareMetalHostCondition.
const (
	// AssociateBareMetalHostSuccessReason means that the machine holds a host.
	AssociateBareMetalHostSuccessReason = "AssociateBareMetalHostSuccess"
	// AssociateBareMetalHostViaNodeReuseSuccessReason means that it holds one that was
	// reserved for its owner.
	AssociateBareMetalHostViaNodeReuseSuccessReason = "AssociateBareMetalHostViaNodeReuseSuccess"
	// AssociateBareMetalHostFailedReason means that choosing or claiming a host failed.
	AssociateBareMetalHostFailedReason = "AssociateBareMetalHostFailed"
	// WaitingForClusterInfrastructureReadyReason means that the Cluster is not ready for
	// machines yet.
	WaitingForClusterInfrastructureReadyReason = "WaitingForClusterInfrastructureReady"
	// WaitingForBootstrapDataReason means that the Machine has no bootstrap data yet.
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"
	// WaitingForMetal3MachineOwnerRefReason means that no Machine owns the object yet.
	WaitingForMetal3MachineOwnerRefReason = "WaitingForMetal3MachineOwnerRef"
	// WaitingForMetal3ClusterReason means that there is no Metal3Cluster yet. The spelling
	// of its value is that of existing clusters.
	WaitingForMetal3ClusterReason = "WaitingforMetal3Cluster"
	// PauseAnnotationSetFailedReason means that the host of a paused machine could not be
	// paused.
	PauseAnnotationSetFailedReason = "BareMetalHostPauseAnnotationSetFailed"
	// PauseAnnotationRemoveFailedReason means that the pause of the host could not be
	// ended.
	PauseAnnotationRemoveFailedReason = "BareMetalHostPauseAnnotationRemoveFailed"
	// NoMatchingHostReason means that no host can be used now; the message counts why.
	NoMatchingHostReason = "NoMatchingHost"
	// WaitingForReservedHostReason means that a host of the owner is about to be free.
	WaitingForReservedHostReason = "WaitingForReservedHost"
	// ReservedHostSelectedReason means that a host that was reserved for the owner is
	// chosen, and not claimed yet.
	ReservedHostSelectedReason = "ReservedHostSelected"
	// ClaimConflictReason means that somebody else changed the chosen host first; another
	// choice follows.
	ClaimConflictReason = "ClaimConflict"
	// HostLostReason means that the host of the machine is gone or belongs to another
	// consumer.
	HostLostReason = "HostLost"
)

// HostReservedCondition of a Metal3Machine that is being deleted reports whether its host is kept for the
// next machine of its owner. It is decided before anything of the host is changed, and not again.
const HostReservedCondition = "HostReserved"

// Reasons of HostReservedCondition. Beside these there are those for which a host is not kept
// although its template wants reuse.
const (
	// HostReservedReason means that the host is kept.
	HostReservedReason = "HostReserved"
	// HostReuseNotWantedReason means that the template of the owner does not want reuse, or that there is
	// no Machine any more.
	HostReuseNotWantedReason = "HostReuseNotWanted"
)

// AssociateMetal3MachineMetaDataCondition of a Metal3Machine reports whether its Node was
// found and labelled.
const AssociateMetal3MachineMetaDataCondition = "AssociateMetal3MachineMetaData"

// Reasons of AssociateMetal3MachineMetaDataCondition.
const (
	// AssociateMetal3MachineMetaDataSuccessReason means that the Node has what it gets.
	AssociateMetal3MachineMetaDataSuccessReason = "AssociateMetal3MachineMetaDataSuccess"
	// AssociateMetal3MachineMetaDataFailedReason means that the Node could not be read or
	// changed.
	AssociateMetal3MachineMetaDataFailedReason = "AssociateMetal3MachineMetaDataFailed"
	// WaitingForNodeReason means that the workload cluster has no Node of the machine yet, or that the host of
	// the machine does not run any more.
	WaitingForNodeReason = "WaitingForNode"
	// WaitingForCloudProviderReason means that the Node has no provider ID and that the cloud
	// provider of the workload cluster is to set it.
	WaitingForCloudProviderReason = "WaitingForCloudProvider"
	// ProviderIDMismatchReason means that what should be the Node of the machine, or the
	// Metal3Machine, has the provider ID of another machine.
	ProviderIDMismatchReason = "ProviderIDMismatch"
	// AmbiguousNodeReason means that it cannot be said which Node is that of the machine.
	AmbiguousNodeReason = "AmbiguousNode"
	// WorkloadClusterUnreachableReason means that the kubeconfig of the workload cluster is
	// missing or cannot be used, or that its API server does not answer.
	WorkloadClusterUnreachableReason = "WorkloadClusterUnreachable"
)

// Metal3DataReadyCondition of a Metal3Machine reports whether its data is rendered.
const Metal3DataReadyCondition = "Metal3DataReady"

// Reasons of Metal3DataReadyCondition.
const (
	// WaitingForMetal3DataReason means that the Metal3Data is not rendered yet.
	WaitingForMetal3DataReason = "WaitingForMetal3Data"
	// Metal3DataSecretsReadyReason means that the rendered Secrets are there.
	Metal3DataSecretsReadyReason = "Metal3DataSecretsReady"
	// SecretsSetExternallyReason means that the spec names the Secrets, so that none are
	// rendered.
	SecretsSetExternallyReason = "SecretsSetExternally"
	// DisassociateM3MetaDataFailedReason means that the claim for data could not be given
	// up.
	DisassociateM3MetaDataFailedReason = "DisassociateM3MetaDataFailed"
)

// ProgressingCondition of a Metal3Remediation reports whether it gets on by itself. False means that
// somebody should look. It says what is waited for, and stays as it is while something is done.
const ProgressingCondition = "Progressing"

// Reasons of ProgressingCondition. Others are WaitingForNodeReason, WaitingForNodeDeletionReason,
// WaitingForControlPlaneReason, PoweringOffReason and WaitingForHostReason, which means that the host is
// not chosen or not deployed yet, and which are True, but for WaitingForControlPlaneReason when the others of the control plane
// are always too few; PowerOffNotConfirmedReason, which is False; and why
// a machine cannot be remediated, which is False.
const (
	// WaitingForPodsReason means that pods or volumes are not gone from the Node, which is out of
	// service. True.
	WaitingForPodsReason = "WaitingForPods"
	// NodeUnknownReason means that it is not known whether the machine has a Node, and which. False.
	NodeUnknownReason = "NodeUnknown"
	// PoweringOnReason means that the host may be powered on and is not on yet. True.
	PoweringOnReason = "PoweringOn"
	// RecoveringReason means that the Machine has the annotation for its recovery. True.
	RecoveringReason = "Recovering"
	// RecoveryNotFinishedReason means that this recovery has not ended in time. False.
	RecoveryNotFinishedReason = "RecoveryNotFinished"
	// WaitingForOtherRecoveryReason means that somebody else has set that annotation. True, and
	// False when it has not gone in time.
	WaitingForOtherRecoveryReason = "WaitingForOtherRecovery"
	// WaitingForHealthReason means that the machine has time to become healthy. True.
	WaitingForHealthReason = "WaitingForHealth"
	// WaitingForHealthCheckReason means that this time is over and the Node is Ready, so that the health check has as long
	// again to take the remediation back. True.
	WaitingForHealthCheckReason = "WaitingForHealthCheck"
	// HostErrorReason means that the host, which is not deployed yet, has an error. False.
	HostErrorReason = "HostError"
	// RemediationSkippedReason means that the Machine has the annotation cluster.x-k8s.io/skip-remediation, so that no attempt
	// begins and the machine is not given up. True.
	RemediationSkippedReason = "RemediationSkipped"
	// MachineHandedOverReason means that the owner of the Machine has to replace it. True.
	MachineHandedOverReason = "MachineHandedOver"
)

// AutoscaledToHostsCondition of a MachineDeployment or a MachineSet reports whether its size
// follows the number of hosts.
const AutoscaledToHostsCondition = "AutoscaledToHosts"

// Reasons of AutoscaledToHostsCondition.
const (
	// AutoscaleFollowsReason means that there are as many replicas as hosts.
	AutoscaleFollowsReason = "FollowsHosts"
	// AutoscaleAtMinimumReason means that there are fewer hosts than the smallest size.
	AutoscaleAtMinimumReason = "AtMinimum"
	// AutoscaleAtMaximumReason means that there are more hosts than the largest size.
	AutoscaleAtMaximumReason = "AtMaximum"
	// AutoscaleInUseReason means that more hosts are in use than the largest size allows.
	AutoscaleInUseReason = "HostsInUse"
	// AutoscaleRolloutReason means that the size does not fall before a rollout has ended.
	AutoscaleRolloutReason = "RolloutInProgress"
	// AutoscaleFallingReason means that the size falls soon, unless hosts come back.
	AutoscaleFallingReason = "FewerHosts"

	// AutoscalePausedReason means that the set or its Cluster is paused.
	AutoscalePausedReason = "Paused"
	// AutoscaleControlPlaneReason means that control planes do not follow hosts.
	AutoscaleControlPlaneReason = "ControlPlane"
	// AutoscaleTopologyReason means that the topology of the Cluster gives the size.
	AutoscaleTopologyReason = "TopologyOwned"
	// AutoscaleConflictReason means that the cluster autoscaler gives the size.
	AutoscaleConflictReason = "ClusterAutoscaler"
	// AutoscaleInvalidBoundsReason means that the smallest and the largest size cannot be used.
	AutoscaleInvalidBoundsReason = "InvalidBounds"
	// AutoscaleOtherMachinesReason means that the machines are not Metal3Machines.
	AutoscaleOtherMachinesReason = "OtherMachines"
	// AutoscaleTemplateMissingReason means that the template of the machines is gone.
	AutoscaleTemplateMissingReason = "TemplateMissing"
	// AutoscaleInvalidSelectorReason means that the selector of hosts cannot match anything.
	AutoscaleInvalidSelectorReason = "InvalidSelector"
	// AutoscaleNoSelectorReason means that nothing says which hosts to count.
	AutoscaleNoSelectorReason = "NoSelector"
)
