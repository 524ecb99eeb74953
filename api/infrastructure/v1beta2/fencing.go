package v1beta2

// What the recovery by ExternalRemediationAnnotation keeps in annotations of the Machine. People
// leave these alone.
const (
	// RemediationStageAnnotation on a Machine says, as JSON, how far its recovery is.
	RemediationStageAnnotation = "remediation.metal3.io/stage"

	// RestorePendingAnnotation on a Machine has, as JSON, the labels, annotations and taints of
	// its deleted Node, which the Node gets again when it is back.
	RestorePendingAnnotation = "remediation.metal3.io/restore-pending"

	// SkipRemediationMarker is the value of cluster.x-k8s.io/skip-remediation on a Machine whose
	// health check is suspended because it is being recovered. Other values are a person's, and
	// are never changed.
	SkipRemediationMarker = "metal3.io/external-remediation"
)

// RemediatingCondition of a Metal3Machine reports whether its Machine is being recovered, as
// ExternalRemediationAnnotation requests. It is there since the first request.
const RemediatingCondition = "Remediating"

// Reasons of RemediatingCondition, besides WaitingForNodeReason, AmbiguousNodeReason and
// WorkloadClusterUnreachableReason, which are True. Those that say so have the status False; the others True.
const (
	// NotRemediatingReason means that nothing is requested and nothing is left to do. False.
	NotRemediatingReason = "NotRemediating"
	// RemediationImpossibleReason means that the host cannot be powered off and kept off, or that the control plane has no
	// majority without it whatever becomes of the others, so that the request is kept and nothing is done. False.
	RemediationImpossibleReason = "RemediationImpossible"
	// HostOffReason means that the host is off without a hold of this Machine, so that nothing is
	// done. False.
	HostOffReason = "HostOff"
	// NodeNotBackReason means that the Node was not registered again in time. False.
	NodeNotBackReason = "NodeNotBack"
	// ForeignHoldReason means that somebody else has set MachineRemediationAnnotation on the host,
	// so that nothing is done. False.
	ForeignHoldReason = "ForeignHold"
	// WaitingForHostReason means that the host is not in use, paused or being deleted.
	WaitingForHostReason = "WaitingForHost"
	// WaitingForBudgetReason means that as many hosts of the cluster are being fenced as may be at
	// once.
	WaitingForBudgetReason = "WaitingForBudget"
	// WaitingForControlPlaneReason means that too few other machines of the control plane are
	// ready.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// PoweringOffReason means that the host is held off and not proven to be off yet.
	PoweringOffReason = "PoweringOff"
	// PowerOffNotConfirmedReason means that this has taken too long. The Node stays.
	PowerOffNotConfirmedReason = "PowerOffNotConfirmed"
	// WaitingForNodeDeletionReason means that the Node is being deleted and still has finalizers.
	WaitingForNodeDeletionReason = "WaitingForNodeDeletion"
	// NodeDeletionBlockedReason means that the host is proven to be off for too long, and that its Node
	// cannot be deleted; the message says why. The host stays off.
	NodeDeletionBlockedReason = "NodeDeletionBlocked"
)
