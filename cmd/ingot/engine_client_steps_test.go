package main

// The steps of TestEveryClientCommandWorksOnARealEngine, which lead one engine
// through everything that the client can ask for.

const (
	n1UUID   = "11111111-2222-4333-8444-555555555555"
	portUUID = "11111111-2222-4333-8444-666666666666"
)

// nodeSteps create a node and change its fields.
var nodeSteps = []step{
	{args: "node create --driver fake-hardware --name n1 --uuid " + n1UUID + " -o name", out: "n1\n"},
	{args: "node create --driver fake-hardware --name n1", code: 1, says: "A node with name n1 already exists.\n"},
	{args: "node set n1 --property cpu_arch=x86_64 --resource-class large --extra a=1 --shard s1", out: "Updated node n1\n"},
	{args: "node set n1 --network-interface noop --reset-power-interface", out: "Updated node n1\n"},
	{args: "node set n1 --reset-network-interface", out: "Updated node n1\n"},
	{args: "node unset n1 --extra a", out: "Updated node n1\n"},
	{args: "node show n1 --fields properties,extra -o value", out: "{\"cpu_arch\":\"x86_64\"}\n{}\n"},
	{args: "node create --driver fake-hardware --name part --parent-node n1 -o name", out: "part\n"},
	{args: "node child list n1 -o value", out: "…-…\n"},
	{args: "node list --include-children --sort name -o name", out: "{found}\nn1\npart\n"},
	{args: "node list --provision-state enroll --auto-discovered -o name", out: "{found}\n"},
	{args: "node list --provision-state enroll --no-auto-discovered -o name", out: "n1\n"},
	{args: "node list --auto-discovered=false --sort name:desc --limit 1 -o name", out: "n1\n"},
	{args: "shard list -o value", out: "…s1 1\n"},
	{args: "node maintenance set n1 --reason fan", out: "Node n1: in maintenance\n"},
	{args: "node list --maintenance -o name", out: "n1\n"},
	{args: "node maintenance unset n1", out: "Node n1: out of maintenance\n"},
	{args: "explain n1", out: "…enroll…"},
	{args: "create {rack}", out: "Created node rack-1\nCreated port …"},
	{args: "node delete rack-1", out: "Deleted node rack-1\n"},
	{args: "node set n1 --target-raid-config '{\"logical_disks\": []}'", out: "Updated node n1\n"},
}

// inspectionSteps show what a discovered machine reported, and inspect one.
var inspectionSteps = []step{
	{args: "node inventory show {found} --section memory,disks -o value", out: "physical_mb 4 GiB\n/dev/vda 10 GiB None None None None None None None\n"},
	{args: "node inventory show {found}", out: "General\n…eth0…"},
	{args: "node inventory show {found} --section cpu -o yaml", out: "architecture: x86_64\ncount: 4\n"},
	{args: "node inventory save {found} --file {folder}/inventory.json"},
	{args: "node inventory save {found}", out: "{…hostname\": \"found\"…"},
	{args: "node manage n1 --wait=20", says: "n1: manageable\n"},
	{args: "node set n1 --driver-info fake_inspect_wait=1", out: "Updated node n1\n"},
	{args: "node inspect n1 --wait=20", says: "n1: inspect wait\n…n1: manageable\n"},
	{args: "node set n1 --driver-info fake_inspect_wait=3600", out: "Updated node n1\n"},
	{args: "node inspect n1 --wait=1", code: 6, says: "Node n1 is still in \"inspect wait\". The work continues; check it with: ingot node show n1.\n"},
	{args: "node abort n1 --wait=20", says: "n1: inspect failed\n"},
	{args: "node manage n1", out: "Node n1: manage accepted\n"},
}

