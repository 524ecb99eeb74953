package redfish

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// mediaType is a device of the Bare Metal API with the types of virtual devices that can serve as
// it.
type mediaType struct {
	device string
	types  []schemas.VirtualMediaType
}

// mediaTypes are the rows for all devices of the Bare Metal API, the best type first.
var mediaTypes = []mediaType{
	{"cdrom", []schemas.VirtualMediaType{schemas.CDVirtualMediaType, schemas.DVDVirtualMediaType}},
	{"floppy", []schemas.VirtualMediaType{schemas.FloppyVirtualMediaType, schemas.USBStickVirtualMediaType}},
	{"disk", []schemas.VirtualMediaType{schemas.USBStickVirtualMediaType}},
}

// slotsOf reads the virtual devices of a collection, one after the other as [readEach] does. Each
// is read with the library, because the library inserts and ejects.
func (c *call) slotsOf(collection schemas.Link) ([]*schemas.VirtualMedia, error) {
	paths, err := c.members(collection.String())
	if err != nil {
		return nil, err
	}
	var slots []*schemas.VirtualMedia
	for _, path := range paths {
		slot, err := schemas.GetVirtualMedia(c.api, path)
		if err != nil {
			return nil, err
		}
		slot.OEM, slot.ExtendedInfo, slot.RawData = nil, nil, nil // of any size, and not used
		slots = append(slots, slot)
	}
	return slots, nil
}

// devicesOf lists the devices of the Bare Metal API that a virtual device can be.
func devicesOf(slot *schemas.VirtualMedia) []string {
	var devices []string
	for _, row := range mediaTypes {
		if slices.ContainsFunc(row.types, func(kind schemas.VirtualMediaType) bool { return slices.Contains(slot.MediaTypes, kind) }) {
			devices = append(devices, row.device)
		}
	}
	return devices
}

func canBe(slot *schemas.VirtualMedia, device string) bool {
	return slices.Contains(devicesOf(slot), device)
}

// slotsFor lists the virtual devices that can serve as a device of the Bare Metal API, the best
// first. Better is, in this order:
//
//   - a device with an action to insert a medium. Some BMCs give it only to devices that take
//     one from a URL.
//   - an empty device.
//   - a device that can be few other devices.
//   - a device whose BMC lists that kind first: a machine that is told to boot from its virtual
//     CD takes that one.
//
// Their paths decide last, because a BMC may list its devices in another order each time.
func slotsFor(slots []*schemas.VirtualMedia, device string) []*schemas.VirtualMedia {
	able := slices.DeleteFunc(slices.Clone(slots), func(slot *schemas.VirtualMedia) bool { return !canBe(slot, device) })
	slices.SortFunc(able, func(a, b *schemas.VirtualMedia) int {
		return cmp.Or(
			first(a.SupportsMediaInsert, b.SupportsMediaInsert),
			first(inserted(b), inserted(a)),
			cmp.Compare(len(devicesOf(a)), len(devicesOf(b))),
			first(isFirst(a, device), isFirst(b, device)),
			cmp.Compare(a.ODataID, b.ODataID),
		)
	})
	return able
}

// first compares two slots of which the better one has a property.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// isFirst reports whether a device is of the kind that the BMC lists first for a slot.
func isFirst(slot *schemas.VirtualMedia, device string) bool {
	i := slices.IndexFunc(mediaTypes, func(row mediaType) bool { return row.device == device })
	return i >= 0 && len(slot.MediaTypes) > 0 && slices.Contains(mediaTypes[i].types, slot.MediaTypes[0])
}

func inserted(slot *schemas.VirtualMedia) bool {
	return slot.Inserted != nil && *slot.Inserted || slot.Inserted == nil && slot.Image != ""
}

// deviceOf returns the device of the Bare Metal API that the image in a virtual device is. Some
// BMCs have virtual devices that can be any; then the kind of image decides.
func deviceOf(slot *schemas.VirtualMedia) string {
	devices := devicesOf(slot)
	if u, err := url.Parse(slot.Image); err == nil && len(devices) > 1 && devices[0] == "cdrom" && strings.HasSuffix(strings.ToLower(u.Path), ".img") {
		return devices[1]
	}
	if len(devices) == 0 {
		return ""
	}
	return devices[0]
}

// mayBe reports whether an image in a virtual device may have been attached as a device. No
// BMC tells a disk from a floppy where both are in the same virtual device.
func mayBe(slot *schemas.VirtualMedia, device string) bool {
	shown := deviceOf(slot)
	return shown == device || shown != "cdrom" && device != "cdrom" && canBe(slot, device)
}

