package node

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"regexp"
)

// RamdiskBootKey is the key of driver_internal_info for the RamdiskBoot of a node.
const RamdiskBootKey = "ramdisk_boot"

// RamdiskBoot is what the engine serves for one boot of a node's ramdisk, or for all boots of
// an instance that is on no disk. It is stored in the node, so that each engine of the
// database serves it, and removed when the phase ends that needs the ramdisk, or with the
// instance.
type RamdiskBoot struct {
	// Secret is part of all URLs of this boot: 128 random bits as 32 hexadecimal digits.
	Secret string `json:"secret"`
	// Kernel and Ramdisk, or ISO, are the URLs that the engine gets the images from.
	Kernel  string `json:"kernel,omitempty"`
	Ramdisk string `json:"ramdisk,omitempty"`
	ISO     string `json:"iso,omitempty"`
	// Network says that ISO is booted over the network, and not from a virtual medium.
	Network bool `json:"network,omitempty"`
	// Instance says that the images are the node's instance, which they are booted for at
	// each start.
	Instance bool `json:"instance,omitempty"`
	// BootLoader is the URL of the image of an EFI system partition with a boot loader, for
	// a boot from a virtual medium that is made of these images; empty for a boot over the
	// network.
	BootLoader string `json:"boot_loader,omitempty"`
	// KernelParams is the command line of the kernel, without what only the served
	// script or medium can add. It has no tokens.
	KernelParams string `json:"kernel_params,omitempty"`
	// NetworkData is the network_data of the node when the boot began, for a virtual medium that
	// is made of these images: a medium that is read in parts cannot change. Boots of earlier
	// releases have none.
	NetworkData Object `json:"network_data,omitempty"`
	// ParametersMedium says that a medium of its own has the parameters of the agent,
	// because the ISO was made by somebody else, or the node wants it.
	ParametersMedium bool `json:"parameters_medium,omitempty"`
	// Versions are those of the images that this boot has begun with, by URL. A machine
	// gets no others. An image that has none may change.
	Versions map[string]string `json:"versions,omitempty"`
}

// Names of the files that are virtual media of a boot. BMCs know the kind of a medium by its
// ending.
const (
	BootMediumFile       = "boot.iso"
	ParametersMediumFile = "parameters.img"
)

// PregeneratedTokenKey is the key of driver_internal_info that says that the engine has given
// the agent its token on the medium that it boots from. It is removed with the medium.
const PregeneratedTokenKey = "agent_secret_token_pregenerated"

// TokenFromMediumKey is the key of driver_internal_info that says that the present token was on
// a medium that was withdrawn since. The agent that has it may not have been heard yet. It is
// removed with the token.
const TokenFromMediumKey = "agent_token_from_medium"

// ServesMedium reports whether the boot has a virtual medium.
func (b RamdiskBoot) ServesMedium() bool { return b.BootLoader != "" || b.ISO != "" && !b.Network }

// secretBytes is the length of the secret of a boot before it is encoded.
const secretBytes = 16

// NewBootSecret returns the secret of a new boot.
func NewBootSecret() string {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// RamdiskBootOf returns what is served for the present boot of the node's ramdisk; false
// when nothing is.
func RamdiskBootOf(n *Node) (RamdiskBoot, bool) {
	var boot RamdiskBoot
	ok := n.DriverInternalInfo.Get(RamdiskBootKey, &boot) && len(boot.Secret) == hex.EncodedLen(secretBytes)
	return boot, ok
}

// StoreIn makes b what is served for the node.
func (b RamdiskBoot) StoreIn(n *Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{RamdiskBootKey: b})
}

// WithdrawRamdiskBoot ends what is served for the node. A token that was on a medium is that
// of the running agent only from then on.
func WithdrawRamdiskBoot(n *Node) {
	if _, pregenerated := n.DriverInternalInfo.Fields()[PregeneratedTokenKey]; pregenerated {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{TokenFromMediumKey: true})
	}
	n.DriverInternalInfo = n.DriverInternalInfo.Without(RamdiskBootKey, PregeneratedTokenKey)
}

// Opens reports whether a secret is that of the boot. It takes the same time for all
// wrong ones of the same length.
func (b RamdiskBoot) Opens(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(b.Secret), []byte(secret)) == 1
}

// BootedFrom returns the UUID of the node for which the boot service serves what is at a URL; empty
// when it does not look like one of its files.
func BootedFrom(url string) string {
	if match := servedURL.FindStringSubmatch(url); match != nil {
		return match[1]
	}
	return ""
}

// servedURL matches what Path returns, in a URL.
var servedURL = regexp.MustCompile(bootPath + `([^/]+)/[0-9a-f]{32}/`)

// bootPath begins the paths of what the boot service serves for single nodes.
const bootPath = "/boot/"

// Path is the path of the URL at which the boot service serves one file for this boot
// of the node with the UUID, such as "kernel".
func (b RamdiskBoot) Path(uuid, file string) string {
	return bootPath + uuid + "/" + b.Secret + "/" + file
}
