package netboot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/node"
)

// cachedImages has all images at once, unless a test says otherwise.
type cachedImages struct {
	late   bool
	failed error
	asked  []string
}

func (s *cachedImages) Check(url string) error {
	if !strings.HasPrefix(url, "http") {
		return errors.New("begins with neither http:// nor https://")
	}
	return nil
}

func (s *cachedImages) Prepare(ctx context.Context, url string) (string, error) {
	s.asked = append(s.asked, url)
	if s.late {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "version of " + url, s.failed
}

// bootDevices is the management interface of a machine.
type bootDevices struct {
	driver.Management
	devices []string
	lacks   string // device that the machine refuses although the interface lists it
	set     []node.BootDevice
	before  func(driver.Turn)
	turns   int // until a device is set; 0 means one
}

func (b *bootDevices) BootDevices(*node.Node) []string { return b.devices }

func (b *bootDevices) SetBootDevice(_ context.Context, _ *node.Node, device node.BootDevice, turn driver.Turn) (driver.Outcome, error) {
	if b.before != nil {
		b.before(turn)
	}
	if device.Device == b.lacks {
		return driver.Outcome{}, &node.DriverError{Op: "set", Refused: true, Reason: "no such device"}
	}
	if b.turns--; b.turns > 0 {
		return driver.Outcome{Again: 1, Phase: "sent/twice"}, nil
	}
	b.set = append(b.set, device)
	return driver.Outcome{}, nil
}

var config = netboot.Config{
	Serves: true, APIURL: "http://192.0.2.1:6385/",
	Default:      netboot.Ramdisk{Kernel: "http://images/kernel", Initial: "http://images/ramdisk"},
	ByArch:       map[string]netboot.Ramdisk{"aarch64": {Kernel: "http://images/kernel-arm", Initial: "http://images/ramdisk-arm"}},
	KernelParams: "nofb quiet",
}

// made returns a boot interface for machines with a management interface; nil is none.
func made(name string, c netboot.Config, s *cachedImages, b *bootDevices) driver.RamdiskBoot {
	management := func(n *node.Node) (driver.Management, error) {
		if b == nil {
			return nil, &node.NotSupportedError{Node: n.UUID}
		}
		return b, nil
	}
	return netboot.New(c, s, management, nil).Interfaces()[name].(driver.RamdiskBoot)
}

func inspected(info, properties map[string]any) *node.Node {
	return &node.Node{UUID: "u", ProvisionState: node.Inspecting, DriverInfo: node.ObjectOf(info), Properties: node.ObjectOf(properties)}
}

// play makes turns as the runner does, until the operation is done or has failed.
func play(t *testing.T, n *node.Node, change func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error)) error {
	t.Helper()
	turn := driver.Turn{}
	for range 10 {
		out, err := change(t.Context(), n, turn)
		if err != nil {
			return err
		}
		if out.Apply != nil {
			out.Apply(n)
		}
		if out.Done() {
			return nil
		}
		turn = driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle, Elapsed: turn.Elapsed + out.Again}
	}
	t.Fatal("it does not end")
	return nil
}

func TestRecordIsStoredBeforeTheBootDeviceIsSet(t *testing.T) {
	b := &bootDevices{devices: []string{"pxe", "disk"}, turns: 2}
	n := inspected(nil, nil)
	var attempts []driver.Attempt
	b.before = func(turn driver.Turn) {
		attempts = append(attempts, turn.Attempt)
		if _, stored := node.RamdiskBootOf(n); !stored {
			t.Error("the BMC was called before the record was stored")
		}
		if len(attempts) == 2 && turn.Phase != "sent/twice" {
			t.Errorf("the second turn has the phase %q", turn.Phase)
		}
	}
	if err := play(t, n, made("ipxe", config, &cachedImages{}, b).BootRamdisk); err != nil {
		t.Fatal(err)
	}
	once := false
	if diff := cmp.Diff([]node.BootDevice{{Device: "pxe", Persistent: &once}}, b.set); diff != "" {
		t.Errorf("boot devices:\n%s", diff)
	}
	if want := []driver.Attempt{driver.Fresh, driver.Continued}; !slices.Equal(attempts, want) {
		t.Errorf("attempts %q, want %q", attempts, want)
	}
}

