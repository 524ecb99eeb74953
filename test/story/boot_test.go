package story

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/iso9660/iso9660test"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
	"github.com/ingot-metal/ingot/test/process"
)

// TestMachineBootsWhatTheEngineServes takes machines of each vendor through their life with a
// ramdisk that the engine serves: by an iPXE script, and on a virtual medium. The machines boot
// from nothing else.
func TestMachineBootsWhatTheEngineServes(t *testing.T) {
	t.Parallel()
	for _, vendor := range redfish.Vendors {
		for _, boot := range []string{"ipxe", "redfish-virtual-media"} {
			t.Run(vendor+"/"+boot, func(t *testing.T) {
				r, authority := startBootService(t, vendor)
				uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": boot})
				r.throughALife(t, uuid)
				r.bootedOnlyWhatWasServed(t, uuid, boot)
			})
		}
	}
}

// TestMachineWithIPMIBootsWhatTheEngineServes takes a machine with IPMI through its life.
func TestMachineWithIPMIBootsWhatTheEngineServes(t *testing.T) {
	t.Parallel()
	const port = 16230
	r, _ := startBootService(t, redfish.Vendors[0], func(_ *rack, o *sim.Options) { o.BMC.IPMIPort = port })
	address, err := url.Parse(r.Machine(0).BMCURL())
	if err != nil {
		t.Fatal(err)
	}
	uuid := r.registerNode(t, map[string]any{"driver": "ipmi", "boot_interface": "ipxe", "driver_info": map[string]any{
		"ipmi_address": address.Hostname(), "ipmi_port": port, "ipmi_username": redfishtest.User, "ipmi_password": redfishtest.Password,
	}})
	r.throughALife(t, uuid)
	r.bootedOnlyWhatWasServed(t, uuid, "ipxe")
}

// startBootService is startMachineWithABMC with an engine that serves the ramdisk, and
// refuses machines whose ramdisk it cannot start.
func startBootService(t *testing.T, vendor string, changes ...func(*rack, *sim.Options)) (r *rack, authority string) {
	t.Helper()
	address := process.Address(t)
	return startMachineWithABMC(t, vendor, agent.Accelerated(20), append(changes, func(r *rack, o *sim.Options) {
		boot := "http://" + address
		if o.EngineTLS != nil {
			boot = "https://" + address
		}
		o.BootURL = cmp.Or(o.BootURL, boot+"/boot.ipxe")
		r.settings = append(slices.DeleteFunc(r.settings, func(s string) bool { return strings.HasPrefix(s, "inspector.require_managed_boot") }),
			"api.public_url=http://"+r.address, "boot.listen="+address, "boot.public_url="+boot,
			"boot.kernel="+redfishtest.Serve(t, "the kernel"), "boot.ramdisk="+redfishtest.Serve(t, "the ramdisk"),
			"boot.boot_loader="+redfishtest.Serve(t, strings.Repeat("an EFI system partition ", 100)))
	})...)
}

// bootService is where the engine serves what machines boot.
func (r *rack) bootService(t *testing.T) *url.URL {
	t.Helper()
	const key = "boot.public_url="
	i := slices.IndexFunc(r.settings, func(setting string) bool { return strings.HasPrefix(setting, key) })
	address, err := url.Parse(strings.TrimPrefix(r.settings[i], key))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// bootedOnlyWhatWasServed checks from what the machine booted its ramdisk, and that the engine
// serves nothing any more.
func (r *rack) bootedOnlyWhatWasServed(t *testing.T, uuid, boot string) {
	t.Helper()
	want := map[string]string{"ipxe": "network", "redfish-virtual-media": "virtual CD", "redfish-https": "URL https://", "http": "URL http://"}[boot]
	ramdisks := slices.DeleteFunc(r.done(effect.Boot), func(detail string) bool { return !strings.HasPrefix(detail, "ramdisk ") })
	if len(ramdisks) == 0 || slices.ContainsFunc(ramdisks, func(detail string) bool { return !strings.Contains(detail, want) }) {
		t.Errorf("ramdisks were booted %q, want them from the %s", ramdisks, want)
	}
	if served := r.show(t, uuid).Internal["ramdisk_boot"]; served != nil {
		t.Errorf("the engine still serves %v", served)
	}
	for _, medium := range r.Machine(0).BMC().Media() {
		if medium.Image != "" {
			t.Errorf("the virtual medium %s is still attached", medium.Image)
		}
	}
}

// TestMachineBootsFromAURLThatItsBMCHandsToIt takes machines through their life whose firmware
// downloads the medium, with and without TLS.
func TestMachineBootsFromAURLThatItsBMCHandsToIt(t *testing.T) {
	t.Parallel()
	const vendor = "supermicro" // other simulated vendors have no such setting
	for boot, changes := range map[string]func(*rack, *sim.Options){"http": func(*rack, *sim.Options) {}, "redfish-https": withTLS(t)} {
		t.Run(boot, func(t *testing.T) {
			r, authority := startBootService(t, vendor, changes)
			uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": boot})
			r.throughALife(t, uuid)
			r.bootedOnlyWhatWasServed(t, uuid, boot)
		})
	}
}

// withTLS gives a certificate to the boot service and lets machines trust it.
func withTLS(t *testing.T) func(*rack, *sim.Options) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close() // only the certificate is needed, for 127.0.0.1
	pair, dir := server.TLS.Certificates[0], t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}}
	for name, block := range files {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	return func(r *rack, o *sim.Options) {
		o.EngineTLS = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
		r.settings = append(r.settings, "boot.tls_certificate="+filepath.Join(dir, "tls.crt"), "boot.tls_key="+filepath.Join(dir, "tls.key"))
	}
}