// stateSteps lead a node through the provision states.
var stateSteps = []step{
	{args: "node wait n1 --state manageable --timeout 20", says: "n1: manageable\n"},
	{args: "node clean n1 --wait=20 --clean-steps '[{\"interface\": \"deploy\", \"step\": \"erase_devices_metadata\"}]'", says: "n1: manageable\n"},
	{args: "node clean n1 --clean-steps {steps}", out: "Node n1: clean accepted\n"},
	{args: "node wait n1 --state 'clean hold' --timeout 20", says: "n1: clean hold\n"},
	{args: "node unhold n1 --wait=20", says: "n1: manageable\n"},
	{args: "node provide n1 --wait=20", says: "n1: available\n"},
	{args: "allocation create --name a1 --resource-class large --wait=20 -o name", out: "a1\n", says: ": active\n"},
	{args: "allocation list --state active -o name", out: "a1\n"},
	{args: "allocation set a1 --extra a=1", out: "Updated allocation a1\n"},
	{args: "allocation unset a1 --extra a", out: "Updated allocation a1\n"},
	{args: "allocation show a1 --fields node_uuid -o value", out: n1UUID + "\n"},
	{args: "allocation delete a1", out: "Deleted allocation a1\n"},
	{args: "node list --provision-state available --resource-class large -o name", out: "n1\n"},
	{args: "node set n1 --instance-info image_source=http://images/a.img --instance-info image_checksum=abc", out: "Updated node n1\n"},
	{args: "node deploy n1 --wait=20 --config-drive '{\"meta_data\": {}}'", says: "n1: active\n"},
	{args: "node set n1 --instance-uuid {found}", out: "Updated node n1\n"},
	{args: "node show --instance {found} --fields name -o value", out: "n1\n"},
	{args: "node rebuild n1 --wait=20", says: "n1: active\n"},
	{args: "node service n1 --wait=20 --service-steps '[{\"interface\": \"deploy\", \"step\": \"burnin_cpu\"}]'", says: "n1: active\n"},
	{args: "node rescue n1 --rescue-password secret --wait=20", says: "n1: rescue\n"},
	{args: "node unrescue n1 --wait=20", says: "n1: active\n"},
	{args: "node set n1 --protected", out: "Updated node n1\n"},
	{args: "node undeploy n1", code: 1, says: "protected…"},
	{args: "node unset n1 --protected", out: "Updated node n1\n"},
	{args: "node undeploy n1 --wait=20", says: "n1: available\n"},
	{args: "node manage n1 --wait=20", says: "n1: manageable\n"},
	{args: "node set n1 --instance-info image_source=http://images/a.img", out: "Updated node n1\n"},
	{args: "node adopt n1 --wait=20", says: "n1: active\n"},
	{args: "node set n1 --driver-info fake_undeploy_error=broken", out: "Updated node n1\n"},
	{args: "node undeploy n1 --wait=20", code: 1, says: "broken…"},
	{args: "node unset n1 --driver-info fake_undeploy_error", out: "Updated node n1\n"},
	{args: "node undeploy n1 --wait=20", says: "n1: available\n"},
	{args: "node manage n1 --wait=20", says: "n1: manageable\n"},
	{args: "node history list n1 -o value", out: "…ERROR…", keep: "event"},
}

// hardwareSteps ask for what the machine behind a node has and does.
var hardwareSteps = []step{
	{args: "node validate n1 -o value", out: "bios True None\n…"},
	{args: "node power on n1 --wait=20", says: "n1: power on\n"},
	{args: "node power reboot n1 --wait=20", says: "n1: power on\n"},
	{args: "node power off n1 --soft --power-timeout 10 --wait=20", says: "n1: power off\n"},
	{args: "node boot device set n1 disk --persistent", out: "Node n1: boot device set\n"},
	{args: "node boot device show n1 -o value", out: "disk\nTrue\n"},
	{args: "node boot device show n1 --supported -o value", out: "pxe\ndisk\n…"},
	{args: "node boot device supported n1 -o value", out: "pxe\ndisk\n…"},
	{args: "node boot mode set n1 bios", out: "Node n1: boot mode accepted\n"},
	{args: "node show n1 --fields boot_mode -o value", until: true, out: "bios\n"},
	{args: "node secure boot on n1", out: "Node n1: secure boot on accepted\n"},
	{args: "node secure boot off n1", out: "Node n1: secure boot off accepted\n"},
	{args: "node inject nmi n1", out: "Node n1: NMI injected\n"},
	{args: "node console enable n1", out: "Node n1: console on accepted\n"},
	{args: "node console show n1 -o value", until: true, out: "True\n…"},
	{args: "node console disable n1", out: "Node n1: console off accepted\n"},
	{args: "node raid set n1 --config '{\"logical_disks\": [{\"size_gb\": \"MAX\", \"raid_level\": \"1\"}]}'", out: "Node n1: target RAID configuration set\n"},
	{args: "node raid show n1 -o value", out: "{}\n{\"logical_disks\":[{\"raid_level\":\"1\",\"size_gb\":\"MAX\"}]}\n"},
	{args: "node bios setting list n1 -o value", out: "BootMode Uefi\n…"},
	{args: "node bios setting list n1 --long -o value", out: "BootMode Uefi Enumeration…"},
	{args: "node bios setting list n1 --fields name,unique -o value", out: "BootMode None\n…"},
	{args: "node bios setting show n1 BootMode -o json", out: "…\"value\": \"Uefi\"…"},
	{args: "node firmware list n1 -o value", out: "bios 1.0.0 1.0.0 None\n…"},
	{args: "node vmedia attach n1 cdrom http://images/a.iso", out: "Node n1: virtual media accepted\n"},
	{args: "node vmedia get n1 -o value", until: true, out: "[\"cdrom\"] True http://images/a.iso\n"},
	{args: "node vmedia detach n1 --device-type cdrom", out: "Node n1: virtual media detached\n"},
	{args: "node passthru list n1 -o value", out: "first_method [\"POST\"] True …"},
	{args: "node passthru call n1 third_method_sync --arg bar=meow", out: "true\n"},
	{args: "node passthru call n1 first_method --arg bar=baz --http-method post", out: "Node n1: first_method accepted\n"},
	{args: "node trait add n1 CUSTOM_A", out: "Node n1: trait added CUSTOM_A\n"},
	{args: "node trait set n1 CUSTOM_A CUSTOM_B", out: "Node n1: traits set\n"},
	{args: "node trait remove n1 CUSTOM_B", out: "Node n1: trait removed CUSTOM_B\n"},
	{args: "node trait list n1 -o value", out: "CUSTOM_A\n"},
	{args: "driver list --type dynamic -o name", out: "…fake-hardware\n…"},
	{args: "driver show fake-hardware --fields name,type -o value", out: "fake-hardware\ndynamic\n"},
	{args: "driver property list fake-hardware -o value", out: "…fake_inspect_wait …"},
	{args: "driver raid property list fake-hardware -o value", out: "…raid_level …"},
	{args: "driver passthru list fake-hardware -o value"},
	{args: "driver passthru call fake-hardware paint", code: 1, says: "no vendor method \"paint\".\n"},
	{args: "conductor list -o name", out: "…\n", keep: "host"},
	{args: "conductor show {host} --fields alive -o value", out: "True\n"},
}

