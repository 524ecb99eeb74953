package netboot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Config is what the engine's configuration says about booting ramdisks.
type Config struct {
	// Serves says that this engine has a boot service.
	Serves bool
	// URL is the beginning of the URLs of what is served.
	URL string
	// APIURL is the URL of the Bare Metal API for ramdisks, without /v1.
	APIURL string
	// Default is the ramdisk of nodes that name none, for machines whose architecture
	// has none in ByArch. It may be empty.
	Default Ramdisk
	// BootLoader is the URL of the EFI system partition for virtual media of nodes that name no
	// boot loader. It may be empty.
	BootLoader string
	ByArch     map[string]Ramdisk // by properties.cpu_arch
	// ISOs are the URLs of images by properties.cpu_arch that boot the ramdisk from virtual
	// media, in place of those that the engine makes; that of the empty architecture is for
	// all others. Most engines have none.
	ISOs map[string]string
	// KernelParams are the kernel parameters of nodes that have none of their own.
	KernelParams string
}

// Ramdisk is a kernel and its initial file system, both as URLs.
type Ramdisk struct{ Kernel, Initial string }

func (r Ramdisk) whole() bool { return r.Kernel != "" && r.Initial != "" }

// Keys of driver_info.
const (
	isoKey         = "deploy_iso"
	rescueISOKey   = "rescue_iso"
	removableKey   = "config_via_removable"
	bootLoaderKey  = "bootloader"
	paramsKey      = "kernel_append_params"
	persistenceKey = "force_persistent_boot_device"
)

// ramdiskKeys are the keys of driver_info for a ramdisk.
type ramdiskKeys struct{ kernel, initial string }

var (
	deployKeys = ramdiskKeys{"deploy_kernel", "deploy_ramdisk"}
	rescueKeys = ramdiskKeys{"rescue_kernel", "rescue_ramdisk"}
)

// rescues reports whether the ramdisk of a node is its rescue system.
func rescues(n *node.Node) bool {
	return n.ProvisionState == node.Rescuing || n.ProvisionState == node.RescueWait
}

// own returns the ramdisk that driver_info names; false for none. Half of one is a
// *node.ValidationError.
func (k ramdiskKeys) own(n *node.Node) (ramdisk Ramdisk, named bool, err error) {
	ramdisk = Ramdisk{Kernel: n.DriverInfo.Text(k.kernel), Initial: n.DriverInfo.Text(k.initial)}
	if ramdisk != (Ramdisk{}) && !ramdisk.whole() {
		return ramdisk, false, node.Invalid("Node %s has only one of driver_info.%s and driver_info.%s: give both, or none.", n.UUID, k.kernel, k.initial)
	}
	return ramdisk, ramdisk.whole(), nil
}

// any reports whether driver_info names a part of the ramdisk.
func (k ramdiskKeys) any(n *node.Node) bool {
	return n.DriverInfo.Text(k.kernel) != "" || n.DriverInfo.Text(k.initial) != ""
}

// errNotServed says that the engine has no boot service.
var errNotServed = node.Invalid("The engine serves no ramdisk: set boot.listen, boot.public_url and api.public_url in its configuration, see docs/boot.md.")

// boot decides what the node's ramdisk is booted from; secret and versions are left empty.
// The error is a *node.ValidationError that says what is missing.
func (c Config) boot(n *node.Node, images Images) (node.RamdiskBoot, error) {
	boot, err := c.withoutImages(n)
	if err != nil {
		return boot, err
	}
	ramdisk, err := c.ramdisk(n)
	if err != nil {
		return boot, err
	}
	boot.Kernel, boot.Ramdisk = ramdisk.Kernel, ramdisk.Initial
	return boot, checkImages(n, boot, images)
}

// withoutImages decides everything about the boot of the node's ramdisk but the images.
func (c Config) withoutImages(n *node.Node) (node.RamdiskBoot, error) {
	if !c.Serves {
		return node.RamdiskBoot{}, errNotServed
	}
	params, err := c.kernelParams(n)
	if err != nil {
		return node.RamdiskBoot{}, err
	}
	return node.RamdiskBoot{KernelParams: params}, checkPersistence(n)
}

// checkPersistence returns a *node.ValidationError for an unknown value of
// force_persistent_boot_device.
func checkPersistence(n *node.Node) error {
	if p := persistenceOf(n); !slices.Contains([]persistence{byDefault, always, never}, p) {
		return node.Invalid("%s of node %s is %q: want %s, %s or %s.", persistenceKey, n.UUID, node.CutText(string(p)), byDefault, always, never)
	}
	return nil
}

// namedImage is an image of a boot with what it is called.
type namedImage struct{ name, url string }

// imagesOf lists the images of a boot.
func imagesOf(boot node.RamdiskBoot) []namedImage {
	all := []namedImage{{"kernel", boot.Kernel}, {"ramdisk", boot.Ramdisk}, {"boot loader", boot.BootLoader}, {"ISO image", boot.ISO}}
	return slices.DeleteFunc(all, func(image namedImage) bool { return image.url == "" })
}

// checkImages returns a *node.ValidationError for a URL that the boot service cannot get.
func checkImages(n *node.Node, boot node.RamdiskBoot, images Images) error {
	for _, image := range imagesOf(boot) {
		if err := images.Check(image.url); err != nil {
			return node.Invalid("The URL %s of the %s of node %s %s.", node.CutText(image.url), image.name, n.UUID, err)
		}
	}
	return nil
}

