// Package redfishtest starts a simulated BMC for a test.
package redfishtest

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// The account of every BMC.
const (
	User     = "operator"
	Password = "opensesame-1"
)

// Name is the machine's name in the recorder.
const Name = "m1"

// Options change what is started. The zero value is enough.
type Options struct {
	Times    bmc.Times
	Computer bmc.Computer
	// Hardware restricts the hardware; machines are always servers of the vendor.
	Hardware hardware.Options
	Index    int // of the machine
	// Systems is how many systems the BMC has; 0 means one. Only the first has the computer.
	Systems int
}

// WithDrives returns options for a machine of a vendor whose last n disks have the same size.
func WithDrives(vendor string, n int) Options {
	o := Options{Hardware: hardware.Options{Kind: hardware.Server, Manufacturer: redfish.Profile(vendor).Manufacturer}}
	for ; ; o.Index++ {
		disks := o.Hardware.Machine(seed, o.Index).Inspection.Inventory.Disks
		if len(disks) >= n && disks[len(disks)-n].Size == disks[len(disks)-1].Size {
			return o
		}
	}
}

// seed is the seed of the hardware of all machines.
const seed = 1

// Server is one BMC that answers over TLS on loopback until the test ends. Its clock
// stands still unless the test moves it.
type Server struct {
	*bmc.BMC
	// Recorder has what was done to the systems, and their faults.
	Recorder *effect.Recorder
	URL      string // https://127.0.0.1:…
	CA       []byte // PEM of the authority that signed its certificate
	// Systems are the systems of the BMC. The first is the embedded BMC. In the recorder, their
	// names are m1, m2 and so on.
	Systems []*bmc.BMC

	group *redfish.Group
	http  *httptest.Server
	mu    sync.Mutex
	clock time.Time
	t     testing.TB
}

// Start starts a BMC of a vendor, one of [redfish.Vendors].
func Start(t testing.TB, vendor string, options ...Options) *Server {
	t.Helper()
	o := Options{}
	if len(options) > 0 {
		o = options[0]
	}
	o.Hardware.Kind = hardware.Server
	profile := redfish.Profile(vendor)
	if profile == nil {
		t.Fatalf("there is no vendor %q, only %q", vendor, redfish.Vendors)
	}
	o.Hardware.Manufacturer = profile.Manufacturer
	authority, err := redfish.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		t: t, CA: authority.PEM(), clock: time.Date(2031, time.March, 4, 10, 11, 12, 0, time.UTC),
		Recorder: effect.NewRecorder(effect.RecorderOptions{Known: bmc.Known}),
	}
	config := &bmc.Config{
		Profile: profile, Times: o.Times, User: User, Password: Password, Recorder: s.Recorder, Clock: s.now,
	}
	s.BMC = bmc.New(config, Name, func() hardware.Machine { return o.Hardware.Machine(seed, o.Index) }, o.Computer)
	s.Systems = []*bmc.BMC{s.BMC}
	for i := 1; i < o.Systems; i++ {
		machine := func() hardware.Machine { return o.Hardware.Machine(seed, o.Index+i) }
		s.Systems = append(s.Systems, bmc.New(config, "m"+strconv.Itoa(i+1), machine, nil))
	}
	s.group = redfish.NewGroup(s.Systems)
	s.http = httptest.NewUnstartedServer(s.group)
	certificate, err := authority.Certificate(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	s.http.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	s.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // clients come and go
	s.http.StartTLS()
	t.Cleanup(s.http.Close)
	s.URL = s.http.URL
	return s
}

func (s *Server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

// Pass moves the clock of the BMC.
func (s *Server) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

// Client returns a new HTTP client that trusts the BMC's authority.
func (s *Server) Client() *http.Client {
	s.t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.CA) {
		s.t.Fatal("the authority is no PEM certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Fail gives the machine faults.
func (s *Server) Fail(faults effect.Faults) {
	s.t.Helper()
	if err := s.Recorder.SetFaults(Name, &faults); err != nil {
		s.t.Fatal(err)
	}
}

// Heal ends the faults of the machine.
func (s *Server) Heal() {
	s.t.Helper()
	if err := s.Recorder.SetFaults(Name, nil); err != nil {
		s.t.Fatal(err)
	}
}

// SystemPath returns the path of a system. Systems are numbered from 0.
func (s *Server) SystemPath(position int) string { return s.group.SystemPath(position) }

// EffectsOf returns the kinds of what was done to a system, in its order. name is that of the
// system in the recorder.
func (s *Server) EffectsOf(name string) []string {
	kinds := []string{}
	for _, e := range s.Recorder.Effects(name, 0) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// Effects returns the kinds of what was done to the first system, in its order.
func (s *Server) Effects() []string { return s.EffectsOf(Name) }

// Serve serves a file until the test ends, and returns its URL. It is for the BMC to fetch.
func Serve(t testing.TB, text string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/firmware.bin"
}
