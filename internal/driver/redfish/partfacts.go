package redfish

import (
	"cmp"
	"context"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// BIOSFacts are what the driver finds at the BIOS settings (DSP0268, Bios).
type BIOSFacts struct {
	Attributes int
	Registry   string // name; empty when the BMC names none
	// RegistryError says why the registry cannot be read; Described is how many of the
	// attributes it describes.
	RegistryError string
	Described     int
	// Pending says that changes are requested at a resource of their own, and ApplyTimes when
	// it can apply them; empty when it does not tell.
	Pending    bool
	ApplyTimes []string
}

// BIOSFacts reads the BIOS settings and their registry. A machine without them is a
// *node.NotSupportedError.
func (d Driver) BIOSFacts(ctx context.Context, n *node.Node) (BIOSFacts, error) {
	var facts BIOSFacts
	err := d.with(ctx, n, "read BIOS settings", driver.Turn{}, func(c *call) error {
		bios, err := c.bios(n)
		if err != nil {
			return err
		}
		facts = BIOSFacts{Attributes: len(bios.Attributes), Registry: bios.AttributeRegistry}
		registry, err := c.registry(bios.AttributeRegistry)
		if err != nil {
			facts.RegistryError = c.cleaned(reason(err))
		}
		for name := range bios.Attributes {
			if _, ok := registry[name]; ok {
				facts.Described++
			}
		}
		var settings settingsDocument
		if err := c.read(bios.ODataID, &settings); err != nil {
			return err
		}
		facts.Pending = settings.Settings.SettingsObject != ""
		facts.ApplyTimes = texts(settings.Settings.SupportedApplyTimes)
		return nil
	})
	return facts, err
}

// UpdateFacts are what the driver finds at the update service (DSP0268, UpdateService).
type UpdateFacts struct {
	SimpleUpdate bool
	// Protocols are those by which the BMC fetches files; empty when it does not tell.
	Protocols []string
	// Push says that the BMC takes files with a request, which the driver does not use.
	Push bool
}

// UpdateFacts reads the update service. A BMC without one is a *node.NotSupportedError.
func (d Driver) UpdateFacts(ctx context.Context, n *node.Node) (UpdateFacts, error) {
	var facts UpdateFacts
	err := d.with(ctx, n, "read the update service", driver.Turn{}, func(c *call) error {
		service, err := c.api.Service.UpdateService()
		if err != nil {
			return err
		}
		if service == nil {
			return &node.NotSupportedError{Node: n.UUID, Interface: node.FirmwareInterface.Field(), Name: "redfish", What: "updates of firmware"}
		}
		var document struct {
			HTTPPushURI          string `json:"HttpPushUri"`
			MultipartHTTPPushURI string `json:"MultipartHttpPushUri"`
			Actions              struct {
				SimpleUpdate struct {
					Target    string   `json:"target"`
					Protocols []string `json:"TransferProtocol@Redfish.AllowableValues"`
				} `json:"#UpdateService.SimpleUpdate"`
			}
		}
		if err := c.read(service.ODataID, &document); err != nil {
			return err
		}
		update := document.Actions.SimpleUpdate
		facts = UpdateFacts{
			SimpleUpdate: update.Target != "", Protocols: update.Protocols,
			Push: document.HTTPPushURI != "" || document.MultipartHTTPPushURI != "",
		}
		return nil
	})
	return facts, err
}

// StorageFacts are a storage controller (DSP0268, Storage).
type StorageFacts struct {
	ID              string
	Drives, Volumes int
	// RAIDTypes are the RAID types that the controller can make; empty when it makes none, or does
	// not tell.
	RAIDTypes []string
}

// StorageFacts reads the storage controllers.
func (d Driver) StorageFacts(ctx context.Context, n *node.Node) ([]StorageFacts, error) {
	var facts []StorageFacts
	err := d.surveyFacts(ctx, n, "read the storage", func(s *survey, system systemDocument) error {
		units, err := s.storage(system.Storage.String())
		for _, unit := range units {
			facts = append(facts, StorageFacts{ID: unit.id, Drives: len(unit.drives), Volumes: len(unit.volumes), RAIDTypes: unit.raidTypes})
		}
		return err
	}, func() bool { return len(facts) > 0 })
	return facts, err
}

// PortFacts are a network interface of the system (DSP0268, EthernetInterface).
type PortFacts struct{ ID, MAC, Link string }

// PortFacts reads the network interfaces of the system.
func (d Driver) PortFacts(ctx context.Context, n *node.Node) ([]PortFacts, error) {
	var facts []PortFacts
	err := d.surveyFacts(ctx, n, "read the network interfaces", func(s *survey, system systemDocument) error {
		return membersOf(s, system.EthernetInterfaces.String(), func(_ string, e ethernetInterface) {
			facts = append(facts, PortFacts{ID: e.ID, MAC: cmp.Or(e.PermanentMACAddress, e.MACAddress), Link: e.LinkStatus})
		})
	}, func() bool { return len(facts) > 0 })
	return facts, err
}

// NetworkAddresses reads the addresses of the network interfaces of the system. They are the
// addresses that an inspection through the BMC shows.
func (d Driver) NetworkAddresses(ctx context.Context, n *node.Node) ([]string, error) {
	var h hardware
	err := d.surveyFacts(ctx, n, "read the network interfaces", func(s *survey, system systemDocument) error {
		return membersOf(s, system.EthernetInterfaces.String(), func(_ string, e ethernetInterface) { h.interfaces = append(h.interfaces, e) })
	}, func() bool { return len(h.interfaces) > 0 })
	var addresses []string
	for _, nic := range h.nics() {
		addresses = append(addresses, nic.MAC)
	}
	return addresses, err
}

// surveyFacts reads a part of the hardware. When it finds nothing of that part, and the BMC could
// not show something, the error says what.
func (d Driver) surveyFacts(ctx context.Context, n *node.Node, op string, read func(*survey, systemDocument) error, found func() bool) error {
	return d.with(ctx, n, op, driver.Turn{}, func(c *call) error {
		s := &survey{call: c}
		system, err := s.shownSystem()
		if err == nil {
			err = read(s, system)
		}
		if err == nil && !found() && s.missed > 0 {
			err = &node.DriverError{Op: op, Reason: node.CutText(strings.Join(s.leftOut, "; "))}
		}
		return err
	})
}
