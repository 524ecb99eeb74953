package dataimage

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestDecide(t *testing.T) {
	const a, b = "https://images/a.iso", "https://images/b.iso"
	now := metav1.Now()
	deleted := func(d *v1alpha1.DataImage) { d.DeletionTimestamp = &now }
	attached := func(d *v1alpha1.DataImage) {
		d.Status.AttachedImage = &v1alpha1.AttachedImageReference{URL: a}
	}
	failed := func(url string) func(*v1alpha1.DataImage) {
		return func(d *v1alpha1.DataImage) {
			d.Status.Error = &v1alpha1.DataImageError{Count: 2, URL: url, Message: "no"}
		}
	}
	untouched := func(d *v1alpha1.DataImage) { // as Metal3's operator stores it
		d.Status.AttachedImage, d.Status.Error = &v1alpha1.AttachedImageReference{}, &v1alpha1.DataImageError{}
	}
	for _, tt := range []struct {
		name    string
		image   []func(*v1alpha1.DataImage)
		host    func(*v1alpha1.BareMetalHost)
		noHost  bool
		release bool
		reason  string
	}{
		{name: "new", reason: v1alpha1.WaitingForPowerOnReason},
		{name: "attached", image: []func(*v1alpha1.DataImage){attached}, reason: v1alpha1.AttachedReason},
		{name: "another image is wanted", image: []func(*v1alpha1.DataImage){attached, func(d *v1alpha1.DataImage) { d.Spec.URL = b }}, reason: v1alpha1.WaitingForPowerOnReason},
		{name: "failed", image: []func(*v1alpha1.DataImage){failed(a)}, reason: v1alpha1.AttachFailedReason},
		{name: "another image failed", image: []func(*v1alpha1.DataImage){failed(b)}, reason: v1alpha1.WaitingForPowerOnReason},
		{name: "detaching failed", image: []func(*v1alpha1.DataImage){attached, deleted, failed("")}, reason: v1alpha1.AttachFailedReason},
		{name: "deleted while attached", image: []func(*v1alpha1.DataImage){attached, deleted}, reason: v1alpha1.WaitingForPowerOnReason},
		{name: "deleted without an image", image: []func(*v1alpha1.DataImage){deleted}, release: true},
		{name: "new, with an empty status of Metal3's operator", image: []func(*v1alpha1.DataImage){untouched}, reason: v1alpha1.WaitingForPowerOnReason},
		{name: "deleted with an empty status of Metal3's operator", image: []func(*v1alpha1.DataImage){deleted, untouched}, release: true},
		{name: "deleted while the engine attaches", image: []func(*v1alpha1.DataImage){deleted, func(d *v1alpha1.DataImage) {
			d.Status.Request = &v1alpha1.DataImageRequest{Action: v1alpha1.DataImageAttach, URL: a}
		}}, reason: v1alpha1.WaitingForPowerOnReason},
		{name: "deleted with its host", image: []func(*v1alpha1.DataImage){attached, deleted}, host: func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &now }, release: true},
		{name: "deleted after its host", image: []func(*v1alpha1.DataImage){attached, deleted}, noHost: true, release: true},
		{name: "no host", noHost: true, reason: v1alpha1.HostNotFoundReason},
		{name: "deleted, host paused", image: []func(*v1alpha1.DataImage){deleted}, host: func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
		}, reason: v1alpha1.HostPausedReason},
		{name: "deleted, host moved to another cluster", image: []func(*v1alpha1.DataImage){attached, deleted}, host: func(h *v1alpha1.BareMetalHost) {
			h.DeletionTimestamp, h.Annotations = &now, map[string]string{v1alpha1.DeletedForMoveAnnotation: ""}
		}, reason: v1alpha1.HostPausedReason},
		{name: "deleted, host detached", image: []func(*v1alpha1.DataImage){attached, deleted}, host: func(h *v1alpha1.BareMetalHost) {
			h.Status.OperationalStatus = v1alpha1.OperationalStatusDetached
		}, release: true},
		{name: "host without BMC", host: func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }, reason: v1alpha1.NoBMCReason},
		{name: "host not provisioned", host: func(h *v1alpha1.BareMetalHost) {
			h.Status.Provisioning.State = v1alpha1.StateAvailable
		}, reason: v1alpha1.WaitingForPowerOnReason},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &v1alpha1.DataImage{Spec: v1alpha1.DataImageSpec{URL: a}}
			for _, change := range tt.image {
				change(d)
			}
			h := &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{BMC: v1alpha1.BMCDetails{Address: "redfish://192.0.2.1"}}}
			h.Status.Provisioning.State = v1alpha1.StateProvisioned
			if tt.host != nil {
				tt.host(h)
			}
			if tt.noHost {
				h = nil
			}
			got := decide(d, h)
			if got.release != tt.release || !tt.release && got.condition.Reason != tt.reason {
				t.Errorf("decide = release %v, %s (%s); want release %v, %s", got.release, got.condition.Reason, got.condition.Message, tt.release, tt.reason)
			}
		})
	}
}
