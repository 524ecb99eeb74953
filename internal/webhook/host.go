package webhook

import (
	"regexp"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// Checks are the checks of objects by their own content.
type Checks struct {
	// LocalImages accepts URLs of images and firmware that lead to the engine's own machine.
	LocalImages bool
}

// Host checks a host by its own content, and a change against the host before the change. old is
// nil for a new host. Host does not look at other hosts. It accepts every host that is being
// deleted, so that the host can go.
func (c Checks) Host(old, h *v1alpha1.BareMetalHost) Findings {
	var f Findings
	if !h.DeletionTimestamp.IsZero() {
		return f
	}
	access := c.hostAlone(h, &f)
	if old == nil {
		checkNewHost(h, access, &f)
		return f
	}
	var before Findings
	c.hostAlone(old, &before)
	f.tolerate(before)
	checkHostChange(old, h, &f)
	return f
}

// hostRules are the checks of a host by itself. access is nil for a host without a BMC or with an
// unreadable address.
var hostRules = []func(h *v1alpha1.BareMetalHost, access *bmc.Access, f *Findings){
	checkHostName,
	checkBootMAC,
	checkSecretNamespaces,
	checkOldFirmware,
	checkRAID,
	checkBootMode,
	checkRootDevice,
	checkPowerOff,
	checkInspectionMode,
	checkAnnotations,
	checkNetworkInterfaces,
}

func (c Checks) hostAlone(h *v1alpha1.BareMetalHost, f *Findings) *bmc.Access {
	access := checkAddress(h, f)
	for _, rule := range hostRules {
		rule(h, access, f)
	}
	c.image(h, f)
	return access
}

// spec is the path of the spec of any kind.
var spec = field.NewPath("spec")

func checkAddress(h *v1alpha1.BareMetalHost, f *Findings) *bmc.Access {
	if h.Spec.BMC.Address == "" {
		return nil
	}
	access, err := bmc.Parse(h.Spec.BMC)
	if err != nil {
		f.refuse(spec.Child("bmc", "address"), h.Spec.BMC.Address, "%v", err)
		return nil
	}
	return &access
}

// checkNewHost warns about settings that are best chosen at the beginning.
func checkNewHost(h *v1alpha1.BareMetalHost, access *bmc.Access, f *Findings) {
	if access != nil && !access.Abilities.BootsISO && h.Spec.BootMACAddress == "" && len(f.Errors) == 0 {
		f.warn(spec.Child("bootMACAddress"), "is not set, so the machine is recognized only after an inspection through its BMC or by the address of its BMC; set it to the address of the NIC that boots")
	}
}

// hostName matches the characters that the engine allows in names of nodes.
var hostName = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

func checkHostName(h *v1alpha1.BareMetalHost, _ *bmc.Access, f *Findings) {
	path := field.NewPath("metadata", "name")
	if !hostName.MatchString(h.Name) {
		f.refuse(path, h.Name, "may only have letters, digits and the characters . _ -")
	}
	if _, err := uuid.Parse(h.Name); err == nil {
		f.refuse(path, h.Name, "is a UUID, as 32 hexadecimal digits are, too; the engine would take it for the ID of a node. Put something before it, such as host-")
	}
}

// The forms of MAC addresses that the schema accepts.
var (
	ethernetAddress = regexp.MustCompile(`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`)
	// otherAddress is an EUI-64 or an InfiniBand address, as Metal3's schema and its webhook accept
	// them.
	otherAddress = regexp.MustCompile(`^[0-9a-fA-F]{2}((:[0-9a-fA-F]{2}){7}|(:[0-9a-fA-F]{2}){19})$`)
)

func checkBootMAC(h *v1alpha1.BareMetalHost, access *bmc.Access, f *Findings) {
	path, mac := spec.Child("bootMACAddress"), h.Spec.BootMACAddress
	switch {
	case ethernetAddress.MatchString(mac):
	case otherAddress.MatchString(mac):
		f.warn(path, "is no address of Ethernet, and engines take no other: the host cannot be registered with it; set the Ethernet address that the adapter has in the ramdisk, or none")
	case mac != "":
		f.refuse(path, mac, "is not a MAC address of six pairs of hexadecimal digits, such as 00:00:5e:00:53:01")
	case access == nil:
	case access.Abilities.NeedsMAC:
		f.require(path, "hosts with a BMC of the scheme %s need it; set it to the address of the NIC that boots", access.Scheme)
	case inspectionDisabled(h):
		f.require(path, "without inspection nothing else tells the address of the NIC that boots; set it, or enable inspection")
	}
}

// inspectionDisabled reports whether the machine is not to be inspected. It knows the present way
// to say so and the deprecated one.
func inspectionDisabled(h *v1alpha1.BareMetalHost) bool {
	return h.Spec.InspectionMode == v1alpha1.InspectionModeDisabled || h.Annotations[v1alpha1.InspectAnnotation] == v1alpha1.InspectDisabled
}

func checkSecretNamespaces(h *v1alpha1.BareMetalHost, _ *bmc.Access, f *Findings) {
	for _, s := range []struct {
		field string
		ref   *corev1.SecretReference
	}{{"userData", h.Spec.UserData}, {"metaData", h.Spec.MetaData}, {"networkData", h.Spec.NetworkData}} {
		if s.ref != nil && s.ref.Namespace != "" && s.ref.Namespace != h.Namespace {
			f.forbid(spec.Child(s.field, "namespace"), "a host reads Secrets of its own namespace only; leave it out, or copy the Secret to namespace %s", h.Namespace)
		}
	}
}

func checkOldFirmware(h *v1alpha1.BareMetalHost, _ *bmc.Access, f *Findings) {
	if h.Spec.Firmware != nil {
		f.forbid(spec.Child("firmware"), "no driver has these settings any more; remove the field and use HostFirmwareSettings")
	}
}

func checkBootMode(h *v1alpha1.BareMetalHost, access *bmc.Access, f *Findings) {
	if h.Spec.BootMode == v1alpha1.BootModeUEFISecureBoot && access != nil && !access.Abilities.SecureBoot {
		f.refuse(spec.Child("bootMode"), h.Spec.BootMode, "secure boot cannot be switched through a BMC of the scheme %s; use UEFI, or an address of Redfish", access.Scheme)
	}
}

func checkPowerOff(h *v1alpha1.BareMetalHost, _ *bmc.Access, f *Findings) {
	if h.Spec.DisablePowerOff && !h.Spec.Online {
		f.refuse(spec.Child("online"), false, "contradicts disablePowerOff, which forbids to switch the machine off; set online to true or disablePowerOff to false")
	}
}

func checkInspectionMode(h *v1alpha1.BareMetalHost, access *bmc.Access, f *Findings) {
	path, mode := spec.Child("inspectionMode"), h.Spec.InspectionMode
	switch mode {
	case "", v1alpha1.InspectionModeDisabled, v1alpha1.InspectionModeAgent:
	case v1alpha1.InspectionModeFast:
		if access != nil && access.FastInspectInterface == "" {
			f.refuse(path, mode, "a BMC of the scheme %s does not tell the inventory; use agent, or an address of Redfish", access.Scheme)
		}
	default:
		f.refuse(path, mode, "is not one of disabled, agent, fast")
	}
	if h.Annotations[v1alpha1.InspectAnnotation] == v1alpha1.InspectDisabled && mode != "" && mode != v1alpha1.InspectionModeDisabled {
		f.refuse(path, mode, "contradicts the annotation %s: %s; remove the annotation, which is deprecated", v1alpha1.InspectAnnotation, v1alpha1.InspectDisabled)
	}
}
