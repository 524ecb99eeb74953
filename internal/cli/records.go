package cli

// The resources other than nodes, ports and chassis.
var (
	Allocations = Resource{
		Name: "allocation", Collection: "allocations", Paged: true,
		Short: []string{"uuid", "name", "resource_class", "state", "node_uuid"},
		Long: []string{
			"uuid", "name", "state", "node_uuid", "last_error", "resource_class", "traits", "candidate_nodes",
			"extra", "owner", "created_at", "updated_at",
		},
		Fields: []Field{
			{Flag: "resource-class", Name: "resource_class", In: InCreate, Help: "resource class that the node must have"},
			{Flag: "trait", Name: "traits", Kind: Repeated, In: InCreate, Help: "`TRAIT` that the node must have; may be repeated"},
			{Flag: "candidate-node", Name: "candidate_nodes", Kind: Repeated, In: InCreate, Help: "candidate `NODE`; may be repeated; every node by default"},
			{Flag: "node", Name: "node", In: InCreate, Help: "`NODE` that already runs the instance"},
			{Flag: "name", Name: "name", In: InAll, Help: "name of the allocation, which becomes the host name of the instance"},
			uuidField,
			{Flag: "owner", Name: "owner", In: InCreate, Help: "project that owns the allocation"},
			extraField,
		},
		Filters: []Field{
			{Flag: "node", Name: "node", Help: "only the allocation of the `NODE` with this name or UUID"},
			{Flag: "resource-class", Name: "resource_class", Help: "only allocations of this resource class"},
			{Flag: "state", Name: "state", Choices: []string{"allocating", "active", "error"}, Help: "only allocations in this state: allocating, active or error"},
			{Flag: "owner", Name: "owner", Help: "only allocations of this owner"},
		},
	}
	Drivers = Resource{
		Name: "driver", Collection: "drivers", ID: "name",
		Short: []string{"name", "hosts"},
		Long:  []string{"name", "hosts", "type"},
		Filters: []Field{
			{Flag: "type", Name: "type", Choices: []string{"classic", "dynamic"}, Help: "only drivers of this type: classic or dynamic"},
		},
	}
	Conductors = Resource{
		Name: "conductor", Collection: "conductors", ID: "hostname", Paged: true,
		Short: []string{"hostname", "conductor_group", "alive"},
		Long:  []string{"hostname", "conductor_group", "alive", "drivers", "created_at", "updated_at"},
	}
	DeployTemplates = Resource{
		Name: "deploy template", Collection: "deploy_templates", Plural: "deploy templates", Paged: true, CreateArg: "name",
		Short: []string{"uuid", "name"},
		Long:  []string{"uuid", "name", "steps", "extra", "created_at", "updated_at"},
		Fields: []Field{
			{Flag: "name", Name: "name", In: InCreate | InSet, Required: true, Help: "name: the trait of instances that the template applies to, for instance CUSTOM_RAID1"},
			stepsField,
			uuidField,
			extraField,
		},
	}
	Runbooks = Resource{
		Name: "runbook", Collection: "runbooks", Paged: true, CreateArg: "name",
		Short: []string{"uuid", "name", "owner", "public"},
		Long:  []string{"uuid", "name", "owner", "public", "disable_ramdisk", "steps", "extra", "created_at", "updated_at"},
		Fields: []Field{
			{Flag: "name", Name: "name", In: InCreate | InSet, Required: true, Help: "name: the trait of nodes that may use the runbook, for instance CUSTOM_WIPE"},
			stepsField,
			{Flag: "owner", Name: "owner", In: InAll, Help: "project that owns the runbook"},
			{Flag: "public", Name: "public", Kind: Bool, In: InAll, Help: "whether every project may use the runbook"},
			{Flag: "disable-ramdisk", Name: "disable_ramdisk", Kind: Bool, In: InAll, Help: "do not boot the ramdisk; no step may need it"},
			uuidField,
			extraField,
		},
		Filters: []Field{
			{Flag: "project", Name: "project", Help: "only runbooks of this project, and public ones"},
		},
	}
	VolumeConnectors = Resource{
		Name: "volume connector", Collection: "volume/connectors", Plural: "volume connectors", Paged: true,
		Short: []string{"uuid", "node_uuid", "type", "connector_id"},
		Long:  []string{"uuid", "node_uuid", "type", "connector_id", "extra", "created_at", "updated_at"},
		Fields: []Field{
			ownerField,
			{Flag: "type", Name: "type", In: InCreate | InSet, Required: true, Choices: []string{"iqn", "ip", "mac", "wwnn", "wwpn", "port", "portgroup"}, Help: "connector type: iqn, ip, mac, wwnn, wwpn, port or portgroup"},
			{Flag: "connector-id", Name: "connector_id", In: InCreate | InSet, Required: true, Help: "connector address, for instance an iSCSI qualified name"},
			uuidField,
			extraField,
		},
		Filters: volumeFilters,
	}
	VolumeTargets = Resource{
		Name: "volume target", Collection: "volume/targets", Plural: "volume targets", Paged: true,
		Short: []string{"uuid", "node_uuid", "volume_type", "boot_index", "volume_id"},
		Long:  []string{"uuid", "node_uuid", "volume_type", "boot_index", "volume_id", "properties", "extra", "created_at", "updated_at"},
		Fields: []Field{
			ownerField,
			{Flag: "type", Name: "volume_type", In: InCreate | InSet, Required: true, Choices: []string{"iscsi", "fibre_channel"}, Help: "volume type: iscsi or fibre_channel"},
			{Flag: "volume-id", Name: "volume_id", In: InCreate | InSet, Required: true, Help: "ID of the volume in the storage system"},
			{Flag: "boot-index", Name: "boot_index", Kind: Number, In: InCreate | InSet, Required: true, Help: "boot order of the volume; 0 is the root volume"},
			{Flag: "property", Name: "properties", Kind: Map, In: InAll, Help: "connection property `KEY=VALUE`, such as target_iqn; may be repeated"},
			uuidField,
			extraField,
		},
		Filters: volumeFilters,
	}
	Shards = Resource{
		Name: "shard", Collection: "shards", ID: "name", Whole: true,
		Short: []string{"name", "count"},
		Long:  []string{"name", "count"},
	}
)

var stepsField = Field{
	Flag: "steps", Name: "steps", Kind: JSON, In: InCreate | InSet, Required: true,
	Help: "steps as JSON, a `FILE` with JSON or YAML, or - for standard input",
}

var volumeFilters = []Field{
	{Flag: "node", Name: "node", Help: "only volumes of the `NODE` with this name or UUID"},
}
