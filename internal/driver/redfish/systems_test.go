package redfish_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// system makes the node that of a system behind the BMC.
func (m *machine) system(position int) *node.Node {
	changed := *m.node
	changed.DriverInfo = m.node.DriverInfo.With(map[string]any{"redfish_system_id": m.SystemPath(position)})
	return &changed
}

func TestSystemBehindABMCWithSeveralIsChangedAlone(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor, redfishtest.Options{Systems: 3})
		second, ctx := m.system(1), t.Context()
		if _, err := d.PowerState(ctx, m.node); err == nil || !strings.Contains(err.Error(), "3 systems") {
			t.Errorf("without redfish_system_id: %v, want an error that names the systems", err)
		}
		for _, do := range []func(context.Context, driver.Turn) (driver.Outcome, error){
			func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return d.SetPower(ctx, second, node.PowerOn, turn)
			},
			func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return d.SetBootDevice(ctx, second, node.BootDevice{Device: "pxe"}, turn)
			},
			func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return d.AttachMedium(ctx, second, node.Medium{DeviceType: "cdrom", ImageURL: "http://192.0.2.1/boot.iso"}, turn)
			},
		} {
			if _, err := finish(ctx, do); err != nil {
				t.Fatal(err)
			}
		}
		if got := m.EffectsOf("m2"); !slices.Equal(got, []string{"power on", "boot device", "attach medium"}) {
			t.Errorf("effects on the second system: %q", got)
		}
		for _, other := range []int{0, 2} {
			state, err := d.PowerState(ctx, m.system(other))
			media, mediaErr := d.Media(ctx, m.system(other))
			device, deviceErr := d.BootDevice(ctx, m.system(other))
			if err != nil || mediaErr != nil || deviceErr != nil || state != node.PowerOff || len(media) > 0 || device.Device != "" {
				t.Errorf("system %d: %s, %v, %+v; %v, %v, %v", other, state, media, device, err, mediaErr, deviceErr)
			}
		}
		if first, third := m.EffectsOf("m1"), m.EffectsOf("m3"); len(first)+len(third) > 0 {
			t.Errorf("effects on the others: %q, %q", first, third)
		}
		if m.Systems[1].Power() != bmc.On {
			t.Errorf("the second system is %s", m.Systems[1].Power())
		}
	})
}

func TestUpdateIsOfTheNamedSystem(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor, redfishtest.Options{Systems: 2})
		m.node = m.system(1)
		for _, one := range m.Systems {
			one.Switch(true)
		}
		before := m.Systems[0].Components()
		f := &flashing{m: m, d: d, step: firmwareStep("bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.1"))}
		if err := f.until(""); err != nil {
			t.Fatal(err)
		}
		if got := m.Systems[1].Components()[0].Version; got != "9.9.1" {
			t.Errorf("the second system has version %s", got)
		}
		if !slices.Equal(before, m.Systems[0].Components()) || slices.Contains(m.EffectsOf("m1"), "flash") {
			t.Errorf("the first system has %v, effects %q", m.Systems[0].Components(), m.EffectsOf("m1"))
		}
	})
}

func TestSystemsShareTheSessionAndTheConnections(t *testing.T) {
	const systems, most = 6, 2
	m, d := newMachine(t, "hpe", redfishtest.Options{Systems: systems})
	var under, highest, logins atomic.Int64
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		now := under.Add(1)
		defer under.Add(-1)
		for seen := highest.Load(); now > seen && !highest.CompareAndSwap(seen, now); seen = highest.Load() {
		}
		if r.Method == http.MethodPost {
			logins.Add(1)
		}
		if strings.Contains(r.URL.Path, "/Systems/") { // others get the time to come at the same time
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
		bmc.ServeHTTP(w, r)
	})
	var group errgroup.Group
	for i := range 4 * systems {
		group.Go(func() error {
			_, err := d.PowerState(t.Context(), m.system(i%systems))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if highest.Load() > most || logins.Load() != 1 {
		t.Errorf("%d requests at once and %d logins, want at most %d and 1", highest.Load(), logins.Load(), most)
	}
}
