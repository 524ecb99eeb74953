package story

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// TestDataImageIsInTheDriveBeforeTheMachineIsPoweredOn follows a DataImage through two reboots and
// checks the requests to the BMC.
func TestDataImageIsInTheDriveBeforeTheMachineIsPoweredOn(t *testing.T) {
	t.Parallel()
	r, _ := startBootService(t, redfish.Vendors[0])
	m := startHost(t, r)
	m.register(t, "redfish")
	m.inState(t, metal3v1alpha1.StateAvailable)
	m.deploysImage(t)
	m.shows(t, "powered on", func(h *metal3v1alpha1.BareMetalHost) bool { return h.Status.PoweredOn })
	m.runsSystem(t)

	d := m.dataImage(t)
	m.cycles(t, bmc.AttachMedium, true)
	m.hasImage(t, d, true)
	if err := m.kube.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	m.cycles(t, bmc.DetachMedia, false)
	eventually(t, func(ctx context.Context) error {
		err := m.kube.Get(ctx, client.ObjectKeyFromObject(d), d)
		if err == nil {
			return fmt.Errorf("DataImage is still there: %+v", d.Status)
		}
		return client.IgnoreNotFound(err)
	})
}

// TestDataImageIsAttachedAgainAfterTheRamdiskTookItsPlace deploys a machine again that boots its
// ramdisk from a virtual drive.
func TestDataImageIsAttachedAgainAfterTheRamdiskTookItsPlace(t *testing.T) {
	t.Parallel()
	r, _ := startBootService(t, redfish.Vendors[0])
	m := startHost(t, r)
	m.register(t, "redfish-virtualmedia")
	m.inState(t, metal3v1alpha1.StateAvailable)
	m.deploysImage(t)
	m.shows(t, "powered on", func(h *metal3v1alpha1.BareMetalHost) bool { return h.Status.PoweredOn })
	m.runsSystem(t)
	d := m.dataImage(t)
	m.cycles(t, bmc.AttachMedium, true)
	m.hasImage(t, d, true)

	m.change(t, func(h *metal3v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{metal3v1alpha1.RebuildAnnotation: ""}
	})
	m.hasImage(t, d, false)
	m.inState(t, metal3v1alpha1.StateProvisioned)
	m.runsSystem(t)
	m.cycles(t, bmc.AttachMedium, true)
	m.hasImage(t, d, true)
}

// dataImage creates the DataImage of the host.
func (m *managed) dataImage(t *testing.T) *metal3v1alpha1.DataImage {
	t.Helper()
	d := &metal3v1alpha1.DataImage{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: m.host.Name},
		Spec:       metal3v1alpha1.DataImageSpec{URL: "http://192.0.2.9/data.iso"},
	}
	if err := m.kube.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// hasImage waits until a DataImage says whether it is attached.
func (m *managed) hasImage(t *testing.T, d *metal3v1alpha1.DataImage, attached bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := m.kube.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if (d.Status.AttachedImage != nil && d.Status.AttachedImage.URL == d.Spec.URL) != attached {
			return fmt.Errorf("status = %+v, want the image: %t", d.Status, attached)
		}
		return nil
	})
}

// cycles reboots the machine and checks that its drive was changed between the power off and the
// power on.
func (m *managed) cycles(t *testing.T, change bmc.Kind, inserted bool) {
	t.Helper()
	before := len(m.Recorder().Effects("0", 0))
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{metal3v1alpha1.RebootAnnotation: `{"mode":"hard"}`}
	})
	var kinds []string
	eventually(t, func(context.Context) error {
		kinds = nil
		for _, e := range m.Recorder().Effects("0", 0)[before:] {
			if slices.Contains([]string{string(bmc.PowerOff), string(bmc.PowerOn), string(bmc.AttachMedium), string(bmc.DetachMedia)}, e.Kind) {
				kinds = append(kinds, e.Kind)
			}
		}
		if !slices.Contains(kinds, string(bmc.PowerOn)) {
			return fmt.Errorf("the BMC was asked for %q, not for power on", kinds)
		}
		return nil
	})
	if want := []string{string(bmc.PowerOff), string(change), string(bmc.PowerOn)}; !slices.Equal(kinds, want) {
		t.Errorf("the BMC was asked for %q, want %q", kinds, want)
	}
	if got := len(m.Machine(0).BMC().Media()) > 0 && slices.ContainsFunc(m.Machine(0).BMC().Media(), func(d bmc.Medium) bool { return d.Image != "" }); got != inserted {
		t.Errorf("drives have %+v, want an image: %v", m.Machine(0).BMC().Media(), inserted)
	}
	m.runsSystem(t)
}
