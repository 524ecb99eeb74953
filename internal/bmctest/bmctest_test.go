package bmctest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/bmctest"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/ipmi/ipmitest"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

func TestEverythingWorksAndNothingIsChanged(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		s, o := start(t, vendor)
		report := run(t.Context(), t, o)
		for _, r := range report.Results {
			asked := r.Check == "power cycle" || r.Check == "attach a medium"
			if asked && (r.Outcome != bmctest.NotTried || !strings.Contains(r.Found, "--")) || !asked && r.Outcome != bmctest.Works {
				t.Errorf("%+v", r)
			}
		}
		if !report.Ready {
			t.Error("the BMC is not ready")
		}
		if effects := s.Effects(); len(effects) > 0 {
			t.Errorf("effects %q, want none", effects)
		}
		if sessions := sessionsOn(t, s); sessions != 0 {
			t.Errorf("%d sessions are left, want none", sessions)
		}
	})
}

// sessionsOn counts the sessions on a BMC.
func sessionsOn(t *testing.T, s *redfishtest.Server) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/redfish/v1/SessionService/Sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(redfishtest.User, redfishtest.Password)
	response, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct {
		Members []any
	}
	readJSON(t, response.Body, &list)
	return len(list.Members)
}

func TestFindingsSayWhatTheMachineHas(t *testing.T) {
	for vendor, found := range map[string]map[string]string{
		"dell": {
			"certificate": "Simulated BMCs", "service root": "Redfish 1.17.0, Dell, Integrated Dell", "login": "grants a session", "system": "no quirk applies",
			"power control": "soft power off", "boot device": "uefihttp", "boot mode": "uefi", "virtual media": "at the system",
			"BIOS settings": "8 settings, 8 of them in the registry BiosAttributeRegistry.v1_0_0, applied OnReset", "firmware versions": "bmc 7.00.60.00",
			"firmware updates": "SimpleUpdate by HTTP, HTTPS", "storage": "RAID.Integrated.1-1 with", "network interfaces": "(LinkUp)", "identity": "serial number",
		},
		"hpe":        {"virtual media": "at the manager", "BIOS settings": "8 settings, 8 of them in the registry BiosAttributeRegistryU32.v1_2_68"},
		"supermicro": {"system": "quirks of Supermicro: a change of the boot override names", "virtual media": "cdrom at the manager"},
	} {
		_, o := start(t, vendor)
		report := run(t.Context(), t, o)
		for check, text := range found {
			want(t, report, check, bmctest.Works, text)
		}
	}
}

