package story

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// bmcFault is a way in which the BMC of a machine fails, and how the work on the machine then ends.
type bmcFault struct {
	// info and faults are how the node and the machine differ from those without a fault.
	info   func(r *rack, t *testing.T) map[string]any
	faults effect.Faults
	verb   string // the verb that fails; all but manage need a manageable node
	steps  string // of the verb
	state  string // the state in which the node ends
	says   string // in last_error
}

var bmcFaults = map[string]bmcFault{
	"nobody at the address": {
		info: func(*rack, *testing.T) map[string]any {
			return map[string]any{"redfish_address": "https://127.0.0.1:1"}
		},
		verb: "manage", state: "enroll", says: "the BMC cannot be reached",
	},
	"wrong credentials": {
		info: func(*rack, *testing.T) map[string]any { return map[string]any{"redfish_password": "not this one"} },
		verb: "manage", state: "enroll", says: "refuses the user name or password",
	},
	"expired certificate": {
		info: func(r *rack, t *testing.T) map[string]any {
			t.Helper()
			certificate, authority := expiredCertificate(t)
			return map[string]any{"redfish_address": r.proxyBMC(t, certificate, nil), "redfish_verify_ca": authority}
		},
		verb: "manage", state: "enroll", says: "certificate has expired",
	},
	"freezes after some requests": {
		info: func(r *rack, t *testing.T) map[string]any {
			t.Helper()
			certificate, authority := newCertificate(t, time.Now().Add(time.Hour))
			var served atomic.Int64
			return map[string]any{"redfish_verify_ca": authority, "redfish_address": r.proxyBMC(t, certificate, func(hang http.HandlerFunc, next http.Handler) http.HandlerFunc {
				return func(w http.ResponseWriter, request *http.Request) {
					if served.Add(1) > 5 {
						hang(w, request)
						return
					}
					next.ServeHTTP(w, request)
				}
			})}
		},
		verb: "provide", state: "clean failed", says: "did not answer in time",
	},
	"never answers": {
		faults: effect.Faults{Hang: 1}, verb: "provide", state: "clean failed", says: "did not answer in time",
	},
	"fails": {
		faults: effect.Faults{Error: 1}, verb: "provide", state: "clean failed", says: "500",
	},
	"says yes and does nothing": {
		faults: effect.Faults{Lie: 1, Only: []string{string(bmc.BootDevice)}}, verb: "provide", state: "clean failed", says: "the BMC accepted",
	},
	"refuses to boot from the network": {
		faults: effect.Faults{Refuse: 1, Only: []string{string(bmc.BootDevice)}}, verb: "provide", state: "clean failed", says: "409",
	},
	"refuses a firmware file": {
		verb: "clean", steps: `[{"interface": "firmware", "step": "update", "args": {"settings": [{"component": "bmc", "url": "FILE"}]}}]`,
		state: "clean failed", says: "firmware",
	},
	"fails in the middle of an update": {
		faults: effect.Faults{FailTask: 1}, verb: "clean",
		steps: `[{"interface": "firmware", "step": "update", "args": {"settings": [{"component": "bmc", "url": "GOOD"}]}}]`,
		state: "clean failed", says: "firmware",
	},
}

// TestFaultOfABMCEndsInAFailureThatSaysWhatHappened gives one of two machines a BMC that fails,
// while the other machine is cleaned.
func TestFaultOfABMCEndsInAFailureThatSaysWhatHappened(t *testing.T) {
	t.Parallel()
	for name, fault := range bmcFaults {
		t.Run(name, func(t *testing.T) {
			r, authority := startBootService(t, redfish.Vendors[0], func(r *rack, o *sim.Options) {
				o.Machines = 2
				r.settings = append(r.settings, "conductor.call_timeout=2s", "conductor.max_attempts=2")
			})
			uuid := r.registerWithFault(t, authority, fault)
			if fault.verb != "manage" {
				r.provision(t, uuid, "manage", "manageable")
			}
			if err := r.Recorder().SetFaults("0", &fault.faults); err != nil {
				t.Fatal(err)
			}
			steps := strings.ReplaceAll(fault.steps, "FILE", redfishtest.Serve(t, "<html>no firmware</html>"))
			steps = strings.ReplaceAll(steps, "GOOD", redfishtest.Serve(t, "ingot-firmware component=bmc version=99.1"))
			body := fmt.Sprintf(`{"target": %q}`, fault.verb)
			if steps != "" {
				body = fmt.Sprintf(`{"target": %q, "clean_steps": %s}`, fault.verb, steps)
			}
			r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", body, http.StatusAccepted)
			r.cleansAnother(t, authority)

			var n shownNode
			eventually(t, func(context.Context) error {
				if n = r.show(t, uuid); n.State != fault.state || n.LastError == "" {
					return fmt.Errorf("the node is in %q, want %q; last error: %s", n.State, fault.state, n.LastError)
				}
				return nil
			})
			if !strings.Contains(n.LastError, fault.says) || strings.Contains(n.LastError, "not this one") {
				t.Errorf("last_error is %q, want %q in it", n.LastError, fault.says)
			}
			if wipes := r.done(effect.Wipe); len(wipes) != 0 {
				t.Errorf("the disks were wiped: %q", wipes)
			}
		})
	}
}

// registerWithFault creates a node for the first machine.
func (r *rack) registerWithFault(t *testing.T, authority string, fault bmcFault) (uuid string) {
	t.Helper()
	info := map[string]any{
		"redfish_address": r.Machine(0).BMCURL(), "redfish_verify_ca": authority,
		"redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
	}
	if fault.info != nil {
		for key, value := range fault.info(r, t) {
			info[key] = value
		}
	}
	return r.registerNode(t, map[string]any{"driver": "redfish", "boot_interface": "ipxe", "inspect_interface": "agent", "driver_info": info})
}

// cleansAnother cleans the second machine, which must not wait for the first one.
func (r *rack) cleansAnother(t *testing.T, authority string) {
	t.Helper()
	uuid := r.registerMachine(t, 1, map[string]any{"driver": "redfish", "boot_interface": "ipxe", "inspect_interface": "agent", "driver_info": map[string]any{
		"redfish_address": r.Machine(1).BMCURL(), "redfish_verify_ca": authority,
		"redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
	}})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
}

// proxyBMC serves the BMC of the first machine at another address, with another certificate. wrap
// may handle requests first; hang is a handler that never answers.
func (r *rack) proxyBMC(t *testing.T, certificate tls.Certificate, wrap func(hang http.HandlerFunc, next http.Handler) http.HandlerFunc) (address string) {
	t.Helper()
	target, err := url.Parse(r.Machine(0).BMCURL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: r.Authority().Pool()}}
	var handler http.Handler = proxy
	ended := make(chan struct{})
	if wrap != nil {
		handler = wrap(func(_ http.ResponseWriter, request *http.Request) {
			select {
			case <-request.Context().Done():
			case <-ended:
			}
		}, proxy)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	return server.URL
}

func expiredCertificate(t *testing.T) (certificate tls.Certificate, authority string) {
	t.Helper()
	return newCertificate(t, time.Now().Add(-time.Hour))
}

// newCertificate returns a self-signed certificate for 127.0.0.1, and a file with its authority,
// which is the certificate itself.
func newCertificate(t *testing.T, until time.Time) (certificate tls.Certificate, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "BMC"}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "bmc.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, authority
}
