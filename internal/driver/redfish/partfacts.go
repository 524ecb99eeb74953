package redfish

import (
	"context"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// maxFacts bounds how many members of one collection are read for facts.
const maxFacts = 64

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
}

// StorageFacts reads the storage controllers, at most 64.
func (d Driver) StorageFacts(ctx context.Context, n *node.Node) ([]StorageFacts, error) {
	var facts []StorageFacts
	err := d.with(ctx, n, "read the storage", driver.Turn{}, func(c *call) error {
		return c.eachOf(n, func(links factLinks) schemas.Link { return links.Storage }, func(path string) error {
			var document struct {
				ID      string `json:"Id"`
				Drives  []schemas.Link
				Volumes schemas.Link
			}
			if err := c.read(path, &document); err != nil {
				return err
			}
			found := StorageFacts{ID: document.ID, Drives: len(document.Drives)}
			if document.Volumes != "" {
				volumes, err := c.members(document.Volumes.String())
				if err != nil {
					return err
				}
				found.Volumes = len(volumes)
			}
			facts = append(facts, found)
			return nil
		})
	})
	return facts, err
}

// PortFacts are a network interface of the system (DSP0268, EthernetInterface).
type PortFacts struct{ ID, MAC, Link string }

// PortFacts reads the network interfaces of the system, at most 64.
func (d Driver) PortFacts(ctx context.Context, n *node.Node) ([]PortFacts, error) {
	var facts []PortFacts
	err := d.with(ctx, n, "read the network interfaces", driver.Turn{}, func(c *call) error {
		return c.eachOf(n, func(links factLinks) schemas.Link { return links.EthernetInterfaces }, func(path string) error {
			var document struct {
				ID                              string `json:"Id"`
				MACAddress, PermanentMACAddress string
				LinkStatus                      string
			}
			if err := c.read(path, &document); err != nil {
				return err
			}
			mac := document.PermanentMACAddress
			if mac == "" {
				mac = document.MACAddress
			}
			facts = append(facts, PortFacts{ID: document.ID, MAC: mac, Link: document.LinkStatus})
			return nil
		})
	})
	return facts, err
}

// factLinks are where a system has what facts are read of.
type factLinks struct{ EthernetInterfaces, Storage schemas.Link }

// eachOf calls a function for each member of a collection of the system.
func (c *call) eachOf(n *node.Node, of func(factLinks) schemas.Link, do func(path string) error) error {
	path, err := c.systemPath()
	if err != nil {
		return err
	}
	var links factLinks
	if err := c.read(path, &links); err != nil {
		return err
	}
	if of(links) == "" {
		return &node.NotSupportedError{Node: n.UUID, Interface: node.InspectInterface.Field(), Name: "redfish", What: "this part of its inventory"}
	}
	paths, err := c.members(of(links).String())
	if err != nil {
		return err
	}
	for _, path := range paths[:min(len(paths), maxFacts)] {
		if err := do(path); err != nil {
			return err
		}
	}
	return nil
}
