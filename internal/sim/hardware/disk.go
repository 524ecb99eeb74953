package hardware

import (
	"fmt"
	"strconv"
	"strings"
)

// bus is the bus of a disk. It decides the disk's names in the kernel.
type bus int

const (
	busSATA bus = iota
	busSAS
	busRAID // a virtual disk of a RAID controller
	busNVMe
	busVirtio
	busMMC
)

// diskModel is a model of disk. Sizes are those of real products, in bytes.
type diskModel struct {
	bus        bus
	vendor     string // as the kernel reports it; empty for none
	model      string
	size       int64
	rotational bool
	wwn        string // first digits of the world wide name, empty for none
	serial     string // pattern, see func serial; empty for none
}

var (
	seagateHDD4T   = diskModel{busSATA, "ATA", "ST4000NM0115-1YZ107", 4000787030016, true, "0x5000c500", "Z*******"}
	seagateHDD12T  = diskModel{busSAS, "SEAGATE", "ST12000NM002G", 12000138625024, true, "0x5000c500", "ZL******"}
	toshibaSAS600  = diskModel{busSAS, "TOSHIBA", "AL15SEB060NY", 600127266816, true, "0x50000399", "Z0######F#F#"}
	intelSSD480    = diskModel{busSATA, "ATA", "INTEL SSDSC2KB480G8", 480103981056, false, "0x55cd2e41", "PHYF########480BGN"}
	micronSSD960   = diskModel{busSATA, "ATA", "Micron_5300_MTFD", 960197124096, false, "0x500a0751", "2###2%%%%%%%"}
	samsungSSD1920 = diskModel{busSATA, "ATA", "SAMSUNG MZ7LH1T9", 1920383410176, false, "0x5002538e", "S4**NX*M######"}
	percVD480      = diskModel{busRAID, "DELL", "PERC H740P Mini", 479559942144, false, "0x6d094660", "00%%%%%%%%%%%%5a6b2d"}
	hpeLogical960  = diskModel{busRAID, "HPE", "LOGICAL VOLUME", 960163733504, false, "0x600508b1", "PEYHB0**H#####"}
	dellBOSS240    = diskModel{busSATA, "ATA", "DELLBOSS VD", 240057409536, false, "", "%%%%%%%%%%%%0010"}
	samsungNVMe1T  = diskModel{busNVMe, "", "SAMSUNG MZQL21T9HCJR-00A07", 1920383410176, false, "eui.36344630", "S64GN?0*######"}
	intelNVMe3T    = diskModel{busNVMe, "", "INTEL SSDPE2KX040T8", 4000787030016, false, "eui.01000000", "PHLJ########4P0DGN"}
	kioxiaNVMe7T   = diskModel{busNVMe, "", "KIOXIA KCD8XRUG7T68", 7681501126656, false, "eui.8ce38ee2", "Y2?0A***T*?8"}
	samsungNVMe512 = diskModel{busNVMe, "", "SAMSUNG MZVLB512HBJQ-000L7", 512110190592, false, "eui.00253858", "S4EN?*#####*"}
	transcend256   = diskModel{busSATA, "ATA", "TS256GMTS430S", 256060514304, false, "0x57c35481", "G########"}
	edgeEMMC64     = diskModel{busMMC, "", "DG4064", 62537072640, false, "", "0x%%%%%%%%"}
	virtioDisk     = diskModel{busVirtio, "0x1af4", "", 274877906944, true, "", ""}
	virtioDisk40   = diskModel{busVirtio, "0x1af4", "", 42949672960, true, "", ""}
	vmwareDisk     = diskModel{busSAS, "VMware", "Virtual disk", 107374182400, true, "", ""}
)

// diskGroup is a number of equal disks in a machine.
type diskGroup struct {
	model diskModel
	count int
}

// naming has the number of the next disk of each kind. The kernel makes names from these numbers.
type naming struct{ scsi, nvme, virtio, mmc int }

