package netboot

import (
	"cmp"
	"context"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Keys of instance_info for an instance that is an image.
const (
	imageISOKey     = "boot_iso"
	imageKernelKey  = "kernel"
	imageRamdiskKey = "ramdisk"
	diskImageKey    = "image_source" // what others write to a disk
)

// imageBoot returns the image of the node's instance as it is served; the secret is left
// empty. The error is a *node.ValidationError.
func (c Config) imageBoot(n *node.Node, images Images) (node.RamdiskBoot, error) {
	boot := node.RamdiskBoot{
		Instance: true, ISO: n.InstanceInfo.Text(imageISOKey),
		Kernel: n.InstanceInfo.Text(imageKernelKey), Ramdisk: n.InstanceInfo.Text(imageRamdiskKey),
	}
	kernel := boot.Kernel != "" || boot.Ramdisk != ""
	switch {
	case !c.Serves:
		return boot, errNotServed
	case boot.ISO != "" && (kernel || n.InstanceInfo.Text(diskImageKey) != ""):
		return boot, node.Invalid("The instance_info of node %s has %s and another image: keep one of them.", n.UUID, imageISOKey)
	case boot.ISO == "" && (boot.Kernel == "" || boot.Ramdisk == ""):
		return boot, node.Invalid("Node %s has no image to boot: set %s in its instance_info to the URL of an ISO image, or %s and %s to those of a kernel and its initial file system.",
			n.UUID, imageISOKey, imageKernelKey, imageRamdiskKey)
	}
	if err := checkImages(n, boot, images); err != nil || boot.ISO != "" {
		return boot, cmp.Or(err, checkPersistence(n))
	}
	var err error
	if boot.KernelParams, err = c.imageParams(n); err != nil {
		return boot, err
	}
	return boot, checkPersistence(n)
}

// imageParams returns the command line of the instance's kernel: that of the instance, else that of
// the node, else that of the configuration. The engine adds nothing to it.
func (c Config) imageParams(n *node.Node) (string, error) {
	text := cmp.Or(n.InstanceInfo.Text(paramsKey), n.DriverInfo.Text(paramsKey), c.KernelParams)
	return joinParams(n, strings.Fields(strings.ReplaceAll(text, "%default%", c.KernelParams)))
}

// image decides what the machine boots its instance from.
func (b bootInterface) image(n *node.Node) (node.RamdiskBoot, error) {
	boot, err := b.config.imageBoot(n, b.images)
	boot.Network = boot.ISO != ""
	return boot, err
}

// CheckImage checks the image of the instance.
func (b bootInterface) CheckImage(n *node.Node) error {
	_, err := b.image(n)
	return err
}

// BootImage fetches the image, stores what is served, and then makes the machine boot from the
// network, at each start unless the node forbids that.
func (b bootInterface) BootImage(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return b.serve(ctx, n, turn, plan{boot: b.image, persistent: persistenceOf(n) != never})
}

// image decides what the medium of the instance is, or is made of.
func (m mediaInterface) image(n *node.Node) (node.RamdiskBoot, error) {
	boot, err := m.config.imageBoot(n, m.images)
	if err != nil || boot.ISO != "" {
		return boot, err
	}
	if boot, err = m.withBootLoader(n, boot); err != nil {
		return boot, err
	}
	return boot, m.checkMedium(n, boot)
}

// CheckImage checks the image of the instance.
func (m mediaInterface) CheckImage(n *node.Node) error {
	_, err := m.image(n)
	return err
}

// BootImage fetches the image, attaches it as a virtual CD, and then makes the machine boot from
// that, at each start unless the node forbids that.
func (m mediaInterface) BootImage(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return m.serve(ctx, n, turn, plan{boot: m.image, persistent: persistenceOf(n) != never})
}
