package v1alpha1

// Image is a disk image or an ISO to boot.
type Image struct {
	// url is where the image is: http, https, ftp, gopher or oci.
	// +required
	URL string `json:"url"`
	// checksum is the image's digest, or the URL of a file of digests. It is
	// required unless the format is live-iso or the scheme is oci.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// checksumType is the algorithm of checksum. Unset or auto, it follows from
	// the length of the digest.
	// +optional
	ChecksumType ChecksumType `json:"checksumType,omitempty"`
	// format is the image's format; live-iso is booted and never written to
	// disk. Unset, the engine detects it.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	DiskFormat *string `json:"format,omitempty"`
	// ociAuthSecretName is the name of a Secret of type
	// kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg in the host's
	// namespace. It is used with oci URLs only.
	// +optional
	OCIAuthSecretName *string `json:"ociAuthSecretName,omitempty"`
}

// ChecksumType is a digest algorithm.
// +kubebuilder:validation:Enum=md5;sha256;sha512;auto
type ChecksumType string

// Digest algorithms.
const (
	// ChecksumMD5 is MD5.
	ChecksumMD5 ChecksumType = "md5"
	// ChecksumSHA256 is SHA-256.
	ChecksumSHA256 ChecksumType = "sha256"
	// ChecksumSHA512 is SHA-512.
	ChecksumSHA512 ChecksumType = "sha512"
	// ChecksumAuto derives the algorithm from the length of the digest.
	ChecksumAuto ChecksumType = "auto"
)

// FormatLiveISO is the image format that is booted instead of written.
const FormatLiveISO = "live-iso"

// CustomDeploy names a deploy step of the engine.
type CustomDeploy struct {
	// method is the name of the deploy step. Empty counts as absent.
	// +required
	Method string `json:"method"`
}