// TestGivenISOGetsItsParametersFromASecondMedium takes machines of each vendor through their life
// with an ISO that the engine has not made. The agent on it reads the address of the engine and the
// token from a second medium.
func TestGivenISOGetsItsParametersFromASecondMedium(t *testing.T) {
	t.Parallel()
	iso := redfishtest.Serve(t, string(iso9660test.Build(iso9660test.Options{Label: "theirs", Bootable: true}, map[string]string{
		"vmlinuz": "their kernel", "initrd": "their ramdisk",
		"boot/grub/grub.cfg": "menuentry theirs {\n  linux /vmlinuz boot_method=vmedia quiet\n  initrd /initrd\n}\n",
	})))
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			r, authority := startBootService(t, vendor, func(r *rack, _ *sim.Options) { r.settings = append(r.settings, "boot.iso="+iso) })
			uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "redfish-virtual-media"})
			r.throughALife(t, uuid)
			r.bootedOnlyWhatWasServed(t, uuid, "redfish-virtual-media")
			attached := strings.Join(r.done(string(bmc.AttachMedium)), "\n")
			if !strings.Contains(attached, "/boot.iso") || !strings.Contains(attached, "/parameters.img") {
				t.Errorf("attached was\n%s", attached)
			}
		})
	}
}

// TestVirtualMediaWithoutABootLoaderAreRefusedAtTheRequest asks for work in the ramdisk of a
// machine for which the engine has no boot loader.
func TestVirtualMediaWithoutABootLoaderAreRefusedAtTheRequest(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0])
	uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "redfish-virtual-media"})
	r.provision(t, uuid, "manage", "manageable")
	r.settings = slices.DeleteFunc(r.settings, func(s string) bool { return strings.HasPrefix(s, "boot.boot_loader") })
	r.restart(t)
	status, answer := r.call(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", []byte(`{"target": "provide"}`), "1.110")
	if status != http.StatusBadRequest || !strings.Contains(string(answer), "boot.boot_loader") {
		t.Errorf("got %d %s, want a refusal that names the setting", status, answer)
	}
}

// TestEngineThatIsKilledAgainAndAgainWritesAnImageOnce kills the engine at many times during a
// cleaning and a deployment. It counts what the machine saw.
func TestEngineThatIsKilledAgainAndAgainWritesAnImageOnce(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0], func(r *rack, _ *sim.Options) {
		r.settings = append(r.settings,
			"conductor.boot_retry_timeout=5s", // for a machine that boots while there is no engine
			"agent.heartbeat_timeout=5s")      // for an agent that lost its token with an answer
	})
	uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "ipxe"})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, verbInspect, "manageable")

	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", `{"target": "provide"}`, http.StatusAccepted)
	kills := r.killUntil(t, uuid, "available")
	if wipes := r.done(effect.Wipe); len(wipes) != 1 {
		t.Errorf("the disks were wiped %q, want them wiped once", wipes)
	}
	image := serveImage(t)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", `{"target": "active"}`, http.StatusAccepted)
	kills += r.killUntil(t, uuid, "active")
	r.runs(t, image, 1)
	t.Logf("the engine was killed %d times", kills)
}

