package cli

// The kinds of things beside nodes and their network.
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
			{Flag: "candidate-node", Name: "candidate_nodes", Kind: Repeated, In: InCreate, Help: "`NODE` that may be taken, all by default; may be repeated"},
			{Flag: "node", Name: "node", In: InCreate, Help: "`NODE` that already runs the instance"},
			{Flag: "name", Name: "name", In: InAll, Help: "name, which is the node's host name too"},
			uuidField,
			{Flag: "owner", Name: "owner", In: InCreate, Help: "owner"},
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
			{Flag: "type", Name: "type", Choices: []string{"classic", "dynamic"}, Help: "only drivers of this kind: classic or dynamic"},
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
			{Flag: "name", Name: "name", In: InCreate | InSet, Required: true, Help: "trait of the instances that it applies to, for instance CUSTOM_RAID1"},
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
			{Flag: "name", Name: "name", In: InCreate | InSet, Required: true, Help: "trait of the nodes that may follow it, for instance CUSTOM_WIPE"},
			stepsField,
			{Flag: "owner", Name: "owner", In: InAll, Help: "owner"},
			{Flag: "public", Name: "public", Kind: Bool, In: InAll, Help: "whether everybody may use it"},
			{Flag: "disable-ramdisk", Name: "disable_ramdisk", Kind: Bool, In: InAll, Help: "whether its steps do without the ramdisk"},
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
			{Flag: "type", Name: "type", In: InCreate | InSet, Required: true, Choices: []string{"iqn", "ip", "mac", "wwnn", "wwpn", "port", "portgroup"}, Help: "kind of the address: iqn, ip, mac, wwnn, wwpn, port or portgroup"},
			{Flag: "connector-id", Name: "connector_id", In: InCreate | InSet, Required: true, Help: "the address itself, for instance an iSCSI qualified name"},
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
			{Flag: "type", Name: "volume_type", In: InCreate | InSet, Required: true, Choices: []string{"iscsi", "fibre_channel"}, Help: "kind of the volume: iscsi or fibre_channel"},
			{Flag: "volume-id", Name: "volume_id", In: InCreate | InSet, Required: true, Help: "what the storage calls the volume"},
			{Flag: "boot-index", Name: "boot_index", Kind: Number, In: InCreate | InSet, Required: true, Help: "place in the order of booting; 0 is the root volume"},
			{Flag: "property", Name: "properties", Kind: Map, In: InAll, Help: "`KEY=VALUE` of how to reach it, such as target_iqn; may be repeated"},
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
	Help: "steps: JSON, a `FILE` with JSON or YAML, or - for standard input",
}

var volumeFilters = []Field{
	{Flag: "node", Name: "node", Help: "only those of the `NODE` with this name or UUID"},
}