// disks generates the disks of a machine in the order in which the kernel finds them.
func (p *platform) disks(rnd *random, seed uint64, index int) []Disk {
	var (
		disks []Disk
		names naming
	)
	for _, g := range pick(rnd, p.storage) {
		for range g.count {
			number := uint64(index)<<5 | uint64(len(disks))
			disks = append(disks, g.model.disk(&names, seed, number))
		}
	}
	return disks
}

// disk generates one disk; number is unique among the disks of the seed.
func (m diskModel) disk(names *naming, seed, number uint64) Disk {
	disk := Disk{Size: m.size, Rotational: m.rotational, Model: optional(m.model), Vendor: optional(m.vendor)}
	if m.serial != "" {
		disk.Serial = ref(serial(m.serial, seed, number))
	}
	if m.wwn != "" {
		name := fmt.Sprintf("%s%08x", m.wwn, shuffle(seed, number, 1<<32))
		disk.WWN, disk.WWNWithExtension = ref(name), ref(name)
		if m.bus == busRAID {
			extension := fmt.Sprintf("0x%016x", mix(seed^number))
			disk.WWNVendorExtension = ref(extension)
			disk.WWNWithExtension = ref(name + strings.TrimPrefix(extension, "0x"))
		}
	}
	m.attach(&disk, names)
	return disk
}

// attach sets the names of a disk, which depend on its bus and on the disks before it.
func (m diskModel) attach(disk *Disk, names *naming) {
	const byPath = "/dev/disk/by-path/"
	switch m.bus {
	case busNVMe:
		disk.Name = fmt.Sprintf("/dev/nvme%dn1", names.nvme)
		disk.ByPath = ref(fmt.Sprintf(byPath+"pci-0000:%02x:00.0-nvme-1", 0x81+names.nvme))
		names.nvme++
	case busVirtio:
		disk.Name = "/dev/vd" + letter(names.virtio)
		disk.ByPath = ref(fmt.Sprintf(byPath+"virtio-pci-0000:%02x:00.0", 4+names.virtio))
		names.virtio++
	case busMMC:
		disk.Name = "/dev/mmcblk" + strconv.Itoa(names.mmc)
		disk.ByPath = ref(byPath + "platform-fe340000.mmc")
		names.mmc++
	default:
		disk.Name = "/dev/sd" + letter(names.scsi)
		disk.HCTL = ref(m.hctl(names.scsi))
		disk.ByPath = ref(byPath + m.scsiPath(names.scsi))
		names.scsi++
	}
}

// hctl returns the SCSI address. Each SATA disk has a host of its own; other disks share one.
func (m diskModel) hctl(n int) string {
	switch m.bus {
	case busSATA:
		return fmt.Sprintf("%d:0:0:0", n)
	case busRAID:
		return fmt.Sprintf("0:2:%d:0", n)
	default:
		return fmt.Sprintf("0:0:%d:0", n)
	}
}

// scsiPath returns the part of the by-path name that depends on the controller.
func (m diskModel) scsiPath(n int) string {
	switch m.bus {
	case busSATA:
		return fmt.Sprintf("pci-0000:00:17.0-ata-%d", n+1)
	case busRAID:
		return fmt.Sprintf("pci-0000:18:00.0-scsi-0:2:%d:0", n)
	default:
		return fmt.Sprintf("pci-0000:3b:00.0-sas-phy%d-lun-0", n)
	}
}

// letter returns the kernel's suffix for disk n: a to z, then aa, ab, ….
func letter(n int) string {
	if n < 26 {
		return string(rune('a' + n))
	}
	return letter(n/26-1) + letter(n%26)
}

// optional returns a pointer to s, or nil for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// rootDiskMinimum is the smallest disk on which an agent installs an image: 4 GiB.
const rootDiskMinimum = 4 << 30

// rootDisk returns the disk that the agent chooses without hints: the first of the smallest disks
// that are large enough. It returns nil if there is none.
func rootDisk(disks []Disk) *Disk {
	var root *Disk
	for i := range disks {
		if disks[i].Size >= rootDiskMinimum && (root == nil || disks[i].Size < root.Size) {
			root = &disks[i]
		}
	}
	return root
}
