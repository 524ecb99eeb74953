package webhook

import (
	"reflect"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// addressStates are the states in which the address of the BMC may change, because the engine has
// not accepted it yet.
var addressStates = []v1alpha1.ProvisioningState{v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateRegistering}

// deployedStates are the states in which changes of the spec no longer change what is deployed,
// except for a change of the image's URL.
var deployedStates = []v1alpha1.ProvisioningState{v1alpha1.StateProvisioning, v1alpha1.StateProvisioned}

// checkHostChange checks what a change may do to a host in its state. Both objects have the stored
// status, because a status is written by a request of its own.
func checkHostChange(old, h *v1alpha1.BareMetalHost, f *Findings) {
	state := h.Status.Provisioning.State
	detached := h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
	accepted := h.Status.GoodCredentials.Reference != nil // otherwise the engine has never had access
	if was := old.Spec.BMC.Address; was != "" && was != h.Spec.BMC.Address && accepted && !detached && !slices.Contains(addressStates, state) {
		f.forbid(spec.Child("bmc", "address"), "the address cannot change while the host is %s; detach the host first with the annotation %s, or delete it and create it again",
			state, v1alpha1.DetachedAnnotation)
	}
	if was := old.Spec.BootMACAddress; was != "" && !strings.EqualFold(was, h.Spec.BootMACAddress) {
		f.forbid(spec.Child("bootMACAddress"), "the address cannot change from %s once it is set; delete the host and create it again", was)
	}
	available := state == v1alpha1.StateAvailable || state == v1alpha1.StateReady
	if h.Spec.ExternallyProvisioned && !old.Spec.ExternallyProvisioned && !available {
		f.forbid(spec.Child("externallyProvisioned"), "a host can be declared as externally provisioned only while it is available, and it is %q; remove what is deployed and wait, or create the host anew with it", state)
	}
	if slices.Contains(deployedStates, state) {
		warnWithoutEffect(old, h, f)
	}
}

// warnWithoutEffect warns about changes that have no effect on a deployed machine.
func warnWithoutEffect(old, h *v1alpha1.BareMetalHost, f *Findings) {
	type part struct {
		field string
		value any
	}
	parts := func(h *v1alpha1.BareMetalHost) []part {
		list := []part{{"userData", h.Spec.UserData}, {"metaData", h.Spec.MetaData}, {"networkData", h.Spec.NetworkData}}
		if h.Spec.Image != nil {
			list = append(list, part{"image.checksum", h.Spec.Image.Checksum}, part{"image.checksumType", h.Spec.Image.ChecksumType}, part{"image.format", h.Spec.Image.DiskFormat})
		}
		return list
	}
	if imageURL(old) != imageURL(h) {
		return // the host is deployed anew, with all of them
	}
	before, after := parts(old), parts(h)
	for i := range min(len(before), len(after)) {
		if !reflect.DeepEqual(before[i].value, after[i].value) {
			f.warn(spec.Child(after[i].field), "has no effect on what is deployed; it counts from the next deployment, which a change of image.url starts")
		}
	}
}

// imageURL returns the URL of the host's image, or "" without an image.
func imageURL(h *v1alpha1.BareMetalHost) string {
	if h.Spec.Image == nil {
		return ""
	}
	return h.Spec.Image.URL
}
