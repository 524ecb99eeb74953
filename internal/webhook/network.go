package webhook

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

func checkNetworkInterfaces(h *v1alpha1.BareMetalHost, _ *bmc.Access, f *Findings) {
	seen := map[string]bool{}
	for i, nic := range h.Spec.NetworkInterfaces {
		path := spec.Child("networkInterfaces").Index(i)
		switch {
		case nic.Name != "" && nic.MACAddress != "":
			f.forbid(path.Child("macAddress"), "an interface is selected by name or by macAddress; remove one of them")
			continue
		case nic.Name == "" && nic.MACAddress == "":
			f.require(path.Child("name"), "set name or macAddress, to say which interface this is")
			continue
		}
		at, selector := path.Child("name"), nic.Name
		if nic.MACAddress != "" {
			at, selector = path.Child("macAddress"), strings.ToLower(nic.MACAddress)
		}
		if seen[selector] {
			f.Errors = append(f.Errors, field.Duplicate(at, selector))
		}
		seen[selector] = true
	}
}
