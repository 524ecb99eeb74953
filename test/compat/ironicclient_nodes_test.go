//go:build compat

package compat_test

// nodeSteps create, change, show and delete nodes with every option there is.
var nodeSteps = []step{
	{line: "chassis create --uuid {c} --description 'rack 1' --extra room=7 -f value -c description", want: "rack 1"},
	{line: "node create --driver fake-hardware --uuid {a} --name n1 --chassis-uuid {c} --driver-info fake_address=192.0.2.1 " +
		"--driver-info fake_password=hidden --property cpu_arch=x86_64 --property memory_mb=4096 --extra slot=1 --resource-class gold " +
		"--conductor-group east --no-automated-clean -f value -c uuid -c name -c provision_state", want: "n1 enroll {a}"},
	// This client cannot create a node with these properties.
	{line: "node set n1 --owner ann --lessee bob --description 'the first'"},
	{line: "node create --driver fake-hardware --uuid {a} --name other", fails: "HTTP 409"},
	{line: "node create --driver fake-hardware --name n1", fails: "HTTP 409"},
	{line: "node create --driver toaster", fails: "toaster"},
	{line: "node create --driver fake-hardware --name 'two words'", fails: "HTTP 400"},
	{
		line: "node show n1 -f value --fields automated_clean chassis_uuid conductor_group description driver driver_info extra lessee name owner properties resource_class",
		want: "False {c} east the first fake-hardware {'fake_address': '192.0.2.1', 'fake_password': '******'} {'slot': 1} bob n1 ann " +
			"{'cpu_arch': 'x86_64', 'memory_mb': 4096} gold",
	},
	{line: "node show {a} -f value -c name", want: "n1"},
	{line: "node show nobody", fails: "HTTP 404"},
	{
		line: "node create --driver fake-hardware --uuid {b} --name n2 --bios-interface no-bios --boot-interface ipxe --console-interface no-console " +
			"--deploy-interface direct --inspect-interface agent --management-interface noop --network-interface flat --power-interface fake " +
			"--raid-interface no-raid --rescue-interface no-rescue --storage-interface noop --vendor-interface no-vendor --automated-clean " +
			"-f value -c bios_interface -c boot_interface -c console_interface -c deploy_interface -c inspect_interface -c management_interface " +
			"-c network_interface -c power_interface -c raid_interface -c rescue_interface -c storage_interface -c vendor_interface -c automated_clean",
		want: "True no-bios ipxe no-console direct agent noop flat fake no-raid no-rescue noop no-vendor",
	},
	{line: "node set n2 --bios-interface fake --boot-interface fake --console-interface fake --deploy-interface fake --inspect-interface fake " +
		"--management-interface fake --network-interface noop --raid-interface fake --rescue-interface fake --vendor-interface fake"},
	{line: "node show n2 -f value --fields bios_interface boot_interface vendor_interface", want: "fake fake fake"},
	{line: "node set n2 --reset-bios-interface --reset-boot-interface --reset-console-interface --reset-deploy-interface --reset-inspect-interface " +
		"--reset-management-interface --reset-network-interface --reset-power-interface --reset-raid-interface --reset-rescue-interface " +
		"--reset-storage-interface --reset-vendor-interface"},
	{line: "node set n2 --bios-interface idrac", fails: "HTTP 400"},
	{line: "node set n2 --driver ipmi --reset-interfaces --driver-info ipmi_address=192.0.2.2"},
	{line: "node show n2 -f value --fields driver power_interface", want: "ipmi ipmitool"},

	{line: "node set n1 --name n1.example.org --instance-uuid {i} --resource-class silver --conductor-group west --automated-clean --owner carl " +
		"--lessee dora --description 'the second' --property cpus=8 --extra slot=2 --driver-info fake_address=192.0.2.3 --instance-info image_source=http://images/a.img"},
	{
		line: "node show n1.example.org -f value --fields automated_clean conductor_group description driver_info extra instance_info instance_uuid lessee owner properties resource_class",
		want: "True west the second {'fake_address': '192.0.2.3', 'fake_password': '******'} {'slot': 2} {'image_source': 'http://images/a.img'} {i} dora carl " +
			"{'cpu_arch': 'x86_64', 'memory_mb': 4096, 'cpus': 8} silver",
	},
	{line: "node show --instance {i} -f value -c name", want: "n1.example.org"},
	{line: "node set n2 --instance-uuid {i}", fails: "HTTP 409"},
	{line: `node set n1.example.org --target-raid-config '{"logical_disks":[{"size_gb":"MAX","raid_level":"1"}]}'`},
	{line: "node show n1.example.org -f value -c target_raid_config", want: "{'logical_disks': [{'size_gb': 'MAX', 'raid_level': '1'}]}"},
	{line: `node set n1.example.org --network-data '{"links":[],"networks":[],"services":[]}'`},
	{line: "node show n1.example.org -f value -c network_data", want: "{'links': [], 'networks': [], 'services': []}"},
	{line: "node unset n1.example.org --name --instance-uuid --resource-class --target-raid-config --property cpus --property memory_mb --extra slot " +
		"--driver-info fake_address --instance-info image_source --chassis-uuid --conductor-group --automated-clean --owner --lessee --description --network-data"},
	{
		line: "node show {a} -f value --fields automated_clean chassis_uuid conductor_group description driver_info extra instance_info instance_uuid lessee name network_data owner properties resource_class target_raid_config",
		want: "None None None {'fake_password': '******'} {} {} None None None {} None {'cpu_arch': 'x86_64'} None {}",
	},
	{line: "node unset {a} --property cpus", fails: "HTTP 400"},
	{line: "node set {a} --name n1 --inspect-interface agent --network-interface flat"},
	{line: "node unset n1 --bios-interface --boot-interface --console-interface --deploy-interface --inspect-interface --management-interface " +
		"--network-interface --power-interface --raid-interface --rescue-interface --storage-interface --vendor-interface"},
	{line: "node show n1 -f value --fields inspect_interface network_interface", want: "fake noop"},

	{line: "node set n2 --retired --retired-reason 'too old'"},
	{line: "node show n2 -f value --fields retired retired_reason", want: "True too old"},
	{line: "node unset n2 --retired-reason --retired"},
	{line: "node show n2 -f value --fields retired retired_reason", want: "False None"},
	{line: "node set n2 --protected", fails: "HTTP 409"},

	{line: "node maintenance set n1 --reason 'new fans'"},
	{line: "node show n1 -f value --fields maintenance maintenance_reason", want: "True new fans"},
	{line: "node maintenance unset n1"},
	{line: "node show n1 -f value --fields maintenance maintenance_reason", want: "False None"},

	{line: "node add trait n1 CUSTOM_GPU HW_CPU_X86_VMX", want: "Added trait CUSTOM_GPU Added trait HW_CPU_X86_VMX"},
	{line: "node trait list n1 -f value", want: "CUSTOM_GPU HW_CPU_X86_VMX"},
	{line: "node remove trait n1 CUSTOM_GPU", want: "Removed trait CUSTOM_GPU"},
	{line: "node remove trait n1 CUSTOM_GPU", fails: "CUSTOM_GPU"},
	{line: "node add trait n1 lower", fails: "lower"},
	{line: "node remove trait n1 --all"},
	{line: "node trait list n1 -f value"},

	{line: "node delete n1 {b}", want: "Deleted node n1 Deleted node {b}"},
	{line: "node delete n1", fails: "Failed to delete node n1"},
	{line: "node list -f value"},
	{line: "chassis delete {c}", want: "Deleted chassis {c}"},
}

