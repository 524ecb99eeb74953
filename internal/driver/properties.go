package driver

// commonProperties are the driver_info keys that every hardware type reads.
var commonProperties = map[string]string{
	"bootloader":                   "URL of the image of an EFI system partition with GRUB, for booting from virtual media. Optional when the configuration has one.",
	"deploy_kernel":                "URL of the kernel of the ramdisk. Optional when the configuration has one.",
	"deploy_ramdisk":               "URL of the ramdisk's initial file system. Optional when the configuration has one.",
	"kernel_append_params":         "Kernel parameters of the ramdisk; %default% stands for those of the configuration. Optional.",
	"fast_track":                   "Whether a ramdisk that already runs is used without a reboot: true or false. Optional.",
	"agent_verify_ca":              "Path of the CA of agents that send no certificate of their own, or false to trust any. Optional.",
	"force_persistent_boot_device": "Default, Always or Never. Optional.",
}

// typeProperties are the driver_info keys of single hardware types, besides those that
// their implementations describe, see Describer.
var typeProperties = map[string]map[string]string{
	"redfish": {
		"redfish_address":   "Address of the BMC: a host or a URL; https when no scheme is given. Required.",
		"redfish_system_id": "Path of the system, such as /redfish/v1/Systems/1. Optional when the BMC has exactly one.",
		"redfish_username":  "User name on the BMC. Optional.",
		"redfish_password":  "Password on the BMC. Optional.",
		"redfish_verify_ca": "Whether the BMC's certificate is checked: true, false or the path of a CA. The default is true.",
		"redfish_auth_type": "basic, session or auto. The default is auto.",
		"deploy_iso":        "URL of an ISO image of the ramdisk, for virtual media. Optional.",
	},
	"ipmi": {
		"ipmi_address":          "Address of the BMC. Required.",
		"ipmi_username":         "User name on the BMC. Optional.",
		"ipmi_password":         "Password on the BMC. Optional.",
		"ipmi_port":             "UDP port of the BMC. The default is 623.",
		"ipmi_priv_level":       "ADMINISTRATOR, OPERATOR or USER. The default is ADMINISTRATOR.",
		"ipmi_protocol_version": "2.0, which is also the default; 1.5 is refused.",
		"ipmi_cipher_suite":     "Number of the cipher suite, 17 or 3. The default is the best that the BMC has.",
	},
}

// logicalDiskProperties describes every key of a logical disk.
var logicalDiskProperties = map[string]string{
	"size_gb":                  "Size in GiB, or MAX for all available space. Required.",
	"raid_level":               "RAID level: 0, 1, 2, 5, 6, 1+0, 5+0, 6+0 or JBOD. Required.",
	"is_root_volume":           "Whether the system is deployed to this disk; true for one disk at most.",
	"volume_name":              "Name of the volume. Optional.",
	"disk_type":                "hdd or ssd. Optional.",
	"interface_type":           "sata, scsi or sas. Optional.",
	"controller":               "The controller that builds the disk; software for RAID by the operating system. Optional.",
	"number_of_physical_disks": "How many physical disks are used. Optional.",
	"physical_disks":           "List of the physical disks to use, by name or by hints. Optional.",
	"share_physical_disks":     "Whether other logical disks may use the same physical disks. The default is false.",
}
