package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// inspectInterface is the inspect interface of the driver.
type inspectInterface struct{ Driver }

var _ driver.InventoryReader = inspectInterface{}

// ReadInventory reads what the BMC shows of the hardware.
func (i inspectInterface) ReadInventory(ctx context.Context, n *node.Node) ([]byte, error) {
	var text []byte
	err := i.with(ctx, n, "read the hardware", driver.Turn{}, func(c *call) error {
		s := &survey{call: c}
		h, err := s.hardware()
		if err != nil {
			return err
		}
		if text, err = json.Marshal(h.document(s.leftOut)); err != nil {
			return fmt.Errorf("write the inspection document: %w", err)
		}
		return nil
	})
	return text, err
}

// hardware is what a BMC shows of a machine.
type hardware struct {
	system     systemDocument
	processors []processor
	interfaces []ethernetInterface
	units      []storageUnit
	simple     []simpleDevice
	functions  []pciFunction
}

type systemDocument struct {
	systemLinks
	UUID, SerialNumber, Manufacturer, Model, SKU, BiosVersion, HostName string

	ProcessorSummary struct {
		Count, LogicalProcessorCount int64
		Model                        string
	}
	MemorySummary struct{ TotalSystemMemoryGiB float64 }
	Boot          struct{ BootSourceOverrideMode string }
	PowerState    schemas.PowerState
	Status        resourceStatus
}

type processor struct {
	ProcessorType, ProcessorArchitecture, InstructionSet, Model string

	TotalThreads, MaxSpeedMHz int64
	Status                    resourceStatus
}

type ethernetInterface struct {
	ID                              string `json:"Id"`
	MACAddress, PermanentMACAddress string

	InterfaceEnabled *bool
	LinkStatus       string
	SpeedMbps        int64
	Status           resourceStatus
}

// simpleDevice is a disk of a controller about whose disks the BMC knows no more than this
// (DSP0268, SimpleStorage).
type simpleDevice struct {
	Name, Model, Manufacturer string

	CapacityBytes int64
	Status        resourceStatus
}

type pciFunction struct {
	VendorID  string `json:"VendorId"`
	DeviceID  string `json:"DeviceId"`
	ClassCode string
	Revision  string `json:"RevisionId"`
}

// hardware reads all that a BMC shows of a machine.
func (s *survey) hardware() (h hardware, err error) {
	if h.system, err = s.shownSystem(); err != nil {
		return h, err
	}
	links := h.system.systemLinks
	for _, read := range []func() error{
		func() error {
			return membersOf(s, links.Processors.String(), func(_ string, p processor) { h.processors = append(h.processors, p) })
		},
		func() error {
			return membersOf(s, links.EthernetInterfaces.String(), func(_ string, e ethernetInterface) { h.interfaces = append(h.interfaces, e) })
		},
		func() (err error) {
			h.units, err = s.storage(links.Storage.String())
			return err
		},
		func() error {
			type document struct{ Devices []simpleDevice }
			return membersOf(s, links.SimpleStorage.String(), func(_ string, d document) { h.simple = append(h.simple, d.Devices...) })
		},
		func() error { return s.pciFunctions(links.PCIeDevices.ToStrings(), &h) },
	} {
		if err := read(); err != nil {
			return h, err
		}
	}
	return h, nil
}

// shownSystem reads the system, tolerating properties of other types than the schema has.
func (s *survey) shownSystem() (system systemDocument, err error) {
	path, err := s.systemPath()
	if err != nil {
		return system, err
	}
	ok, err := s.show(path, &system)
	if err == nil && !ok {
		s.bmc.forget() // another BMC may have the address now, or other firmware
		err = &node.DriverError{Op: "read the system", Retryable: true, Reason: strings.Join(s.leftOut, " ")}
	}
	return system, err
}

// DetectVendor reads the manufacturer of the system.
func (d Driver) DetectVendor(ctx context.Context, n *node.Node) (vendor string, err error) {
	err = d.with(ctx, n, "read the vendor", driver.Turn{}, func(c *call) error {
		system, err := (&survey{call: c}).shownSystem()
		vendor = told(system.Manufacturer)
		return err
	})
	return vendor, err
}

// Health reads the health of the system.
func (d Driver) Health(ctx context.Context, n *node.Node) (health string, err error) {
	err = d.with(ctx, n, "read the health", driver.Turn{}, func(c *call) error {
		system, err := (&survey{call: c}).shownSystem()
		if slices.Contains([]string{"OK", "Warning", "Critical"}, system.Status.Health) {
			health = system.Status.Health
		}
		return err
	})
	return health, err
}

// pciFunctions reads the functions of the PCIe devices of the system.
func (s *survey) pciFunctions(devices []string, h *hardware) error {
	type document struct {
		PCIeFunctions schemas.Link
		Links         struct{ PCIeFunctions schemas.Links } // before version 1.4 of the schema
	}
	var collections, functions []string
	if err := each(s, devices, func(_ string, d document) {
		if d.PCIeFunctions != "" {
			collections = append(collections, d.PCIeFunctions.String())
			return
		}
		functions = append(functions, d.Links.PCIeFunctions.ToStrings()...)
	}); err != nil {
		return err
	}
	for _, collection := range collections {
		paths, err := s.list(collection)
		if err != nil {
			return err
		}
		functions = append(functions, paths...)
	}
	return each(s, functions, func(_ string, f pciFunction) { h.functions = append(h.functions, f) })
}
