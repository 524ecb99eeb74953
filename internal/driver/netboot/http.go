package netboot

import (
	"context"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// httpInterface boots machines whose firmware fetches the virtual medium itself, from a URL
// that the BMC hands to it (UEFI HTTP boot). It needs no virtual device and no setting in the
// DHCP server, which only gives the machine an address.
type httpInterface struct {
	mediaInterface
	onlyHTTPS bool
}

var (
	_ driver.RamdiskBoot  = httpInterface{}
	_ driver.InstanceBoot = httpInterface{}
	_ driver.ImageBoot    = httpInterface{}
)

// Validate checks whether the medium of the node can be served.
func (h httpInterface) Validate(n *node.Node) error {
	_, err := h.boot(n)
	return err
}

// boot decides what the machine boots. There is no second medium for the agent's parameters.
func (h httpInterface) boot(n *node.Node) (node.RamdiskBoot, error) {
	boot, err := h.mediaInterface.boot(n)
	switch {
	case err != nil:
		return boot, err
	case boot.ParametersMedium && boot.ISO != "":
		return boot, node.Invalid("The ISO of node %s cannot get the agent's parameters without virtual media: unset driver_info.%s so that the engine makes the image, "+
			"or build the parameters into the ISO and set driver_info.%s to false.", n.UUID, isoKey, removableKey)
	case boot.ParametersMedium:
		return boot, node.Invalid("driver_info.%s of node %s needs the boot interface redfish-virtual-media: unset it.", removableKey, n.UUID)
	}
	return boot, h.checkURL(n)
}

// checkURL returns a *node.ValidationError when the boot service has no URL that the interface
// takes.
func (h httpInterface) checkURL(n *node.Node) error {
	if h.onlyHTTPS && !strings.HasPrefix(h.config.URL, "https://") {
		return node.Invalid("The boot interface redfish-https of node %s needs a boot service with TLS: set boot.tls_certificate, boot.tls_key and an https URL in boot.public_url, "+
			"or choose the boot interface http, which takes any URL.", n.UUID)
	}
	return nil
}

// image decides what the machine boots its instance from.
func (h httpInterface) image(n *node.Node) (node.RamdiskBoot, error) {
	boot, err := h.mediaInterface.image(n)
	if err != nil {
		return boot, err
	}
	return boot, h.checkURL(n)
}

// CheckImage checks the image of the instance.
func (h httpInterface) CheckImage(n *node.Node) error {
	_, err := h.image(n)
	return err
}

// BootImage fetches the image, stores what is served, and then makes the machine boot from its URL,
// at each start unless the node forbids that.
func (h httpInterface) BootImage(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return h.serve(ctx, n, turn, plan{boot: h.image, persistent: persistenceOf(n) != never})
}

// BootRamdisk fetches the images, stores what is served, and then makes the machine boot from its
// URL, once unless the node has force_persistent_boot_device Always.
func (h httpInterface) BootRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return h.serve(ctx, n, turn, plan{boot: h.boot, persistent: persistenceOf(n) == always})
}

// FetchRamdisk fetches the images that BootRamdisk serves.
func (h httpInterface) FetchRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return h.fetchAhead(ctx, n, turn, h.boot)
}

// serve makes a turn of booting a plan.
func (h httpInterface) serve(ctx context.Context, n *node.Node, turn driver.Turn, what plan) (driver.Outcome, error) {
	if p := parsePhase(turn.Phase); p.stage == stored || p.stage == setting {
		return h.setURL(ctx, n, p, turn, what.persistent)
	}
	boot, err := what.boot(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	return h.prepare(ctx, n, boot, uefiHTTPDevice, turn)
}

// setURL makes a turn of telling the BMC what the machine boots.
func (h httpInterface) setURL(ctx context.Context, n *node.Node, p phase, turn driver.Turn, persistent bool) (driver.Outcome, error) {
	boot, serves := node.RamdiskBootOf(n)
	if !serves {
		return driver.Outcome{}, withdrawn(n)
	}
	p = p.begins(turn)
	device := node.BootDevice{Device: uefiHTTPDevice, Persistent: &persistent, URL: h.config.URL + boot.Path(n.UUID, node.BootMediumFile)}
	out, err := h.set(ctx, n, device, p.turnOf(turn))
	if err != nil {
		return driver.Outcome{}, withoutSecret(err, boot.Secret)
	}
	if !out.Done() {
		out.Phase = phase{stage: setting, device: p.device, inner: out.Phase, since: p.since}.String()
	}
	return out, nil
}

// DetachesMedia reports that LeaveRamdisk detaches nothing.
func (httpInterface) DetachesMedia() bool { return false }

// LeaveRamdisk withdraws what is served. It leaves the boot device, which lasts for one boot unless
// the node has force_persistent_boot_device Always.
func (h httpInterface) LeaveRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return h.bootInterface.LeaveRamdisk(ctx, n, turn)
}
