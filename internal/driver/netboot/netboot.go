// Package netboot implements the boot interfaces that start machines with what the boot service
// serves:
//
//   - ipxe and pxe are for machines whose DHCP server hands out iPXE by TFTP.
//   - http-ipxe is for machines that load iPXE by UEFI HTTP boot. It runs the same script as ipxe
//     and pxe, and differs in the boot device that is set.
//   - redfish-virtual-media is for machines whose BMC attaches an image that the machine boots as
//     from a CD.
//   - redfish-https and http are for machines whose firmware fetches that image itself.
//
// The interfaces store what is served for a boot in the node, see node.RamdiskBoot, and set the
// boot device through the node's management interface. Where that has no such device, the machine's
// own boot order decides.
package netboot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Images gets images for the boot service.
type Images interface {
	// Check returns what is wrong with the URL of an image, as the end of a sentence
	// about it. It waits for nothing.
	Check(url string) error
	// Prepare gets an image, so that it can be served at once, and returns its version. It
	// returns the error of ctx while that takes longer.
	Prepare(ctx context.Context, url string) (version string, err error)
}

// Management returns the management interface of a node.
type Management func(*node.Node) (driver.Management, error)

// Media returns what attaches virtual media to the machine of a node.
type Media func(*node.Node) (driver.VirtualMedia, error)

// Driver makes the boot interfaces. It is safe for concurrent use.
type Driver struct {
	config     Config
	images     Images
	management Management
	media      Media
}

// New returns a driver. Images may be nil when nothing is served.
func New(config Config, images Images, management Management, media Media) Driver {
	return Driver{config: config, images: images, management: management, media: media}
}

// Boot devices of the Bare Metal API.
const (
	networkDevice  = "pxe"
	uefiHTTPDevice = "uefihttp"
	mediumDevice   = "cdrom"
	floppyDevice   = "floppy" // a virtual device only
	diskDevice     = "disk"
)

// Interfaces returns the boot interfaces by name.
func (d Driver) Interfaces() map[string]driver.Implementation {
	return map[string]driver.Implementation{
		"ipxe":      bootInterface{Driver: d, devices: []string{networkDevice}},
		"pxe":       bootInterface{Driver: d, devices: []string{networkDevice}},
		"http-ipxe": bootInterface{Driver: d, devices: []string{uefiHTTPDevice, networkDevice}},

		"redfish-virtual-media": mediaInterface{bootInterface{Driver: d, devices: []string{mediumDevice}}},
		"redfish-https":         httpInterface{mediaInterface: mediaInterface{bootInterface{Driver: d, devices: []string{uefiHTTPDevice}}}, onlyHTTPS: true},
		"http":                  httpInterface{mediaInterface: mediaInterface{bootInterface{Driver: d, devices: []string{uefiHTTPDevice}}}},
	}
}

// bootInterface is one boot interface.
type bootInterface struct {
	Driver
	devices []string // for booting the ramdisk, the preferred one first
}

var (
	_ driver.RamdiskBoot  = bootInterface{}
	_ driver.InstanceBoot = bootInterface{}
	_ driver.ImageBoot    = bootInterface{}
)

// Validate checks whether the ramdisk of the node can be served.
func (b bootInterface) Validate(n *node.Node) error {
	_, err := b.ramdisk(n)
	return err
}

// Stages of booting a ramdisk, as they are stored in the phase of an outcome. While the images are
// fetched, there is no stage, because nothing was changed; earlier releases stored "fetch" then.
const (
	stored    stage = "store"    // what is served is stored; no BMC was called yet
	ejecting  stage = "eject"    // media of other boots are being detached
	inserting stage = "insert"   // the medium is being attached
	inserted  stage = "inserted" // the medium is attached; the boot device was not set yet
	setting   stage = "set"      // the boot device is being set
)

// Times of fetching images.
const (
	fetchWithin = 30 * time.Minute // before the boot fails
	fetchWait   = 2 * time.Second  // in one turn, which keeps others from the BMC
	fetchPause  = 3 * time.Second  // between two turns
	soon        = time.Millisecond // when the next turn has nothing to wait for
)

// BootRamdisk fetches the images, stores what is served, and then makes the machine boot from the
// network, once unless the node has force_persistent_boot_device Always.
func (b bootInterface) BootRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return b.serve(ctx, n, turn, plan{boot: b.ramdisk, persistent: persistenceOf(n) == always})
}

// FetchRamdisk fetches the images that BootRamdisk serves, so that BootRamdisk has them at once. It
// does not change the machine, which may be in use meanwhile. So the node waits in its waiting
// state, where the work may be aborted.
func (b bootInterface) FetchRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return b.fetchAhead(ctx, n, turn, b.ramdisk)
}

