package v1alpha1

// Condition types of a BareMetalHostDiscovery.
const (
	// ReadyCondition is true when the engine is reachable, the name template
	// is usable, no older resource takes the nodes and hosts can be created.
	ReadyCondition = "Ready"
	// EngineReachableCondition reports whether the last poll reached the engine.
	EngineReachableCondition = "EngineReachable"
	// NameTemplateUsableCondition reports whether the template produces valid names.
	NameTemplateUsableCondition = "NameTemplateUsable"
	// ConflictCondition is true when an older resource takes the nodes.
	ConflictCondition = "Conflict"
)

// Condition reasons.
const (
	// PollingReason means that discovery works.
	PollingReason = "Polling"
	// CreateFailedReason means that the API server did not create hosts, which may be
	// temporary.
	CreateFailedReason = "CreateFailed"
	// SuspendedReason means that spec.suspend is set.
	SuspendedReason = "Suspended"
	// EngineReachedReason means that the last poll reached the engine.
	EngineReachedReason = "EngineReached"
	// EngineUnreachableReason means that the last poll got no usable answer.
	EngineUnreachableReason = "EngineUnreachable"
	// NotPolledReason means that there was no poll yet.
	NotPolledReason = "NotPolled"
	// TemplateUsableReason means that the template produces valid names.
	TemplateUsableReason = "TemplateUsable"
	// TemplateUnusableReason means that the template produces no valid name.
	TemplateUnusableReason = "TemplateUnusable"
	// NoConflictReason means that no older resource takes the nodes.
	NoConflictReason = "NoConflict"
	// OlderResourceReason means that an older resource takes the nodes.
	OlderResourceReason = "OlderResource"
)

// SkipReason says why a node did not become a host. It is evaluated on each
// poll, so that a fix takes effect.
// +kubebuilder:validation:Enum=MissingDetail;MissingMAC;NoInventory;DuplicateMAC;NameConflict;NameInvalid;Ignored;Tombstone;LimitReached;CreateForbidden;NodeBusy
type SkipReason string

// Skip reasons.
const (
	// SkipMissingDetail means that the machine does not report the detail
	// that the template uses, and that the template allows no fallback.
	SkipMissingDetail SkipReason = "MissingDetail"
	// SkipMissingMAC means that the machine reports no usable MAC address.
	SkipMissingMAC SkipReason = "MissingMAC"
	// SkipNoInventory means that inspection left no inventory yet, or one that
	// cannot be read.
	SkipNoInventory SkipReason = "NoInventory"
	// SkipDuplicateMAC means that another node has one of the machine's MAC
	// addresses: an older one that becomes a host, or one with a host.
	SkipDuplicateMAC SkipReason = "DuplicateMAC"
	// SkipNameConflict means that all names tried belong to other machines.
	SkipNameConflict SkipReason = "NameConflict"
	// SkipNameInvalid means that the resulting name is not valid.
	SkipNameInvalid SkipReason = "NameInvalid"
	// SkipIgnored means that spec.ignoredMACAddresses lists the machine.
	SkipIgnored SkipReason = "Ignored"
	// SkipTombstone means that a host with this MAC address was deleted and
	// spec.rediscovery is deny.
	SkipTombstone SkipReason = "Tombstone"
	// SkipLimitReached means that spec.maxHosts hosts exist.
	SkipLimitReached SkipReason = "LimitReached"
	// SkipCreateForbidden means that the API server refused the host.
	SkipCreateForbidden SkipReason = "CreateForbidden"
	// SkipNodeBusy means that the engine is still inspecting the node.
	SkipNodeBusy SkipReason = "NodeBusy"
)
