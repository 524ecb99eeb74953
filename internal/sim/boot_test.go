package sim_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/iso9660/iso9660test"
)

// bootServer serves what machines boot and the image that is written to them.
type bootServer struct {
	*httptest.Server
	parameters string
	withdrawn  atomic.Bool // scripts tell machines to boot from their disks
	image      []byte
	media      map[string][]byte
}

func newBootServer(t *testing.T, engine string) *bootServer {
	t.Helper()
	s := &bootServer{image: make([]byte, 100_000), media: map[string][]byte{}}
	s.image[510], s.image[511] = 0x55, 0xaa
	s.parameters = "ipa-api-url=" + engine + " ipa-inspection-callback-url=" + engine + "/v1/continue_inspection"
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/boot.ipxe":
			_, _ = io.WriteString(w, "#!ipxe\nchain /mac/${net0/mac} || exit\n")
		case strings.HasPrefix(r.URL.Path, "/mac/") && s.withdrawn.Load():
			_, _ = io.WriteString(w, "#!ipxe\nexit\n")
		case strings.HasPrefix(r.URL.Path, "/mac/"):
			_, _ = fmt.Fprintf(w, "#!ipxe\nkernel /kernel initrd=ramdisk BOOTIF=01-${mac:hexhyp} %s\ninitrd --name ramdisk /ramdisk\nboot\n", s.parameters)
		case r.URL.Path == "/kernel", r.URL.Path == "/ramdisk":
			_, _ = io.WriteString(w, "binary")
		case r.URL.Path == "/image.raw":
			_, _ = w.Write(s.image)
		case s.media[r.URL.Path] != nil:
			_, _ = w.Write(s.media[r.URL.Path])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// sum is the checksum of the image.
func (s *bootServer) sum() string {
	sum := sha256.Sum256(s.image)
	return hex.EncodeToString(sum[:])
}

// write has the parameters of a step that writes the image and a config drive.
func (s *bootServer) write(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(iso9660test.Build(iso9660test.Options{Label: "config-2"}, map[string]string{
		"openstack/latest/meta_data.json": `{"uuid":"1be26c0b-03f2-4d2e-ae87-c02d7f33c781","name":"web-1"}`,
	}))
	_ = w.Close()
	return fmt.Sprintf(`{"node":{},"ports":[],"step":{"step":"write_image","args":{"configdrive":%q,"image_info":{
		"id":"img","urls":["%s/image.raw"],"os_hash_algo":"sha256","os_hash_value":%q}}}}`,
		base64.StdEncoding.EncodeToString(packed.Bytes()), s.URL, s.sum())
}

// boots lists what a machine has booted, in its order.
func boots(machines *sim.Machines, name string) (list []string) {
	for _, e := range machines.Recorder().Effects(name, 0) {
		if e.Kind == effect.Boot {
			list = append(list, e.Detail)
		}
	}
	return list
}

func quick(o *sim.Options) { o.Clock = agent.Accelerated(50) }

// deploy writes the image to a running machine and restarts it.
func deploy(ctx context.Context, t *testing.T, machines *sim.Machines, i int, server *bootServer) {
	t.Helper()
	m := machines.Machine(i)
	waitFor(ctx, t, machines, i, sim.Running)
	if answer := commandWith(ctx, t, m, "deploy.execute_deploy_step", server.write(t)); !strings.Contains(answer, "SUCCEEDED") {
		t.Fatalf("write_image is answered %s", answer)
	}
	server.withdrawn.Store(true)
	command(ctx, t, m, "standby.run_image")
}

func TestMachineRunsTheOperatingSystemThatItsAgentWrote(t *testing.T) {
	engine := newStandIn(t)
	server := newBootServer(t, engine.URL)
	for name, url := range map[string]string{"by script": server.URL + "/boot.ipxe", "without one": ""} {
		t.Run(name, func(t *testing.T) {
			server.withdrawn.Store(false)
			machines := newMachines(t, engine, 1, func(o *sim.Options) {
				o.Engine, o.BootURL, o.Disks = "http://127.0.0.1:1", url, t.TempDir()
				if url == "" {
					o.Engine = engine.URL
				}
				quick(o)
			})
			ctx, m := soon(t), machines.Machine(0)
			if err := m.PowerOn(); err != nil {
				t.Fatal(err)
			}
			deploy(ctx, t, machines, 0, server)
			waitFor(ctx, t, machines, 0, sim.OS)
			status, root := m.Status(), m.Hardware().Inspection.RootDisk.Name
			if s := status.System; s == nil || s.Device != root || s.Image.Checksum != server.sum() || s.ConfigDrive == nil || s.ConfigDrive.Name != "web-1" {
				t.Errorf("status %+v, system %+v", status, status.System)
			}
			if got := machines.Snapshot().String(); !strings.Contains(got, "1 in their operating system") {
				t.Errorf("progress %q", got)
			}
			from := "network " + server.URL + "/kernel"
			if url == "" {
				from = "network " + engine.URL
			}
			if diff := cmp.Diff([]string{"ramdisk from " + from, "operating system from disk " + root}, boots(machines, "0")); diff != "" {
				t.Errorf("boots differ (-want +got):\n%s\n%s", diff, strings.Join(m.BootLog(), "\n"))
			}
			if got := machines.Recorder().Counts("0"); got[effect.Write] != 1 || got[effect.Wipe] != 0 {
				t.Errorf("effects %v, want one write", got)
			}
			if err := m.Reboot(); err != nil {
				t.Fatal(err)
			}
			waitFor(ctx, t, machines, 0, sim.OS)
		})
	}
}

// TestBootEntryPutsTheDiskBeforeTheNetwork deploys a machine whose network always has a
// ramdisk.
func TestBootEntryPutsTheDiskBeforeTheNetwork(t *testing.T) {
	engine := newStandIn(t)
	server := newBootServer(t, engine.URL)
	ramdisk := "ramdisk from network " + server.URL + "/kernel"
	for _, mode := range []bmc.Mode{bmc.UEFI, bmc.Legacy} {
		t.Run(string(mode), func(t *testing.T) {
			machines := newMediaMachine(t, func(o *sim.Options) { o.Engine, o.BootURL = "http://127.0.0.1:1", server.URL+"/boot.ipxe" })
			ctx, m := soon(t), machines.Machine(0)
			fromNetwork := bmc.Override{Target: bmc.TargetPXE, Enabled: bmc.Once, Mode: mode}
			begin(t, m, fromNetwork)
			waitFor(ctx, t, machines, 0, sim.Running)
			commandWith(ctx, t, m, "deploy.execute_deploy_step", server.write(t))
			commandWith(ctx, t, m, "image.install_bootloader", `{"root_uuid":null}`)
			system := "operating system from disk " + m.Hardware().Inspection.RootDisk.Name
			want := []string{ramdisk, system, ramdisk, ramdisk}
			if mode == bmc.Legacy {
				want = []string{ramdisk, ramdisk, ramdisk, ramdisk}
			}
			command(ctx, t, m, "standby.run_image")
			waitForBoots(ctx, t, machines, 2)
			begin(t, m, fromNetwork)
			waitForBoots(ctx, t, machines, 3)
			waitFor(ctx, t, machines, 0, sim.Running)
			commandWith(ctx, t, m, "clean.execute_clean_step", `{"node":{},"ports":[],"step":{"step":"erase_devices_metadata"}}`)
			command(ctx, t, m, "standby.run_image")
			waitForBoots(ctx, t, machines, 4)
			if diff := cmp.Diff(want, boots(machines, "0")); diff != "" {
				t.Errorf("boots differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachineWithABootEntryForADiskThatDoesNotBootGoesOnToTheNetwork(t *testing.T) {
	engine := newStandIn(t)
	server := newBootServer(t, engine.URL)
	server.image[510] = 0 // no partition table
	machines := newMediaMachine(t, func(o *sim.Options) { o.Engine = engine.URL })
	ctx, m := soon(t), machines.Machine(0)
	begin(t, m, bmc.Override{Mode: bmc.UEFI})
	waitFor(ctx, t, machines, 0, sim.Running)
	commandWith(ctx, t, m, "standby.cache_image", fmt.Sprintf(`{"image_info":{"id":"img","urls":["%s/image.raw"],"checksum":%q}}`, server.URL, server.sum()))
	commandWith(ctx, t, m, "image.install_bootloader", `{"root_uuid":null}`)
	command(ctx, t, m, "standby.run_image")
	waitForBoots(ctx, t, machines, 2)
	if got, want := m.BootLog(), "disk: there is nothing that boots on it"; !m.Disks().BootEntry() || !slices.Contains(got, want) {
		t.Errorf("boot log %q, want %q", got, want)
	}
}

func TestSomebodyBootsAMachineFromTheNetworkByHand(t *testing.T) {
	engine := newStandIn(t)
	server := newBootServer(t, engine.URL)
	machines := newMachines(t, engine, 1, quick)
	admin := httptest.NewServer(machines.AdminHandler())
	defer admin.Close()
	ctx, m := soon(t), machines.Machine(0)
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	deploy(ctx, t, machines, 0, server)
	waitFor(ctx, t, machines, 0, sim.OS)
	if got := bootByHand(t, admin.URL); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	waitFor(ctx, t, machines, 0, sim.Running)
	command(ctx, t, m, "standby.run_image")
	waitFor(ctx, t, machines, 0, sim.OS)

	switched := httptest.NewServer(newMediaMachine(t, func(*sim.Options) {}).AdminHandler())
	defer switched.Close()
	if got := bootByHand(t, switched.URL); got != http.StatusConflict {
		t.Errorf("with a BMC: status %d, want 409", got)
	}
}

// bootByHand boots machine 0 from the network and returns the status of the answer.
func bootByHand(t *testing.T, admin string) int {
	t.Helper()
	response, err := http.Post(admin+"/machines/0/boot-network", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// begin restarts a machine with an override.
func begin(t *testing.T, m *sim.Machine, o bmc.Override) {
	t.Helper()
	if err := m.BMC().SetOverride(&bmc.Call{}, o); err != nil {
		t.Fatal(err)
	}
	if err := m.Reboot(); err != nil {
		t.Fatal(err)
	}
}

// waitForBoots waits until machine 0 has booted so often.
func waitForBoots(ctx context.Context, t *testing.T, machines *sim.Machines, count int) {
	t.Helper()
	for len(boots(machines, "0")) < count {
		if err := agent.Sleep(ctx, agent.RealClock, 10*time.Millisecond); err != nil {
			t.Fatalf("boots %q, want %d of them", boots(machines, "0"), count)
		}
	}
}

// newMediaMachine is a machine with a BMC and the slots CD and RemovableDisk.
func newMediaMachine(t *testing.T, change func(*sim.Options)) *sim.Machines {
	t.Helper()
	return newBMCs(t, 1, func(o *sim.Options) {
		quick(o)
		o.BMC.Vendor = "dell"
		change(o)
	})
}

func TestMachineBootsFromVirtualMedia(t *testing.T) {
	engine := newStandIn(t)
	engine.hideTokens.Store(true) // so that the agent has to use the token on the medium
	server := newBootServer(t, engine.URL)
	server.media["/boot.iso"] = iso9660test.Build(iso9660test.Options{Label: "boot", Bootable: true}, map[string]string{
		"vmlinuz": "k", "initrd": "r", "boot/grub/grub.cfg": "menuentry x {\nlinux /vmlinuz boot_method=vmedia\ninitrd /initrd\n}\n",
	})
	server.media["/parameters.iso"] = iso9660test.Build(iso9660test.Options{Label: "ir-vfd-dev"}, map[string]string{
		"parameters.txt": strings.ReplaceAll(server.parameters, " ", "\n") + "\nipa-agent-token=" + strings.Repeat("t", 40) + "\n",
	})
	machines := newMediaMachine(t, func(o *sim.Options) { o.AgentVersion = "11.0.0" })
	ctx, m := soon(t), machines.Machine(0)
	for slot, file := range []string{"/boot.iso", "/parameters.iso"} {
		if err := m.BMC().Insert(&bmc.Call{}, slot, bmc.Medium{Image: server.URL + file}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.BMC().SetOverride(&bmc.Call{}, bmc.Override{Target: bmc.TargetCD, Enabled: bmc.Once}); err != nil {
		t.Fatal(err)
	}
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, machines, 0, sim.Running)
	command(ctx, t, m, "standby.sync")
	if diff := cmp.Diff([]string{"ramdisk from virtual CD " + server.URL + "/boot.iso"}, boots(machines, "0")); diff != "" {
		t.Errorf("boots differ (-want +got):\n%s", diff)
	}
}

func TestDocumentSaysHowTheRamdiskWasBooted(t *testing.T) {
	engine := newStandIn(t)
	server := newBootServer(t, engine.URL)
	server.media["/boot.iso"] = iso9660test.Build(iso9660test.Options{Label: "boot", Bootable: true}, map[string]string{
		"vmlinuz": "k", "initrd": "r", "boot/grub/grub.cfg": "menuentry x {\nlinux /vmlinuz " + server.parameters + "\ninitrd /initrd\n}\n",
	})
	machines := newMediaMachine(t, func(o *sim.Options) { o.BootURL = server.URL + "/boot.ipxe" })
	ctx, m := soon(t), machines.Machine(0)
	if err := m.BMC().Insert(&bmc.Call{}, 0, bmc.Medium{Image: server.URL + "/boot.iso"}); err != nil {
		t.Fatal(err)
	}
	h := m.Hardware()
	mac := "01-" + strings.ReplaceAll(h.Inspection.Inventory.Interfaces[h.BootNIC].MACAddress, ":", "-")
	for _, test := range []struct {
		boot bmc.Override
		want hardware.Boot
	}{
		{bmc.Override{Target: bmc.TargetCD, Mode: bmc.UEFI}, hardware.Boot{CurrentBootMode: "uefi"}},
		{bmc.Override{Target: bmc.TargetCD, Mode: bmc.Legacy}, hardware.Boot{CurrentBootMode: "bios"}},
		{bmc.Override{Target: bmc.TargetPXE, Mode: bmc.UEFI}, hardware.Boot{CurrentBootMode: "uefi", PXEInterface: &mac}},
		{bmc.Override{Target: bmc.TargetPXE, Mode: bmc.Legacy}, hardware.Boot{CurrentBootMode: "bios", PXEInterface: &mac}},
	} {
		test.boot.Enabled = bmc.Once
		if err := m.BMC().SetOverride(&bmc.Call{}, test.boot); err != nil {
			t.Fatal(err)
		}
		if err := m.Reboot(); err != nil {
			t.Fatal(err)
		}
		waitFor(ctx, t, machines, 0, sim.Running)
		var posted struct {
			Inventory struct {
				Boot hardware.Boot `json:"boot"`
			} `json:"inventory"`
			BootInterface *string `json:"boot_interface"`
		}
		engine.mu.Lock()
		document := engine.documents["00000000-0000-4000-8000-000000000000"]
		engine.mu.Unlock()
		if err := json.Unmarshal([]byte(document), &posted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, posted.Inventory.Boot); diff != "" {
			t.Errorf("%+v: the boot that is posted differs (-want +got):\n%s", test.boot, diff)
		}
		if diff := cmp.Diff(test.want.PXEInterface, posted.BootInterface); diff != "" {
			t.Errorf("%+v: boot_interface differs (-want +got):\n%s", test.boot, diff)
		}
	}
}

func TestMachineWithoutAnythingToBootSaysWhy(t *testing.T) {
	server := newBootServer(t, "")
	server.withdrawn.Store(true)
	server.media["/page.iso"] = bytes.Repeat([]byte("<html>"), 10_000)
	machines := newMediaMachine(t, func(o *sim.Options) { o.BootURL = server.URL + "/boot.ipxe" })
	admin := httptest.NewServer(machines.AdminHandler())
	defer admin.Close()
	ctx, m := soon(t), machines.Machine(0)
	if err := m.BMC().Insert(&bmc.Call{}, 0, bmc.Medium{Image: server.URL + "/page.iso"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		target bmc.Target
		want   string
	}{
		{bmc.TargetNone, "network: the script of " + server.URL + "/boot.ipxe ended; disk: there is nothing that boots on it; virtual CD: no ISO 9660 image"},
		{bmc.TargetDisk, "disk: there is nothing that boots on it; network: the script of " + server.URL + "/boot.ipxe ended; virtual CD: no ISO 9660 image"},
		{bmc.TargetCD, "virtual CD: no ISO 9660 image"},
		{bmc.TargetBIOSSetup, "elsewhere: nothing boots from there"},
	} {
		if err := m.BMC().SetOverride(&bmc.Call{}, bmc.Override{Target: test.target, Enabled: bmc.Once}); err != nil {
			t.Fatal(err)
		}
		if err := m.Reboot(); err != nil {
			t.Fatal(err)
		}
		waitFor(ctx, t, machines, 0, sim.On)
		if reason := m.Status().Reason; !strings.HasPrefix(reason, test.want) {
			t.Errorf("%s: reason %q, want %q", test.target, reason, test.want)
		}
		if text := get(t, admin.URL+"/machines/0"); !strings.Contains(text, `"boot_log":[`) || !strings.Contains(text, `"state":"on"`) {
			t.Errorf("%s: machine %s, want what it did", test.target, text)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestScriptThatRestartsTheMachineIsRunAgain(t *testing.T) {
	var asked atomic.Int64
	engine := newStandIn(t)
	server := newBootServer(t, engine.URL)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			_, _ = io.WriteString(w, "#!ipxe\nreboot\n")
			return
		}
		_, _ = io.WriteString(w, "#!ipxe\nchain "+server.URL+"/boot.ipxe")
	}))
	defer first.Close()
	machines := newMachines(t, engine, 1, func(o *sim.Options) {
		quick(o)
		o.BootURL = first.URL
	})
	if err := machines.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	waitFor(soon(t), t, machines, 0, sim.Running)
	if got := asked.Load(); got != 3 {
		t.Errorf("the script was read %d times, want 3", got)
	}
}

func TestAgentThatCrashesIsStartedAgain(t *testing.T) {
	engine := newStandIn(t)
	machines := newMachines(t, engine, 1, quick)
	admin := httptest.NewServer(machines.AdminHandler())
	defer admin.Close()
	ctx, m := soon(t), machines.Machine(0)
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, machines, 0, sim.Running)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, admin.URL+"/machines/0/faults", strings.NewReader(`{"agent":{"crash_at":1,"times":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("faults: %v, %v", response, err)
	}
	response.Body.Close()
	// The answer does not arrive, because the agent crashes while it is prepared.
	body := strings.NewReader(`{"name":"standby.run_image","params":{}}`)
	target := "https://" + m.Address().String() + ":9999/v1/commands/?wait=true&agent_token=" + strings.Repeat("t", 40)
	if response, err := insecureClient().Post(target, "application/json", body); err == nil {
		response.Body.Close()
	}
	posts := sim.Answer{Call: agent.CallInspect, Status: 200}
	if err := machines.Wait(ctx, func(s sim.Snapshot) bool { return s.Answers[posts] == 2 && s.States[sim.Running] == 1 }); err != nil {
		t.Fatal(err)
	}
	if got := m.Status().Boots; got != 1 {
		t.Errorf("%d boots, want one", got)
	}
	command(ctx, t, m, "standby.sync")
}

func TestFaultsAndFoldersThatCannotWorkAreRefused(t *testing.T) {
	for want, change := range map[string]func(*sim.Options){
		"boot script":          func(o *sim.Options) { o.BootURL = "boot.ipxe" },
		"no folder":            func(o *sim.Options) { o.Disks = "/nowhere" },
		"must not be negative": func(o *sim.Options) { o.AgentFaults.CrashAt = -1 },
		"http or https URL":    func(o *sim.Options) { o.BootURL = "tftp://127.0.0.1/boot.ipxe" },
	} {
		o := sim.Options{Engine: "http://127.0.0.1:1", Machines: 1}
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