func TestCommandLineOfTheRamdisk(t *testing.T) {
	api, post := "ipa-api-url=http://192.0.2.1:6385", "ipa-inspection-callback-url=http://192.0.2.1:6385/v1/continue_inspection"
	for name, tc := range map[string]struct {
		state  node.State
		params any
		want   string
	}{
		"of the configuration":    {node.Inspecting, nil, "nofb quiet " + api + " " + post},
		"of the node":             {node.Inspecting, "console=ttyS0", "console=ttyS0 " + api + " " + post},
		"of both":                 {node.Inspecting, "a %default%\nb", "a nofb quiet b " + api + " " + post},
		"with another API":        {node.Inspecting, "ipa-api-url=http://other", "ipa-api-url=http://other " + post},
		"without an inspection":   {node.Cleaning, nil, "nofb quiet " + api},
		"with an empty parameter": {node.Cleaning, "", "nofb quiet " + api},
	} {
		n := inspected(map[string]any{"kernel_append_params": tc.params}, nil)
		n.ProvisionState = tc.state
		if err := play(t, n, made("ipxe", config, &cachedImages{}, nil).BootRamdisk); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if boot, _ := node.RamdiskBootOf(n); boot.KernelParams != tc.want {
			t.Errorf("%s: %q, want %q", name, boot.KernelParams, tc.want)
		}
	}
}

func TestRamdiskIsChosenByTheNodeThenByItsArchitecture(t *testing.T) {
	for name, tc := range map[string]struct {
		info, properties map[string]any
		kernel           string
	}{
		"default":              {nil, nil, "http://images/kernel"},
		"of the architecture":  {nil, map[string]any{"cpu_arch": "aarch64"}, "http://images/kernel-arm"},
		"unknown architecture": {nil, map[string]any{"cpu_arch": "riscv64"}, "http://images/kernel"},
		"of the node":          {map[string]any{"deploy_kernel": "http://own/k", "deploy_ramdisk": "http://own/r"}, map[string]any{"cpu_arch": "aarch64"}, "http://own/k"},
	} {
		s, n := &cachedImages{}, inspected(tc.info, tc.properties)
		if err := play(t, n, made("pxe", config, s, nil).BootRamdisk); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		boot, _ := node.RamdiskBootOf(n)
		if boot.Kernel != tc.kernel || !slices.Contains(s.asked, tc.kernel) || !slices.Contains(s.asked, boot.Ramdisk) {
			t.Errorf("%s: %+v, fetched %q", name, boot, s.asked)
		}
	}
}

// TestRescueSystemOfTheNodeIsBootedToRescueIt and for nothing else.
func TestRescueSystemOfTheNodeIsBootedToRescueIt(t *testing.T) {
	deployed := map[string]any{"deploy_kernel": "http://own/k", "deploy_ramdisk": "http://own/r"}
	rescue := map[string]any{"rescue_kernel": "http://rescue/k", "rescue_ramdisk": "http://rescue/r"}
	for name, tc := range map[string]struct {
		state node.State
		info  map[string]any
		want  string // kernel; empty is an error
	}{
		"its own":             {node.Rescuing, rescue, "http://rescue/k"},
		"its own, waiting":    {node.RescueWait, rescue, "http://rescue/k"},
		"that of deployments": {node.Rescuing, deployed, "http://own/k"},
		"the default":         {node.Rescuing, nil, "http://images/kernel"},
		"half of one":         {node.Rescuing, map[string]any{"rescue_kernel": "http://rescue/k"}, ""},
		"another phase":       {node.Servicing, rescue, "http://images/kernel"},
	} {
		n := inspected(tc.info, nil)
		n.ProvisionState = tc.state
		err := play(t, n, made("ipxe", config, &cachedImages{}, nil).BootRamdisk)
		if boot, _ := node.RamdiskBootOf(n); boot.Kernel != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: kernel %s, %v, want %s", name, boot.Kernel, err, tc.want)
		}
	}
}

