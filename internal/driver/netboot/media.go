package netboot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/bootiso"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// mediaInterface boots machines from a virtual medium.
type mediaInterface struct{ bootInterface }

var (
	_ driver.MediaBoot    = mediaInterface{}
	_ driver.InstanceBoot = mediaInterface{}
	_ driver.ImageBoot    = mediaInterface{}
)

// Validate checks whether the medium of the node can be served.
func (m mediaInterface) Validate(n *node.Node) error {
	_, err := m.boot(n)
	return err
}

// boot decides what the medium is, or is made of, and whether a second one has the
// parameters of the agent; secret and versions are left empty. The error is a
// *node.ValidationError that says what is missing.
func (m mediaInterface) boot(n *node.Node) (node.RamdiskBoot, error) {
	boot, err := m.ramdisk(n)
	if err != nil {
		return boot, err
	}
	wants, known, err := viaRemovable(n)
	if err != nil {
		return boot, err
	}
	boot.ParametersMedium = wants || !known && boot.ISO != ""
	return boot, m.checkMedium(n, boot)
}

// checkMedium returns a *node.ValidationError for a medium that cannot be made.
func (m mediaInterface) checkMedium(n *node.Node, boot node.RamdiskBoot) error {
	if _, err := bootiso.Words(boot.KernelParams); err != nil {
		return node.Invalid("The kernel parameters of node %s cannot be on a virtual medium: %s.", n.UUID, node.CutText(err.Error()))
	}
	if length := len(boot.NetworkData); length > maxNetworkData {
		return node.Invalid("The network_data of node %s has %d bytes, of which a virtual medium can have %d.", n.UUID, length, maxNetworkData)
	}
	if err := m.checkMode(n, boot); err != nil {
		return err
	}
	return checkImages(n, boot, m.images)
}

// maxNetworkData bounds what a boot keeps of the node's network_data, in bytes.
const maxNetworkData = 256 << 10

// checkMode returns a *node.ValidationError when the machine starts in BIOS mode and the engine
// makes the medium: the boot loader of such a medium is for UEFI. For a boot from a URL, the BMC is
// asked for UEFI, so the mode that the machine shows does not matter.
func (m mediaInterface) checkMode(n *node.Node, boot node.RamdiskBoot) error {
	mode, iso := n.BootModeCapability(), "driver_info."+isoKey
	if m.devices[0] == mediumDevice {
		mode = cmp.Or(mode, n.BootMode)
	}
	if boot.Instance {
		iso = "instance_info." + imageISOKey
	}
	if boot.ISO != "" || mode != biosMode {
		return nil
	}
	return node.Invalid("The image that the engine makes for node %s starts with UEFI only, and the boot mode is %s: set boot_mode of its capabilities to uefi, "+
		"choose the boot interface ipxe, or set %s to the URL of an image that starts in that mode.", n.UUID, biosMode, iso)
}

// biosMode is the boot mode without UEFI, in the words of the Bare Metal API.
const biosMode = "bios"

// ramdisk decides what the ramdisk is booted from: an ISO that is given, or one that is made.
func (m mediaInterface) ramdisk(n *node.Node) (node.RamdiskBoot, error) {
	if iso := m.config.iso(n); iso != "" {
		boot, err := m.config.withoutImages(n)
		boot.ISO = iso
		return boot, err
	}
	boot, err := m.config.boot(n, m.images)
	if err != nil {
		return boot, err
	}
	if !n.NetworkData.IsEmpty() {
		boot.NetworkData = n.NetworkData
	}
	return m.withBootLoader(n, boot)
}

// withBootLoader adds what a medium that is made of a kernel needs in addition.
func (m mediaInterface) withBootLoader(n *node.Node, boot node.RamdiskBoot) (node.RamdiskBoot, error) {
	boot.BootLoader = cmp.Or(n.DriverInfo.Text(bootLoaderKey), m.config.BootLoader)
	if boot.BootLoader == "" {
		return boot, node.Invalid("There is no boot loader for virtual media of node %s: set boot.boot_loader in the configuration, or driver_info.%s, "+
			"to the URL of an EFI system partition with GRUB.", n.UUID, bootLoaderKey)
	}
	return boot, nil
}