// fetchAhead makes a turn of fetching the images of the boot that decide returns.
func (b bootInterface) fetchAhead(ctx context.Context, n *node.Node, turn driver.Turn, decide func(*node.Node) (node.RamdiskBoot, error)) (driver.Outcome, error) {
	boot, err := decide(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	wait, err := b.fetch(ctx, &boot, turn.Elapsed)
	if err != nil || !wait {
		return driver.Outcome{}, err
	}
	return driver.Outcome{Park: fetchPause}, nil
}

// ramdisk decides what the machine boots the ramdisk from.
func (b bootInterface) ramdisk(n *node.Node) (node.RamdiskBoot, error) {
	return b.config.boot(n, b.images)
}

// plan is what a machine boots, and for how long.
type plan struct {
	// boot returns what is served, with its secret left empty. The error is a
	// *node.ValidationError.
	boot func(*node.Node) (node.RamdiskBoot, error)
	// persistent makes the machine boot that at each start.
	persistent bool
}

// serve makes a turn of booting a plan.
func (b bootInterface) serve(ctx context.Context, n *node.Node, turn driver.Turn, what plan) (driver.Outcome, error) {
	if p := parsePhase(turn.Phase); p.stage == stored || p.stage == setting {
		return b.setDevice(ctx, n, p, turn, what.persistent)
	}
	boot, err := what.boot(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	wait, err := b.fetch(ctx, &boot, turn.Elapsed)
	if err != nil || wait {
		return driver.Outcome{Again: fetchPause}, err
	}
	out := driver.Outcome{Apply: boot.StoreIn, Note: unusedNetwork(n, boot)}
	devices, err := b.choices(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	if len(devices) > 0 {
		out.Again, out.Phase = soon, phase{stage: stored, device: devices[0]}.String()
	}
	return out, nil
}

// unusedNetwork returns what the node's history says of network_data that does not reach the
// ramdisk. It is empty when the network_data does reach it, or there is none.
func unusedNetwork(n *node.Node, boot node.RamdiskBoot) string {
	switch {
	case boot.Instance, n.NetworkData.IsEmpty(), !boot.NetworkData.IsEmpty():
		return ""
	case boot.ISO != "":
		return "The network_data of the node is not on the medium, because an ISO image is booted as it is: what the ramdisk needs has to be built into that."
	}
	return "The network_data of the node has no effect, because its ramdisk is booted over the network: only a virtual medium that the engine makes has it."
}

// fetch gets the images of a boot into the cache, and reports whether that needs another
// turn. If not, the boot has a new secret and, for a ramdisk, the versions of its images.
func (b bootInterface) fetch(ctx context.Context, boot *node.RamdiskBoot, elapsed time.Duration) (wait bool, err error) {
	const op = "fetch what the machine boots"
	bounded, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	versions := map[string]string{}
	for _, image := range imagesOf(*boot) {
		version, err := b.images.Prepare(bounded, image.url)
		switch {
		case err == nil:
			versions[image.url] = version
		case ctx.Err() != nil:
			return false, ctx.Err()
		case bounded.Err() == nil || !errors.Is(err, bounded.Err()):
			return false, &node.DriverError{Op: op, Refused: true, Reason: node.CutText("the " + image.name + " " + image.url + " cannot be fetched: " + err.Error())}
		case elapsed > fetchWithin:
			return false, &node.DriverError{Op: op, Refused: true, Reason: node.CutText("the " + image.name + " " + image.url + " was not fetched within " + fetchWithin.String())}
		default:
			return true, nil
		}
	}
	boot.Secret = node.NewBootSecret()
	if !boot.Instance { // an instance starts later, with the versions that there are then
		boot.Versions = versions
	}
	return false, nil
}

// choices lists the boot devices of the interface that the node's management interface has, the
// preferred one first.
func (b bootInterface) choices(n *node.Node) ([]string, error) {
	management, err := b.management(n)
	var missing *node.NotSupportedError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	has := management.BootDevices(n)
	return slices.DeleteFunc(slices.Clone(b.devices), func(device string) bool { return !slices.Contains(has, device) }), nil
}

// setDevice makes a turn of setting the boot device. If the machine does not have that device, the
// next turn sets the last device of choices.
func (b bootInterface) setDevice(ctx context.Context, n *node.Node, p phase, turn driver.Turn, persistent bool) (driver.Outcome, error) {
	p = p.begins(turn)
	out, err := b.set(ctx, n, node.BootDevice{Device: p.device, Persistent: &persistent}, p.turnOf(turn))
	var refused *node.DriverError
	if errors.As(err, &refused) && refused.Refused && !refused.Retryable {
		if devices, _ := b.choices(n); len(devices) > 0 && devices[len(devices)-1] != p.device {
			return driver.Outcome{Again: soon, Phase: phase{stage: stored, device: devices[len(devices)-1]}.String()}, nil
		}
	}
	if !out.Done() {
		out.Phase = phase{stage: setting, device: p.device, inner: out.Phase, since: p.since}.String()
	}
	return out, err
}

func (b bootInterface) set(ctx context.Context, n *node.Node, device node.BootDevice, turn driver.Turn) (driver.Outcome, error) {
	management, err := b.management(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	return management.SetBootDevice(ctx, n, device, turn)
}

// LeaveRamdisk withdraws what is served. It leaves the boot device, which lasts for one boot unless
// the node has force_persistent_boot_device Always.
func (bootInterface) LeaveRamdisk(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{Apply: node.WithdrawRamdiskBoot}, nil
}

// BootInstance makes the machine boot from its disk.
func (b bootInterface) BootInstance(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	management, err := b.management(n)
	var missing *node.NotSupportedError
	switch {
	case errors.As(err, &missing):
		return driver.Outcome{}, nil
	case err != nil:
		return driver.Outcome{}, err
	case !slices.Contains(management.BootDevices(n), diskDevice):
		return driver.Outcome{}, nil
	}
	persistent := persistenceOf(n) != never
	return management.SetBootDevice(ctx, n, node.BootDevice{Device: diskDevice, Persistent: &persistent}, turn)
}

// persistence says which boot devices last (driver_info.force_persistent_boot_device).
type persistence string

const (
	byDefault persistence = "Default" // that of the instance
	always    persistence = "Always"  // that of the ramdisk, too
	never     persistence = "Never"   // none
)

func persistenceOf(n *node.Node) persistence {
	return cmp.Or(persistence(n.DriverInfo.Text(persistenceKey)), byDefault)
}
