package engine_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/polltest"
	simredfish "github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// bootBase begins the URLs that the boot service of a test writes. Tests replace it by
// the address that the service has got.
const bootBase = "http://boot.test"

// serves returns a change that configures a boot service whose default ramdisk is on a server.
func serves(images string) func(*engine.Config) {
	return func(cfg *engine.Config) {
		cfg.API.PublicURL = "http://api.test"
		cfg.Boot.Listen, cfg.Boot.PublicURL = "127.0.0.1:0", bootBase
		cfg.Boot.Kernel, cfg.Boot.Ramdisk = images+"/kernel", images+"/ramdisk"
		cfg.AutoDiscovery.Enabled = false
	}
}

// imageServer serves every file with its path as content.
func imageServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "content of "+r.URL.Path) }))
	t.Cleanup(server.Close)
	return server.URL
}

// boots gets a file of the boot service by a URL in one of its scripts.
func (r *running) boots(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.BootURL()+strings.TrimPrefix(url, bootBase), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// register creates a node with a port, in manageable.
func (r *running) register(t *testing.T, mac string, body map[string]any) string {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ident := r.create(t, string(text))
	r.do(t, "POST", "/v1/ports", fmt.Sprintf(`{"address":%q,"node_uuid":%q}`, mac, ident)).want(t, http.StatusCreated)
	r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"manage"}`).want(t, http.StatusAccepted)
	r.awaitNode(t, ident, inState("manageable"))
	return ident
}

// withBMC returns a node that has a simulated BMC and is inspected through its ramdisk.
func withBMC(t *testing.T, bmc *redfishtest.Server, bootInterface string) map[string]any {
	t.Helper()
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authorities, bmc.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"driver": "redfish", "boot_interface": bootInterface, "inspect_interface": "agent", "driver_info": map[string]any{
			"redfish_address": bmc.URL, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password, "redfish_verify_ca": authorities,
		},
	}
}

const (
	bootMAC   = "52:54:00:12:34:56"
	bootByMAC = "/boot/mac/52-54-00-12-34-56"
	nextBoot  = "#!ipxe\nexit\n"
)

func inInspectWait(n map[string]any) bool { return n["provision_state"] == "inspect wait" }

// TestMachineIsInspectedByTheRamdiskThatTheEngineServes follows a machine from the verb to
// its inventory, through the files that it would fetch.
func TestMachineIsInspectedByTheRamdiskThatTheEngineServes(t *testing.T) {
	for _, vendor := range simredfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			r := start(t, serves(imageServer(t)))
			bmc := redfishtest.Start(t, vendor)
			ident := r.register(t, bootMAC, withBMC(t, bmc, "ipxe"))
			if _, script := r.boots(t, bootByMAC); script != nextBoot {
				t.Fatalf("before the inspection: %s", script)
			}
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"inspect"}`).want(t, http.StatusAccepted)
			r.awaitNode(t, ident, inInspectWait)
			effects := bmc.Effects()
			if device, on := slices.Index(effects, "boot device"), slices.Index(effects, "power on"); device < 0 || on < device {
				t.Errorf("the BMC was asked for %q, want the boot device before the power", effects)
			}

			_, chain := r.boots(t, bootByMAC)
			own := regexp.MustCompile(`http://boot\.test/boot/` + ident + `/[0-9a-f]{32}/boot\.ipxe`).FindString(chain)
			status, script := r.boots(t, own)
			if own == "" || status != http.StatusOK || !strings.Contains(script, "ipa-inspection-callback-url=http://api.test/v1/continue_inspection") {
				t.Fatalf("%q leads to %d %s", chain, status, script)
			}
			for _, file := range []string{"kernel", "ramdisk"} {
				url := strings.TrimSuffix(own, "boot.ipxe") + file
				if _, body := r.boots(t, url); !strings.Contains(script, url) || body != "content of /"+file {
					t.Errorf("%s: %q", url, body)
				}
			}

			if posted := r.post(t, machine(bootMAC)); posted != ident {
				t.Fatalf("the post went to %s", posted)
			}
			n := r.awaitNode(t, ident, inState("manageable"))
			if n["last_error"] != nil || strings.Contains(r.rows(t), "ramdisk_boot") {
				t.Errorf("last_error %v, rows %s", n["last_error"], r.rows(t))
			}
			if status, _ := r.boots(t, own); status != http.StatusNotFound {
				t.Errorf("status %d after the inspection", status)
			}
			if _, script := r.boots(t, bootByMAC); script != nextBoot {
				t.Errorf("after the inspection: %s", script)
			}
			secret := strings.Split(own, "/")[5]
			if strings.Contains(r.seen.String(), secret) || strings.Contains(r.log.String(), secret) {
				t.Error("the secret of the boot was shown")
			}
		})
	}
}

