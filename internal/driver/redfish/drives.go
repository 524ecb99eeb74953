package redfish

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/node"
)

// drives are the virtual devices of the node's machine.
type drives struct {
	slots []*schemas.VirtualMedia
	owner string // what has them: the system, or else its managers
	// others are the paths of the other systems whose manager has these devices, too. Those systems
	// use the same devices. Whose an image is can be told only by its URL, or by the node that
	// inserted it.
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

// isOwn reports whether the image in a virtual device may be ejected for a node. Where other
// systems use the device, too, that is only an image that the node has booted from or has inserted
// itself.
func (d drives) isOwn(slot *schemas.VirtualMedia, n *node.Node) bool {
	return len(d.others) == 0 || node.BootedFrom(slot.Image) == n.UUID ||
		slices.ContainsFunc(ownImages(n), func(own ownImage) bool { return own.isIn(slot) })
}

// ownImagesKey is the key of driver_internal_info for the images that a node has inserted into
// virtual devices which other systems use, too. Earlier releases stored none.
const ownImagesKey = "redfish_own_images"

// ownImage is an image that a node has inserted into a virtual device.
type ownImage struct {
	Device string `json:"device"` // path of the virtual device
	// Image is the SHA-256 of the URL that the BMC shows or, while it shows none, of the URL of the
	// image. The URL itself is not stored, because it may hold secrets.
	Image string `json:"image"`
}

// newOwnImage returns the record of an image in a virtual device.
func newOwnImage(device, url string) ownImage {
	sum := sha256.Sum256([]byte(url))
	return ownImage{Device: device, Image: hex.EncodeToString(sum[:])}
}

// ownImages returns the images that a node has inserted into virtual devices which other systems
// use, too.
func ownImages(n *node.Node) []ownImage {
	var images []ownImage
	n.DriverInternalInfo.Get(ownImagesKey, &images)
	return images
}

// isIn reports whether a virtual device has the image. Some BMCs show no URL: then any image in the
// device counts.
func (o ownImage) isIn(slot *schemas.VirtualMedia) bool {
	return inserted(slot) && slot.ODataID == o.Device && (slot.Image == "" || newOwnImage(o.Device, slot.Image) == o)
}

// remember returns the change of a node that updates its list of own images. Images stay in the
// list while they are in their virtual devices. The images in now are added, and replace others in
// the same devices. It returns nil when nothing changes.
func (d drives) remember(n *node.Node, now ...ownImage) func(*node.Node) {
	if len(d.others) == 0 {
		return nil
	}
	stored := ownImages(n)
	left := slices.DeleteFunc(slices.Clone(stored), func(own ownImage) bool {
		replaced := slices.ContainsFunc(now, func(other ownImage) bool { return other.Device == own.Device })
		return replaced || !slices.ContainsFunc(d.slots, own.isIn)
	})
	if left = append(left, now...); slices.Equal(left, stored) {
		return nil
	}
	return func(n *node.Node) {
		if len(left) == 0 {
			n.DriverInternalInfo = n.DriverInternalInfo.Without(ownImagesKey)
			return
		}
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{ownImagesKey: left})
	}
}

// full lists the virtual devices of the given types that have an image. No types mean all.
func (d drives) full(deviceTypes []string) []*schemas.VirtualMedia {
	return slices.DeleteFunc(slices.Clone(d.slots), func(slot *schemas.VirtualMedia) bool {
		return !inserted(slot) || len(deviceTypes) > 0 && !slices.ContainsFunc(deviceTypes, func(device string) bool { return mayBe(slot, device) })
	})
}

// own lists the virtual devices of the given types whose image may be ejected for a node. No types
// mean all.
func (d drives) own(n *node.Node, deviceTypes []string) []*schemas.VirtualMedia {
	return slices.DeleteFunc(d.full(deviceTypes), func(slot *schemas.VirtualMedia) bool { return !d.isOwn(slot, n) })
}

// unclear returns a sentence that an image in a virtual device of the given types was not ejected,
// because nobody can tell whose it is. No types mean all. The text is empty if there is no such
// image. The caller makes sure that the node has no image of its own in these devices.
func (d drives) unclear(deviceTypes []string) string {
	for _, slot := range d.full(deviceTypes) {
		if node.BootedFrom(slot.Image) == "" {
			return "An image was not ejected: " + d.inUse(slot) + "."
		}
	}
	return ""
}

// inUse returns why a virtual device is not emptied.
func (d drives) inUse(slot *schemas.VirtualMedia) string {
	whose := "with an image of which nobody can tell whose it is"
	if booted := node.BootedFrom(slot.Image); booted != "" {
		whose = "by node " + booted
	}
	return node.CutText("the virtual device " + slot.ODataID + " is in use " + whose + ", and other systems have it, too (" + strings.Join(d.others, ", ") +
		"): wait until it is free, or eject the image with the vendor method eject_vmedia")
}
