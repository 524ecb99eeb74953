package fake

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// bootDevices are the boot devices of fake machines, the default first.
var bootDevices = []string{"pxe", "disk", "cdrom", "bios", "safe"}

// manage makes a turn of a quick operation, which takes no time without a machine.
func (h Hardware) manage(ctx context.Context, n *node.Node, o order, turn driver.Turn) (driver.Outcome, error) {
	if machine, ok := h.machine(n); ok {
		return carryOut(ctx, machine, o, turn)
	}
	return driver.Outcome{}, failure(n, "management")
}

// BootDevices lists the boot devices of fake machines.
func (Hardware) BootDevices(*node.Node) []string { return slices.Clone(bootDevices) }

// BootDevice returns the device that was set last, or the network.
func (Hardware) BootDevice(_ context.Context, n *node.Node) (node.BootDevice, error) {
	if err := failure(n, "management"); err != nil {
		return node.BootDevice{}, err
	}
	no := false
	device := node.BootDevice{Device: bootDevices[0], Persistent: &no}
	recall(n, "boot_device", &device)
	return device, nil
}

// SetBootDevice stores the device.
func (h Hardware) SetBootDevice(ctx context.Context, n *node.Node, device node.BootDevice, turn driver.Turn) (driver.Outcome, error) {
	out, err := h.manage(ctx, n, order{kind: BootDevice, detail: device.Device}, turn)
	return applied(out, err, remember("boot_device", device))
}

// InjectNMI interrupts the machine. It does not repeat a request whose outcome is unknown: a second
// interrupt would end what the first one started, such as writing a crash dump.
func (h Hardware) InjectNMI(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return h.manage(ctx, n, order{kind: NMI, once: true}, turn)
}

// BootMode returns the stored mode, or UEFI.
func (Hardware) BootMode(_ context.Context, n *node.Node) (string, error) {
	if n.BootMode == "" {
		return "uefi", nil
	}
	return n.BootMode, nil
}

// SetBootMode changes the mode.
func (h Hardware) SetBootMode(ctx context.Context, n *node.Node, mode string, turn driver.Turn) (driver.Outcome, error) {
	out, err := underWork(h.turn(ctx, n, "management", order{kind: Configure, detail: "boot mode " + mode}, turn))
	return applied(out, err, func(n *node.Node) { n.BootMode = mode })
}

// SecureBoot returns the stored state, or false.
func (Hardware) SecureBoot(_ context.Context, n *node.Node) (bool, error) {
	return n.SecureBoot != nil && *n.SecureBoot, nil
}

// SetSecureBoot changes the state.
func (h Hardware) SetSecureBoot(ctx context.Context, n *node.Node, on bool, turn driver.Turn) (driver.Outcome, error) {
	out, err := underWork(h.turn(ctx, n, "management", order{kind: Configure, detail: "secure boot " + strconv.FormatBool(on)}, turn))
	return applied(out, err, func(n *node.Node) { n.SecureBoot = &on })
}

// AttachMedium stores the medium; it replaces one of the same type.
func (h Hardware) AttachMedium(ctx context.Context, n *node.Node, medium node.Medium, turn driver.Turn) (driver.Outcome, error) {
	out, err := h.manage(ctx, n, order{kind: AttachMedium, detail: medium.DeviceType}, turn)
	media := slices.DeleteFunc(attached(n), func(m node.Medium) bool { return m.DeviceType == medium.DeviceType })
	return applied(out, err, remember("media", append(media, medium)))
}

// DetachMedia removes the media.
func (h Hardware) DetachMedia(ctx context.Context, n *node.Node, deviceTypes []string, turn driver.Turn) (driver.Outcome, error) {
	out, err := h.manage(ctx, n, order{kind: DetachMedia, detail: strings.Join(deviceTypes, ", ")}, turn)
	media := slices.DeleteFunc(attached(n), func(m node.Medium) bool {
		return len(deviceTypes) == 0 || slices.Contains(deviceTypes, m.DeviceType)
	})
	return applied(out, err, remember("media", media))
}

// Media returns what is attached.
func (Hardware) Media(_ context.Context, n *node.Node) ([]node.Medium, error) {
	return attached(n), failure(n, "management")
}

func attached(n *node.Node) []node.Medium {
	media := []node.Medium{}
	recall(n, "media", &media)
	return media
}
