package story

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/up"
)

func TestUnknownMachineBecomesAnAvailableHost(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	w := start(t, up.Options{Machines: 1, Seed: 11, DataDir: data})
	host := w.theAvailableHost(t)

	machine := w.Machines().Machine(0).Hardware()
	if host.Spec.BMC.Address != "" {
		t.Errorf("the host has a BMC address %q, want none", host.Spec.BMC.Address)
	}
	if !meta.IsStatusConditionTrue(host.Status.Conditions, metal3v1alpha1.AvailableForProvisioningCondition) {
		t.Errorf("condition AvailableForProvisioning is not true: %+v", host.Status.Conditions)
	}
	hardware := &metal3v1alpha1.HardwareData{}
	if err := w.kube.Get(t.Context(), client.ObjectKeyFromObject(host), hardware); err != nil {
		t.Fatalf("read HardwareData: %v", err)
	}
	details := hardware.Spec.HardwareDetails
	if details == nil || host.Status.HardwareDetails == nil {
		t.Fatalf("no hardware details: HardwareData %v, status %v", details, host.Status.HardwareDetails)
	}
	if got, want := details.SystemVendor.SerialNumber, machine.Inspection.Inventory.SystemVendor.SerialNumber; got != want {
		t.Errorf("serial number: got %q, want %q", got, want)
	}
	if details.RAMMebibytes == 0 || details.CPU.Count == 0 || len(details.NICs) == 0 || len(details.Storage) == 0 {
		t.Errorf("hardware details are not full: %+v", details)
	}

	nodes, err := w.nodes(t.Context())
	if err != nil || len(nodes) != 1 {
		t.Fatalf("engine has %d nodes, %v, want 1", len(nodes), err)
	}
	if nodes[0].UUID != host.Status.Provisioning.ID || nodes[0].ProvisionState != "available" {
		t.Errorf("node %s is %s, want node %s available", nodes[0].UUID, nodes[0].ProvisionState, host.Status.Provisioning.ID)
	}

	dir, err := controlplane.AssetsDir()
	if err != nil {
		t.Fatal(err)
	}
	kubectl := exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl"), "--kubeconfig", filepath.Join(data, "kubeconfig"), "get", "bmh")
	out, err := kubectl.CombinedOutput()
	if err != nil || !strings.Contains(string(out), host.Name) || !strings.Contains(string(out), "available") {
		t.Errorf("kubectl get bmh: %v\n%s", err, out)
	}
}

func TestTheSameMachineStaysOneHost(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	w := start(t, up.Options{Machines: 1, Seed: 12, DataDir: data})
	first := w.theAvailableHost(t)

	// It posts again without having been restarted.
	answer, err := http.Post(w.EngineURL()+"/v1/continue_inspection", "application/json", bytes.NewReader(w.Machines().Machine(0).Document()))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("second post of a known machine: got %s, want 404", answer.Status)
	}
	// It is switched off and on.
	if err := w.Machines().Machine(0).Reboot(); err != nil {
		t.Fatal(err)
	}
	w.staysOne(t, first)

	// All of Ingot is stopped and started; the machine boots again.
	w.stop(t)
	w = start(t, up.Options{Machines: 1, Seed: 12, DataDir: data})
	w.staysOne(t, first)
}

// staysOne waits until the machine's new ramdisk has joined its node, and checks
// that host and node are the same as before.
func (w *world) staysOne(t *testing.T, before *metal3v1alpha1.BareMetalHost) {
	t.Helper()
	eventually(t, func(ctx context.Context) error { return w.Machines().Machine(0).Wait(ctx, sim.Running) })
	after := w.theAvailableHost(t)
	if after.UID != before.UID || after.Status.Provisioning.ID != before.Status.Provisioning.ID {
		t.Errorf("the host changed: %s %s, want %s %s", after.UID, after.Status.Provisioning.ID, before.UID, before.Status.Provisioning.ID)
	}
	nodes, err := w.nodes(t.Context())
	if err != nil || len(nodes) != 1 {
		t.Errorf("engine has %d nodes, %v, want 1", len(nodes), err)
	}
}

func TestDeletedHostIsRediscoveredWhenItsMachineBootsAgain(t *testing.T) {
	t.Parallel()
	w := start(t, up.Options{Machines: 1, Seed: 13, DataDir: t.TempDir()})
	first := w.theAvailableHost(t)
	w.Machines().Machine(0).PowerOff()
	if err := w.kube.Delete(t.Context(), first.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.gone(t, first.DeepCopy())
	w.gone(t, &metal3v1alpha1.HardwareData{ObjectMeta: first.ObjectMeta})
	eventually(t, func(ctx context.Context) error {
		nodes, err := w.nodes(ctx)
		if err == nil && len(nodes) > 0 {
			err = fmt.Errorf("the engine still has node %s", nodes[0].UUID)
		}
		return err
	})
	if err := w.Machines().Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	again := w.theAvailableHost(t)
	if again.UID == first.UID || again.Name != first.Name || again.Spec.BootMACAddress != first.Spec.BootMACAddress {
		t.Errorf("rediscovered %s (%s), want a new host %s (%s)", again.Name, again.Spec.BootMACAddress, first.Name, first.Spec.BootMACAddress)
	}
}