// networkSteps work with ports, port groups and virtual interfaces.
var networkSteps = []step{
	{args: "portgroup create --node n1 --name bond0 -o name", out: "bond0\n"},
	{args: "portgroup set bond0 --address 52:54:00:00:00:0a --mode 802.3ad", out: "Updated portgroup bond0\n"},
	{args: "portgroup show --address 52:54:00:00:00:0A --fields mode -o value", out: "802.3ad\n"},
	{args: "portgroup unset bond0 --address", out: "Updated portgroup bond0\n"},
	{args: "portgroup list --node n1 -o value", out: "…None bond0\n"},
	{args: "port create 52:54:00:00:00:01 --node n1 --uuid " + portUUID + " -o name", out: portUUID + "\n"},
	{args: "port set " + portUUID + " --name p1 --extra a=1", out: "Updated port " + portUUID + "\n"},
	{args: "port unset " + portUUID + " --extra a", out: "Updated port " + portUUID + "\n"},
	{args: "port list --node n1 -o value", out: portUUID + " 52:54:00:00:00:01\n"},
	{args: "port show --address 52:54:00:00:00:01 --fields name -o value", out: "p1\n"},
	{args: "node vif attach n1 vif-1 --vif-info a=b", out: "Node n1: virtual interface attached\n"},
	{args: "node vif list n1 -o value"},
	{args: "node vif detach n1 vif-1", out: "Node n1: virtual interface detached vif-1\n"},
}

