package redfish_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// shelf has firmware files, and serves the one of a node, as the boot service does.
type shelf struct {
	node   *node.Node
	server *httptest.Server
	asked  []string // URLs that were prepared
	late   int      // turns until a file is there
	failed error
	gets   []string // paths that the BMC has asked for
}

func newShelf(t *testing.T, content string) *shelf {
	t.Helper()
	s := &shelf{}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, serves := node.FirmwareFileOf(s.node)
		s.gets = append(s.gets, r.URL.Path)
		if !serves || r.URL.Path != file.Path(s.node.UUID) {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (*shelf) Check(url string) error {
	if !strings.HasPrefix(url, "http") {
		return errors.New("begins with neither http:// nor https://")
	}
	return nil
}

func (s *shelf) PrepareTemporary(ctx context.Context, url string) (string, error) {
	s.asked = append(s.asked, url)
	if s.late > 0 {
		s.late--
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "version", s.failed
}

// onShelf returns a machine of a driver that serves what is on a shelf.
func onShelf(t *testing.T, vendor string, s *shelf) (*machine, redfish.Driver) {
	t.Helper()
	m, _ := newMachine(t, vendor)
	s.node = m.node
	d := redfish.New(redfish.Options{FileOptions: redfish.FileOptions{Files: s, URL: s.server.URL}})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	isOn(m)
	m.before = len(m.Server.Effects())
	return m, d
}

// update runs the firmware step as the runner does, which stores what outcomes apply.
func update(m *machine, d redfish.Driver, step node.Step) error {
	_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		out, err := stepper(d, node.FirmwareInterface).RunStep(ctx, m.node, driver.CleanSteps, step, turn)
		if err == nil && out.Apply != nil {
			out.Apply(m.node)
		}
		return out, err
	})
	return err
}

func withSum(step node.Step, sum any) node.Step {
	step.Args["settings"].([]any)[0].(map[string]any)["checksum"] = sum
	return step
}

func TestBMCGetsItsFirmwareFromTheEngine(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		s := newShelf(t, "ingot-firmware component=bmc version=9.9.1")
		s.late = 1
		m, d := onShelf(t, vendor, s)
		sum := strings.Repeat("aB", 20)
		if err := update(m, d, withSum(firmwareStep("bmc", "http://files.example/bmc_9.9.1.bin"), sum)); err != nil {
			t.Fatal(err)
		}
		if got := versions(m)["bmc"]; got != "9.9.1" {
			t.Errorf("the version is %s", got)
		}
		if want := "http://files.example/bmc_9.9.1.bin#sha1=" + strings.ToLower(sum); len(s.asked) != 2 || s.asked[1] != want {
			t.Errorf("fetched was %q, want twice %q", s.asked, want)
		}
		if len(s.gets) != 1 || !strings.HasSuffix(s.gets[0], "/firmware/bmc_9.9.1.bin") {
			t.Errorf("the BMC asked for %q", s.gets)
		}
		if _, serves := node.FirmwareFileOf(m.node); serves {
			t.Error("the file is still served")
		}
	})
}

func TestFirmwareThatCannotBeFetchedReachesNoBMC(t *testing.T) {
	s := newShelf(t, "")
	s.failed = errors.New("the server answers 404 Not Found")
	m, d := onShelf(t, "dell", s)
	err := update(m, d, firmwareStep("bmc", "http://files.example/bmc.bin"))
	if err == nil || !strings.Contains(err.Error(), "http://files.example/bmc.bin cannot be fetched: the server answers 404 Not Found") {
		t.Errorf("error = %v", err)
	}
	if slices.Contains(m.Effects(), "flash") {
		t.Error("the BMC was asked")
	}
}

// TestFileThatAnEarlierReleaseServesIsAskedFor has a row of an earlier release.
func TestFileThatAnEarlierReleaseServesIsAskedFor(t *testing.T) {
	s := newShelf(t, "ingot-firmware component=bmc version=9.9.1")
	m, d := onShelf(t, "dell", s)
	turn := driver.Turn{Attempt: driver.Continued, Phase: "serve", Handle: `{"update":{"item":0,"before":""}}`}
	out, err := stepper(d, node.FirmwareInterface).RunStep(t.Context(), m.node, driver.CleanSteps, firmwareStep("bmc", "http://files.example/bmc.bin"), turn)
	if err != nil || out.Phase != "send" || len(s.asked) > 0 {
		t.Errorf("outcome = %+v, %v, fetched %q; want that the request is next", out, err, s.asked)
	}
}

func TestFirmwareThatWasWithdrawnIsNotAskedFor(t *testing.T) {
	s := newShelf(t, "ingot-firmware component=bmc version=9.9.1")
	m, d := onShelf(t, "dell", s)
	turn := driver.Turn{Attempt: driver.Continued, Phase: "send", Handle: `{"update":{"item":0,"before":"1"}}`}
	_, err := stepper(d, node.FirmwareInterface).RunStep(t.Context(), m.node, driver.CleanSteps, firmwareStep("bmc", "http://files.example/bmc.bin"), turn)
	if err == nil || !strings.Contains(err.Error(), "withdrawn") || slices.Contains(m.Effects(), "flash") {
		t.Errorf("error = %v, effects %q", err, m.Effects())
	}
}

func TestNodeChoosesWhereItsFirmwareComesFrom(t *testing.T) {
	s := newShelf(t, "")
	m, d := onShelf(t, "dell", s)
	m.info(map[string]any{"firmware_source": "http"})
	direct := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.2")
	if err := update(m, d, firmwareStep("bmc", direct)); err != nil || versions(m)["bmc"] != "9.9.2" || len(s.asked) > 0 {
		t.Errorf("directly: %v, version %s, fetched %q", err, versions(m)["bmc"], s.asked)
	}
	step := firmwareStep("bmc", direct)
	without := redfish.New(redfish.Options{})
	t.Cleanup(func() { _ = without.Close(context.Background()) })
	for name, tc := range map[string]struct {
		driver redfish.Driver
		source any
		step   node.Step
		want   string
	}{
		"no such source":  {d, "swift", step, "want local or http"},
		"no boot service": {without, "local", step, "boot.listen"},
		"nobody checks":   {d, "http", withSum(firmwareStep("bmc", direct), strings.Repeat("0", 64)), "nobody would check"},
		"no checksum":     {d, "local", withSum(firmwareStep("bmc", direct), "md5"), "SHA-1"},
		"no text":         {d, "local", withSum(firmwareStep("bmc", direct), 5.0), "not a text"},
		"two checksums":   {d, "local", withSum(firmwareStep("bmc", direct+"#sha1=00"), strings.Repeat("0", 64)), "beside"},
	} {
		m.info(map[string]any{"firmware_source": tc.source})
		var invalid *node.ValidationError
		if err := update(m, tc.driver, tc.step); !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestFirmwareIsFetchedForALimitedTime(t *testing.T) {
	s := newShelf(t, "")
	s.late = 1
	m, d := onShelf(t, "dell", s)
	turn := driver.Turn{Attempt: driver.Continued, Phase: "fetch", Handle: `{"update":{"item":0,"before":""}}`, Elapsed: time.Hour}
	_, err := stepper(d, node.FirmwareInterface).RunStep(t.Context(), m.node, driver.CleanSteps, firmwareStep("bmc", "http://files.example/bmc.bin"), turn)
	if err == nil || !strings.Contains(err.Error(), "was not fetched within") {
		t.Errorf("error = %v", err)
	}
}
