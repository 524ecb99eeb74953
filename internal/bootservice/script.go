package bootservice

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Scripts for iPXE, https://ipxe.org/scripting. A script does not return to the script that chained
// to it with --replace. So "exit" ends iPXE, and the firmware continues with its next boot device.
// A site's own script may chain to the first script without --replace; then that script continues:
// see docs/discovery.md.

// nextDeviceScript is for machines that have nothing to boot here. They continue with their next
// boot device.
const nextDeviceScript = "#!ipxe\nexit\n"

// firstTries is how often a machine asks for its script while the engine does not answer. Then it
// continues with its next boot device.
const firstTries = 4

// firstScript sends a machine to the script of its MAC address.
func firstScript(url string) string {
	script := "#!ipxe\n"
	for range firstTries {
		script += "chain --replace --autofree " + url + "/boot/mac/${mac:hexhyp} || sleep 5\n"
	}
	return script + "exit\n"
}

// chainScript sends a machine to another script.
func chainScript(url string) string {
	return "#!ipxe\nchain --replace --autofree " + url + "\n"
}

// bootScript boots the files that are served for a node. A machine that cannot load them asks again
// which script it has to run, so it stops when the boot has been withdrawn.
func bootScript(url, uuid string, boot node.RamdiskBoot) string {
	at := func(file string) string { return url + boot.Path(uuid, file) }
	start := fmt.Sprintf(`kernel %s initrd=%s BOOTIF=01-${mac:hexhyp} %s || goto failed
initrd --name %[2]s %[4]s || goto failed
boot || goto failed`, at(kernelFile), ramdiskFile, boot.KernelParams, at(ramdiskFile))
	what := "ramdisk"
	if boot.ISO != "" {
		start = "sanboot --no-describe " + at(mediumFile) + " || goto failed"
	}
	if boot.Instance {
		what = "image"
	}
	return fmt.Sprintf(`#!ipxe
%s
:failed
echo The %s of node %s could not be started, trying again in 10 seconds
imgfree
sleep 10
chain --replace --autofree %s/boot/mac/${mac:hexhyp} || goto failed
`, start, what, uuid, url)
}

// writeScript answers a script.
func writeScript(w http.ResponseWriter, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = io.WriteString(w, text) // nothing can be done about an error
}

func trimSlash(url string) string { return strings.TrimSuffix(url, "/") }

// Lengths of parts of paths.
const (
	uuidLength   = 36
	secretLength = 32
)

// isUUID and isSecret keep lookups of impossible values away from the database.
func isUUID(text string) bool { return len(text) == uuidLength && hasOnly(text, "0123456789abcdef-") }

func isSecret(text string) bool {
	return len(text) == secretLength && hasOnly(text, "0123456789abcdef")
}

func hasOnly(text, characters string) bool { return strings.Trim(text, characters) == "" }
