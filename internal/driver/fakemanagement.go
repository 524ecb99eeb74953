package driver

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// fakeBootDevices is what fake machines start from, the first one unless told
// otherwise.
var fakeBootDevices = []string{"pxe", "disk", "cdrom", "bios", "safe"}

// BootDevices lists what fake machines start from.
func (Fake) BootDevices(*node.Node) []string { return slices.Clone(fakeBootDevices) }

// BootDevice returns what was set last, or the network.
func (Fake) BootDevice(_ context.Context, n *node.Node) (node.BootDevice, error) {
	if err := fakeFailure(n, "management"); err != nil {
		return node.BootDevice{}, err
	}
	no := false
	device := node.BootDevice{Device: fakeBootDevices[0], Persistent: &no}
	fakeRecall(n, "boot_device", &device)
	return device, nil
}

// SetBootDevice remembers the device.
func (Fake) SetBootDevice(_ context.Context, n *node.Node, device node.BootDevice) (Outcome, error) {
	return fakeRemember("boot_device", device), fakeFailure(n, "management")
}

// InjectNMI does nothing.
func (Fake) InjectNMI(_ context.Context, n *node.Node) error { return fakeFailure(n, "management") }

// BootMode returns the stored mode, or UEFI.
func (Fake) BootMode(_ context.Context, n *node.Node) (string, error) {
	if n.BootMode == "" {
		return "uefi", nil
	}
	return n.BootMode, nil
}

// SetBootMode changes the mode at once.
func (Fake) SetBootMode(_ context.Context, n *node.Node, mode string, turn Turn) (Outcome, error) {
	out, err := fakeWork(n, "management", turn)
	out.Apply = func(n *node.Node) { n.BootMode = mode }
	return out, err
}

// SecureBoot returns the stored state, or false.
func (Fake) SecureBoot(_ context.Context, n *node.Node) (bool, error) {
	return n.SecureBoot != nil && *n.SecureBoot, nil
}

// SetSecureBoot changes the state at once.
func (Fake) SetSecureBoot(_ context.Context, n *node.Node, on bool, turn Turn) (Outcome, error) {
	out, err := fakeWork(n, "management", turn)
	out.Apply = func(n *node.Node) { n.SecureBoot = &on }
	return out, err
}

// AttachMedium remembers the medium in place of one of the same type.
func (f Fake) AttachMedium(ctx context.Context, n *node.Node, medium node.Medium) (Outcome, error) {
	media, err := f.Media(ctx, n)
	media = slices.DeleteFunc(media, func(m node.Medium) bool { return m.DeviceType == medium.DeviceType })
	return fakeRemember("media", append(media, medium)), err
}

// DetachMedia forgets the media.
func (f Fake) DetachMedia(ctx context.Context, n *node.Node, deviceTypes []string) (Outcome, error) {
	media, err := f.Media(ctx, n)
	media = slices.DeleteFunc(media, func(m node.Medium) bool {
		return len(deviceTypes) == 0 || slices.Contains(deviceTypes, m.DeviceType)
	})
	return fakeRemember("media", media), err
}

// Media returns what is attached.
func (Fake) Media(_ context.Context, n *node.Node) ([]node.Medium, error) {
	media := []node.Medium{}
	fakeRecall(n, "media", &media)
	return media, fakeFailure(n, "management")
}

// noManagement is the management of machines that nobody can be told what to
// start from.
type noManagement struct{ passive }

var _ Management = noManagement{}

// BootDevices names what a person could choose.
func (noManagement) BootDevices(*node.Node) []string { return []string{"pxe", "disk"} }

// BootDevice does not know.
func (noManagement) BootDevice(context.Context, *node.Node) (node.BootDevice, error) {
	return node.BootDevice{}, nil
}

// SetBootDevice leaves it to a person.
func (noManagement) SetBootDevice(_ context.Context, n *node.Node, device node.BootDevice) (Outcome, error) {
	if !slices.Contains([]string{"pxe", "disk"}, device.Device) {
		return Outcome{}, node.Invalid("The management interface noop of node %s does not know the boot device %q.", n.UUID, device.Device)
	}
	return Outcome{}, nil
}
