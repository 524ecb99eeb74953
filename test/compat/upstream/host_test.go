//go:build compat

package upstream_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
	"github.com/ingot-metal/ingot/test/process"
)

// ironicHosts is an operator that manages hosts with Debian's Ironic, and their simulated
// machines.
type ironicHosts struct {
	*sim.Machines
	t      *testing.T
	ironic *debianIronic
	kube   client.Client
}

// hostWithin bounds every wait for a host.
const hostWithin = 60 * time.Second

// startIronicHosts starts everything. The machines boot from the network, and only what Ironic
// tells them to boot.
func startIronicHosts(t *testing.T, machines int) *ironicHosts {
	t.Helper()
	h := &ironicHosts{t: t, ironic: startDebianIronic(t)}
	var err error
	h.Machines, err = sim.New(sim.Options{
		Engine: h.ironic.url(), BootURL: h.ironic.bootURL(), Machines: machines, Seed: 4, Clock: agent.Accelerated(20),
		// Ironic is not ready for a ramdisk that reports as soon as the machine is powered on.
		BootTime: 50 * time.Second,
		// The first cleaning of each machine fails, for which Ironic sets maintenance.
		AgentFaults: effect.AgentFaults{Fail: 1, Commands: []string{"erase_devices_metadata"}, Times: 1},
		Network:     loopbacktest.Network(t), Inventory: netip.MustParsePrefix("10.90.0.0/16"), Hardware: hardware.Options{Kind: hardware.Server},
		BMC: &sim.BMCOptions{
			Vendor: redfish.Vendors[0], Network: loopbacktest.Network(t), Port: 8443,
			User: redfishtest.User, Password: redfishtest.Password, Times: bmc.Times{},
		},
	})
	must(t, "make machines", err)
	t.Cleanup(h.Stop)
	must(t, "serve BMCs", h.ServeBMCs(t.Context()))
	h.startOperator()
	return h
}

// startOperator starts an API server and the controllers of hosts and of their firmware.
func (h *ironicHosts) startOperator() {
	h.t.Helper()
	config := controlplanetest.Start(h.t, controlplanetest.Options{}).Config()
	scheme := runtime.NewScheme()
	must(h.t, "know Secrets", corev1.AddToScheme(scheme))
	must(h.t, "know hosts", v1alpha1.AddToScheme(scheme))
	var err error
	h.kube, err = client.New(config, client.Options{Scheme: scheme})
	must(h.t, "make client", err)
	op, err := operator.New(operator.Options{
		Config: config, EngineURL: h.ironic.url(), Controllers: []string{operator.GroupHost, operator.GroupFirmware}, PollInterval: time.Second,
		MaxBackoff: 2 * time.Second, LocalImages: true,
		Logger: slog.New(slog.NewTextHandler(h.t.Output(), nil)),
	})
	must(h.t, "make operator", err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("operator: %v", err)
		}
	})
}

func (h *ironicHosts) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

// register creates a host for a machine, and the Secret of its BMC.
func (h *ironicHosts) register(name string, machine int, password string, change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h.t.Helper()
	address, err := url.Parse(h.Machine(machine).BMCURL())
	must(h.t, "parse URL", err)
	host := &v1alpha1.BareMetalHost{ObjectMeta: h.meta(name), Spec: v1alpha1.BareMetalHostSpec{
		Online: true, BootMACAddress: h.Machine(machine).BootMAC(), BMC: v1alpha1.BMCDetails{
			Address: "redfish://" + address.Host, CredentialsName: name + "-bmc", DisableCertificateVerification: true,
		},
	}}
	if change != nil {
		change(host)
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: h.meta(name + "-bmc"), StringData: map[string]string{"username": redfishtest.User, "password": password}},
		host,
	} {
		must(h.t, "create", h.kube.Create(h.t.Context(), object))
	}
	return host
}

// change changes an object as kubectl edit does.
func (h *ironicHosts) change(object client.Object, change func()) {
	h.t.Helper()
	must(h.t, "read", h.kube.Get(h.t.Context(), client.ObjectKeyFromObject(object), object))
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		h.t.Fatalf("%T is no object", object)
	}
	change()
	must(h.t, "change", h.kube.Patch(h.t.Context(), object, client.MergeFrom(before)))
}

// shows waits until a host shows what is wanted.
func (h *ironicHosts) shows(host *v1alpha1.BareMetalHost, what string, is func(*v1alpha1.BareMetalHost) bool) {
	h.t.Helper()
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the host: %+v\nthe machine: %+v\nwhat was done to it: %+v", host.Status, h.Machine(0).Status(), h.Recorder().Effects("0", 0))
		}
	}()
	process.Eventually(h.t, hostWithin, "host "+host.Name+" "+what, func() bool {
		must(h.t, "read host", h.kube.Get(h.t.Context(), client.ObjectKeyFromObject(host), host))
		return is(host)
	})
}