// Media lists the images in the virtual devices.
func (d Driver) Media(ctx context.Context, n *node.Node) ([]node.Medium, error) {
	media := []node.Medium{}
	err := d.with(ctx, n, "read virtual media", driver.Turn{}, func(c *call) error {
		found, err := c.drives()
		for _, slot := range found.slots {
			if inserted(slot) {
				media = append(media, node.Medium{DeviceType: deviceOf(slot), ImageURL: slot.Image, Stays: !found.isOwn(slot, n)})
			}
		}
		return err
	})
	return media, err
}

// mediumWithin bounds how long a BMC may take to show a medium, which it may read
// first.
const mediumWithin = 2 * time.Minute

// mediumSent is the phase after the BMC has accepted a medium. Its handle is the path of the
// virtual device that took it, if that was empty.
const mediumSent = "inserted"

// AttachMedium makes a turn of inserting an image into a virtual device of its type. An image in
// that device is ejected first, unless it may be another system's.
func (d Driver) AttachMedium(ctx context.Context, n *node.Node, medium node.Medium, turn driver.Turn) (driver.Outcome, error) {
	const op = "attach the medium"
	var out driver.Outcome
	err := d.with(ctx, n, op, turn, func(c *call) error {
		found, err := c.drives()
		if err != nil {
			return err
		}
		slots := found.slots
		if i := slices.IndexFunc(slots, func(slot *schemas.VirtualMedia) bool {
			took := turn.Phase == mediumSent && slot.ODataID == turn.Handle && mayShow(slot, medium.ImageURL)
			return inserted(slot) && canBe(slot, medium.DeviceType) && (slot.Image == medium.ImageURL || took)
		}); i >= 0 {
			out.Apply = found.remember(n, newOwnImage(slots[i].ODataID, cmp.Or(slots[i].Image, medium.ImageURL)))
			return nil
		}
		filled := turn.Handle
		switch {
		case turn.Phase == mediumSent && turn.Elapsed > mediumWithin:
			return &node.DriverError{Op: op, Reason: "the BMC accepted the image and did not show it within " + mediumWithin.String() + "; check that it reaches the address of the image"}
		case turn.Phase != mediumSent:
			able := slices.DeleteFunc(slotsFor(slots, medium.DeviceType), func(slot *schemas.VirtualMedia) bool {
				return medium.Beside != "" && inserted(slot) && mayShow(slot, medium.Beside)
			})
			own := slices.DeleteFunc(slices.Clone(able), func(slot *schemas.VirtualMedia) bool { return inserted(slot) && !found.isOwn(slot, n) })
			if len(own) == 0 && len(able) > 0 {
				return &node.DriverError{Op: op, Refused: true, Reason: found.inUse(able[0])}
			}
			if able = own; len(able) == 0 {
				return &node.DriverError{Op: op, Refused: true, Reason: "the BMC has no " + free(medium) + "virtual device of the type " + node.CutText(medium.DeviceType)}
			}
			took, wasEmpty, err := c.insertInto(able, medium.ImageURL)
			if err != nil {
				return err
			}
			if wasEmpty {
				filled = took
			}
			out.Apply = found.remember(n, newOwnImage(took, medium.ImageURL))
		}
		out.Again, out.Phase, out.Handle = driver.PollPause(turn.Elapsed, shortestPoll), mediumSent, filled
		return nil
	})
	return out, err
}

// free returns the word for the virtual devices that a medium can be in, for a message.
func free(medium node.Medium) string {
	if medium.Beside != "" {
		return "other "
	}
	return ""
}

// mayShow reports whether the image that a virtual device shows may be the given one. Some BMCs
// show no URL, or a part of it, or write it in another way.
func mayShow(slot *schemas.VirtualMedia, image string) bool {
	if strings.Contains(decoded(image), decoded(slot.Image)) {
		return true
	}
	a, err := url.Parse(slot.Image)
	if err != nil {
		return false
	}
	b, err := url.Parse(image)
	return err == nil && strings.EqualFold(a.Hostname(), b.Hostname()) && a.Path == b.Path
}

