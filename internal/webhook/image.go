package webhook

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/imageurl"
)

// The schemes that URLs may have.
var (
	imageSchemes    = []string{"http", "https", "ftp", "gopher", "oci"}
	firmwareSchemes = []string{"http", "https"}
)

// imageURL checks the URL of an image. It returns the scheme, or "" for an unusable URL.
func (c Checks) imageURL(path *field.Path, text string, f *Findings) string {
	return c.fileURL(path, text, imageSchemes, f)
}

// fileURL checks the URL of a file that the engine reads. It returns the URL's scheme, which is one
// of schemes, or "" for an unusable URL.
func (c Checks) fileURL(path *field.Path, text string, schemes []string, f *Findings) string {
	u, err := url.ParseRequestURI(text)
	switch {
	case err != nil || u.Scheme == "":
		f.refuse(path, text, "is not a URL; write one with the scheme %s", strings.Join(schemes, ", "))
	case !slices.Contains(schemes, u.Scheme):
		f.refuse(path, text, "has the scheme %q; the engine reads only %s", u.Scheme, strings.Join(schemes, ", "))
	case u.Host == "":
		f.refuse(path, text, "has no host")
	default:
		if u.Scheme == "oci" && u.User != nil {
			f.refuse(path, text, "has a user in front of its registry; name a Secret with the login in ociAuthSecretName")
		}
		c.imageServer(path, text, f)
		return u.Scheme
	}
	return ""
}

// imageServer refuses URLs that lead to the engine's own machine.
func (c Checks) imageServer(path *field.Path, text string, f *Findings) {
	if err := imageurl.Check(text); err != nil && !c.LocalImages {
		f.refuse(path, text, "may not be given to the engine: %v", err)
	}
}

var checksumTypes = []v1alpha1.ChecksumType{"", v1alpha1.ChecksumMD5, v1alpha1.ChecksumSHA256, v1alpha1.ChecksumSHA512, v1alpha1.ChecksumAuto}

func (c Checks) image(h *v1alpha1.BareMetalHost, f *Findings) {
	image := h.Spec.Image
	if imageURL(h) == "" { // an empty URL counts as no image
		return
	}
	path := spec.Child("image")
	scheme := c.imageURL(path.Child("url"), image.URL, f)
	if !slices.Contains(checksumTypes, image.ChecksumType) {
		f.refuse(path.Child("checksumType"), image.ChecksumType, "is not one of md5, sha256, sha512, auto")
	}
	live := image.DiskFormat != nil && *image.DiskFormat == v1alpha1.FormatLiveISO
	c.checksum(path.Child("checksum"), scheme, image.Checksum, live, f)
	if scheme != "oci" && image.OCIAuthSecretName != nil && *image.OCIAuthSecretName != "" {
		f.warn(path.Child("ociAuthSecretName"), "has no effect, because the image is not of a registry (oci://)")
	}
}

// checksum checks whether an image has a checksum if it needs one, and where the checksum's URL
// leads. live says that the image is not written to a disk.
func (c Checks) checksum(path *field.Path, scheme, checksum string, live bool, f *Findings) {
	if strings.Contains(checksum, ":/") { // a file of sums
		c.imageServer(path, checksum, f)
	}
	switch {
	case scheme == "oci" && checksum != "":
		f.forbid(path, "an image of a registry has its digest in its URL; remove it")
	case scheme != "oci" && !live && checksum == "":
		f.require(path, "the engine checks what it writes to disks; set the digest of the image or the URL of a file of digests")
	}
}

// byPath is the only folder below /dev whose names a hint may contain.
const byPath = "disk/by-path/"

func checkRootDevice(h *v1alpha1.BareMetalHost, _ *bmc.Access, f *Findings) {
	if h.Spec.RootDeviceHints == nil || h.Spec.RootDeviceHints.DeviceName == "" {
		return
	}
	name := h.Spec.RootDeviceHints.DeviceName
	device, below := strings.CutPrefix(name, "/dev/")
	device = strings.TrimPrefix(device, byPath)
	if !below || device == "" || strings.Contains(device, "/") {
		f.refuse(spec.Child("rootDeviceHints", "deviceName"), name, "is neither a device in /dev nor one in /dev/%s; use such a path, or another hint, such as wwn or serialNumber", byPath)
	}
}