// ramdisk chooses the node's ramdisk: its own one, else that of its architecture, else
// the default. A kernel of one and an initial file system of another would not fit. To
// rescue a machine, its own rescue system comes first.
func (c Config) ramdisk(n *node.Node) (Ramdisk, error) {
	for _, keys := range []ramdiskKeys{rescueKeys, deployKeys} {
		if keys == rescueKeys && !rescues(n) {
			continue
		}
		if own, named, err := keys.own(n); named || err != nil {
			return own, err
		}
	}
	arch := n.Properties.Text("cpu_arch")
	switch {
	case c.ByArch[arch].whole():
		return c.ByArch[arch], nil
	case c.Default.whole():
		return c.Default, nil
	case len(c.ByArch) > 0:
		return Ramdisk{}, node.Invalid("There is no ramdisk for node %s: its properties.cpu_arch is %q, which boot.kernel_by_arch does not have. "+
			"Correct that, set driver_info.%s and driver_info.%s, or set boot.kernel and boot.ramdisk in the configuration.",
			n.UUID, node.CutText(arch), deployKeys.kernel, deployKeys.initial)
	}
	return Ramdisk{}, node.Invalid("There is no ramdisk for node %s: set driver_info.%s and driver_info.%s, or boot.kernel and boot.ramdisk in the configuration.",
		n.UUID, deployKeys.kernel, deployKeys.initial)
}

// iso returns the URL of the image that boots the ramdisk from virtual media, or an empty text when
// the engine makes the image. An ISO goes before a kernel and ramdisk of the same source. A kernel
// and ramdisk of the node, or of its architecture, go before the ISO of all machines.
func (c Config) iso(n *node.Node) string {
	arch := n.Properties.Text("cpu_arch")
	own, keys := n.DriverInfo.Text(isoKey), deployKeys
	if iso := n.DriverInfo.Text(rescueISOKey); rescues(n) && (iso != "" || rescueKeys.any(n)) {
		own, keys = iso, rescueKeys
	}
	switch {
	case own != "":
		return own
	case keys.any(n):
		return ""
	case c.ISOs[arch] != "":
		return c.ISOs[arch]
	case c.ByArch[arch].whole():
		return ""
	}
	return c.ISOs[""]
}

// viaRemovable reads whether a medium of its own has the parameters of the agent. known is false
// when the node leaves that open.
func viaRemovable(n *node.Node) (wants, known bool, err error) {
	value, given := n.DriverInfo.Fields()[removableKey]
	switch strings.ToLower(strings.Trim(string(value), `"`)) {
	case "true":
		return true, true, nil
	case "false":
		return false, true, nil
	case "null", "":
		return false, false, nil
	}
	return false, given, node.Invalid("%s of node %s is neither true nor false.", removableKey, n.UUID)
}

// Bounds of the kernel's command line, of which kernels of x86 and ARM read lineBytes. What
// the boot script adds fits beside maxParams.
const (
	lineBytes = 2048
	maxParams = lineBytes - 128
)

// kernelParams returns the command line of the node's ramdisk. Parameters of the node win
// over those that the engine adds.
func (c Config) kernelParams(n *node.Node) (string, error) {
	own := c.KernelParams
	if text := n.DriverInfo.Text(paramsKey); text != "" {
		own = strings.ReplaceAll(text, "%default%", c.KernelParams)
	}
	words := strings.Fields(own)
	for _, added := range c.agentParams(n) {
		name, _, _ := strings.Cut(added, "=")
		if !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, name+"=") }) {
			words = append(words, added)
		}
	}
	return joinParams(n, words)
}

// joinParams makes a command line of parameters.
func joinParams(n *node.Node, words []string) (string, error) {
	params := strings.Join(words, " ")
	if problem := paramsProblem(params, words); problem != "" {
		return "", node.Invalid("The kernel parameters of node %s (%s, boot.kernel_params) %s.", n.UUID, paramsKey, problem)
	}
	return params, nil
}

// agentParams returns the parameters that tell the agent where the engine is. An agent posts its
// inventory only when the node is being inspected.
func (c Config) agentParams(n *node.Node) []string {
	api := strings.TrimSuffix(c.APIURL, "/")
	params := []string{"ipa-api-url=" + api}
	if n.ProvisionState == node.Inspecting || n.ProvisionState == node.InspectWait {
		params = append(params, "ipa-inspection-callback-url="+api+"/v1/continue_inspection")
	}
	return params
}

// scriptWords end a command of iPXE, and so cannot be part of one.
var scriptWords = []string{"||", "&&", ";"}

// paramsProblem returns why parameters cannot be part of a boot script; empty when they can. iPXE
// takes what begins with # for a comment.
func paramsProblem(params string, words []string) string {
	for _, word := range words {
		if slices.Contains(scriptWords, word) || strings.HasPrefix(word, "#") {
			return "have the word " + node.CutText(word) + ", which a boot script cannot pass on"
		}
	}
	switch {
	case len(params) > maxParams:
		return fmt.Sprintf("have %d bytes with those that the engine adds: at most %d fit", len(params), maxParams)
	case strings.ContainsFunc(params, func(r rune) bool { return r < ' ' || r > '~' }):
		return "have a character that is not printable ASCII"
	case strings.Contains(params, "ipa-agent-token="):
		return "have ipa-agent-token, which everybody on the network could read"
	}
	return ""
}
