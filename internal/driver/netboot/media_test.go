package netboot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/node"
)

// virtualDrive is the virtual CD of a machine, which takes two turns for each change.
type virtualDrive struct {
	driver.VirtualMedia
	medium   string        // URL of what is in it; empty for nothing
	floppy   string        // URL of what is in the second one; empty for nothing
	noFloppy bool          // there is no second one
	beside   string        // that the second one was to be beside
	elapsed  time.Duration // of the last turn of the latest change
	left     string        // URL of what is in another drive that is a CD, too
	stays    bool          // that may be another machine's
	attempts []driver.Attempt
	before   func()
	failed   error
	apply    func(*node.Node) // what detaching changes in the node
}

func (d *virtualDrive) AttachMedium(_ context.Context, _ *node.Node, medium node.Medium, turn driver.Turn) (driver.Outcome, error) {
	if d.before != nil {
		d.before()
	}
	d.attempts = append(d.attempts, turn.Attempt)
	if d.failed != nil {
		return driver.Outcome{}, d.failed
	}
	if medium.DeviceType == "floppy" && d.noFloppy {
		return driver.Outcome{}, &node.DriverError{Op: "attach the medium", Refused: true, Reason: "the BMC has no other virtual device of the type floppy"}
	}
	d.elapsed = turn.Elapsed
	if turn.Phase != "ejected" {
		return driver.Outcome{Again: time.Second, Phase: "ejected"}, nil
	}
	if medium.DeviceType == "floppy" {
		d.floppy, d.beside = medium.DeviceType+" "+medium.ImageURL, medium.Beside
	} else {
		d.medium = medium.DeviceType + " " + medium.ImageURL
	}
	return driver.Outcome{}, nil
}

func (d *virtualDrive) Media(context.Context, *node.Node) ([]node.Medium, error) {
	var attached []node.Medium
	for _, url := range []string{d.left, strings.TrimPrefix(d.medium, "cdrom ")} {
		if url != "" {
			attached = append(attached, node.Medium{DeviceType: "cdrom", ImageURL: url, Stays: d.stays && url == d.left})
		}
	}
	return attached, nil
}