// listSteps list nodes with every filter, order and form of page.
var listSteps = []step{
	{line: "chassis create --uuid {c} -f value -c uuid", want: "{c}"},
	{line: "node create --driver fake-hardware --uuid {f} --name n1 --chassis-uuid {c} --resource-class gold --conductor-group east -f value -c name", want: "n1"},
	{line: "node create --driver ipmi --uuid {e} --name n2 -f value -c name", want: "n2"},
	{line: "node create --driver fake-hardware --uuid {d} --name n3 -f value -c name", want: "n3"},
	{line: "node set n2 --owner ann --description 'Beside the door'"},
	{line: "node set n3 --lessee bob"},
	{line: "node set n1 --instance-uuid {i}"},
	{line: "node maintenance set n2"},
	{line: "node set n3 --retired"},
	{line: "node manage n3 --wait 30", keep: "waited"},

	{line: "node list -f value --sort name", want: "{f} n1 {i} None enroll False {e} n2 None None enroll True {d} n3 None power off manageable False"},
	{line: "node list -f value -c Name --sort uuid:asc", want: "n3 n2 n1"},
	{line: "node list -f value -c Name --sort uuid:desc", want: "n1 n2 n3"},
	{line: "node list -f value -c Name --sort driver --sort name", want: "n1 n2 n3"},
	{line: "node list -f value -c Name --limit 2 --sort name", want: "n1 n2"},
	{line: "node list -f value -c Name --limit 0 --sort name", want: "n1 n2 n3"},
	{line: "node list -f value -c Name --marker {e} --sort name", want: "n3"},
	{line: "node list -f value -c Name --marker {z}", fails: "HTTP 404"},
	{line: "node list -f value -c Name --maintenance", want: "n2"},
	{line: "node list -f value -c Name --no-maintenance --sort name", want: "n1 n3"},
	{line: "node list -f value -c Name --retired", want: "n3"},
	{line: "node list -f value -c Name --no-retired --sort name", want: "n1 n2"},
	{line: "node list -f value -c Name --fault 'power failure'"},
	{line: "node list -f value -c Name --associated", want: "n1"},
	{line: "node list -f value -c Name --unassociated --sort name", want: "n2 n3"},
	{line: "node list -f value -c Name --provision-state manageable", want: "n3"},
	{line: "node list -f value -c Name --driver ipmi", want: "n2"},
	{line: "node list -f value -c Name --resource-class gold", want: "n1"},
	{line: "node list -f value -c Name --conductor-group east", want: "n1"},
	{line: "node list -f value -c Name --conductor nobody"},
	{line: "node unset n1 --conductor-group"},
	{line: "node list -f value -c Name --conductor conductor.example.org --sort name", want: "n1 n2 n3"},
	{line: "node list -f value -c Name --chassis {c}", want: "n1"},
	{line: "node list -f value -c Name --owner ann", want: "n2"},
	{line: "node list -f value -c Name --lessee bob", want: "n3"},
	// This client has a bug here.
	{line: "node list -f value -c Name --description-contains door", fails: "unexpected keyword"},
	{line: "node list -f value -c Name --driver fake-hardware --maintenance"},
	{line: "node list -f value --fields name driver resource_class --sort name", want: "n1 fake-hardware gold n2 ipmi None n3 fake-hardware None"},
	{line: "node list -f value --fields toaster", fails: "toaster"},
	{line: "node list --long -f value -c Driver -c 'Resource Class' --sort name", want: "fake-hardware gold ipmi None fake-hardware None"},
	{line: "node list --long -f value -c Name --limit 1 --sort name", want: "n1"},

	{line: "--os-baremetal-api-version 1.31 node list -f value -c Name --retired", fails: "not supported"},
	{line: "--os-baremetal-api-version 1.1 node show {f} -f value -c driver", want: "fake-hardware"},
	{line: "--os-baremetal-api-version 1.200 node list", fails: "1.200"},

	{line: "driver list -f value -c 'Supported driver(s)'", want: "fake-hardware ipmi manual-management redfish"},
	{line: "driver list --type dynamic -f value", want: "fake-hardware conductor.example.org ipmi conductor.example.org manual-management conductor.example.org redfish conductor.example.org"},
	{line: "driver list --type classic -f value"},
	{
		line: "driver list --long -f value -c 'Supported driver(s)' -c Type -c 'Default Power Interface'",
		want: "fake-hardware dynamic fake ipmi dynamic ipmitool manual-management dynamic agent redfish dynamic redfish",
	},
	{line: "driver list --fields name type -f value", want: "fake-hardware dynamic ipmi dynamic manual-management dynamic redfish dynamic"},
	{
		line: "driver show ipmi -f value -c name -c hosts -c type -c default_power_interface -c enabled_management_interfaces",
		want: "ipmitool ipmitool, noop conductor.example.org ipmi dynamic",
	},
	{line: "driver show toaster", fails: "HTTP 404"},
	{line: "driver property list redfish -f value -c Property", keep: "properties"},
	{line: "driver raid property list fake-hardware -f value -c Property", keep: "disk"},
	{line: "driver passthru list fake-hardware -f value"},
	{line: "driver passthru call fake-hardware nothing", fails: "HTTP 4"},
	{line: "conductor list -f value", want: "conductor.example.org True"},
	{line: "conductor list --long -f value -c Hostname -c Alive -c Drivers", want: "conductor.example.org True ['fake-hardware', 'ipmi', 'redfish', 'manual-management']"},
	{line: "conductor list --limit 1 --sort hostname --fields hostname alive -f value", want: "conductor.example.org True"},
	{line: "conductor list --marker conductor.example.org -f value"},
	{line: "conductor show conductor.example.org -f value -c alive -c conductor_group -c hostname", want: "True conductor.example.org"},
	{line: "conductor show nobody", fails: "HTTP 404"},
}
