package netboot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/bootiso"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// mediaInterface boots machines from a virtual medium.
type mediaInterface struct{ bootInterface }

var (
	_ driver.RamdiskBoot  = mediaInterface{}
	_ driver.InstanceBoot = mediaInterface{}
)

// Validate checks whether the medium of the node can be served.
func (m mediaInterface) Validate(n *node.Node) error {
	_, err := m.boot(n)
	return err
}

// boot decides what the medium is made of; the secret is left empty. The error is a
// *node.ValidationError that says what is missing.
func (m mediaInterface) boot(n *node.Node) (node.RamdiskBoot, error) {
	boot, err := m.config.boot(n, m.images)
	if err != nil {
		return boot, err
	}
	boot.BootLoader = cmp.Or(n.DriverInfo.Text(bootLoaderKey), m.config.BootLoader)
	if boot.BootLoader == "" {
		return boot, node.Invalid("There is no boot loader for virtual media of node %s: set driver_info.%s, or boot.boot_loader in the configuration, "+
			"to the URL of an EFI system partition with GRUB.", n.UUID, bootLoaderKey)
	}
	if _, err := bootiso.Words(boot.KernelParams); err != nil {
		return boot, node.Invalid("The kernel parameters of node %s cannot be on a virtual medium: %s.", n.UUID, node.CutText(err.Error()))
	}
	return boot, checkImages(n, boot, m.images)
}

// BootRamdisk fetches the images, stores what is served, attaches it as the only virtual CD,
// and then makes the machine boot from that once.
func (m mediaInterface) BootRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	switch p := parsePhase(turn.Phase); p.stage {
	case stored, ejecting, inserting:
		return m.insert(ctx, n, p, turn)
	case inserted, setting:
		return m.setDevice(ctx, n, p, turn)
	}
	boot, err := m.boot(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	wait, err := m.fetch(ctx, boot, turn.Elapsed)
	if err != nil || wait {
		return driver.Outcome{Again: fetchPause, Phase: phase{stage: fetching}.String()}, err
	}
	boot.Secret = node.NewBootSecret()
	return driver.Outcome{Again: soon, Phase: phase{stage: stored, device: mediumDevice}.String(), Apply: boot.StoreIn}, nil
}

// insert makes a turn of attaching the medium.
func (m mediaInterface) insert(ctx context.Context, n *node.Node, p phase, turn driver.Turn) (driver.Outcome, error) {
	boot, serves := node.RamdiskBootOf(n)
	if !serves {
		return driver.Outcome{}, &node.DriverError{
			Op: "attach the ramdisk to node " + n.UUID, Refused: true, Reason: "what is served for this boot was withdrawn meanwhile: request the work again.",
		}
	}
	media, err := m.media(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	inner := turn
	inner.Phase = p.inner
	if p.stage == stored && turn.Attempt == driver.Continued {
		inner.Attempt = driver.Fresh
	}
	medium := node.Medium{DeviceType: mediumDevice, ImageURL: m.config.URL + boot.Path(n.UUID, node.BootMediumFile)}
	if p.stage != inserting {
		out, err := makeRoom(ctx, n, media, medium, inner)
		if err != nil {
			return driver.Outcome{}, withoutSecret(err, boot.Secret)
		}
		if !out.Done() {
			out.Phase = phase{stage: ejecting, device: mediumDevice, inner: out.Phase}.String()
			return out, nil
		}
		if inner.Phase = ""; inner.Attempt == driver.Continued {
			inner.Attempt = driver.Fresh
		}
	}
	out, err := media.AttachMedium(ctx, n, medium, inner)
	switch {
	case err != nil:
		return driver.Outcome{}, withoutSecret(err, boot.Secret)
	case out.Done():
		return driver.Outcome{Again: soon, Phase: phase{stage: inserted, device: mediumDevice}.String(), Apply: out.Apply}, nil
	}
	out.Phase = phase{stage: inserting, device: mediumDevice, inner: out.Phase}.String()
	return out, nil
}

// makeRoom makes a turn of detaching media of the same type, which could not be detached when
// they were withdrawn: the machine might boot from one of them.
func makeRoom(ctx context.Context, n *node.Node, media driver.VirtualMedia, medium node.Medium, turn driver.Turn) (driver.Outcome, error) {
	attached, err := media.Media(ctx, n)
	if err != nil {
		return driver.Outcome{}, err
	}
	other := func(a node.Medium) bool { return a.DeviceType == medium.DeviceType && a.ImageURL != medium.ImageURL }
	if !slices.ContainsFunc(attached, other) {
		return driver.Outcome{}, nil
	}
	return media.DetachMedia(ctx, n, []string{medium.DeviceType}, turn)
}

// withoutSecret removes the secret of a boot from what a BMC says about it, which readers of
// the node see.
func withoutSecret(err error, secret string) error {
	var failure *node.DriverError
	if !errors.As(err, &failure) {
		return err
	}
	masked := *failure
	masked.Op, masked.Reason = strings.ReplaceAll(failure.Op, secret, "******"), strings.ReplaceAll(failure.Reason, secret, "******")
	return &masked
}

// LeaveRamdisk detaches the medium and withdraws it.
func (m mediaInterface) LeaveRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	media, err := m.media(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	out, err := media.DetachMedia(ctx, n, []string{mediumDevice}, turn)
	if err == nil && out.Done() {
		out.Apply = node.WithdrawRamdiskBoot
	}
	if boot, serves := node.RamdiskBootOf(n); serves && err != nil {
		err = withoutSecret(err, boot.Secret)
	}
	return out, err
}