// decoded returns a URL without escapes. It returns a text that cannot be decoded as it is.
func decoded(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// insertInto inserts an image into the first of the given virtual devices that does not refuse it
// for good, and returns the device's path. wasEmpty reports whether the device was empty before:
// then it is known to have the image as soon as it is full. Only the first device, the best, is
// emptied for the image, because images in the others may be somebody else's. If that device
// refuses for good to be emptied, it may take the image all the same. When all devices refuse, the
// error is that of the first refusal.
func (c *call) insertInto(able []*schemas.VirtualMedia, image string) (took string, wasEmpty bool, refusal error) {
	for i, slot := range able {
		if i > 0 && inserted(slot) {
			continue
		}
		empty, err := c.empty(slot)
		if err == nil || isRefusal(err) && !retryable(err) {
			err = insert(slot, image)
		}
		switch {
		case isRefusal(err) && !retryable(err):
			refusal = cmp.Or(refusal, err)
		case err != nil:
			return "", false, err
		default:
			return slot.ODataID, empty, nil
		}
	}
	return "", false, refusal
}

// empty ejects the image in a virtual device, and reports whether the device shows then that it is
// empty.
func (c *call) empty(slot *schemas.VirtualMedia) (bool, error) {
	if !inserted(slot) {
		return true, nil
	}
	if err := eject(slot); err != nil && !isEmpty(err) {
		return false, err
	}
	now, err := schemas.GetVirtualMedia(c.api, slot.ODataID)
	return err == nil && !inserted(now), nil //nolint:nilerr // it is ejected, whatever this read says
}

// eject takes the image out of a virtual device. A device without the eject action gets null for
// its image; the library would only say that nothing is inserted.
func eject(slot *schemas.VirtualMedia) error {
	if !slot.SupportsMediaEject {
		return slot.Patch(slot.ODataID, map[string]any{"Image": nil, "Inserted": false})
	}
	_, err := slot.EjectMedia()
	return err
}

// insert puts an image into a virtual device.
func insert(slot *schemas.VirtualMedia, image string) error {
	// Inserted and WriteProtected are true by default, and some BMCs refuse them. A virtual
	// device without the action gets the image as a change of its properties, which have no
	// default.
	params := &schemas.VirtualMediaInsertMediaParameters{Image: image}
	if !slot.SupportsMediaInsert {
		params.Inserted, params.WriteProtected = new(true), new(true)
	}
	for {
		_, err := slot.InsertMedia(params)
		switch {
		case params.TransferProtocolType == nil && refusedFor(err, "TransferProtocolType"):
			params.TransferProtocolType = new(transferOf(image))
		case params.TransferMethod == nil && refusedFor(err, "TransferMethod"):
			params.TransferMethod = new(schemas.StreamTransferMethod)
		default:
			return err
		}
	}
}

// transferOf returns the protocol by which a BMC gets an image.
func transferOf(image string) schemas.TransferProtocolType {
	if u, err := url.Parse(image); err == nil && u.Scheme != "" {
		return schemas.TransferProtocolType(strings.ToUpper(u.Scheme))
	}
	return schemas.HTTPTransferProtocolType
}

// ejectAll ejects the images in the given virtual devices. It returns the paths of the devices that
// are empty according to the BMC's answer, whatever the BMC shows. A device that refuses does not
// keep ejectAll from ejecting the others. The error is that of the first refusal.
func (c *call) ejectAll(full []*schemas.VirtualMedia) (empty []string, first error) {
	for _, slot := range full {
		err := eject(slot)
		switch {
		case isEmpty(err):
			empty = append(empty, slot.ODataID)
		case err != nil && statusOf(err) == 0: // it does not answer
			return empty, err
		default:
			first = cmp.Or(first, err)
		}
	}
	return empty, first
}

// mediaEjected is the phase after the BMC has accepted to eject. Its handle has the paths, with
// spaces between them, of the virtual devices that are empty although they may show an image.
const mediaEjected = "ejected"

// DetachMedia makes a turn of ejecting the images in the virtual devices of the given types. No
// types mean all. An image that may be another system's stays. If the node has no image of its own
// there, the outcome has a note about an image that stays and may be the node's all the same.
func (d Driver) DetachMedia(ctx context.Context, n *node.Node, deviceTypes []string, turn driver.Turn) (driver.Outcome, error) {
	const op = "detach virtual media"
	var out driver.Outcome
	err := d.with(ctx, n, op, turn, func(c *call) error {
		found, err := c.drives()
		if err != nil {
			return err
		}
		full := found.own(n, deviceTypes)
		if len(full) == 0 {
			out.Apply = found.remember(n)
			if turn.Phase != mediaEjected {
				out.Note = found.unclear(deviceTypes)
			}
			return nil
		}
		empty := strings.Fields(turn.Handle)
		if turn.Phase != mediaEjected {
			if empty, err = c.ejectAll(full); err != nil {
				return err
			}
			if found, err = c.drives(); err != nil {
				return err
			}
			full = found.own(n, deviceTypes)
		}
		full = slices.DeleteFunc(full, func(slot *schemas.VirtualMedia) bool { return slices.Contains(empty, slot.ODataID) })
		switch {
		case len(full) == 0:
			out.Apply = found.remember(n)
		case turn.Elapsed > mediumWithin:
			return &node.DriverError{Op: op, Reason: "the BMC accepted the request and shows the medium still after " + mediumWithin.String()}
		default:
			out = driver.Outcome{Again: driver.PollPause(turn.Elapsed, shortestPoll), Phase: mediaEjected, Handle: strings.Join(empty, " ")}
		}
		return nil
	})
	return out, err
}
