package inventory

// Limits of the typed view, far above real machines. Without them, a malicious body of many tiny
// objects would take gigabytes of memory.
const (
	maxDisks = 16384
	maxFlags = 4096
)

// inventory reads the inventory object. A repeated key replaces the earlier value.
func (r *reader) inventory(inv *Inventory) error {
	*inv = Inventory{}
	return r.object(func(key string) error {
		switch key {
		case "interfaces":
			return r.interfaces(&inv.Interfaces)
		case "cpu":
			return r.cpu(&inv.CPU)
		case "memory":
			return r.memory(&inv.Memory)
		case "disks":
			return r.disks(&inv.Disks)
		case "bmc_address":
			return r.textInto(&inv.BMCAddress)
		case "bmc_v6address":
			return r.textInto(&inv.BMCV6Address)
		case "bmc_mac":
			return r.textInto(&inv.BMCMAC)
		case "system_vendor":
			return r.systemVendor(&inv.SystemVendor)
		case "boot":
			return r.boot(&inv.Boot)
		case "hostname":
			return r.textInto(&inv.Hostname)
		default:
			return r.skip()
		}
	})
}

func (r *reader) cpu(dst *CPU) error {
	*dst = CPU{}
	if r.null() {
		return nil
	}
	return r.object(func(key string) error {
		switch key {
		case "model_name":
			return r.textInto(&dst.ModelName)
		case "frequency":
			return r.numeralInto(&dst.Frequency)
		case "count":
			return r.intInto(&dst.Count)
		case "architecture":
			return r.textInto(&dst.Architecture)
		case "flags":
			return r.flags(&dst.Flags)
		case "socket_count":
			return r.intInto(&dst.SocketCount)
		default:
			return r.skip()
		}
	})
}

func (r *reader) flags(dst *[]string) error {
	*dst = nil
	if r.null() {
		return nil
	}
	*dst = make([]string, 0, 160)
	return r.list(func(index int) error {
		if index == maxFlags {
			return errorf("more than %d flags", maxFlags)
		}
		var flag string
		if err := r.textInto(&flag); err != nil {
			return err
		}
		*dst = append(*dst, flag)
		return nil
	})
}

func (r *reader) memory(dst *Memory) error {
	*dst = Memory{}
	if r.null() {
		return nil
	}
	return r.object(func(key string) error {
		switch key {
		case "total":
			return r.intInto(&dst.Total)
		case "physical_mb":
			return r.intInto(&dst.PhysicalMB)
		default:
			return r.skip()
		}
	})
}

func (r *reader) disks(dst *[]Disk) error {
	*dst = nil
	if r.null() {
		return nil
	}
	return r.list(func(index int) error {
		if index == maxDisks {
			return errorf("more than %d disks", maxDisks)
		}
		*dst = append(*dst, Disk{})
		return r.disk(&(*dst)[index])
	})
}

func (r *reader) disk(dst *Disk) error {
	start := r.pos
	err := r.object(func(key string) error {
		switch key {
		case "name":
			return r.textInto(&dst.Name)
		case "model":
			return r.textInto(&dst.Model)
		case "size":
			return r.intInto(&dst.Size)
		case "rotational":
			return r.boolInto(&dst.Rotational)
		case "wwn":
			return r.textInto(&dst.WWN)
		case "serial":
			return r.textInto(&dst.Serial)
		case "vendor":
			return r.textInto(&dst.Vendor)
		case "wwn_with_extension":
			return r.textInto(&dst.WWNWithExtension)
		case "wwn_vendor_extension":
			return r.textInto(&dst.WWNVendorExtension)
		case "hctl":
			return r.textInto(&dst.HCTL)
		case "by_path":
			return r.textInto(&dst.ByPath)
		case "logical_sectors":
			return r.intInto(&dst.LogicalSectors)
		case "physical_sectors":
			return r.intInto(&dst.PhysicalSectors)
		case "tran":
			return r.textInto(&dst.Transport)
		default:
			return r.skip()
		}
	})
	dst.Raw = r.since(start)
	return err
}

func (r *reader) systemVendor(dst *SystemVendor) error {
	*dst = SystemVendor{}
	if r.null() {
		return nil
	}
	return r.object(func(key string) error {
		switch key {
		case "product_name":
			return r.textInto(&dst.ProductName)
		case "serial_number":
			return r.textInto(&dst.SerialNumber)
		case "manufacturer":
			return r.textInto(&dst.Manufacturer)
		case "system_uuid":
			return r.textInto(&dst.UUID)
		case "firmware":
			return r.firmware(&dst.Firmware)
		default:
			return r.skip()
		}
	})
}

func (r *reader) firmware(dst *Firmware) error {
	*dst = Firmware{}
	if r.null() {
		return nil
	}
	return r.object(func(key string) error {
		switch key {
		case "vendor":
			return r.textInto(&dst.Vendor)
		case "version":
			return r.textInto(&dst.Version)
		case "build_date":
			return r.textInto(&dst.BuildDate)
		default:
			return r.skip()
		}
	})
}

func (r *reader) boot(dst *Boot) error {
	*dst = Boot{}
	if r.null() {
		return nil
	}
	return r.object(func(key string) error {
		switch key {
		case "current_boot_mode":
			return r.textInto(&dst.CurrentBootMode)
		case "pxe_interface":
			return r.textInto(&dst.PXEInterface)
		default:
			return r.skip()
		}
	})
}
