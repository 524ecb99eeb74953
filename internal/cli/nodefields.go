package cli

// nodeFields are the fields of a node that flags change.
var nodeFields = append([]Field{
	{Flag: "driver", Name: "driver", In: InCreate | InSet, Required: true, Help: "hardware type; ingot driver list shows them"},
	{Flag: "name", Name: "name", In: InAll, Help: "name of the node"},
	uuidField,
	{Flag: "driver-info", Name: "driver_info", Kind: Map, In: InAll, Help: "driver setting `KEY=VALUE`, such as the BMC's address; may be repeated"},
	{Flag: "property", Name: "properties", Kind: Map, In: InAll, Help: "hardware property `KEY=VALUE`, such as cpu_arch=x86_64; may be repeated"},
	{Flag: "instance-info", Name: "instance_info", Kind: Map, In: InAll, Help: "deployment setting `KEY=VALUE`, such as image_source; may be repeated"},
	extraField,
	{Flag: "resource-class", Name: "resource_class", In: InAll, Help: "resource class, which allocations select nodes by"},
	{Flag: "description", Name: "description", In: InAll, Help: "description for people"},
	{Flag: "owner", Name: "owner", In: InAll, Help: "project that owns the node"},
	{Flag: "lessee", Name: "lessee", In: InAll, Help: "project that leases the node"},
	{Flag: "instance-uuid", Name: "instance_uuid", In: InSet | InUnset, Help: "`UUID` of the instance on the node"},
	{Flag: "instance-name", Name: "instance_name", In: InAll, Help: "name of the instance on the node"},
	{Flag: "chassis-uuid", Name: "chassis_uuid", In: InAll, Help: "`UUID` of the chassis that the node is in"},
	{Flag: "conductor-group", Name: "conductor_group", In: InAll, Help: "group of conductors that manage the node"},
	{Flag: "parent-node", Name: "parent_node", Kind: NodeID, In: InAll, Help: "name or UUID of the `NODE` that the node is a part of"},
	{Flag: "shard", Name: "shard", In: InAll, Help: "shard of the node"},
	{Flag: "network-data", Name: "network_data", Kind: JSON, In: InAll, Help: "network configuration of the ramdisk as JSON, a `FILE`, or - for standard input"},
	{Flag: "automated-clean", Name: "automated_clean", Kind: Bool, Off: "no-automated-clean", In: InAll, Help: "clean the node before it becomes available"},
	{Flag: "protected", Name: "protected", Kind: Bool, In: InSet | InUnset, Help: "protect the node from undeploy, rebuild and delete"},
	{Flag: "protected-reason", Name: "protected_reason", In: InSet | InUnset, Help: "reason why the node is protected"},
	{Flag: "retired", Name: "retired", Kind: Bool, In: InSet | InUnset, Help: "mark the node as retired"},
	{Flag: "retired-reason", Name: "retired_reason", In: InSet | InUnset, Help: "reason why the node is retired"},
	{
		Flag: "target-raid-config", Name: "target_raid_config", Kind: JSON, Put: "states/raid", In: InSet | InUnset,
		Help: "RAID configuration for the next cleaning as JSON, a `FILE` with JSON or YAML, or - for standard input",
	},
	{Flag: "disable-power-off", Name: "disable_power_off", Kind: Bool, Off: "enable-power-off", In: InAll, Help: "never power the node off"},
}, interfaceFields()...)

// interfaceFields are the hardware interfaces of a node.
func interfaceFields() []Field {
	var fields []Field
	for _, name := range []string{
		"bios", "boot", "console", "deploy", "firmware", "inspect", "management", "network", "power", "raid",
		"rescue", "storage", "vendor",
	} {
		fields = append(fields, Field{
			Flag: name + "-interface", Name: name + "_interface", In: InAll,
			Help: name + " interface to use",
		}, Field{
			Flag: "reset-" + name + "-interface", Name: name + "_interface", Kind: Default, In: InSet,
			Help: "use the default " + name + " interface of the driver",
		})
	}
	return fields
}

// nodeFilters limit a list of nodes.
var nodeFilters = []Field{
	{Flag: "auto-discovered", Name: "auto_discovered", Kind: Bool, Off: "no-auto-discovered", Help: "only nodes that auto-discovery enrolled"},
	{Flag: "provision-state", Name: "provision_state", Choices: States(), Help: "only nodes in this state, for instance \"clean wait\""},
	{Flag: "driver", Name: "driver", Help: "only nodes of this hardware type"},
	{Flag: "maintenance", Name: "maintenance", Kind: Bool, Off: "no-maintenance", Help: "only nodes in maintenance"},
	{Flag: "associated", Name: "associated", Kind: Bool, Off: "unassociated", Help: "only nodes with an instance"},
	{Flag: "retired", Name: "retired", Kind: Bool, Off: "no-retired", Help: "only retired nodes"},
	{Flag: "fault", Name: "fault", Choices: []string{"power failure", "clean failure", "rescue abort failure", "service failure"}, Help: "only nodes with this fault"},
	{Flag: "resource-class", Name: "resource_class", Help: "only nodes of this resource class"},
	{Flag: "conductor-group", Name: "conductor_group", Help: "only nodes of this conductor group"},
	{Flag: "conductor", Name: "conductor", Help: "only nodes that this conductor manages"},
	{Flag: "chassis", Name: "chassis_uuid", Help: "only nodes of the chassis with this `UUID`"},
	{Flag: "owner", Name: "owner", Help: "only nodes of this owner"},
	{Flag: "lessee", Name: "lessee", Help: "only nodes of this lessee"},
	{Flag: "project", Name: "project", Help: "only nodes that this project owns or leases"},
	{Flag: "shard", Name: "shard", Help: "only nodes of these shards, separated by commas"},
	{Flag: "sharded", Name: "sharded", Kind: Bool, Off: "unsharded", Help: "only nodes that are in a shard"},
	{Flag: "health", Name: "health", Choices: []string{"OK", "Warning", "Critical"}, Help: "only nodes of this health: OK, Warning or Critical"},
	{Flag: "instance-name", Name: "instance_name", Help: "only nodes with an instance of this name"},
	{Flag: "instance-uuid", Name: "instance_uuid", Help: "only the node with this instance"},
	{Flag: "parent-node", Name: "parent_node", Help: "only children of the node with this `UUID`"},
	{Flag: "include-children", Name: "include_children", Kind: Bool, Help: "also list child nodes"},
	{Flag: "description-contains", Name: "description_contains", Help: "only nodes whose description contains this text"},
}
