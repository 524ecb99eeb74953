package redfish_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// insert attaches a medium in as many turns as that takes.
func insert(t *testing.T, d driver.VirtualMedia, n *node.Node, medium node.Medium) error {
	t.Helper()
	_, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		out, err := d.AttachMedium(ctx, n, medium, turn)
		if err == nil && out.Apply != nil {
			out.Apply(n)
		}
		return out, err
	})
	return err
}

func TestTwoMediaAreInTwoVirtualDevices(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		const iso, floppy = "http://192.0.2.1/boot.iso", "http://192.0.2.1/parameters.img"
		if err := insert(t, d, m.node, node.Medium{DeviceType: "cdrom", ImageURL: iso}); err != nil {
			t.Fatal(err)
		}
		if err := insert(t, d, m.node, node.Medium{DeviceType: "floppy", ImageURL: floppy, Beside: iso}); err != nil {
			t.Fatal(err)
		}
		for slot, medium := range m.Media() {
			types := m.Profile().Slots[slot].Types
			want := floppy
			if types[0] == "CD" { // this one is booted from
				want = iso
			}
			if medium.Image != want {
				t.Errorf("the slot for %q has %q, want %q", types, medium.Image, want)
			}
		}
		_, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return d.DetachMedia(ctx, m.node, []string{"cdrom", "floppy"}, turn)
		})
		if left := slices.DeleteFunc(m.Media(), func(medium bmc.Medium) bool { return medium.Image == "" }); err != nil || len(left) > 0 {
			t.Errorf("after detaching: %v, the machine has %+v", err, left)
		}
	})
}

func TestEveryMediumIsDetachedAsWhatItWasAttached(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		for device, other := range map[string]string{"cdrom": "disk", "floppy": "cdrom", "disk": "cdrom"} {
			image := "http://192.0.2.1/some.img"
			if device == "cdrom" {
				image = "http://192.0.2.1/some.iso"
			}
			if err := insert(t, d, m.node, node.Medium{DeviceType: device, ImageURL: image}); err != nil {
				t.Fatal(err)
			}
			for _, detached := range []string{other, device} {
				_, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
					return d.DetachMedia(ctx, m.node, []string{detached}, turn)
				})
				left := slices.ContainsFunc(m.Media(), func(medium bmc.Medium) bool { return medium.Image == image })
				if err != nil || left != (detached == other) {
					t.Errorf("after a %s is detached: %v, the machine has %+v; want the %s in it: %t", detached, err, m.Media(), device, detached == other)
				}
			}
		}
	})
}

// On a Dell every virtual device can be a CD and a USB stick.
func TestSecondMediumDoesNotReplaceTheFirst(t *testing.T) {
	m, d := newMachine(t, "dell")
	const iso = "http://192.0.2.1/boot.iso"
	for slot := range m.Media() {
		if err := m.Insert(&bmc.Call{}, slot, bmc.Medium{Image: iso}); err != nil {
			t.Fatal(err)
		}
	}
	err := insert(t, d, m.node, node.Medium{DeviceType: "floppy", ImageURL: "http://192.0.2.1/parameters.img", Beside: iso})
	var refused *node.DriverError
	if !errors.As(err, &refused) || !refused.Refused || !strings.Contains(err.Error(), "no other virtual device of the type floppy") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// newUEFI starts a BMC whose machine boots in UEFI mode; some are installed in legacy mode.
func newUEFI(t *testing.T, vendor string) (*machine, redfish.Driver) {
	t.Helper()
	m, d := newMachine(t, vendor)
	for i := 1; m.Override().Mode != bmc.UEFI; i++ {
		m, d = newMachine(t, vendor, redfishtest.Options{Index: i})
	}
	return m, d
}

func TestMachineIsToldTheURLThatItBoots(t *testing.T) {
	for _, vendor := range []string{"hpe", "supermicro"} {
		m, d := newUEFI(t, vendor)
		once := false
		const url = "https://192.0.2.1/boot.iso"
		for range 2 {
			if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "uefihttp", Persistent: &once, URL: url}, fresh); err != nil {
				t.Fatalf("%s: %v", vendor, err)
			}
		}
		if got := m.Override(); got.Target != bmc.TargetHTTP || got.Enabled != bmc.Once || got.URL != url || got.Mode != bmc.UEFI {
			t.Errorf("%s: boot settings %+v", vendor, got)
		}
		if got := m.Effects(); len(got) != 1 {
			t.Errorf("%s: effects %q, want one", vendor, got)
		}
	}
}

