package ironic

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// Setting is a BIOS setting with its schema.
type Setting = nodes.BIOSSetting

// Settings lists the BIOS settings that the engine has read from the node's BMC, with
// their schema.
func (c *Client) Settings(ctx context.Context, ident string) (settings []Setting, err error) {
	err = c.onNode(ctx, "list BIOS settings of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		settings, err = nodes.ListBIOSSettings(ctx, service, segment, nodes.ListBIOSSettingsOpts{Detail: true}).Extract()
		return err
	})
	return settings, err
}

// Component is a firmware component.
type Component = nodes.FirmwareComponent

// Components lists the firmware components of the node. The API has this since 1.86.
func (c *Client) Components(ctx context.Context, ident string) (components []Component, err error) {
	err = c.onNode(ctx, "list firmware of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		components, err = nodes.ListFirmware(ctx, service, segment).Extract()
		return err
	})
	return components, err
}