func (d *virtualDrive) DetachMedia(_ context.Context, _ *node.Node, devices []string, turn driver.Turn) (driver.Outcome, error) {
	if turn.Phase == "" {
		return driver.Outcome{Again: 1, Phase: "asked"}, nil
	}
	if d.failed == nil && slices.Contains(devices, "cdrom") {
		d.medium, d.left = "", ""
	}
	if d.failed == nil && slices.Contains(devices, "floppy") {
		d.floppy = ""
	}
	return driver.Outcome{Apply: d.apply}, d.failed
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

// TestEarlierMediumIsDetachedFirst boots a machine once more whose medium is attached still.
func TestEarlierMediumIsDetachedFirst(t *testing.T) {
	n, d := inspected(nil, nil), &virtualDrive{}
	boot := mediaBoot(d, &bootDevices{devices: []string{"cdrom"}})
	if err := play(t, n, boot.BootRamdisk); err != nil {
		t.Fatal(err)
	}
	first, _ := node.RamdiskBootOf(n)
	d.before = func() {
		if d.medium != "" {
			t.Errorf("the drive still has %q", d.medium)
		}
	}
	if err := play(t, n, boot.BootRamdisk); err != nil {
		t.Fatal(err)
	}
	if second, _ := node.RamdiskBootOf(n); second.Secret == first.Secret || !strings.Contains(d.medium, second.Secret) {
		t.Errorf("in the drive is %q, want the medium of the second boot", d.medium)
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

func TestWhatDetachingChangesInTheNodeIsStored(t *testing.T) {
	n, d := inspected(nil, nil), &virtualDrive{apply: func(n *node.Node) {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{"detached": true})
	}}
	boot := mediaBoot(d, &bootDevices{devices: []string{"cdrom"}})
	if err := errors.Join(play(t, n, boot.BootRamdisk), play(t, n, boot.LeaveRamdisk)); err != nil {
		t.Fatal(err)
	}
	if _, serves := node.RamdiskBootOf(n); serves || n.DriverInternalInfo.Values()["detached"] != true {
		t.Errorf("the node has %s, want what detaching changes and no boot", n.DriverInternalInfo)
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

func TestMediumOfAnotherMachineStays(t *testing.T) {
	const left = "http://192.0.2.1:6386/boot/of-another-node/boot.iso"
	n, d := inspected(nil, nil), &virtualDrive{left: left, stays: true}
	if err := play(t, n, mediaBoot(d, &bootDevices{devices: []string{"cdrom"}}).BootRamdisk); err != nil || d.medium == "" || d.left != left {
		t.Errorf("got %v, with %q in the drive and %q in the other", err, d.medium, d.left)
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
	} else if setting, key, _ := strings.Cut(err.Error(), "driver_info.bootloader"); !strings.Contains(setting, "set boot.boot_loader") || key == "" {
		t.Errorf("got %v, want the setting for all nodes before the key of one, which operators remove", err)
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

// TestMediaThatTheEngineMakesAreForUEFI goes through what says how a machine starts.
func TestMediaThatTheEngineMakesAreForUEFI(t *testing.T) {
	const media, url = "redfish-virtual-media", "http"
	bios, uefi := map[string]any{"capabilities": "boot_mode:bios"}, map[string]any{"capabilities": "boot_mode:uefi"}
	iso := map[string]any{"deploy_iso": "http://own/i", "config_via_removable": false}
	for name, tc := range map[string]struct {
		boot             string
		properties, info map[string]any
		shown            string // boot mode of the machine
		refused          bool
	}{
		"nothing said":                     {media, nil, nil, "", false},
		"asked for UEFI":                   {media, uefi, nil, "bios", false},
		"asked for BIOS":                   {media, bios, nil, "uefi", true},
		"shows BIOS":                       {media, nil, nil, "bios", true},
		"BIOS, an ISO of its own":          {media, bios, iso, "bios", false},
		"from a URL, asked for BIOS":       {url, bios, nil, "", true},
		"from a URL, shows BIOS":           {url, nil, nil, "bios", false},
		"over the network, asked for BIOS": {"ipxe", bios, nil, "bios", false},
	} {
		n := inspected(tc.info, tc.properties)
		n.BootMode = tc.shown
		err := urlBoot(tc.boot, "http://192.0.2.1:6386", &bootDevices{}).Validate(n)
		var invalid *node.ValidationError
		if errors.As(err, &invalid) != tc.refused {
			t.Errorf("%s: got %v, want that it is refused: %v", name, err, tc.refused)
		}
		for _, want := range []string{"boot_mode", "ipxe", "driver_info.deploy_iso"} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", name, err, want)
			}
		}
	}
	n := inspected(nil, bios)
	n.InstanceInfo = node.ObjectOf(map[string]any{"kernel": "http://own/k", "ramdisk": "http://own/r"})
	err := mediaBoot(&virtualDrive{}, &bootDevices{}).(driver.ImageBoot).CheckImage(n)
	if err == nil || !strings.Contains(err.Error(), "instance_info.boot_iso") {
		t.Errorf("image of the instance: got %v, want that it is refused", err)
	}
}

func TestParametersThatNoMediumCanPassOnAreRefused(t *testing.T) {
	boot := mediaBoot(&virtualDrive{}, &bootDevices{})
	if err := boot.Validate(inspected(map[string]any{"kernel_append_params": `console="tty 0"`}, nil)); err == nil || !strings.Contains(err.Error(), "virtual medium") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestGivenISOIsServedWithTheParametersOnASecondMedium(t *testing.T) {
	n, d := inspected(map[string]any{"deploy_iso": "http://images/own.iso"}, nil), &virtualDrive{}
	boot := mediaBoot(d, &bootDevices{devices: []string{"cdrom"}})
	if err := play(t, n, boot.BootRamdisk); err != nil {
		t.Fatal(err)
	}
	served, _ := node.RamdiskBootOf(n)
	base := "http://192.0.2.1:6386/boot/u/" + served.Secret
	if d.medium != "cdrom "+base+"/boot.iso" || d.floppy != "floppy "+base+"/parameters.img" || d.beside != base+"/boot.iso" {
		t.Errorf("in the drives are %q and %q beside %q", d.medium, d.floppy, d.beside)
	}
	if served.ISO != "http://images/own.iso" || served.Kernel != "" || served.Versions[served.ISO] == "" {
		t.Errorf("served is %+v, want the ISO in its present version", served)
	}
	if token := agent.Pregenerated(n); len(token) < 32 {
		t.Errorf("the token is %q", token)
	}
	if err := play(t, n, boot.LeaveRamdisk); err != nil || d.medium != "" || d.floppy != "" {
		t.Errorf("after leaving: %v, in the drives are %q and %q", err, d.medium, d.floppy)
	}
	if agent.Pregenerated(n) != "" {
		t.Error("the token is still that of a medium")
	}
}

func TestBMCWithoutASecondVirtualDeviceIsAnErrorThatSaysWhatToDo(t *testing.T) {
	n := inspected(map[string]any{"deploy_iso": "http://images/own.iso"}, nil)
	err := play(t, n, mediaBoot(&virtualDrive{noFloppy: true}, &bootDevices{}).BootRamdisk)
	for _, want := range []string{"no other virtual device", "unset driver_info.deploy_iso", "driver_info.config_via_removable to false"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestWhatMachinesBootFromVirtualMedia goes through the sources of images.
func TestWhatMachinesBootFromVirtualMedia(t *testing.T) {
	own := map[string]any{"deploy_kernel": "http://own/k", "deploy_ramdisk": "http://own/r"}
	isos := map[string]string{"": "http://images/all.iso", "aarch64": "http://images/arm.iso"}
	for name, tc := range map[string]struct {
		info, properties map[string]any
		isos             map[string]string
		iso              string // or empty for an image that is made
		floppy, token    bool
	}{
		"made":                         {nil, nil, nil, "", false, true},
		"made, parameters apart":       {map[string]any{"config_via_removable": true}, nil, nil, "", true, true},
		"of the configuration":         {nil, nil, isos, "http://images/all.iso", true, true},
		"of the architecture":          {nil, map[string]any{"cpu_arch": "aarch64"}, isos, "http://images/arm.iso", true, true},
		"of the node":                  {map[string]any{"deploy_iso": "http://own/i"}, nil, isos, "http://own/i", true, true},
		"ISO before kernel":            {map[string]any{"deploy_iso": "http://own/i", "deploy_kernel": "http://own/k"}, nil, nil, "http://own/i", true, true},
		"kernel of the node":           {own, nil, isos, "", false, true},
		"kernel of the architecture":   {nil, map[string]any{"cpu_arch": "aarch64"}, map[string]string{"": "http://images/all.iso"}, "", false, true},
		"ISO with parameters built in": {map[string]any{"deploy_iso": "http://own/i", "config_via_removable": "False"}, nil, nil, "http://own/i", false, false},
		"ISO, nothing said":            {map[string]any{"deploy_iso": "http://own/i", "config_via_removable": nil}, nil, nil, "http://own/i", true, true},
	} {
		n, d := inspected(tc.info, tc.properties), &virtualDrive{}
		c := config
		c.URL, c.BootLoader, c.ISOs = "http://192.0.2.1:6386", "http://images/esp", tc.isos
		boot := netboot.New(c, &cachedImages{},
			func(*node.Node) (driver.Management, error) { return &bootDevices{}, nil },
			func(*node.Node) (driver.VirtualMedia, error) { return d, nil },
		).Interfaces()["redfish-virtual-media"].(driver.RamdiskBoot)
		if err := play(t, n, boot.BootRamdisk); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		served, _ := node.RamdiskBootOf(n)
		if served.ISO != tc.iso || (d.floppy != "") != tc.floppy || (agent.Pregenerated(n) != "") != tc.token {
			t.Errorf("%s: ISO %q, second medium %q, token %v; want %+v", name, served.ISO, d.floppy, agent.Pregenerated(n) != "", tc)
		}
	}
	for _, info := range []map[string]any{{"config_via_removable": "perhaps"}, {"deploy_iso": "ftp://own/i"}} {
		if err := mediaBoot(&virtualDrive{}, &bootDevices{}).Validate(inspected(info, nil)); err == nil {
			t.Errorf("%v is accepted", info)
		}
	}
}

// TestNetworkDataIsThatOfTheBeginningOfTheBoot goes through what a ramdisk is booted from.
func TestNetworkDataIsThatOfTheBeginningOfTheBoot(t *testing.T) {
	const data, media = `{"links":[{"id":"eth0"}]}`, "redfish-virtual-media"
	iso := map[string]any{"deploy_iso": "http://own/i", "config_via_removable": false}
	for name, tc := range map[string]struct {
		boot       string
		info       map[string]any
		data, want string
		note       string // part of what the history says; empty for nothing
	}{
		"made":             {media, nil, data, data, ""},
		"from a URL":       {"http", nil, data, data, ""},
		"nothing given":    {media, nil, "", "", ""},
		"empty":            {media, nil, "{}", "", ""},
		"a given ISO":      {media, iso, data, "", "built into"},
		"over the network": {"ipxe", nil, data, "", "over the network"},
		"ISO, none given":  {media, iso, "", "", ""},
	} {
		n := inspected(tc.info, nil)
		n.NetworkData = node.Object(tc.data)
		out, err := urlBoot(tc.boot, "http://192.0.2.1:6386", &bootDevices{devices: []string{"cdrom", "pxe", "uefihttp"}}).BootRamdisk(t.Context(), n, driver.Turn{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out.Apply(n)
		n.NetworkData = node.Object(`{"links":[]}`)
		if served, _ := node.RamdiskBootOf(n); string(served.NetworkData) != tc.want {
			t.Errorf("%s: served is %s, want %q", name, served.NetworkData, tc.want)
		}
		if (out.Note == "") != (tc.note == "") || !strings.Contains(out.Note, tc.note) {
			t.Errorf("%s: the history says %q, want %q in it", name, out.Note, tc.note)
		}
	}
	n := inspected(nil, nil)
	n.NetworkData = node.ObjectOf(map[string]any{"links": strings.Repeat("x", 256<<10)})
	if err := mediaBoot(&virtualDrive{}, &bootDevices{}).Validate(n); err == nil || !strings.Contains(err.Error(), "network_data") {
		t.Errorf("data of 256 KiB: got %v, want that it is refused", err)
	}
}

func TestTimeOfFetchingDoesNotCountForTheBMC(t *testing.T) {
	n, d := inspected(nil, nil), &virtualDrive{}
	boot := mediaBoot(d, &bootDevices{devices: []string{"cdrom"}})
	turn := driver.Turn{Attempt: driver.Continued, Phase: "fetch//", Elapsed: 20 * time.Minute}
	for range 3 {
		out, err := boot.BootRamdisk(t.Context(), n, turn)
		if err != nil {
			t.Fatal(err)
		}
		if out.Apply != nil {
			out.Apply(n)
		}
		turn.Phase, turn.Elapsed = out.Phase, turn.Elapsed+out.Again
	}
	if len(d.attempts) != 2 || d.elapsed > 2*time.Second {
		t.Errorf("after %d calls the BMC has had %s, want about a second", len(d.attempts), d.elapsed)
	}
}

// TestMediumThatIsBeingFetchedHasNoPhase because the machine is checked in each turn before its first
// change, which may come half an hour later.
func TestMediumThatIsBeingFetchedHasNoPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config
		c.URL, c.BootLoader = "https://192.0.2.1:6388", "http://images/esp"
		for _, name := range []string{"redfish-virtual-media", "redfish-https", "http"} {
			out, err := made(name, c, &cachedImages{late: true}, nil).BootRamdisk(t.Context(), inspected(nil, nil), driver.Turn{})
			if err != nil || out.Done() || out.Phase != "" {
				t.Errorf("%s: outcome %+v, %v; want another turn without a phase", name, out, err)
			}
		}
	})
}

func TestPhasesOfEarlierReleasesAreRead(t *testing.T) {
	n, d := inspected(nil, nil), &virtualDrive{}
	node.RamdiskBoot{Secret: node.NewBootSecret(), Kernel: "k", Ramdisk: "r", BootLoader: "b"}.StoreIn(n)
	out, err := mediaBoot(d, &bootDevices{}).BootRamdisk(t.Context(), n, driver.Turn{Attempt: driver.Continued, Phase: "insert/cdrom/ejected", Elapsed: time.Minute})
	if err != nil || out.Phase != "inserted/cdrom/" || d.medium == "" {
		t.Errorf("%+v, %v, in the drive is %q", out, err, d.medium)
	}
}
