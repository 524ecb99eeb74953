package bmctest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/bmctest"
	"github.com/ingot-metal/ingot/internal/sim/recording"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// record records a BMC into a file.
func record(t *testing.T, o bmctest.Options) (bmctest.Report, string) {
	t.Helper()
	o.Record = true
	report := run(t.Context(), t, o)
	if report.Recording == nil {
		t.Fatalf("there is no recording: %+v", report.Results)
	}
	file := filepath.Join(t.TempDir(), "bmc.json")
	if err := report.Recording.Write(file); err != nil {
		t.Fatal(err)
	}
	return report, file
}

// serve serves a recording and returns options that reach it.
func serve(t *testing.T, file string) bmctest.Options {
	t.Helper()
	service, err := recording.Load(file, "tester", "opensesame-2")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := redfish.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Serve(ctx, listener, authority.TLS()) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return bmctest.Options{Address: "https://" + listener.Addr().String(), User: "tester", Password: "opensesame-2", CAFile: ca}
}

// identifying is what differs between a machine and its recording, in findings.
var identifying = regexp.MustCompile(`[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}|UUID [0-9a-f-]+|serial number \w+`)

func findings(report bmctest.Report) []bmctest.Result {
	var all []bmctest.Result
	for _, r := range report.Results {
		r.Found = identifying.ReplaceAllString(r.Found, "…")
		all = append(all, r)
	}
	return all
}

func TestServedRecordingGivesTheResultsOfTheOriginal(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		s, o := start(t, vendor)
		s.Switch(true)
		original, file := record(t, o)
		served := serve(t, file)
		again := run(t.Context(), t, served)
		if diff := cmp.Diff(findings(original), findings(again)); diff != "" || !again.Ready {
			t.Errorf("ready %v, results (-original +recording):\n%s", again.Ready, diff)
		}
		if result(t, original, "identity").Found == result(t, again, "identity").Found {
			t.Error("the recording has the identity of the machine")
		}
		served.PowerCycle, served.Clock = true, o.Clock
		want(t, run(t.Context(), t, served), "power cycle", bmctest.Works, "soft off, on; it is on as before")
	})
}

func TestRecordingHasNothingOfTheMachineAndOfItsUsers(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		s, o := start(t, vendor)
		report, file := record(t, o)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inventory := s.Hardware().Inspection.Inventory
		secrets := []string{redfishtest.Password, `"` + redfishtest.User + `"`, inventory.SystemVendor.SerialNumber, inventory.BMCAddress}
		for _, one := range inventory.Interfaces {
			secrets = append(secrets, one.MACAddress)
		}
		for _, one := range inventory.Disks {
			if one.Serial != nil {
				secrets = append(secrets, *one.Serial)
			}
		}
		for _, secret := range secrets {
			if secret != "" && bytes.Contains(bytes.ToLower(text), []byte(strings.ToLower(secret))) {
				t.Errorf("%s is in the recording", secret)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("file %v, %v, want mode 0600", info.Mode(), err)
		}
		if len(report.Recording.Documents) < 40 {
			t.Errorf("only %d documents are recorded", len(report.Recording.Documents))
		}
		for _, left := range report.Recording.LeftOut {
			if !strings.Contains(left.Path, "Sessions") && !strings.Contains(left.Path, "Jobs") && !strings.Contains(left.Path, "Subscriptions") {
				t.Errorf("%s is left out: %s", left.Path, left.Why)
			}
		}
	})
}

func TestRecordingIsReplacedAsAWhole(t *testing.T) {
	_, o := start(t, "dell")
	report, file := record(t, o)
	if err := report.Recording.Write(file); err != nil {
		t.Fatal(err)
	}
	var again bmctest.Recording
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &again); err != nil || len(again.Documents) != len(report.Recording.Documents) {
		t.Errorf("%d documents, %v", len(again.Documents), err)
	}
	if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v, want one", files, err)
	}
}
