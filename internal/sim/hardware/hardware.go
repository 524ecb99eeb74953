// Package hardware generates the hardware of simulated machines. It is plausible, differs between
// machines, and is the same in every run.
//
// A machine is identified by a seed and an index. Everything about it (vendor, serial number, MAC
// addresses, disks, place in the rack) depends on nothing but these two numbers and [Options], so
// that all processes generate the same machine. Machines are independent of each other.
//
// Within one seed, the MAC addresses, the serial numbers (except where real vendors leave a
// placeholder), the disk serial numbers and the BMC addresses are unique for the first
// [MaxMachines] indices.
//
// The output is the document that a ramdisk agent posts after inspection, with exactly the keys of
// ironic-python-agent 9.11. The package does no input or output.
package hardware

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

// MaxMachines is the number of machines of one seed with unique MAC addresses: 2^21,
// because an address has 21 bits for the machine and 3 bits for the interface.
const MaxMachines = 1 << 21

// MaxNICs is the largest number of network interfaces of a machine.
const MaxNICs = 8

// Kind is the kind of a machine.
type Kind string

// The kinds of machines.
const (
	Server  Kind = "server"  // rack server with LLDP neighbours and mostly a BMC
	Edge    Kind = "edge"    // small box at a remote site, often without a BMC
	Virtual Kind = "virtual" // virtual machine without a BMC
)

// Options limit what is generated. The zero value means the usual mix.
type Options struct {
	// NICs is the exact number of network interfaces, 1 to [MaxNICs]; zero leaves the number to the
	// model of the machine. Values outside are clamped.
	NICs int
	// Kind restricts machines to one kind; empty means all kinds.
	Kind Kind
	// Manufacturer restricts machines to those of one manufacturer, by the name that it gives
	// itself; empty means all. The products and their frequencies are those of the usual mix.
	Manufacturer string
	// BMCNetwork is the IPv4 network of the BMC addresses, numbered like the boot addresses. Every
	// machine then has a BMC with exactly that address. The zero value means that most machines
	// have a BMC, in a network that nobody routes.
	BMCNetwork netip.Prefix
	// PerBMC is how many neighbouring machines share a BMC in BMCNetwork; 0 means that none do.
	PerBMC int
	// Address is the IPv4 address of the interface that the machine booted from. The
	// zero value means the address for the machine's index in [DefaultNetwork].
	Address netip.Addr
	// Boot is how the ramdisk was booted; nil means that this is generated, too.
	Boot *Boot
	// ExtraHardware adds the data of the agent's extra-hardware collector.
	ExtraHardware bool
}

// Validate returns an error for invalid options. The other methods panic if no machine is of the
// kind and the manufacturer.
func (o Options) Validate() error {
	if o.Kind != "" && !slices.ContainsFunc(platforms, func(p platform) bool { return p.kind == o.Kind }) {
		return fmt.Errorf("there are no machines of kind %q; choose %s, %s or %s", o.Kind, Server, Edge, Virtual)
	}
	if !slices.ContainsFunc(platforms, o.allows) {
		return fmt.Errorf("there are no machines of kind %q by %q", o.Kind, o.Manufacturer)
	}
	if o.NICs < 0 || o.NICs > MaxNICs {
		return fmt.Errorf("a machine has 1 to %d network interfaces, not %d", MaxNICs, o.NICs)
	}
	return nil
}

// Machine is one generated machine.
type Machine struct {
	Seed  uint64
	Index int
	Kind  Kind
	// Inspection is the document that the machine's ramdisk posts.
	Inspection Inspection
	// BootNIC is the index, in Inspection.Inventory.Interfaces, of the interface from which the
	// machine booted.
	BootNIC int
	// Rack and Slot are the place of the machine; both count from zero.
	Rack, Slot int
}

// UUID returns the UUID in the system's firmware (SMBIOS). The same machine always has the same
// one.
func (m Machine) UUID() [16]byte {
	h := fnv.New128a()
	_, _ = fmt.Fprintf(h, "machine %d of seed %d", m.Index, m.Seed) // a hash never fails
	id := [16]byte(h.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // as RFC 9562 marks random UUIDs
	return id
}

// Document returns the inspection document of machine index as compact JSON,
// with the usual mix of machines. It is safe for concurrent use.
func Document(seed uint64, index int) []byte {
	return Options{}.Document(seed, index)
}

// Document returns the inspection document of machine index as compact JSON.
func (o Options) Document(seed uint64, index int) []byte {
	m := o.Machine(seed, index)
	doc, err := json.Marshal(&m.Inspection)
	if err != nil { // the types have nothing that JSON cannot express
		panic(fmt.Sprintf("encode inspection document of machine %d: %v", index, err))
	}
	return doc
}

// Machine generates machine index of the seed. It is safe for concurrent use.
func (o Options) Machine(seed uint64, index int) Machine {
	rnd := newRandom(seed, index)
	p := o.pickPlatform(rnd)
	place := placeOf(seed, index)

	addr := o.Address
	if !addr.IsValid() {
		addr = AddressIn(DefaultNetwork, index)
	}
	model := pick(rnd, p.products)
	cpu := model.cpu(rnd, p.architecture)
	firmware := pick(rnd, model.releases)
	nics, bootNIC := p.interfaces(rnd, interfaceRequest{
		seed: seed, index: index, count: o.NICs, address: addr, place: place,
	})
	disks := p.disks(rnd, seed, index)
	bmcV4, bmcV6 := p.bmcAddresses(rnd, index)
	if o.BMCNetwork.IsValid() {
		bmcV4, bmcV6 = AddressIn(o.BMCNetwork, index/max(1, o.PerBMC)).String(), noBMCv6
	}
	pxe := p.pxeInterface(rnd, nics[bootNIC].MACAddress)

	doc := Inspection{
		Inventory: Inventory{
			Interfaces:   nics,
			CPU:          cpu,
			Disks:        disks,
			Memory:       p.memory(rnd),
			BMCAddress:   bmcV4,
			BMCV6Address: bmcV6,
			SystemVendor: SystemVendor{
				ProductName:  model.name,
				SerialNumber: p.serialNumber(seed, index),
				Manufacturer: p.manufacturer,
				Firmware:     Firmware{Vendor: p.firmwareVendor, Version: firmware.version, BuildDate: firmware.date},
			},
			Boot:     Boot{CurrentBootMode: p.bootMode(rnd), PXEInterface: pxe},
			Hostname: p.hostname(rnd, place, index),
		},
		RootDisk:      rootDisk(disks),
		BootInterface: pxe,
		Configuration: Configuration{
			Collectors: []string{"default"},
			Managers:   managers,
		},
	}
	if o.Boot != nil {
		doc.Inventory.Boot, doc.BootInterface = *o.Boot, o.Boot.PXEInterface
	}
	if devices := p.pciDevices(rnd, cpu, nics, disks); devices != nil {
		doc.PCIDevices = devices
		doc.Configuration.Collectors = []string{"default", "pci-devices"}
	}
	if o.ExtraHardware {
		doc.Facts = doc.Inventory.extraFacts()
		doc.Configuration.Collectors = append(slices.Clip(doc.Configuration.Collectors), "extra-hardware")
	}
	return Machine{
		Seed: seed, Index: index, Kind: p.kind, Inspection: doc,
		BootNIC: bootNIC, Rack: place.rack, Slot: place.slot,
	}
}

// managers are the hardware managers that an agent without vendor extensions reports. The recorded
// agent lists the generic one twice.
var managers = []Manager{
	{Name: "generic_hardware_manager", Version: "3"},
	{Name: "generic_hardware_manager", Version: "1.2"},
}