// TestMachineThatGotNoAnswerAtItsBootIsStartedAgain lets nobody answer when a machine boots from
// the network.
func TestMachineThatGotNoAnswerAtItsBootIsStartedAgain(t *testing.T) {
	t.Parallel()
	var served *url.URL
	var refused atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if refused.CompareAndSwap(false, true) {
			http.Error(w, "the boot service is away", http.StatusBadGateway)
			return
		}
		httputil.NewSingleHostReverseProxy(served).ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	r, authority := startBootService(t, redfish.Vendors[0], func(r *rack, o *sim.Options) {
		o.BootURL = server.URL + "/boot.ipxe"
		r.settings = append(r.settings, "conductor.boot_retry_timeout=5s")
	})
	served = r.bootService(t)
	uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "ipxe"})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
	if wipes := r.done(effect.Wipe); !refused.Load() || len(wipes) != 1 {
		t.Errorf("a boot was refused: %v, the disks were wiped %q, want both, once", refused.Load(), wipes)
	}
	_, history := r.get(t, "/v1/nodes/"+uuid+"/history?detail=true")
	if !strings.Contains(string(history), "the machine is started again, retry 1 of 2") {
		t.Errorf("the history does not say that the machine was started again: %s", history)
	}
}

// killUntil kills the engine and starts it again until the node is in a state. The intervals grow,
// so that the engine gets further each time.
func (r *rack) killUntil(t *testing.T, uuid, state string) (kills int) {
	t.Helper()
	interval := 50 * time.Millisecond
	// Each start takes some time, too.
	for deadline := time.Now().Add(3 * testTimeout); time.Now().Before(deadline); interval += interval / 12 {
		<-time.After(interval)
		n := r.show(t, uuid)
		if n.State == state {
			return kills
		}
		if strings.HasSuffix(n.State, "failed") {
			t.Fatalf("after %d kills the node is in %q: %s", kills, n.State, n.LastError)
		}
		r.restart(t)
		kills++
	}
	t.Fatalf("the node is not in %q after %d kills, but in %q; its machine: %+v; its last boot:\n%s",
		state, kills, r.show(t, uuid).State, r.Machine(0).Status(), strings.Join(r.Machine(0).BootLog(), "\n"))
	return kills
}

// TestFailedDeploymentSaysWhyAndLeavesTheMachineOff lets the writing of an image fail in each way.
func TestFailedDeploymentSaysWhyAndLeavesTheMachineOff(t *testing.T) {
	t.Parallel()
	always := effect.Chance(1)
	for name, tc := range map[string]struct {
		faults effect.AgentFaults
		image  string // URL instead of that of the good image
		want   string // in last_error
	}{
		"wrong checksum": {faults: effect.AgentFaults{BadChecksum: always}, want: "checksum"},
		"full disk":      {faults: effect.AgentFaults{DiskFull: always}, want: "No space left on device"},
		"failing step":   {faults: effect.AgentFaults{Fail: always, Commands: []string{"write_image"}}, want: "step deploy.write_image"},
		"error page":     {image: redfishtest.Serve(t, "<html>not found</html>"), want: "checksum"},
		"no such image":  {image: "http://127.0.0.1:1/image", want: "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, authority := startBootService(t, redfish.Vendors[0], func(_ *rack, o *sim.Options) { o.AgentFaults = tc.faults })
			uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "ipxe"})
			r.provision(t, uuid, "manage", "manageable")
			r.provision(t, uuid, "provide", "available")
			image := serveImage(t)
			if tc.image != "" {
				image.instance = strings.Replace(image.instance, image.url, tc.image, 1)
			}
			r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
			r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", `{"target": "active"}`, http.StatusAccepted)
			n := r.awaitState(t, uuid, "deploy failed")
			if !strings.Contains(n.LastError, tc.want) || !strings.Contains(n.LastError, "write_image") {
				t.Errorf("last_error is %q, want the step and %q in it", n.LastError, tc.want)
			}
			if n.Power != "power off" || n.Internal["ramdisk_boot"] != nil {
				t.Errorf("power %q, served %v; want it off and nothing served", n.Power, n.Internal["ramdisk_boot"])
			}
			r.provision(t, uuid, "deleted", "available") // the machine can be used again
		})
	}
}
