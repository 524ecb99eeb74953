package netboot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// live is a node whose instance is an image.
func live(instance, info map[string]any) *node.Node {
	return &node.Node{UUID: "u", ProvisionState: node.Deploying, InstanceInfo: node.ObjectOf(instance), DriverInfo: node.ObjectOf(info)}
}

var (
	isoImage    = map[string]any{"boot_iso": "http://images/live.iso"}
	kernelImage = map[string]any{"kernel": "http://images/k", "ramdisk": "http://images/r", "kernel_append_params": "%default% live=1"}
)

func TestImageOfTheInstanceIsBootedAtEachStart(t *testing.T) {
	for name, tc := range map[string]struct {
		boot   string
		image  map[string]any
		info   map[string]any
		want   node.RamdiskBoot
		device node.BootDevice
	}{
		"ISO image over the network": {boot: "ipxe", image: isoImage, want: node.RamdiskBoot{ISO: "http://images/live.iso", Network: true, Instance: true}, device: node.BootDevice{Device: "pxe"}},
		"ISO image, by UEFI HTTP":    {boot: "http-ipxe", image: isoImage, want: node.RamdiskBoot{ISO: "http://images/live.iso", Network: true, Instance: true}, device: node.BootDevice{Device: "uefihttp"}},
		"kernel over the network": {
			boot: "pxe", image: kernelImage, device: node.BootDevice{Device: "pxe"},
			want: node.RamdiskBoot{Kernel: "http://images/k", Ramdisk: "http://images/r", KernelParams: "nofb quiet live=1", Instance: true},
		},
		"ISO image as a medium": {boot: "media", image: isoImage, want: node.RamdiskBoot{ISO: "http://images/live.iso", Instance: true}, device: node.BootDevice{Device: "cdrom"}},
		"kernel on a medium": {
			boot: "media", image: kernelImage, device: node.BootDevice{Device: "cdrom"},
			want: node.RamdiskBoot{Kernel: "http://images/k", Ramdisk: "http://images/r", BootLoader: "http://images/esp", KernelParams: "nofb quiet live=1", Instance: true},
		},
		"parameters of the node": {
			boot: "ipxe", image: map[string]any{"kernel": "http://images/k", "ramdisk": "http://images/r"}, info: map[string]any{"kernel_append_params": "own"}, device: node.BootDevice{Device: "pxe"},
			want: node.RamdiskBoot{Kernel: "http://images/k", Ramdisk: "http://images/r", KernelParams: "own", Instance: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, d, b := live(tc.image, tc.info), &virtualDrive{}, &bootDevices{devices: []string{"pxe", "uefihttp", "cdrom"}}
			boots := mediaBoot(d, b)
			if tc.boot != "media" {
				boots = made(tc.boot, config, &cachedImages{}, b)
			}
			boot := boots.(driver.ImageBoot)
			if err := boot.CheckImage(n); err != nil {
				t.Fatal(err)
			}
			if err := play(t, n, boot.BootImage); err != nil {
				t.Fatal(err)
			}
			got, serves := node.RamdiskBootOf(n)
			if got.Secret = ""; !serves || cmp.Diff(tc.want, got) != "" {
				t.Errorf("served (-want +got):\n%s", cmp.Diff(tc.want, got))
			}
			always := true
			tc.device.Persistent = &always
			if diff := cmp.Diff([]node.BootDevice{tc.device}, b.set); diff != "" {
				t.Errorf("boot devices (-want +got):\n%s", diff)
			}
			if inDrive := strings.HasSuffix(d.medium, "/boot.iso"); inDrive != (tc.boot == "media") {
				t.Errorf("in the drive is %q", d.medium)
			}
			if err := play(t, n, boots.LeaveRamdisk); err != nil || d.medium != "" {
				t.Errorf("withdrawn: %v, in the drive is %q", err, d.medium)
			}
		})
	}
}

func TestImageThatCannotBeBootedIsRefusedWithWhatIsMissing(t *testing.T) {
	withISO := func(key, value string) map[string]any {
		return map[string]any{"boot_iso": "http://images/live.iso", key: value}
	}
	off := config
	off.Serves = false
	for name, tc := range map[string]struct {
		instance map[string]any
		info     map[string]any
		want     string
	}{
		"no image":        {instance: nil, want: "set boot_iso"},
		"half of a pair":  {instance: map[string]any{"kernel": "http://images/k"}, want: "set boot_iso"},
		"two images":      {instance: withISO("kernel", "http://images/k"), want: "another image"},
		"a disk image":    {instance: withISO("image_source", "http://images/i"), want: "another image"},
		"not a URL":       {instance: map[string]any{"boot_iso": "live.iso"}, want: "ISO image"},
		"a script's word": {instance: map[string]any{"kernel": "http://k", "ramdisk": "http://r", "kernel_append_params": "a || b"}, want: "kernel parameters"},
		"boot devices":    {instance: isoImage, info: map[string]any{"force_persistent_boot_device": "Maybe"}, want: "force_persistent_boot_device"},
	} {
		for _, boot := range []driver.RamdiskBoot{made("ipxe", config, &cachedImages{}, nil), mediaBoot(&virtualDrive{}, &bootDevices{})} {
			if err := boot.(driver.ImageBoot).CheckImage(live(tc.instance, tc.info)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q in it", name, err, tc.want)
			}
		}
	}
	if err := made("ipxe", off, &cachedImages{}, nil).(driver.ImageBoot).CheckImage(live(isoImage, nil)); err == nil || !strings.Contains(err.Error(), "boot.listen") {
		t.Errorf("without a boot service: %v", err)
	}
}
