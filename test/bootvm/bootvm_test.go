//go:build bootvm

// Package bootvm boots a virtual machine with a real kernel over the network: QEMU with the
// iPXE of Debian in its network card, dnsmasq as docs/boot.md sets it up, and the engine's
// boot service. It runs in a network namespace of its own, see run.sh.
package bootvm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/test/process"
)

// The network of the machine. They are the addresses of docs/boot.md.
const (
	api     = "192.0.2.1:6385"
	boot    = "192.0.2.1:6386"
	network = "192.0.2.1/24"
	mac     = "52:54:00:12:34:56"
)

// bootWithin bounds a boot without hardware virtualization, on a busy machine.
const bootWithin = 10 * time.Minute

func TestVirtualMachineIsInspectedThroughTheBootService(t *testing.T) {
	folder := t.TempDir()
	kernel, ramdisk := makeRamdisk(t, folder)
	makeNetwork(t)
	startDnsmasq(t, folder)
	startEngine(t, map[string]string{
		"database.dir": filepath.Join(folder, "data"), "api.listen": api, "api.public_url": "http://" + api, "api.allow_unauthenticated": "true",
		"boot.listen": boot, "boot.public_url": "http://" + boot, "boot.file_root": folder,
		"boot.kernel": "file://" + kernel, "boot.ramdisk": "file://" + ramdisk, "boot.kernel_params": "console=ttyS0 panic=-1",
	})

	var created struct{ UUID string }
	ask(t, http.MethodPost, "/v1/nodes", `{"driver":"fake-hardware","boot_interface":"ipxe","inspect_interface":"agent"}`, &created)
	node := "/v1/nodes/" + created.UUID
	ask(t, http.MethodPost, "/v1/ports", fmt.Sprintf(`{"address":%q,"node_uuid":%q}`, mac, created.UUID), nil)
	ask(t, http.MethodPut, node+"/states/provision", `{"target":"manage"}`, nil)
	await(t, node, "manageable", time.Minute)
	ask(t, http.MethodPut, node+"/states/provision", `{"target":"inspect"}`, nil)
	await(t, node, "inspect wait", time.Minute)

	machine := startMachine(t, folder)
	process.Eventually(t, bootWithin, "the machine to post its inventory", func() bool {
		if machine.Ended() {
			t.Fatal("the machine has ended without a post")
		}
		return stateOf(t, node) != "inspect wait"
	})
	await(t, node, "manageable", time.Minute)
	var inspected struct {
		Inventory struct {
			Hostname   string
			Interfaces []struct {
				MACAddress  string `json:"mac_address"`
				IPv4Address string `json:"ipv4_address"`
			}
		}
	}
	ask(t, http.MethodGet, node+"/inventory", "", &inspected)
	got := inspected.Inventory
	if got.Hostname != "booted-from-01-52-54-00-12-34-56" || len(got.Interfaces) != 1 || got.Interfaces[0].MACAddress != mac || !strings.HasPrefix(got.Interfaces[0].IPv4Address, "192.0.2.") {
		t.Errorf("the engine shows %+v", got)
	}
	t.Logf("the console of the machine:\n%s", machine.Output(t))
	select {
	case <-machine.Done():
	case <-time.After(time.Minute):
		t.Error("the ramdisk did not switch the machine off")
	}
	// The next boot finds nothing to boot.
	if script := read(t, "http://"+boot+"/boot/mac/52-54-00-12-34-56"); script != "#!ipxe\nexit\n" {
		t.Errorf("after the inspection the machine is served %q", script)
	}
}

// makeNetwork makes the link between the machine and the engine.
func makeNetwork(t *testing.T) {
	t.Helper()
	for _, command := range []string{
		"ip link set lo up", "ip tuntap add tap0 mode tap", "ip address add " + network + " dev tap0", "ip link set tap0 up",
	} {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
}

// startDnsmasq starts the DHCP server of docs/boot.md. It needs no TFTP: iPXE is in the
// machine's network card.
func startDnsmasq(t *testing.T, folder string) {
	t.Helper()
	config := strings.Join([]string{
		"port=0", "interface=tap0", "bind-interfaces", "dhcp-range=192.0.2.100,192.0.2.200,10m",
		"dhcp-match=set:ipxe,175", "dhcp-boot=tag:ipxe,http://" + boot + "/boot.ipxe",
		"dhcp-leasefile=" + filepath.Join(folder, "leases"), "user=root", "group=root", "log-dhcp", "log-facility=-", "",
	}, "\n")
	file := filepath.Join(folder, "dnsmasq.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	process.Run(t, exec.Command("dnsmasq", "--keep-in-foreground", "--conf-file="+file), filepath.Join(folder, "dnsmasq.log"))
}

// startEngine starts an engine in this process until the test ends.
func startEngine(t *testing.T, set map[string]string) {
	t.Helper()
	config, err := engine.LoadConfig(engine.Sources{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Start(t.Context(), engine.Options{Config: config, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("stop the engine: %v", err)
		}
	})
}

// startMachine switches the machine on. What it prints is in the log of a test that fails.
func startMachine(t *testing.T, folder string) *process.Process {
	t.Helper()
	accelerator := cmp.Or(os.Getenv("ACCEL"), "tcg") // a KVM within another one may not run all of iPXE
	cmd := exec.Command("qemu-system-x86_64", "-machine", "pc,accel="+accelerator, "-m", "512", "-nographic", "-no-reboot", "-nodefaults",
		"-serial", "stdio", "-boot", "reboot-timeout=5000", // a machine that boots nothing ends
		"-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=net,bootindex=0,mac="+mac) // with the ROM of ipxe-qemu
	return process.Run(t, cmd, filepath.Join(folder, "console.log"))
}

// ask sends a request to the engine, which must succeed, and decodes the answer.
func ask(t *testing.T, method, path, body string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+api+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-OpenStack-Ironic-API-Version", "1.90")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %s, %v: %s", method, path, answer.Status, err, text)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// read gets what the boot service answers.
func read(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stateOf is the state of a node on which no work has failed; empty while work runs.
func stateOf(t *testing.T, node string) string {
	t.Helper()
	var n struct {
		State       string  `json:"provision_state"`
		LastError   *string `json:"last_error"`
		Reservation *string
	}
	ask(t, http.MethodGet, node, "", &n)
	if n.LastError != nil {
		t.Fatalf("the node is %q: %s", n.State, *n.LastError)
	}
	if n.Reservation != nil {
		return ""
	}
	return n.State
}

// await waits until a node is in a state and nobody works on it.
func await(t *testing.T, node, state string, within time.Duration) {
	t.Helper()
	process.Eventually(t, within, "the node to be "+state, func() bool { return stateOf(t, node) == state })
}
