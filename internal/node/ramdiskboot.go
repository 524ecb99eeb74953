package node

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"regexp"
)

// RamdiskBootKey is the key of driver_internal_info for the RamdiskBoot of a node.
const RamdiskBootKey = "ramdisk_boot"

// RamdiskBoot is what the engine serves for one boot of a node's ramdisk, or for all boots of an
// instance that is on no disk. It is stored in the node, so that each engine of the database can
// serve it. The engine removes it when the phase that needs the ramdisk ends, or with the instance.
type RamdiskBoot struct {
	// Secret is part of all URLs of this boot: 128 random bits as 32 hexadecimal digits.
	Secret string `json:"secret"`
	// Kernel and Ramdisk, or ISO, are the URLs where the engine downloads the images.
	Kernel  string `json:"kernel,omitempty"`
	Ramdisk string `json:"ramdisk,omitempty"`
	ISO     string `json:"iso,omitempty"`
	// Network says that the machine boots ISO over the network, and not from a virtual medium.
	Network bool `json:"network,omitempty"`
	// Instance says that the images are the node's instance, which boots from them at each start.
	Instance bool `json:"instance,omitempty"`
	// BootLoader is the URL of an image of an EFI system partition with a boot loader. It is set
	// when the engine builds a virtual medium from these images, and empty for a boot over the
	// network.
	BootLoader string `json:"boot_loader,omitempty"`
	// KernelParams is the command line of the kernel, without the parameters that only the served
	// script or medium can add. It has no tokens.
	KernelParams string `json:"kernel_params,omitempty"`
	// NetworkData is the network_data of the node when the boot began, for a virtual medium that
	// the engine builds from these images: a BMC reads a medium in parts, so it must not change.
	// Boots of earlier releases have none.
	NetworkData Object `json:"network_data,omitempty"`
	// ParametersMedium says that the parameters of the agent are on a medium of their own, because
	// the ISO comes from elsewhere or the node asks for it.
	ParametersMedium bool `json:"parameters_medium,omitempty"`
	// Versions are the versions of the images when this boot began, by URL. A machine gets no other
	// versions. An image without a version here may change.
	Versions map[string]string `json:"versions,omitempty"`
}

// Names of the virtual media of a boot. BMCs tell the kind of a medium by the ending of its name.
const (
	BootMediumFile       = "boot.iso"
	ParametersMediumFile = "parameters.img"
)

// PregeneratedTokenKey is the key of driver_internal_info that says that the agent gets its token
// from the medium that it boots from. It is removed with the medium.
const PregeneratedTokenKey = "agent_secret_token_pregenerated"

// TokenFromMediumKey is the key of driver_internal_info that says that the present token was on a
// medium that has since been withdrawn. The agent with that token may not have called yet. The key
// is removed with the token.
const TokenFromMediumKey = "agent_token_from_medium"

// ServesMedium reports whether the boot has a virtual medium.
func (b RamdiskBoot) ServesMedium() bool { return b.BootLoader != "" || b.ISO != "" && !b.Network }

// secretBytes is the length of the secret of a boot in bytes, before its encoding.
const secretBytes = 16

// NewBootSecret returns the secret of a new boot.
func NewBootSecret() string {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// RamdiskBootOf returns what the engine serves for the present boot of the node's ramdisk; false
// when it serves nothing.
func RamdiskBootOf(n *Node) (RamdiskBoot, bool) {
	var boot RamdiskBoot
	ok := n.DriverInternalInfo.Get(RamdiskBootKey, &boot) && len(boot.Secret) == hex.EncodedLen(secretBytes)
	return boot, ok
}

// StoreIn stores b in n as the boot that the engine serves for the node.
func (b RamdiskBoot) StoreIn(n *Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{RamdiskBootKey: b})
}

// WithdrawRamdiskBoot ends what the engine serves for the node. A token that was on the medium
// counts as the running agent's only after the withdrawal: TokenFromMediumKey then replaces
// PregeneratedTokenKey.
func WithdrawRamdiskBoot(n *Node) {
	if _, pregenerated := n.DriverInternalInfo.Fields()[PregeneratedTokenKey]; pregenerated {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{TokenFromMediumKey: true})
	}
	n.DriverInternalInfo = n.DriverInternalInfo.Without(RamdiskBootKey, PregeneratedTokenKey)
}

// Opens reports whether secret is the secret of the boot. The comparison takes the same time for
// all wrong secrets of the same length.
func (b RamdiskBoot) Opens(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(b.Secret), []byte(secret)) == 1
}

// BootedFrom returns the UUID of the node for which the boot service serves the file at a URL;
// empty when the URL is not one of the boot service.
func BootedFrom(url string) string {
	if match := servedURL.FindStringSubmatch(url); match != nil {
		return match[1]
	}
	return ""
}

// servedURL matches the result of Path inside a URL.
var servedURL = regexp.MustCompile(bootPath + `([^/]+)/[0-9a-f]{32}/`)

// bootPath is the beginning of all paths of the boot service for single nodes.
const bootPath = "/boot/"

// Path returns the path of the URL at which the boot service serves one file, such as "kernel", for
// this boot of the node with the UUID.
func (b RamdiskBoot) Path(uuid, file string) string {
	return bootPath + uuid + "/" + b.Secret + "/" + file
}