// TestBootIsWithdrawnHoweverTheInspectionEnds aborts one inspection, and fails another.
func TestBootIsWithdrawnHoweverTheInspectionEnds(t *testing.T) {
	for name, end := range map[string]func(r *running, ident string){
		"aborted": func(r *running, ident string) {
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"abort"}`).want(t, http.StatusAccepted)
		},
		"failed": func(r *running, _ string) {
			r.post(t, strings.Replace(machine(bootMAC), `{"inventory"`, `{"error":"broken","inventory"`, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, serves(imageServer(t)))
			ident := r.register(t, bootMAC, map[string]any{"driver": "fake-hardware", "boot_interface": "ipxe", "inspect_interface": "agent"})
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"inspect"}`).want(t, http.StatusAccepted)
			r.awaitNode(t, ident, inInspectWait)
			if _, script := r.boots(t, bootByMAC); script == nextBoot {
				t.Fatal("nothing is served")
			}
			end(r, ident)
			r.awaitNode(t, ident, func(n map[string]any) bool {
				return n["provision_state"] == "inspect failed" && n["reservation"] == nil && n["driver_internal_info"].(map[string]any)["ramdisk_boot"] == nil
			})
			if _, script := r.boots(t, bootByMAC); script != nextBoot {
				t.Errorf("served still: %s", script)
			}
		})
	}
}

func TestRamdiskThatCannotBeFetchedIsTheErrorOfTheNode(t *testing.T) {
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	r := start(t, serves(missing.URL))
	ident := r.register(t, bootMAC, map[string]any{"driver": "fake-hardware", "boot_interface": "ipxe", "inspect_interface": "agent"})
	r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"inspect"}`).want(t, http.StatusAccepted)
	n := r.awaitNode(t, ident, func(n map[string]any) bool { return n["provision_state"] == "inspect failed" })
	if text, _ := n["last_error"].(string); !strings.Contains(text, "404 Not Found") || !strings.Contains(text, missing.URL+"/kernel") {
		t.Errorf("last_error = %q", text)
	}
}

// TestMediaAreServedOverTLSAndScriptsWithout looks at both addresses of a boot service, and
// renews the certificate of the first.
func TestMediaAreServedOverTLSAndScriptsWithout(t *testing.T) {
	p := newPair(t)
	first := p.write(t, 1)
	serve := serves(imageServer(t))
	r := start(t, func(c *engine.Config) {
		serve(c)
		c.Boot.PublicURL, c.Boot.TLSCertificate, c.Boot.TLSKey = "https://boot.test", p.certificate, p.key
		c.Boot.IPXEListen, c.Boot.IPXEURL = "127.0.0.1:0", "http://ipxe.test"
	})
	if !strings.HasPrefix(r.BootURL(), "https://") || !strings.HasPrefix(r.NetworkBootURL(), "http://") {
		t.Fatalf("the boot service is at %s and %s", r.BootURL(), r.NetworkBootURL())
	}
	for client, base := range map[*http.Client]string{trusting(t, 0, first): r.BootURL(), r.client: r.NetworkBootURL()} {
		answer, err := client.Get(base + "/boot.ipxe")
		if err != nil {
			t.Fatal(err)
		}
		script, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !strings.Contains(string(script), "chain --replace --autofree http://ipxe.test/boot/mac/") {
			t.Errorf("%s: the script is %s, %v", base, script, err)
		}
	}
	later := time.Now().Add(time.Minute)
	second := p.write(t, 2)
	for _, file := range []string{p.certificate, p.key} {
		if err := os.Chtimes(file, later, later); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Until(t, testTimeout, "the renewed certificate", func() error {
		_, err := get(t, trusting(t, 0, second), r.BootURL()+"/boot.ipxe", &httptrace.ClientTrace{})
		return err
	})
}

func TestNodeSaysThatNothingIsServed(t *testing.T) {
	r := start(t, nil)
	ident := r.create(t, `{"driver":"fake-hardware","boot_interface":"ipxe"}`)
	got := r.do(t, "GET", "/v1/nodes/"+ident+"/validate", "").want(t, http.StatusOK).body
	if !strings.Contains(got, "boot.listen") || r.BootURL() != "" {
		t.Errorf("%s, boot service at %q", got, r.BootURL())
	}
}