func TestEveryBootHasASecretOfItsOwn(t *testing.T) {
	n := inspected(nil, nil)
	seen := map[string]bool{}
	for range 3 {
		if err := play(t, n, made("ipxe", config, &cachedImages{}, nil).BootRamdisk); err != nil {
			t.Fatal(err)
		}
		boot, _ := node.RamdiskBootOf(n)
		seen[boot.Secret] = true
	}
	if len(seen) != 3 {
		t.Errorf("secrets %v", seen)
	}
	if err := play(t, n, made("ipxe", config, &cachedImages{}, nil).LeaveRamdisk); err != nil {
		t.Fatal(err)
	}
	if boot, ok := node.RamdiskBootOf(n); ok {
		t.Errorf("still served: %+v", boot)
	}
}

func TestMachineWithoutUEFIHTTPBootsThroughPXE(t *testing.T) {
	for lacks, want := range map[string]string{"": "uefihttp", "uefihttp": "pxe"} {
		b := &bootDevices{devices: []string{"pxe", "disk", "uefihttp"}, lacks: lacks}
		if err := play(t, inspected(nil, nil), made("http-ipxe", config, &cachedImages{}, b).BootRamdisk); err != nil {
			t.Fatal(err)
		}
		if len(b.set) != 1 || b.set[0].Device != want {
			t.Errorf("without %q: %+v, want %s", lacks, b.set, want)
		}
	}
	b := &bootDevices{devices: []string{"pxe", "disk"}, lacks: "pxe"}
	if err := play(t, inspected(nil, nil), made("http-ipxe", config, &cachedImages{}, b).BootRamdisk); err == nil {
		t.Error("a machine that refuses every device has no error")
	}
}

func TestBootDevicesLastAsTheNodeSays(t *testing.T) {
	for force, want := range map[string][2]bool{"": {false, true}, "Default": {false, true}, "Always": {true, true}, "Never": {false, false}} {
		b := &bootDevices{devices: []string{"pxe", "disk"}}
		n := inspected(map[string]any{"force_persistent_boot_device": force}, nil)
		boot := made("ipxe", config, &cachedImages{}, b)
		if err := errors.Join(play(t, n, boot.BootRamdisk), play(t, n, boot.(driver.InstanceBoot).BootInstance)); err != nil {
			t.Fatal(err)
		}
		persistent := [2]bool{*b.set[0].Persistent, *b.set[1].Persistent}
		if persistent != want || b.set[1].Device != "disk" {
			t.Errorf("%q: %+v, persistent %v, want %v", force, b.set, persistent, want)
		}
	}
}

func TestImagesThatTakeLongAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := &cachedImages{late: true}, &bootDevices{devices: []string{"pxe"}}
		n := inspected(nil, nil)
		boot := made("ipxe", config, s, b)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, err := boot.BootRamdisk(ctx, n, driver.Turn{})
		if err != nil || out.Again <= 0 || out.Apply != nil || out.Phase != "" || len(b.set) > 0 {
			t.Fatalf("outcome %+v, %v, devices %+v; want another turn and nothing else", out, err, b.set)
		}
		turn := driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Elapsed: 1 << 60}
		var failed *node.DriverError
		if _, err := boot.BootRamdisk(ctx, n, turn); !errors.As(err, &failed) || !strings.Contains(err.Error(), "not fetched within") {
			t.Errorf("error = %v", err)
		}
		s.late = false
		turn.Elapsed = 0
		if out, err = boot.BootRamdisk(ctx, n, turn); err != nil || out.Apply == nil {
			t.Errorf("outcome %+v, %v; want that the boot is stored", out, err)
		}
	})
}

