package redfish

import (
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/node"
)

// drives are the virtual devices of the node's machine.
type drives struct {
	slots []*schemas.VirtualMedia
	owner string // what has them: the system, or else its managers
	// others are the other systems of a manager that has them. They use the same devices, so
	// that only the URL of an image tells whose it is.
	others []string
}

// drives reads the virtual devices of the node's machine.
func (c *call) drives() (drives, error) {
	system, err := c.system()
	if err != nil {
		return drives{}, err
	}
	relations, err := relationsOf(system)
	if err != nil {
		return drives{}, err
	}
	slots, err := c.slotsOf(relations.VirtualMedia)
	if err != nil || len(slots) > 0 {
		return drives{slots: slots, owner: "system"}, err
	}
	managers, err := c.managers(system)
	if err != nil {
		return drives{}, err
	}
	found := drives{owner: "manager"}
	for _, manager := range managers {
		of, err := c.slotsOf(manager.VirtualMedia)
		if err != nil {
			return drives{}, err
		}
		found.slots = append(found.slots, of...)
		if served := manager.Links.ManagerForServers.ToStrings(); len(of) > 0 && len(served) > 1 {
			found.others = append(found.others, slices.DeleteFunc(served, func(path string) bool {
				return strings.TrimRight(pathOf(path), "/") == strings.TrimRight(system.ODataID, "/")
			})...)
		}
	}
	return found, nil
}

// mayReplace reports whether the image in a virtual device may make room for another one of the
// node: where other systems use the device, too, only one that the node has booted from may.
func (d drives) mayReplace(slot *schemas.VirtualMedia, n *node.Node) bool {
	return len(d.others) == 0 || !inserted(slot) || node.BootedFrom(slot.Image) == n.UUID
}

// mayEject reports whether an image may be ejected for a node: where other systems use the device,
// too, one that the engine serves to another node may not.
func (d drives) mayEject(slot *schemas.VirtualMedia, n *node.Node) bool {
	booted := node.BootedFrom(slot.Image)
	return len(d.others) == 0 || booted == "" || booted == n.UUID
}

// full lists the virtual devices of these types that have an image; none means all.
func (d drives) full(deviceTypes []string) []*schemas.VirtualMedia {
	return slices.DeleteFunc(slices.Clone(d.slots), func(slot *schemas.VirtualMedia) bool {
		return !inserted(slot) || len(deviceTypes) > 0 && !slices.ContainsFunc(deviceTypes, func(device string) bool { return mayBe(slot, device) })
	})
}

// ownMedia lists the virtual devices of these types that have an image which may be ejected for a
// node; none means all.
func (c *call) ownMedia(n *node.Node, deviceTypes []string) ([]*schemas.VirtualMedia, error) {
	found, err := c.drives()
	return slices.DeleteFunc(found.full(deviceTypes), func(slot *schemas.VirtualMedia) bool { return !found.mayEject(slot, n) }), err
}

// inUse says why a virtual device is not emptied.
func (d drives) inUse(slot *schemas.VirtualMedia) string {
	whose := "with an image of which nobody can tell whose it is"
	if booted := node.BootedFrom(slot.Image); booted != "" {
		whose = "by node " + booted
	}
	return node.CutText("the virtual device " + slot.ODataID + " is in use " + whose + ", and other systems have it, too (" + strings.Join(d.others, ", ") +
		"): wait until it is free, or eject the image with the vendor method eject_vmedia")
}
