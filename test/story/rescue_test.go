package story

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-crypt/x/crypt"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// rescuePassword is the password with which people log in to the rescue system.
const rescuePassword = "let me in once"

// rescueImages is a rescue system that records what was downloaded.
type rescueImages struct {
	url     string
	mu      sync.Mutex
	fetched []string // paths
}

func serveRescueImages(t *testing.T) *rescueImages {
	t.Helper()
	images := new(rescueImages)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		images.mu.Lock()
		images.fetched = append(images.fetched, r.URL.Path)
		images.mu.Unlock()
		_, _ = fmt.Fprintf(w, "the rescue system's %s", r.URL.Path)
	}))
	t.Cleanup(server.Close)
	images.url = server.URL
	return images
}

// were reports whether the kernel and the ramdisk were downloaded.
func (i *rescueImages) were() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Contains(i.fetched, "/kernel") && slices.Contains(i.fetched, "/initrd")
}

// TestInstanceIsRescuedAndRunsAgain boots the rescue system of a node on a machine with an
// instance, then the instance, then the rescue system once more. It ends with the removal of the
// instance.
func TestInstanceIsRescuedAndRunsAgain(t *testing.T) {
	t.Parallel()
	for _, boot := range []string{"ipxe", "redfish-virtual-media"} {
		t.Run(boot, func(t *testing.T) {
			r, authority := startBootService(t, redfish.Vendors[0])
			uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": boot})
			r.provision(t, uuid, "manage", "manageable")
			r.provision(t, uuid, "provide", "available")
			image, images := serveImage(t), serveRescueImages(t)
			r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
			r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, fmt.Sprintf(`[{"op": "add", "path": "/driver_info/rescue_kernel", "value": %q},
				{"op": "add", "path": "/driver_info/rescue_ramdisk", "value": %q}]`, images.url+"/kernel", images.url+"/initrd"), http.StatusOK)
			r.provision(t, uuid, "active", "active")
			r.runs(t, image, 1)
			if images.were() {
				t.Error("the rescue system was booted for a deployment")
			}

			r.rescue(t, uuid)
			r.lets(t, uuid, 1)
			if !images.were() {
				t.Error("the machine was rescued with another ramdisk than its own rescue system")
			}
			r.provision(t, uuid, "unrescue", "active")
			r.runs(t, image, 2)
			r.bootedOnlyWhatWasServed(t, uuid, boot)
			if n := r.show(t, uuid); n.Internal["agent_url"] != nil {
				t.Errorf("the agent is still known at %v", n.Internal["agent_url"])
			}

			r.rescue(t, uuid)
			r.lets(t, uuid, 2)
			r.provision(t, uuid, "deleted", "available")
			r.bootedOnlyWhatWasServed(t, uuid, boot)
			if n := r.show(t, uuid); n.Power != "power off" || len(r.Machine(0).Disks().Contents()) != 0 {
				t.Errorf("after undeploying: power %q, disks %v, want it off and empty", n.Power, r.Machine(0).Disks().Contents())
			}
		})
	}
}

// TestInstanceWithSecureBootGetsItBackAfterARamdisk starts ramdisks on a machine that verifies what
// it boots for its instance.
func TestInstanceWithSecureBootGetsItBackAfterARamdisk(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0])
	uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "redfish-virtual-media"})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
	image, board := serveImage(t), r.Machine(0).BMC()
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid,
		`[{"op": "add", "path": "/instance_info/capabilities", "value": {"boot_mode": "uefi", "secure_boot": "true"}}]`, http.StatusOK)
	changes := 0
	verifies := func(after string, want ...string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if s := r.Machine(0).Status(); s.State != sim.OS || !board.SecureBoot().Current {
				return fmt.Errorf("after %s the machine is %s (%s), secure boot %+v", after, s.State, s.Reason, board.SecureBoot())
			}
			return nil
		})
		done := r.done(string(bmc.SecureBoot))
		if !slices.Equal(done[changes:], want) {
			t.Errorf("after %s: secure boot was changed by %q, want %q", after, done[changes:], want)
		}
		changes = len(done)
	}
	r.provision(t, uuid, "active", "active")
	verifies("the deployment", "enable")
	r.rescue(t, uuid)
	r.provision(t, uuid, "unrescue", "active")
	verifies("rescue", "disable", "enable")
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision",
		`{"target": "service", "service_steps": [{"interface": "deploy", "step": "burnin_memory"}]}`, http.StatusAccepted)
	r.awaitState(t, uuid, "active")
	verifies("servicing", "disable", "enable")
	r.provision(t, uuid, "rebuild", "active")
	verifies("rebuilding", "disable", "enable")
}

// rescue asks for a rescue system and waits for it.
func (r *rack) rescue(t *testing.T, uuid string) {
	t.Helper()
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", fmt.Sprintf(`{"target": "rescue", "rescue_password": %q}`, rescuePassword), http.StatusAccepted)
	r.awaitState(t, uuid, "rescue")
}

// lets checks that the machine lets people log in with the password, which it got this often, and
// that nobody else can read the password.
func (r *rack) lets(t *testing.T, uuid string, times int) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if s := r.Machine(0).Status(); s.State != sim.Rescued {
			return fmt.Errorf("the machine is %s (%s), want it rescued", s.State, s.Reason)
		}
		return nil
	})
	got := r.done(effect.RescuePassword)
	if len(got) != times {
		t.Fatalf("passwords were set: %q, want %d", got, times)
	}
	hash := got[times-1]
	if parts := strings.Split(hash, "$"); len(parts) != 4 || parts[1] != "5" ||
		string(crypt.KeySHACrypt(sha256.New, []byte(rescuePassword), []byte(parts[2]), 5000)) != parts[3] {
		t.Errorf("the password of the rescue system is %q, want the hash of the one that was asked for", hash)
	}
	if n := r.show(t, uuid); n.Power != "power on" {
		t.Errorf("the power is %q, want it on", n.Power)
	}
	for _, path := range []string{"/v1/nodes/" + uuid, "/v1/nodes/" + uuid + "/history"} {
		_, body := r.get(t, path)
		for _, secret := range []string{rescuePassword, hash, "rescue_password\":"} {
			if strings.Contains(string(body), secret) {
				t.Errorf("%s shows %q", path, secret)
			}
		}
	}
}

// TestRescueThatFailsLeavesTheMachineOff lets the rescue system refuse its password. Afterwards it
// starts the instance.
func TestRescueThatFailsLeavesTheMachineOff(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0], func(_ *rack, o *sim.Options) {
		o.AgentFaults = effect.AgentFaults{Fail: 1, Commands: []string{"rescue.finalize_rescue"}}
	})
	uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "ipxe"})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
	image := serveImage(t)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
	r.provision(t, uuid, "active", "active")
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", `{"target": "rescue", "rescue_password": "hush"}`, http.StatusAccepted)
	n := r.awaitState(t, uuid, "rescue failed")
	if !strings.Contains(n.LastError, "rescue.finalize_rescue") || n.Power != "power off" {
		t.Errorf("last_error %q, power %q, want the command that failed and the machine off", n.LastError, n.Power)
	}
	if _, body := r.get(t, "/v1/nodes/"+uuid); strings.Contains(string(body), "rescue_password\":") {
		t.Error("the node still has a password")
	}
	r.provision(t, uuid, "unrescue", "active")
	r.runs(t, image, 2)
	r.bootedOnlyWhatWasServed(t, uuid, "ipxe")
}
