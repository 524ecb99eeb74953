//go:build fault

package fault_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/test/process"
)

// shape is a kind of machine, and how the engine drives it.
type shape struct {
	name   string
	vendor string // of its BMC; empty for a machine without one
	driver string
	boot   string // boot interface
	// updates are the components that get other firmware while the machine is in use.
	updates []string
	// volumes says that the host of the machine asks for volumes of its RAID controller.
	volumes bool
	// discovered says that nobody registers the machine: the engine finds it.
	discovered bool
	// moves says that the host of the machine moves to another cluster and back.
	moves bool
	// postgres says that the engine has a PostgreSQL database instead of SQLite.
	postgres bool
}

var shapes = [...]shape{
	{name: "dell-media", vendor: "dell", driver: "redfish", boot: "redfish-virtual-media", updates: []string{"bmc", "bios"}},
	// An iLO does not show an update of the BIOS that waits for a restart, and the restart takes a
	// minute.
	{name: "hpe-ipxe", vendor: "hpe", driver: "redfish", boot: "ipxe", updates: []string{"bmc"}},
	{name: "supermicro-media", vendor: "supermicro", driver: "redfish", boot: "redfish-virtual-media", updates: []string{"bios", "bmc"}},
	{name: "ipmi-ipxe", vendor: "dell", driver: "ipmi", boot: "ipxe", postgres: true},
	{name: "without-bmc", driver: "manual-management", discovered: true},
}

// speed is how many times faster than real ones the machines are. They are still slow enough for an
// engine that is started again to be there when they boot.
const speed = 30

// Account of the BMCs.
const (
	bmcUser     = "root"
	bmcPassword = "calvin"
)

// lifeMachine is a machine in a process of its own, which outlives every engine.
type lifeMachine struct {
	api
	t         *testing.T
	authority string // file with the certificate authority of the BMC
	number    int
}

// lives numbers the lives of this process.
var lives atomic.Uint32

// lifeNetwork is a part of loopback, 127.a.b. No other life of this process has it, so that the
// ports of its servers are free.
type lifeNetwork string

func newLifeNetwork() lifeNetwork {
	return lifeNetwork(fmt.Sprintf("127.%d.%d", 224+os.Getpid()%28, lives.Add(1)%256))
}

// The addresses of the servers of a life. The machine and its BMC have the first address of their
// networks.
func (n lifeNetwork) api() string      { return string(n) + ".1:6385" }
func (n lifeNetwork) boot() string     { return string(n) + ".1:8088" }
func (n lifeNetwork) admin() string    { return string(n) + ".1:8098" }
func (n lifeNetwork) machines() string { return string(n) + ".64/26" }
func (n lifeNetwork) bmcs() string     { return string(n) + ".128/26" }

// startLifeMachine starts a machine. A machine with a BMC is off. If it is to be discovered,
// another machine is next to it.
func startLifeMachine(t *testing.T, s shape, network lifeNetwork) *lifeMachine {
	t.Helper()
	dir := t.TempDir()
	m := &lifeMachine{t: t, api: newAPI(network.admin(), waitTimeout), authority: filepath.Join(dir, "authority.pem")}
	machines := "1"
	if s.discovered && s.vendor != "" {
		machines = "2"
	}
	args := []string{
		"sim", "--machines", machines, "--engine", "http://" + network.api(), "--listen", network.machines(), "--inventory-network", "10.90.0.0/16",
		"--speed", fmt.Sprint(speed), "--boot-time", "0s", "--heartbeat", "1m", "--admin", network.admin(), "--kind", "server",
	}
	if s.vendor != "" {
		args = append(args, "--bmc", s.vendor, "--bmc-network", network.bmcs(), "--bmc-ca-file", m.authority,
			"--bmc-user", bmcUser, "--bmc-password", bmcPassword, "--off")
	}
	if s.vendor != "" && !s.discovered { // the other shapes boot a ramdisk that asks no boot service
		args = append(args, "--boot-url", "http://"+network.boot()+"/boot.ipxe")
	}
	p := process.Run(t, exec.Command(binary, args...), filepath.Join(dir, "machine.log"))
	process.Eventually(t, waitTimeout, "the machine to answer", func() bool {
		if p.Ended() {
			t.Fatal(p.Failure())
		}
		return m.read("/counts", new(struct{})) == nil
	})
	return m
}