// staleURL is that of an earlier boot, which was withdrawn.
const staleURL = "https://192.0.2.1/boot.iso"

// bootedFromURL is a machine that was last booted from a URL.
func bootedFromURL(t *testing.T, vendor string) (*machine, redfish.Driver) {
	t.Helper()
	m, d := newUEFI(t, vendor)
	if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "uefihttp", URL: staleURL}, fresh); err != nil {
		t.Fatal(err)
	}
	m.before = len(m.Server.Effects())
	return m, d
}

func TestURLOfAnEarlierBootIsRemovedWithTheNextDevice(t *testing.T) {
	for _, vendor := range []string{"hpe", "supermicro"} {
		for device, want := range map[string]bmc.Target{"pxe": bmc.TargetPXE, "uefihttp": bmc.TargetHTTP} {
			m, d := bootedFromURL(t, vendor)
			for range 2 {
				if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: device}, fresh); err != nil {
					t.Fatalf("%s, %s: %v", vendor, device, err)
				}
			}
			if got := m.Override(); got.Target != want || got.Enabled != bmc.Once || got.URL != "" || len(m.Effects()) != 1 {
				t.Errorf("%s, %s: boot settings %+v, effects %q, want no URL after one request", vendor, device, got, m.Effects())
			}
		}
	}
}

func TestBMCThatKeepsTheURLFailsOnlyWhatWouldBootFromIt(t *testing.T) {
	yes := true
	for name, test := range map[string]struct {
		device node.BootDevice
		fails  bool
	}{
		"once":          {node.BootDevice{Device: "pxe"}, false},
		"for good":      {node.BootDevice{Device: "disk", Persistent: &yes}, false},
		"UEFI HTTP":     {node.BootDevice{Device: "uefihttp"}, true},
		"another URL":   {node.BootDevice{Device: "uefihttp", URL: "https://192.0.2.1/other.iso"}, false},
		"what it is at": {node.BootDevice{Device: "uefihttp", URL: staleURL}, false},
	} {
		for _, refuses := range []bool{true, false} {
			m, d := bootedFromURL(t, "hpe")
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				const null = `"HttpBootUri":null`
				text, _ := io.ReadAll(r.Body)
				if r.Method == http.MethodPatch && strings.Contains(string(text), null) {
					if refuses {
						said(w, http.StatusBadRequest, `{}`)
						return
					}
					text = []byte(strings.ReplaceAll(strings.ReplaceAll(string(text), ","+null, ""), null+",", ""))
				}
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(text))), int64(len(text))
				bmc.ServeHTTP(w, r)
			})
			for range 2 {
				if _, err := d.SetBootDevice(t.Context(), m.node, test.device, fresh); (err != nil) != test.fails {
					t.Errorf("%s, null is refused %t: %v, want a failure: %t", name, refuses, err, test.fails)
				}
			}
			if got := m.Override(); got.URL != cmp.Or(test.device.URL, staleURL) {
				t.Errorf("%s, null is refused %t: the URL is %q", name, refuses, got.URL)
			}
		}
	}
}

func TestMachineWithoutAURLToBootSaysSo(t *testing.T) {
	m, d := newMachine(t, "dell")
	_, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "uefihttp", URL: "https://192.0.2.1/boot.iso"}, fresh)
	var refused *node.DriverError
	if !errors.As(err, &refused) || !refused.Refused || !strings.Contains(err.Error(), "HttpBootUri") {
		t.Errorf("got %v, want a refusal that names the property", err)
	}
}