func TestWrongCredentialsAreSentOnce(t *testing.T) {
	_, o := start(t, "dell")
	var tries atomic.Int32
	counting := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost || r.Header.Get("Authorization") != "" {
			tries.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"Systems":{"@odata.id":"/redfish/v1/Systems"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`))
	}))
	defer counting.Close()
	o.Address, o.Insecure, o.Record = counting.URL, true, true
	report := run(t.Context(), t, o)
	want(t, report, "login", bmctest.Fails, "refuses the user name or password", "sent once only")
	want(t, report, "power state", bmctest.NotTried, "it needs: login")
	if report.Ready || tries.Load() != 1 || report.Recording != nil {
		t.Errorf("ready %v, %d tries, recording %v; want one try", report.Ready, tries.Load(), report.Recording)
	}
}

func TestCertificateIsJudgedWithoutTrustingIt(t *testing.T) {
	s, o := start(t, "hpe")
	o.CAFile = ""
	report := run(t.Context(), t, o)
	want(t, report, "certificate", bmctest.Fails, "unknown authority", "--ca-file")
	want(t, report, "service root", bmctest.Fails)
	if report.Ready {
		t.Error("a BMC that no engine trusts is ready")
	}
	o.Insecure = true
	report = run(t.Context(), t, o)
	want(t, report, "certificate", bmctest.Fails, "unknown authority")
	if !report.Ready {
		t.Error("the certificate matters although it was asked not to")
	}
	_, o = start(t, "hpe")
	o.Address = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	want(t, run(t.Context(), t, o), "certificate", bmctest.Fails, "localhost")
}

func TestUnreachableBMCEndsTheTest(t *testing.T) {
	_, o := start(t, "dell")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	o.Address = strings.Replace(gone.URL, "http:", "https:", 1)
	report := run(t.Context(), t, o)
	want(t, report, "certificate", bmctest.Fails)
	want(t, report, "service root", bmctest.Fails, "cannot be reached")
	want(t, report, "login", bmctest.NotTried, "it needs: service root")
}

func TestSilentBMCEndsTheTestInTime(t *testing.T) {
	_, o := start(t, "dell")
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	o.Address, o.Insecure, o.Timeout = silent.URL, true, 50*time.Millisecond
	want(t, run(t.Context(), t, o), "service root", bmctest.Fails, "did not answer in time")
}

func TestSystemIsNamedWhenThereAreSeveral(t *testing.T) {
	s, o := start(t, "dell", redfishtest.Options{Systems: 2})
	report := run(t.Context(), t, o)
	want(t, report, "login", bmctest.Works)
	want(t, report, "system", bmctest.Fails, "2 systems", s.SystemPath(1), "--system")
	o.System = "/redfish/v1/Systems/Other"
	want(t, run(t.Context(), t, o), "system", bmctest.Fails, "404", "--system")
	o.System, o.PowerCycle = s.SystemPath(1), true
	report = run(t.Context(), t, o)
	want(t, report, "power cycle", bmctest.Works)
	if first, second := s.EffectsOf("m1"), s.EffectsOf("m2"); !report.Ready || len(first) > 0 || len(second) == 0 {
		t.Errorf("ready %v, effects %q and %q", report.Ready, first, second)
	}
}

func TestPowerCycleEndsAsItBegan(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		for _, on := range []bool{true, false} {
			s, o := start(t, vendor, redfishtest.Options{Times: bmc.Times{PowerOn: time.Second, PowerOff: time.Second}})
			s.Switch(on)
			before := s.Power()
			o.PowerCycle = true
			report := run(t.Context(), t, o)
			want(t, report, "power cycle", bmctest.Works, "as before")
			if s.Power() != before || s.Boots() < 1 {
				t.Errorf("on %v: the machine is %s after %d boots", on, s.Power(), s.Boots())
			}
			if !slices.Contains(s.Effects(), "soft power off") || !slices.Contains(s.Effects(), "power on") {
				t.Errorf("on %v: effects %q", on, s.Effects())
			}
		}
	})
}

// ignoresShutdown has an operating system that does not shut down.
type ignoresShutdown struct{}

func (ignoresShutdown) PowerOn(bmc.Boot) {}
func (ignoresShutdown) PowerOff()        {}
func (ignoresShutdown) Shutdown() bool   { return false }
func (ignoresShutdown) On() bool         { return true }

func TestMachineThatDoesNotShutDownIsSwitchedOff(t *testing.T) {
	s, o := start(t, "dell", redfishtest.Options{Computer: ignoresShutdown{}})
	s.Switch(true)
	o.PowerCycle = true
	report := run(t.Context(), t, o)
	want(t, report, "power cycle", bmctest.Works, "hard off, because soft off failed")
	if s.Power() != bmc.On {
		t.Errorf("the machine is %s", s.Power())
	}
}

func TestFailedPowerCycleSaysWhereTheMachineIs(t *testing.T) {
	s, o := start(t, "hpe")
	s.Switch(true)
	s.Fail(effect.Faults{Refuse: 1, Only: []string{"power on"}})
	o.PowerCycle = true
	report := run(t.Context(), t, o)
	want(t, report, "power cycle", bmctest.Fails, "after soft off, on: ", "the machine is off, it was on before", "console")
	if report.Ready {
		t.Error("a machine that cannot be switched on is ready")
	}
}

func TestInterruptedPowerCycleSaysWhereTheMachineIs(t *testing.T) {
	s, o := start(t, "dell", redfishtest.Options{Times: bmc.Times{PowerOn: time.Minute}})
	s.Switch(true)
	s.Pass(time.Minute)
	o.PowerCycle = true
	ctx, interrupt := context.WithCancel(t.Context())
	wait := o.Clock.Wait
	o.Clock.Wait = func(ctx context.Context, d time.Duration) error {
		if slices.Contains(s.Effects(), "power on") { // it takes a minute to power on
			interrupt()
		}
		return wait(ctx, d)
	}
	report := run(ctx, t, o)
	want(t, report, "power cycle", bmctest.Fails, "after soft off, on: interrupted", "it was on before", "may have its effect later")
	want(t, report, "attach a medium", bmctest.NotTried, "interrupted")
	if sessions := sessionsOn(t, s); sessions != 0 {
		t.Errorf("%d sessions are left", sessions)
	}
}

func TestMediumIsAttachedAndDetached(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		s, o := start(t, vendor)
		o.Medium = "http://192.0.2.1/test.iso"
		want(t, run(t.Context(), t, o), "attach a medium", bmctest.Works, "attached, read back, detached")
		attached := slices.Index(s.Effects(), "attach medium")
		if detached := slices.Index(s.Effects(), "detach media"); attached < 0 || detached < attached {
			t.Errorf("effects %q", s.Effects())
		}
		for _, medium := range s.Media() {
			if medium.Image != "" {
				t.Errorf("%s is attached still", medium.Image)
			}
		}
	})
}

func TestMediumMayBeShownWithoutItsURL(t *testing.T) {
	_, o := start(t, "hpe")
	o.Medium = "http://192.0.2.1/test.iso"
	edited(t, &o, func(medium map[string]any) { medium["Image"] = nil })
	want(t, run(t.Context(), t, o), "attach a medium", bmctest.Works, "attached, read back, detached")
}

func TestVirtualDevicesMayHaveNoActionToInsert(t *testing.T) {
	_, o := start(t, "hpe")
	edited(t, &o, func(medium map[string]any) { delete(medium, "Actions") })
	want(t, run(t.Context(), t, o), "virtual media", bmctest.Works, "cdrom at the manager (no action to insert)", "--medium")
}

func TestMediaOfOthersStay(t *testing.T) {
	s, o := start(t, "supermicro")
	if err := s.Insert(&bmc.Call{}, 1, bmc.Medium{Image: "http://192.0.2.1/theirs.img"}); err != nil {
		t.Fatal(err)
	}
	o.Medium = "http://192.0.2.1/test.iso"
	report := run(t.Context(), t, o)
	want(t, report, "attach a medium", bmctest.Fails, "has 1 medium already", "Detach")
	if got := s.Media()[1].Image; got != "http://192.0.2.1/theirs.img" || len(s.Effects()) != 1 {
		t.Errorf("the medium is %q, effects %q", got, s.Effects())
	}
}

func TestMediumThatTheBMCDoesNotShowIsTakenOut(t *testing.T) {
	s, o := start(t, "dell")
	s.Fail(effect.Faults{Lie: 1, Only: []string{"attach medium"}})
	o.Medium = "http://192.0.2.1/test.iso"
	report := run(t.Context(), t, o)
	want(t, report, "attach a medium", bmctest.Fails, "it is detached", "reaches the server")
	if report.Ready {
		t.Error("a BMC that does not attach media is ready")
	}
}

func TestIPMIIsTried(t *testing.T) {
	s := ipmitest.Start(t, "hpe")
	o := bmctest.Options{
		IPMI: true, Address: s.Address.Addr().String(), Port: portOf(s), User: redfishtest.User, Password: redfishtest.Password, Clock: clockOf(s.Server),
	}
	report := run(t.Context(), t, o)
	want(t, report, "session", bmctest.Works, "cipher suite 17, firmware")
	for _, check := range []string{"identity", "power state", "boot device"} {
		want(t, report, check, bmctest.Works)
	}
	if !report.Ready || len(s.Effects()) > 0 {
		t.Errorf("ready %v, effects %q", report.Ready, s.Effects())
	}
	o.PowerCycle = true
	s.Switch(true)
	want(t, run(t.Context(), t, o), "power cycle", bmctest.Works, "it is on as before")
	o.Password = "wrong"
	report = run(t.Context(), t, o)
	want(t, report, "session", bmctest.Fails, "refuses the user name or password")
	want(t, report, "power state", bmctest.NotTried)
}
