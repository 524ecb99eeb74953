//go:build compat

package compat_test

// lifeSteps lead nodes through every provision state that a client can ask for.
var lifeSteps = []step{
	{line: "node create --driver fake-hardware --uuid {a} --name n1 --resource-class gold -f value -c provision_state", want: "enroll"},
	{line: "node provide n1", fails: "HTTP 400"},
	{line: "node manage n1 --wait 60", keep: "waited"},
	{line: "node show n1 -f value --fields power_state provision_state", want: "power off manageable"},
	{line: "node inspect n1 --wait 60", keep: "waited"},
	{line: `node clean n1 --wait 60 --clean-steps '[{"interface":"deploy","step":"erase_devices_metadata"}]'`, keep: "waited"},
	{line: `node clean n1 --wait 60 --clean-steps '[{"interface":"deploy","step":"paint"}]'`, fails: "clean failed"},
	{line: "node show n1 -f value --fields maintenance provision_state", want: "False clean failed"},
	{line: "node manage n1 --wait 60", keep: "waited"},
	{line: "node provide n1 --wait 60", keep: "waited"},
	{line: "node list --provision-state available -f value -c Name", want: "n1"},
	{line: "node set n1 --instance-info image_source=http://images/a.img --instance-info image_checksum=abc"},
	{line: "node deploy n1 --wait 60 --config-drive '{\"meta_data\":{}}'", keep: "waited"},
	{line: "node show n1 -f value --fields provision_state target_provision_state", want: "active None"},
	{line: "node delete n1", fails: "Failed to delete node n1"},
	{line: "node set n1 --protected --protected-reason customer"},
	{line: "node undeploy n1", fails: "protected"},
	{line: "node unset n1 --protected"},
	{line: "node rebuild n1 --wait 60", keep: "waited"},
	{line: "node rescue n1 --wait 60 --rescue-password secret", keep: "waited"},
	{line: "node unrescue n1 --wait 60", keep: "waited"},
	{line: "node reboot n1"},
	{line: "node undeploy n1 --wait 60", keep: "waited"},
	{line: "node show n1 -f value --fields instance_info instance_uuid provision_state", want: "{} None available"},
	{line: "node abort n1", fails: "HTTP 400"},
	{line: "node delete n1", want: "Deleted node n1"},

	{line: "node create --driver fake-hardware --uuid {b} --name n2 -f value -c name", want: "n2"},
	{line: "node manage n2 --wait 60", keep: "waited"},
	{line: "node set n2 --instance-info image_source=http://images/a.img"},
	{line: "node adopt n2 --wait 60", keep: "waited"},
	{line: "node show n2 -f value -c provision_state", want: "active"},
}

// hardwareSteps ask for what the machine behind a node has and does.
var hardwareSteps = []step{
	{line: "node create --driver fake-hardware --uuid {a} --name n1 -f value -c name", want: "n1"},
	{line: "node power on n1"},
	{line: "node power on nobody", fails: "HTTP 404"},
	{line: "node manage n1 --wait 60", keep: "waited"},
	{line: "node show n1 -f value -c power_state", want: "power on"},
	{
		line: "node validate n1 -f value -c Interface -c Result",
		want: "bios True boot True console True deploy True firmware True inspect True management True network True power True raid True rescue True storage True",
	},
	{line: "node boot device show n1 --supported -f value", keep: "devices"},
	{line: "node boot device set n1 pxe --persistent"},
	{line: "node boot device show n1 -f value", want: "pxe True"},
	{line: "node boot device set n1 toaster", fails: "toaster"},
	{line: "node boot mode set n1 bios"},
	{line: "node secure boot on n1"},
	{line: "node bios setting list n1 -f value -c 'BIOS setting name'", want: "BootMode ProcVirtualization PowerOnDelay"},
	{line: "node bios setting list n1 --long -f value -c Name -c 'Read Only'", want: "BootMode False ProcVirtualization False PowerOnDelay False"},
	{line: "node bios setting list n1 --fields name value -f value", want: "BootMode Uefi ProcVirtualization Enabled PowerOnDelay 0"},
	{line: "node bios setting show n1 BootMode -f value -c name -c value", want: "BootMode Uefi"},
	{line: "node bios setting show n1 Toast", fails: "HTTP 404"},
	{line: "node console show n1 -f value", want: "False None"},
	{line: "node console enable n1"},
	{line: "node console disable n1"},
	{line: "node inject nmi n1"},
	{line: "node passthru list n1 -f value", keep: "methods"},
	{line: "node passthru call n1 nothing", fails: "nothing"},
	{line: "node power off n1 --power-timeout 30"},
	{line: "node reboot n1 --soft --power-timeout 30"},
	{line: "node power off n1 --soft"},
	{line: "node history list n1 -f value"},

	{line: "node create --driver fake-hardware --name n2 --driver-info fake_verify_error=unplugged -f value -c name", want: "n2"},
	{line: "node manage n2 --wait 60", fails: "unexpected stable state enroll"},
	{line: "node show n2 -f value --fields fault provision_state", want: "None enroll"},
	{line: "node history list n2 -f value -c UUID", keep: "event"},
	{line: "node history list n2 --long", fails: "HTTP 404"}, // this client asks for /history/detail, which is not a path of the API
	{line: "node history get n2 {event} -f value -c event -c event_type", keep: "text"},
	{line: "node history get n2 {z}", fails: "HTTP 404"},

	{line: "node create --driver ipmi --uuid {b} --name n3 -f value -c name", want: "n3"},
	{line: "node validate n3 -f value -c Result", keep: "results"},
}
