package netboot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/node"
)

// virtualDrive is the virtual CD of a machine, which takes two turns for each change.
type virtualDrive struct {
	driver.VirtualMedia
	medium   string // URL of what is in it; empty for nothing
	left     string // the same for another drive that is a CD, too
	attempts []driver.Attempt
	before   func()
	failed   error
}

func (d *virtualDrive) AttachMedium(_ context.Context, _ *node.Node, medium node.Medium, turn driver.Turn) (driver.Outcome, error) {
	if d.before != nil {
		d.before()
	}
	d.attempts = append(d.attempts, turn.Attempt)
	if d.failed != nil {
		return driver.Outcome{}, d.failed
	}
	if turn.Phase != "ejected" {
		return driver.Outcome{Again: 1, Phase: "ejected"}, nil
	}
	d.medium = medium.DeviceType + " " + medium.ImageURL
	return driver.Outcome{}, nil
}

func (d *virtualDrive) Media(context.Context, *node.Node) ([]node.Medium, error) {
	if d.left == "" {
		return nil, nil
	}
	return []node.Medium{{DeviceType: "cdrom", ImageURL: d.left}}, nil
}

func (d *virtualDrive) DetachMedia(_ context.Context, _ *node.Node, devices []string, turn driver.Turn) (driver.Outcome, error) {
	if turn.Phase == "" {
		return driver.Outcome{Again: 1, Phase: "asked"}, nil
	}
	if d.failed == nil && slices.Equal(devices, []string{"cdrom"}) {
		d.medium, d.left = "", ""
	}
	return driver.Outcome{}, d.failed
}

// mediaBoot returns the boot interface of machines with that drive.
func mediaBoot(d *virtualDrive, b *bootDevices) driver.RamdiskBoot {
	withLoader := config
	withLoader.URL, withLoader.BootLoader = "http://192.0.2.1:6386", "http://images/esp"
	return netboot.New(withLoader, &cachedImages{},
		func(*node.Node) (driver.Management, error) { return b, nil },
		func(*node.Node) (driver.VirtualMedia, error) { return d, nil },
	).Interfaces()["redfish-virtual-media"].(driver.RamdiskBoot)
}

func TestMediumIsServedBeforeItIsAttachedAndUntilItIsDetached(t *testing.T) {
	n, d, b := inspected(nil, nil), &virtualDrive{}, &bootDevices{devices: []string{"pxe", "cdrom"}}
	d.before = func() {
		if _, stored := node.RamdiskBootOf(n); !stored || len(b.set) > 0 {
			t.Error("the medium was attached before it was served, or after the boot device was set")
		}
	}
	boot := mediaBoot(d, b)
	if err := play(t, n, boot.BootRamdisk); err != nil {
		t.Fatal(err)
	}
	served, _ := node.RamdiskBootOf(n)
	if want := "cdrom http://192.0.2.1:6386/boot/u/" + served.Secret + "/boot.iso"; d.medium != want || served.BootLoader != "http://images/esp" {
		t.Errorf("in the drive is %q, want %q; boot loader %q", d.medium, want, served.BootLoader)
	}
	once := false
	if diff := cmp.Diff([]node.BootDevice{{Device: "cdrom", Persistent: &once}}, b.set); diff != "" {
		t.Errorf("boot devices:\n%s", diff)
	}
	if want := []driver.Attempt{driver.Fresh, driver.Continued}; !slices.Equal(d.attempts, want) {
		t.Errorf("attempts %q, want %q", d.attempts, want)
	}

	if err := play(t, n, boot.LeaveRamdisk); err != nil || d.medium != "" {
		t.Errorf("after leaving: %v, in the drive is %q", err, d.medium)
	}
	if _, still := node.RamdiskBootOf(n); still {
		t.Error("the medium is still served")
	}
}

func TestMediumThatCannotBeDetachedStaysOnRecord(t *testing.T) {
	n, d := inspected(nil, nil), &virtualDrive{}
	boot := mediaBoot(d, &bootDevices{devices: []string{"cdrom"}})
	if err := play(t, n, boot.BootRamdisk); err != nil {
		t.Fatal(err)
	}
	d.failed = errors.New("refused")
	if err := play(t, n, boot.LeaveRamdisk); !errors.Is(err, d.failed) {
		t.Errorf("got %v, want the refusal", err)
	}
	if _, still := node.RamdiskBootOf(n); !still {
		t.Error("nobody knows any more that a medium is attached")
	}
}

func TestMediumOfAnEarlierBootIsDetachedBeforeTheNextOneIsAttached(t *testing.T) {
	n, d := inspected(nil, nil), &virtualDrive{left: "http://192.0.2.1:6386/boot/u/of-an-earlier-boot/boot.iso"}
	d.before = func() {
		if d.left != "" {
			t.Error("the machine has two CDs to boot from")
		}
	}
	if err := play(t, n, mediaBoot(d, &bootDevices{devices: []string{"cdrom"}}).BootRamdisk); err != nil || d.medium == "" {
		t.Errorf("got %v, with %q in the drive", err, d.medium)
	}
	if want := []driver.Attempt{driver.Fresh, driver.Continued}; !slices.Equal(d.attempts, want) {
		t.Errorf("attempts %q, want %q", d.attempts, want)
	}
}

func TestMediumThatWasWithdrawnIsNotAttached(t *testing.T) {
	d := &virtualDrive{}
	_, err := mediaBoot(d, &bootDevices{}).BootRamdisk(t.Context(), inspected(nil, nil), driver.Turn{Attempt: driver.Continued, Phase: "store/cdrom/"})
	if err == nil || !strings.Contains(err.Error(), "withdrawn") || len(d.attempts) > 0 {
		t.Errorf("got %v after %d calls, want a failure and none", err, len(d.attempts))
	}
}

func TestVirtualMediaNeedABootLoader(t *testing.T) {
	boot := netboot.New(config, &cachedImages{}, nil, nil).Interfaces()["redfish-virtual-media"].(driver.RamdiskBoot)
	if err := boot.Validate(inspected(nil, nil)); err == nil || !strings.Contains(err.Error(), "boot loader") {
		t.Errorf("got %v, want the missing boot loader", err)
	}
	own := inspected(map[string]any{"bootloader": "http://images/own"}, nil)
	if err := boot.Validate(own); err != nil {
		t.Errorf("with one of the node: %v", err)
	}
}

func TestSecretOfAMediumIsNotInTheErrorsOfItsBMC(t *testing.T) {
	n, d := inspected(nil, nil), &virtualDrive{}
	d.before = func() {
		served, _ := node.RamdiskBootOf(n)
		d.failed = &node.DriverError{Op: "attach", Reason: "cannot open http://192.0.2.1:6386/boot/u/" + served.Secret + "/boot.iso"}
	}
	err := play(t, n, mediaBoot(d, &bootDevices{devices: []string{"cdrom"}}).BootRamdisk)
	served, _ := node.RamdiskBootOf(n)
	if err == nil || strings.Contains(err.Error(), served.Secret) || !strings.Contains(err.Error(), "cannot open") {
		t.Errorf("got %v, want the reason without %q", err, served.Secret)
	}
}

func TestParametersThatNoMediumCanPassOnAreRefused(t *testing.T) {
	boot := mediaBoot(&virtualDrive{}, &bootDevices{})
	if err := boot.Validate(inspected(map[string]any{"kernel_append_params": `console="tty 0"`}, nil)); err == nil || !strings.Contains(err.Error(), "virtual medium") {
		t.Errorf("got %v, want a refusal", err)
	}
}