// BootRamdisk fetches the images, stores what is served, attaches it as the only virtual devices of
// their types, and then makes the machine boot from the CD, once unless the node has
// force_persistent_boot_device Always.
func (m mediaInterface) BootRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return m.serve(ctx, n, turn, plan{boot: m.boot, persistent: persistenceOf(n) == always})
}

// FetchRamdisk fetches the images that BootRamdisk serves.
func (m mediaInterface) FetchRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return m.fetchAhead(ctx, n, turn, m.boot)
}

// serve makes a turn of booting a plan.
func (m mediaInterface) serve(ctx context.Context, n *node.Node, turn driver.Turn, what plan) (driver.Outcome, error) {
	p := parsePhase(turn.Phase)
	switch p.stage {
	case stored, ejecting, inserting:
		return m.insert(ctx, n, p, turn)
	case inserted, setting:
		return m.setDevice(ctx, n, p, turn, what.persistent)
	}
	boot, err := what.boot(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	return m.prepare(ctx, n, boot, mediumDevice, turn)
}

// prepare fetches the images of a boot and stores what is served. device is the first device that
// the next turns attach or set.
func (m mediaInterface) prepare(ctx context.Context, n *node.Node, boot node.RamdiskBoot, device string, turn driver.Turn) (driver.Outcome, error) {
	wait, err := m.fetch(ctx, &boot, turn.Elapsed)
	if err != nil || wait {
		return driver.Outcome{Again: fetchPause}, err
	}
	apply := boot.StoreIn
	// Only a medium that the engine makes, or one with the parameters, takes a token to the agent.
	if !boot.Instance && (boot.BootLoader != "" || boot.ParametersMedium) {
		token := agent.NewToken()
		apply = func(n *node.Node) {
			boot.StoreIn(n)
			n.DriverInternalInfo = agent.WithPregenerated(n.DriverInternalInfo, token)
		}
	}
	return driver.Outcome{Again: soon, Phase: phase{stage: stored, device: device}.String(), Apply: apply, Note: unusedNetwork(n, boot)}, nil
}

// mediaOf lists the virtual media of a boot, the one that the machine boots from first.
func (m mediaInterface) mediaOf(n *node.Node, boot node.RamdiskBoot) []node.Medium {
	at := func(file string) string { return m.config.URL + boot.Path(n.UUID, file) }
	media := []node.Medium{{DeviceType: mediumDevice, ImageURL: at(node.BootMediumFile)}}
	if boot.ParametersMedium {
		media = append(media, node.Medium{DeviceType: floppyDevice, ImageURL: at(node.ParametersMediumFile), Beside: media[0].ImageURL})
	}
	return media
}

// withdrawn returns the error for a boot whose record is gone.
func withdrawn(n *node.Node) error {
	return &node.DriverError{
		Op: "attach the ramdisk to node " + n.UUID, Refused: true, Reason: "what is served for this boot was withdrawn meanwhile: request the work again.",
	}
}

// insert makes a turn of attaching the media, one after the other.
func (m mediaInterface) insert(ctx context.Context, n *node.Node, p phase, turn driver.Turn) (driver.Outcome, error) {
	boot, serves := node.RamdiskBootOf(n)
	if !serves {
		return driver.Outcome{}, withdrawn(n)
	}
	drive, err := m.media(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	media := m.mediaOf(n, boot)
	at := slices.IndexFunc(media, func(medium node.Medium) bool { return medium.DeviceType == p.device })
	if at < 0 {
		return driver.Outcome{}, withdrawn(n)
	}
	p = p.begins(turn)
	if p.stage != inserting {
		out, err := makeRoom(ctx, n, drive, media[at], p.turnOf(turn))
		if err != nil {
			return driver.Outcome{}, withoutSecret(err, boot.Secret)
		}
		if !out.Done() {
			out.Phase = phase{stage: ejecting, device: p.device, inner: out.Phase, since: p.since}.String()
			return out, nil
		}
		p = phase{stage: stored, device: p.device}.begins(turn)
	}
	out, err := drive.AttachMedium(ctx, n, media[at], p.turnOf(turn))
	switch {
	case err != nil:
		return driver.Outcome{}, withoutSecret(explained(err, media[at]), boot.Secret)
	case !out.Done():
		out.Phase = phase{stage: inserting, device: p.device, inner: out.Phase, since: p.since}.String()
		return out, nil
	case at+1 < len(media):
		return driver.Outcome{Again: soon, Phase: phase{stage: stored, device: media[at+1].DeviceType}.String(), Apply: out.Apply}, nil
	}
	return driver.Outcome{Again: soon, Phase: phase{stage: inserted, device: mediumDevice}.String(), Apply: out.Apply}, nil
}

// explained adds advice to a refusal of the medium with the agent's parameters.
func explained(err error, medium node.Medium) error {
	var failure *node.DriverError
	if medium.DeviceType != floppyDevice || !errors.As(err, &failure) || !failure.Refused || failure.Retryable {
		return err
	}
	more := *failure
	more.Reason = strings.TrimSuffix(failure.Reason, ".") + ". The parameters of the agent are on a second virtual medium. " +
		"If this BMC has no device for one, unset driver_info." + isoKey + " so that the engine makes the image that is booted, " +
		"or build the parameters into the ISO and set driver_info." + removableKey + " to false; without " + isoKey + ", unset " + removableKey + "."
	return &more
}

// makeRoom makes a turn of detaching other media of the same type. Such media could not be detached
// when they were withdrawn, and the machine might boot from one of them. A medium that may be
// another machine's stays.
func makeRoom(ctx context.Context, n *node.Node, media driver.VirtualMedia, medium node.Medium, turn driver.Turn) (driver.Outcome, error) {
	attached, err := media.Media(ctx, n)
	if err != nil {
		return driver.Outcome{}, err
	}
	other := func(a node.Medium) bool {
		return a.DeviceType == medium.DeviceType && a.ImageURL != medium.ImageURL && !a.Stays
	}
	if !slices.ContainsFunc(attached, other) {
		return driver.Outcome{}, nil
	}
	return media.DetachMedia(ctx, n, []string{medium.DeviceType}, turn)
}

// withoutSecret removes the secret of a boot from what a BMC says about that boot, because readers
// of the node see what it says.
func withoutSecret(err error, secret string) error {
	var failure *node.DriverError
	if !errors.As(err, &failure) {
		return err
	}
	masked := *failure
	masked.Op, masked.Reason = strings.ReplaceAll(failure.Op, secret, node.Mask), strings.ReplaceAll(failure.Reason, secret, node.Mask)
	return &masked
}

// DetachesMedia reports that LeaveRamdisk detaches media.
func (mediaInterface) DetachesMedia() bool { return true }

// LeaveRamdisk detaches the media and withdraws them.
func (m mediaInterface) LeaveRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	drive, err := m.media(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	boot, serves := node.RamdiskBootOf(n)
	devices := []string{mediumDevice}
	if boot.ParametersMedium {
		devices = append(devices, floppyDevice)
	}
	out, err := drive.DetachMedia(ctx, n, devices, turn)
	if err == nil && out.Done() {
		detached := out.Apply
		out.Apply = func(n *node.Node) {
			if detached != nil {
				detached(n)
			}
			node.WithdrawRamdiskBoot(n)
		}
	}
	if serves && err != nil {
		err = withoutSecret(err, boot.Secret)
	}
	return out, err
}