// TestImagesOfTheRamdiskAreFetchedAheadOfItsBoot of every boot interface, which then has them at once.
func TestImagesOfTheRamdiskAreFetchedAheadOfItsBoot(t *testing.T) {
	c := config
	c.URL, c.BootLoader = "https://192.0.2.1:6388", "http://images/esp"
	for name := range netboot.New(c, nil, nil, nil).Interfaces() {
		synctest.Test(t, func(t *testing.T) {
			s, n := &cachedImages{late: true}, inspected(nil, nil)
			before := *n
			boot, fetches := made(name, c, s, nil).(interface {
				FetchRamdisk(context.Context, *node.Node, driver.Turn) (driver.Outcome, error)
			})
			if !fetches {
				t.Fatalf("%s fetches nothing ahead", name)
			}
			if out, err := boot.FetchRamdisk(t.Context(), n, driver.Turn{}); err != nil || out.Again > 0 || out.Park <= 0 || out.Apply != nil {
				t.Errorf("%s: outcome %+v, %v; want that the node waits for another turn", name, out, err)
			}
			var failed *node.DriverError
			if _, err := boot.FetchRamdisk(t.Context(), n, driver.Turn{Attempt: driver.Continued, Elapsed: 1 << 60}); !errors.As(err, &failed) {
				t.Errorf("%s: after a long time the error is %v", name, err)
			}
			s.late, s.asked = false, nil
			if err := play(t, n, boot.FetchRamdisk); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			ahead := s.asked
			if diff := cmp.Diff(&before, n); diff != "" {
				t.Errorf("%s changes the node:\n%s", name, diff)
			}
			s.asked = nil
			if _, err := made(name, c, s, nil).BootRamdisk(t.Context(), n, driver.Turn{}); err != nil || !slices.Equal(ahead, s.asked) || len(ahead) == 0 {
				t.Errorf("%s: %v; fetched ahead %q, for the boot %q", name, err, ahead, s.asked)
			}
		})
	}
}

func TestImageThatCannotBeFetchedFailsTheBoot(t *testing.T) {
	s := &cachedImages{failed: errors.New("the server answers 404 Not Found")}
	c := config
	c.Default.Kernel = "http://user:hush@images/kernel"
	n := inspected(nil, nil)
	err := play(t, n, made("ipxe", c, s, nil).BootRamdisk)
	if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "images/kernel") || strings.Contains(err.Error(), "hush") {
		t.Errorf("error = %v", err)
	}
	if _, stored := node.RamdiskBootOf(n); stored {
		t.Error("a boot is served all the same")
	}
}

func TestValidateSaysWhatIsMissing(t *testing.T) {
	without := func(change func(*netboot.Config)) netboot.Config {
		c := config
		change(&c)
		return c
	}
	for name, tc := range map[string]struct {
		config netboot.Config
		info   map[string]any
		arch   string
		want   string
	}{
		"nothing":              {config, nil, "", ""},
		"the service":          {netboot.Config{}, nil, "", "boot.listen"},
		"a ramdisk":            {without(func(c *netboot.Config) { c.Default, c.ByArch = netboot.Ramdisk{}, nil }), nil, "", "boot.kernel and boot.ramdisk"},
		"one for its kind":     {without(func(c *netboot.Config) { c.Default = netboot.Ramdisk{} }), nil, "x86_64", "boot.kernel_by_arch"},
		"the initial system":   {config, map[string]any{"deploy_kernel": "http://k"}, "", "only one of"},
		"a scheme":             {config, map[string]any{"deploy_kernel": "k", "deploy_ramdisk": "r"}, "", "neither http://"},
		"a usable word":        {config, map[string]any{"kernel_append_params": "a || b"}, "", "the word ||"},
		"a usable character":   {config, map[string]any{"kernel_append_params": "a\u00e9"}, "", "printable ASCII"},
		"secrecy":              {config, map[string]any{"kernel_append_params": "ipa-agent-token=x"}, "", "ipa-agent-token"},
		"brevity":              {config, map[string]any{"kernel_append_params": strings.Repeat("x", 2048)}, "", "at most"},
		"a word that is known": {config, map[string]any{"force_persistent_boot_device": "Sometimes"}, "", "want Default, Always or Never"},
	} {
		err := made("ipxe", tc.config, &cachedImages{}, nil).Validate(inspected(tc.info, map[string]any{"cpu_arch": tc.arch}))
		var invalid *node.ValidationError
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q in it", name, err, tc.want)
		}
	}
}