func (h *ironicHosts) inState(host *v1alpha1.BareMetalHost, state v1alpha1.ProvisioningState) {
	h.t.Helper()
	h.shows(host, "in state "+string(state), func(got *v1alpha1.BareMetalHost) bool { return got.Status.Provisioning.State == state })
}

// gone deletes a host and waits until it has ended.
func (h *ironicHosts) gone(host *v1alpha1.BareMetalHost) {
	h.t.Helper()
	must(h.t, "delete host", h.kube.Delete(h.t.Context(), host))
	process.Eventually(h.t, hostWithin, "end of host "+host.Name, func() bool {
		err := h.kube.Get(h.t.Context(), client.ObjectKeyFromObject(host), host)
		return apierrors.IsNotFound(err)
	})
}

// done lists what was done to a machine, of some kinds or of all.
func (h *ironicHosts) done(machine int, kinds ...string) []string {
	all := []string{}
	for _, e := range h.Recorder().Effects(string(rune('0'+machine)), 0) {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			all = append(all, e.Kind)
		}
	}
	return all
}

// rawImage is a small raw image that machines boot from.
func (h *ironicHosts) rawImage() *v1alpha1.Image {
	h.t.Helper()
	content := make([]byte, 1<<20)
	content[510], content[511] = 0x55, 0xaa
	sum, raw := sha256.Sum256(content), "raw"
	return &v1alpha1.Image{
		URL: h.ironic.serveFile(h.t, "image.raw", content), Checksum: hex.EncodeToString(sum[:]), ChecksumType: v1alpha1.ChecksumSHA256, DiskFormat: &raw,
	}
}

// TestOperatorManagesHostsWithDebiansIronic takes a host through its life with upstream's engine,
// whose API is older than Ingot's, and counts what was done to the machine. The cleaning of the
// machine fails at first, and the machine is not updated while it is in use. Another host has a
// wrong password at first.
func TestOperatorManagesHostsWithDebiansIronic(t *testing.T) {
	h := startIronicHosts(t, 2)
	const wrong = "opensesame-2"
	locked := h.register("locked", 1, wrong, func(host *v1alpha1.BareMetalHost) {
		host.Spec.InspectionMode = v1alpha1.InspectionModeDisabled
		host.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeDisabled
	})
	host := h.register("web", 0, redfishtest.Password, nil)
	// This error is shown for seconds only, so the test waits for it first.
	h.shows(host, "not cleaned", func(got *v1alpha1.BareMetalHost) bool { return got.Status.ErrorType == v1alpha1.ErrorPreparation })
	if text := host.Status.ErrorMessage; !strings.Contains(text, "erase_devices_metadata") {
		t.Errorf("error %q, want one that names the step", text)
	}
	h.shows(locked, "without access", func(got *v1alpha1.BareMetalHost) bool { return got.Status.ErrorType == v1alpha1.ErrorRegistration })
	if text := locked.Status.ErrorMessage; strings.Contains(text, wrong) || !strings.Contains(text, locked.Status.Provisioning.ID) && !strings.Contains(text, "credentials") {
		t.Errorf("error %q, want one that names the node or the credentials, without the password", text)
	}
	secret := &corev1.Secret{ObjectMeta: h.meta("locked-bmc")}
	h.change(secret, func() { secret.Data["password"] = []byte(redfishtest.Password) })

	h.inState(host, v1alpha1.StateAvailable)
	h.shows(host, "powered on", func(got *v1alpha1.BareMetalHost) bool { return got.Status.PoweredOn })
	if details := host.Status.HardwareDetails; details == nil || len(details.NICs) == 0 {
		t.Errorf("hardware = %+v, want what the ramdisk found", details)
	}
	wipes := len(h.done(0, effect.Wipe))

	image := h.rawImage()
	h.change(host, func() { host.Spec.Image = image })
	h.inState(host, v1alpha1.StateProvisioned)
	if diff := cmp.Diff([]string{effect.Write}, h.done(0, effect.Write)); diff != "" {
		t.Errorf("images were written (-want +got):\n%s", diff)
	}
	h.leavesUpdatesOfUsedHosts(host)
	h.inState(locked, v1alpha1.StateAvailable)
	if done := h.done(1, effect.Wipe, effect.Write); len(done) != 0 {
		t.Errorf("%q was done to the machine that was not to be cleaned", done)
	}

	h.change(host, func() { host.Spec.Image = nil })
	h.inState(host, v1alpha1.StateAvailable)
	if got := len(h.done(0, effect.Wipe)); got != wipes+1 {
		t.Errorf("the disks were wiped %d times for the removal, want once", got-wipes)
	}
	h.gone(host)
	h.gone(locked)
	for i := range h.Len() {
		if h.Machine(i).BMC().Power() != bmc.Off {
			t.Errorf("machine %d of a deleted host is on", i)
		}
	}
	if nodes, err := h.ironic.nodes(t); err != nil || nodes != 0 {
		t.Errorf("Ironic has %d nodes, %v; want none", nodes, err)
	}
}
