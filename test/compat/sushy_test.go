//go:build compat

package compat_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/test/process"
)

// TestSushyDrivesSimulatedBMCs uses the Redfish library of Ironic, as Debian ships it, for
// everything that the library does with a machine. It compares what the library read, and what was
// done to the machine, with what is expected.
func TestSushyDrivesSimulatedBMCs(t *testing.T) {
	t.Parallel()
	ingot := filepath.Join(t.TempDir(), "ingot")
	must(t, "build", process.Build(t.Context(), ".", ingot, "-pgo=off"))
	for i, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			want, ok := sushyVendors[vendor]
			if !ok {
				t.Fatalf("nobody has said what sushy gets from a BMC of %s", vendor)
			}
			s := startSimulatedBMC(t, ingot, vendor, i)
			files := serveFirmware(t)
			got := s.useSushy(t, want, files)
			machine := simulatedServer(vendor)
			if diff := cmp.Diff(want.allResults(machine), got); diff != "" {
				t.Errorf("results of the steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.allEffects(machine, files), s.effects(t)); diff != "" {
				t.Errorf("what was done to the machine (-want +got):\n%s", diff)
			}
		})
	}
}

// simulatedBMC is an `ingot sim` with one machine, which is off.
type simulatedBMC struct{ url, admin, authority string }

// The account of the BMC.
const (
	simulatedUser     = "operator"
	simulatedPassword = "opensesame-1"
)

// startSimulatedBMC runs the program until the test ends. Its machines take almost no time, and no
// engine answers their ramdisks. number tells simulators apart.
func startSimulatedBMC(t *testing.T, ingot, vendor string, number int) simulatedBMC {
	t.Helper()
	dir, admin := t.TempDir(), process.Address(t)
	s := simulatedBMC{
		url: fmt.Sprintf("https://127.77.%d.1:8443", number), admin: "http://" + admin + "/machines/0",
		authority: filepath.Join(dir, "ca.pem"),
	}
	run(t, dir, "simulator", nil, ingot, "sim", "--machines", "1", "--bmc", vendor, "--off",
		"--bmc-network", fmt.Sprintf("127.77.%d.0/24", number), "--listen", fmt.Sprintf("127.78.%d.0/24", number),
		"--bmc-user", simulatedUser, "--bmc-password", simulatedPassword, "--bmc-ca-file", s.authority, "--admin", admin,
		"--engine", "http://"+process.Address(t), "--speed", "1000", "--boot-time", "1ms",
	).awaitOutput("What was done is at", 0)
	return s
}

// simulatedServer is the hardware of that machine.
func simulatedServer(vendor string) hardware.Inventory {
	o := hardware.Options{Kind: hardware.Server, Manufacturer: redfish.Profile(vendor).Manufacturer}
	return o.Machine(1, 0).Inspection.Inventory
}

// Firmware that is installed.
const (
	firmwareVersion = "9.8.7"
	firmwareFile    = "ingot-firmware component=bios version=" + firmwareVersion + "\n"
)

// Paths of files that a BMC is told to fetch; the second one is not there.
const (
	firmwarePath = "/bios.bin"
	missingPath  = "/missing.bin"
)

// serveFirmware serves a file for the BMC and returns the URL of the server.
func serveFirmware(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+firmwarePath, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(firmwareFile))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// useSushy runs the program that uses sushy, and returns the result of each step as JSON.
func (s simulatedBMC) useSushy(t *testing.T, v sushyVendor, files string) map[string]string {
	t.Helper()
	options, err := json.Marshal(map[string]string{
		"url": s.url, "ca": s.authority, "user": simulatedUser, "password": simulatedPassword, "admin": s.admin,
		"attribute": v.attribute, "value": v.value, "image": mediumImage,
		"firmware": files + firmwarePath, "missing": files + missingPath,
	})
	must(t, "encode options", err)
	cmd := exec.CommandContext(t.Context(), debianPython, "testdata/usesushy.py", string(options))
	// The program does not get the user's own certificate authorities and proxies.
	cmd.Env = []string{"HOME=" + t.TempDir(), "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("use sushy: %v; it needs Debian's package python3-sushy\n%s\n%s", err, output, stderr.String())
	}
	results := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		var name string
		var result json.RawMessage
		must(t, "decode a step", json.Unmarshal(lines.Bytes(), &[]any{&name, &result}))
		if _, twice := results[name]; twice {
			t.Errorf("there are two steps %q", name)
		}
		results[name] = string(result)
	}
	return results
}

// effects returns what clients did to the machine, in their order: each kind with its detail. It
// leaves out boots, because the machine boots by itself.
func (s simulatedBMC) effects(t *testing.T) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.admin+"/effects", http.NoBody)
	must(t, "make request", err)
	status, text := exchangeWith(t, request)
	var answer struct{ Effects []effect.Effect }
	if err := json.Unmarshal(text, &answer); err != nil || status != http.StatusOK {
		t.Fatalf("read effects: got %d %s: %v", status, text, err)
	}
	all := []string{}
	for _, e := range answer.Effects {
		if e.Kind == effect.Boot {
			continue
		}
		if e.User != simulatedUser || e.Fault != "" {
			t.Errorf("effect %+v, want one of %s without a fault", e, simulatedUser)
		}
		all = append(all, strings.TrimSuffix(e.Kind+": "+e.Detail, ": "))
	}
	return all
}
