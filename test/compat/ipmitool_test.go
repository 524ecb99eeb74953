//go:build compat

package compat_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/test/process"
)

// ipmitoolNetwork is the number of the first simulator that ipmitool speaks to.
const ipmitoolNetwork = 32

// ipmitoolTimeout is how long a machine may take to reach the power state that was asked for.
const ipmitoolTimeout = 30 * time.Second

// ipmitoolSteps are commands of ipmitool with a part of the output, the power state that follows,
// and what is done to the machine.
var ipmitoolSteps = []struct {
	command, says, power, effect string
}{
	{"-C 3 chassis power status", "Chassis Power is off", "off", ""},
	{"-C 17 chassis power status", "Chassis Power is off", "off", ""},
	{"chassis bootdev pxe", "Set Boot Device to pxe", "off", "boot device: Pxe Once"},
	{"chassis bootparam get 5", "Force PXE", "off", ""},
	{"chassis power on", "Up/On", "on", "power on: On"},
	{"chassis power soft", "Soft", "off", "soft power off: GracefulShutdown"},
	{"chassis bootdev disk options=persistent", "Set Boot Device to disk", "off", "boot device: Hdd Continuous"},
	{"chassis bootparam get 5", "Force Boot from default Hard-Drive", "off", ""},
	{"chassis bootparam get 5", "Options apply to all future boots", "off", ""},
	{"chassis power on", "Up/On", "on", "power on: On"},
	{"chassis power diag", "Diag", "on", "nmi: Nmi"},
	{"chassis power reset", "Reset", "on", "reboot: ForceRestart"},
	{"chassis power off", "Down/Off", "off", "power off: ForceOff"},
	{"mc info", "IPMI Version              : 2.0", "off", ""},
	{"mc guid", "System GUID", "off", ""},
}

// TestIpmitoolDrivesSimulatedBMCs compares the output of Debian's ipmitool, and what was done to
// the machine, with what is expected.
func TestIpmitoolDrivesSimulatedBMCs(t *testing.T) {
	t.Parallel()
	ingot := filepath.Join(t.TempDir(), "ingot")
	must(t, "build", process.Build(t.Context(), ".", ingot, "-pgo=off"))
	for i, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			number := ipmitoolNetwork + i
			s := startSimulatedBMC(t, ingot, vendor, number)
			tool := ipmitool{t: t, host: fmt.Sprintf("127.77.%d.1", number), password: simulatedPassword}
			var want []string
			for _, step := range ipmitoolSteps {
				if strings.HasSuffix(step.command, "soft") {
					s.awaitRamdisk(t) // a machine that is starting does not react
				}
				if said, err := tool.run(step.command); err != nil || !strings.Contains(said, step.says) {
					t.Errorf("ipmitool %s: %v, said %q, want %q", step.command, err, said, step.says)
				}
				process.Eventually(t, ipmitoolTimeout, "the power is "+step.power, func() bool {
					said, err := tool.run("chassis power status")
					return err == nil && strings.Contains(said, "is "+step.power)
				})
				if step.effect != "" {
					want = append(want, step.effect)
				}
			}
			tool.password = "not-this-one"
			if said, err := tool.run("chassis power on"); err == nil {
				t.Errorf("with a wrong password: %q", said)
			}
			got := s.effects(t)
			for i, effect := range want {
				if i < len(got) && strings.HasPrefix(got[i], effect) { // a boot mode may follow
					got[i] = effect
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was done to the machine (-want +got):\n%s", diff)
			}
		})
	}
}

// awaitRamdisk waits until the machine has booted.
func (s simulatedBMC) awaitRamdisk(t *testing.T) {
	t.Helper()
	process.Eventually(t, ipmitoolTimeout, "the ramdisk to run", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.admin, http.NoBody)
		must(t, "make request", err)
		var answer struct{ State sim.State }
		_, text := exchangeWith(t, request)
		must(t, "decode the machine", json.Unmarshal(text, &answer))
		return answer.State != sim.Off && answer.State != sim.Booting
	})
}

// ipmitool speaks to one BMC.
type ipmitool struct {
	t              *testing.T
	host, password string
}

// run runs a command and returns what it says.
func (i ipmitool) run(command string) (string, error) {
	i.t.Helper()
	arguments := append([]string{"-I", "lanplus", "-H", i.host, "-p", "6230", "-U", simulatedUser, "-P", i.password}, strings.Fields(command)...)
	output, err := exec.CommandContext(i.t.Context(), "ipmitool", arguments...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w; it needs Debian's package ipmitool", err)
	}
	return string(output), err
}