// seen is a machine as a person in front of it sees it.
type seen struct {
	BootMAC    string    `json:"boot_mac"`
	URL        string    `json:"url"` // of the BMC
	SystemPath string    `json:"system_path"`
	State      sim.State `json:"state"`
	Reason     string    `json:"reason"`
	PowerState string    `json:"power_state"`
	System     *sim.System
	Disks      map[string]any `json:"disks"`
	BIOS       map[string]any `json:"bios"`
	Writing    []string       `json:"writing"`
	BootLog    []string       `json:"boot_log"`
	Media      []struct{ Image string }
	Components []struct{ ID, Version string }
}

func (m *lifeMachine) path() string { return fmt.Sprintf("/machines/%d", m.number) }

// other returns the machine next to this one.
func (m *lifeMachine) other() *lifeMachine {
	other := *m
	other.number = 1
	return &other
}

func (m *lifeMachine) observe() (s seen) {
	m.t.Helper()
	if err := m.read(m.path(), &s); err != nil {
		m.t.Fatal(err)
	}
	return s
}

// version returns the firmware version of a component.
func (s seen) version(component string) string {
	for _, c := range s.Components {
		if c.ID == component {
			return c.Version
		}
	}
	return ""
}

// inRamdisk reports whether a ramdisk runs or is about to.
func (s seen) inRamdisk() bool {
	switch s.State {
	case sim.Starting, sim.Booting, sim.Inspecting, sim.LookingUp, sim.Running:
		return true
	}
	return false
}

// bootByHand restarts the machine and lets it boot from the network.
func (m *lifeMachine) bootByHand() {
	m.t.Helper()
	now := m.observe()
	if now.URL == "" {
		m.tell(m.t, http.MethodPost, m.path()+"/boot-network", nil)
		return
	}
	reset := map[string]string{string(bmc.Off): "On", string(bmc.On): "ForceRestart"}[now.PowerState]
	if reset == "" { // its power is about to change
		return
	}
	system := now.URL + now.SystemPath
	m.askBMC(http.MethodPatch, system, `{"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}`)
	m.askBMC(http.MethodPost, system+"/Actions/ComputerSystem.Reset", fmt.Sprintf(`{"ResetType": %q}`, reset))
}

// askBMC sends a request to the BMC, as a person does who uses its web page.
func (m *lifeMachine) askBMC(method, address, body string) {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.SetBasicAuth(bmcUser, bmcPassword)
	client := &http.Client{Timeout: waitTimeout, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	if err != nil {
		m.t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode >= http.StatusMultipleChoices {
		m.t.Fatalf("%s %s: %d %s", method, address, answer.StatusCode, text)
	}
}

// effects returns what was done to the machine after a sequence number, and the number of the
// newest effect.
func (m *lifeMachine) effects(since int64) ([]effect.Effect, int64) {
	m.t.Helper()
	var log struct {
		Effects []effect.Effect `json:"effects"`
		Next    int64           `json:"next"`
		Gap     bool            `json:"gap"`
	}
	if err := m.read(fmt.Sprintf("%s/effects?since=%d", m.path(), since), &log); err != nil || log.Gap {
		m.t.Fatalf("read the effects: %v, gap: %v", err, log.Gap)
	}
	return log.Effects, log.Next
}

func describeEffects(effects []effect.Effect) string {
	var text strings.Builder
	for _, e := range effects {
		fmt.Fprintf(&text, "%4d %s %s: %s %s %s\n", e.Sequence, e.Time.Local().Format(clockTime), e.Kind, e.Detail, e.Request, e.Fault)
	}
	return text.String()
}