// recordSteps are commands about records that nodes refer to by name.
var recordSteps = []step{
	{args: "runbook create CUSTOM_A --owner ops --steps '[{\"interface\": \"deploy\", \"step\": \"erase_pstore\", \"args\": {}, \"order\": 1}]' -o name", out: "CUSTOM_A\n"},
	{args: "node clean n1 --runbook CUSTOM_A --wait=20", says: "n1: manageable\n"},
	{args: "runbook show CUSTOM_A --fields owner -o value", out: "ops\n"},
	{args: "runbook set CUSTOM_A --public", out: "Updated runbook CUSTOM_A\n"},
	{args: "runbook unset CUSTOM_A --public", out: "Updated runbook CUSTOM_A\n"},
	{args: "runbook list -o value", out: "… CUSTOM_A None False\n"},
	{args: "runbook delete CUSTOM_A", out: "Deleted runbook CUSTOM_A\n"},
	{args: "deploy template create CUSTOM_B --steps '[{\"interface\": \"deploy\", \"step\": \"erase_pstore\", \"args\": {}, \"priority\": 5}]' -o name", out: "CUSTOM_B\n"},
	{args: "deploy template set CUSTOM_B --extra a=1", out: "Updated deploy template CUSTOM_B\n"},
	{args: "deploy template unset CUSTOM_B --extra a", out: "Updated deploy template CUSTOM_B\n"},
	{args: "deploy template list -o name", out: "CUSTOM_B\n"},
	{args: "deploy template show CUSTOM_B --fields extra -o value", out: "{}\n"},
	{args: "deploy template delete CUSTOM_B", out: "Deleted deploy template CUSTOM_B\n"},
	{args: "volume connector create --node n1 --type iqn --connector-id iqn.2017-07.org.openstack:01 -o name", out: "…\n", keep: "connector"},
	{args: "volume connector set {connector} --extra a=1", out: "Updated volume connector {connector}\n"},
	{args: "volume connector unset {connector} --extra a", out: "Updated volume connector {connector}\n"},
	{args: "volume connector list --node n1 -o name", out: "{connector}\n"},
	{args: "volume connector show {connector} --fields type -o value", out: "iqn\n"},
	{args: "volume connector delete {connector}", out: "Deleted volume connector {connector}\n"},
	{args: "volume target create --node n1 --type iscsi --volume-id v1 --boot-index 0 -o name", out: "…\n", keep: "target"},
	{args: "volume target set {target} --property target_lun=0", out: "Updated volume target {target}\n"},
	{args: "volume target unset {target} --property target_lun", out: "Updated volume target {target}\n"},
	{args: "volume target list --node n1 -o name", out: "{target}\n"},
	{args: "volume target show {target} --fields boot_index -o value", out: "0\n"},
	{args: "volume target delete {target}", out: "Deleted volume target {target}\n"},
	{args: "chassis create --description rack -o value --uuid 11111111-2222-4333-8444-777777777777", out: "…rack…"},
	{args: "chassis set 11111111-2222-4333-8444-777777777777 --extra a=1", out: "Updated chassis 11111111-2222-4333-8444-777777777777\n"},
	{args: "chassis unset 11111111-2222-4333-8444-777777777777 --description", out: "Updated chassis 11111111-2222-4333-8444-777777777777\n"},
	{args: "chassis list -o value", out: "11111111-2222-4333-8444-777777777777 None\n"},
	{args: "chassis show 11111111-2222-4333-8444-777777777777 --fields extra -o value", out: "{\"a\":1}\n"},
	{args: "chassis delete 11111111-2222-4333-8444-777777777777", out: "Deleted chassis 11111111-2222-4333-8444-777777777777\n"},
}

// otherNameSteps use the names that commands have in other clients.
var otherNameSteps = []step{
	{args: "node add trait n1 CUSTOM_C", out: "Node n1: trait added CUSTOM_C\n"},
	{args: "node remove trait n1 --all", out: "Node n1: trait removed\n"},
	{args: "node children list n1 -o value", out: "…\n"},
	{args: "node reboot n1 --wait=20", says: "n1: power on\n"},
	{args: "driver properties ipmi -o value", out: "…ipmi_address …"},
	{args: "port group create --node n1 --name bond1 -o name", out: "bond1\n"},
	{args: "port group set bond1 --extra a=1", out: "Updated portgroup bond1\n"},
	{args: "port group unset bond1 --extra a", out: "Updated portgroup bond1\n"},
	{args: "port group show bond1 --fields extra -o value", out: "{}\n"},
	{args: "port group list -o value", out: "…bond0\n…bond1\n"},
	{args: "port group delete bond1", out: "Deleted portgroup bond1\n"},
}

// suspensionSteps meet an engine that has suspended nothing.
var suspensionSteps = []step{
	{args: "suspension show -o value", out: "False\nNone\nNone\nNone\n0\n0\n…"},
	{args: "suspension list -o value"},
	{args: "suspension resume --all", out: "All suspended work goes on, and power states are restored again\n"},
	{args: "suspension resume n1", code: 4, says: "has no suspended work.\n"},
	{args: "suspension resume", code: 2, says: "Name nodes, or give --all for all that are left. See --help.\n"},
	{args: "suspension drop", code: 2, says: "Name the nodes whose suspended work is meant. See --help.\n"},
	{args: "suspension resume n1 --all", code: 2, says: "Name nodes or give --all, not both. See --help.\n"},
	{args: "suspension drop n1", code: 4, says: "has no suspended work.\n"},
}

// endSteps show what was done and remove everything.
var endSteps = []step{
	{args: "node history list n1 --long -o value", out: "…undeploy…"},
	{args: "node history list n1 -o json", out: "[…"},
	{args: "node history show n1 {event} -o value", out: "…"},
	{args: "node history get n1 {event} -o json", out: "{…"},
	{args: "port delete " + portUUID, out: "Deleted port " + portUUID + "\n"},
	{args: "portgroup delete bond0", out: "Deleted portgroup bond0\n"},
	{args: "node delete part n1 {found}", out: "Deleted node part\nDeleted node n1\nDeleted node {found}\n"},
	{args: "node list -o name"},
}
