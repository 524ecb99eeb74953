package netboot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/node"
)

// urlBoot returns the boot interface of that name, for a boot service at that URL.
func urlBoot(name, url string, b *bootDevices) driver.RamdiskBoot {
	c := config
	c.URL, c.BootLoader = url, "http://images/esp"
	return netboot.New(c, &cachedImages{}, func(*node.Node) (driver.Management, error) { return b, nil }, nil).Interfaces()[name].(driver.RamdiskBoot)
}

func TestMachineIsToldTheURLOfItsMediumAfterThatIsServed(t *testing.T) {
	const at = "https://192.0.2.1:6386"
	n, b := inspected(nil, nil), &bootDevices{devices: []string{"uefihttp"}, turns: 2}
	b.before = func(driver.Turn) {
		if _, stored := node.RamdiskBootOf(n); !stored {
			t.Error("the BMC was called before the medium was served")
		}
	}
	boot := urlBoot("redfish-https", at, b)
	if err := play(t, n, boot.BootRamdisk); err != nil {
		t.Fatal(err)
	}
	served, _ := node.RamdiskBootOf(n)
	once := false
	want := []node.BootDevice{{Device: "uefihttp", Persistent: &once, URL: at + "/boot/u/" + served.Secret + "/boot.iso"}}
	if diff := cmp.Diff(want, b.set); diff != "" {
		t.Errorf("boot devices (-want +got):\n%s", diff)
	}
	if served.BootLoader == "" || agent.Pregenerated(n) == "" {
		t.Errorf("served is %+v with the token %q, want a medium with one", served, agent.Pregenerated(n))
	}
	if err := play(t, n, boot.LeaveRamdisk); err != nil {
		t.Fatal(err)
	}
	if _, still := node.RamdiskBootOf(n); still {
		t.Error("the medium is still served")
	}
}

func TestWhatMachinesCannotBootFromAURL(t *testing.T) {
	iso := map[string]any{"deploy_iso": "http://images/own.iso"}
	for name, tc := range map[string]struct {
		boot, url string
		info      map[string]any
		want      string // of the error; empty for none
	}{
		"https":                   {"redfish-https", "https://192.0.2.1", nil, ""},
		"http":                    {"http", "http://192.0.2.1", nil, ""},
		"http with TLS":           {"http", "https://192.0.2.1", nil, ""},
		"https without TLS":       {"redfish-https", "http://192.0.2.1", nil, "boot.tls_certificate"},
		"ISO without parameters":  {"http", "http://192.0.2.1", iso, "driver_info.deploy_iso"},
		"ISO with its own":        {"http", "http://192.0.2.1", map[string]any{"deploy_iso": "http://i", "config_via_removable": false}, ""},
		"parameters on a medium":  {"http", "http://192.0.2.1", map[string]any{"config_via_removable": true}, "redfish-virtual-media"},
		"an image of another ilk": {"http", "http://192.0.2.1", map[string]any{"bootloader": "ftp://i"}, "boot loader"},
	} {
		err := urlBoot(tc.boot, tc.url, &bootDevices{}).Validate(inspected(tc.info, nil))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
