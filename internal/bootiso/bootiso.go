// Package bootiso makes the virtual media from which a machine boots the ramdisk: an ISO image for
// UEFI with a kernel, a ramdisk and a boot loader, and the floppy disk with the agent's parameters
// for a given ISO image. Images are not stored. They are computed from their sources while they are
// read (see packages iso9660 and fat), and the same sources make the same bytes.
package bootiso

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/fat"
	"github.com/ingot-metal/ingot/internal/iso9660"
)

// Volume labels that ironic-python-agent looks for. The agent takes configuration files from the
// first, and its parameters from the second. The third is the label of a config drive, where
// ramdisks look for the configuration of their network; the agent also accepts it in place of the
// first.
const (
	BootLabel       = "VMEDIA_BOOT_ISO"
	ParametersLabel = "ir-vfd-dev"
	NetworkLabel    = "config-2"
)

// ParametersFile is the file of the parameters medium that the agent reads.
const ParametersFile = "parameters.txt"

// methodParameter tells the agent that it was booted from virtual media, so that it looks
// for its parameters there.
const methodParameter = "boot_method=vmedia"

// Paths in a boot image.
const (
	kernelPath     = "vmlinuz"
	ramdiskPath    = "initrd"
	bootLoaderPath = "boot/grub/efiboot.img"
	infoPath       = ".disk/info"
	networkPath    = "openstack/latest/network_data.json"
)

// menuPaths are the paths where the GRUBs of distributions look for their menu on the medium from
// which they were loaded. The path is compiled into the boot loader.
var menuPaths = []string{
	"boot/grub/grub.cfg", // Debian's and Ubuntu's for CDs, and GRUB's own default
	"boot/grub2/grub.cfg",
	"EFI/BOOT/grub.cfg", // SUSE's, and openSUSE's
	"EFI/almalinux/grub.cfg",
	"EFI/centos/grub.cfg",
	"EFI/debian/grub.cfg",
	"EFI/fedora/grub.cfg",
	"EFI/redhat/grub.cfg",
	"EFI/rocky/grub.cfg",
	"EFI/ubuntu/grub.cfg",
}

// Source is a file that goes into an image.
type Source struct {
	Content io.ReaderAt
	Size    int64 // in bytes, at least 1
}

// Boot is what a boot image is made from.
type Boot struct {
	Kernel  Source
	Ramdisk Source
	// BootLoader is the image of an EFI system partition that contains GRUB. driver_info.bootloader
	// names it.
	BootLoader Source
	// CommandLine is the kernel's command line: parameters separated by spaces. See [Words].
	CommandLine string
	// NetworkData configures the network of the ramdisk, in the format of OpenStack's
	// network_data.json. Empty means that the ramdisk configures its network itself.
	NetworkData []byte
}

// New makes a boot image. It reads none of the sources. It returns an error if a source is
// empty or too large for ISO 9660, or if GRUB cannot pass the command line on.
func New(boot Boot) (*iso9660.Image, error) {
	menu, err := Menu(boot.CommandLine)
	if err != nil {
		return nil, err
	}
	files := []iso9660.File{
		{Path: kernelPath, Size: boot.Kernel.Size, Content: boot.Kernel.Content},
		{Path: ramdiskPath, Size: boot.Ramdisk.Size, Content: boot.Ramdisk.Content},
		{Path: bootLoaderPath, Size: boot.BootLoader.Size, Content: boot.BootLoader.Content},
	}
	for _, file := range files {
		if file.Size < 1 {
			return nil, fmt.Errorf("the source of %s is empty", file.Path)
		}
	}
	for _, path := range menuPaths {
		files = append(files, textFile(path, menu))
	}
	// Debian's GRUB for CDs finds its medium by this file.
	files = append(files, textFile(infoPath, "Ingot\n"))
	label := BootLabel
	if len(boot.NetworkData) > 0 {
		label, files = NetworkLabel, append(files, textFile(networkPath, string(boot.NetworkData)))
	}
	image, err := iso9660.New(iso9660.Spec{Label: label, Files: files, EFIBoot: bootLoaderPath})
	if err != nil {
		return nil, fmt.Errorf("make a boot image: %w", err)
	}
	return image, nil
}

// Parameters makes the medium with the agent's parameters for an existing ISO image. It is a floppy
// disk, as Ironic makes it, because BMCs present that as a USB stick, too. Its only file has the
// parameters of the command line that have the form key=value, one on each line. The agent would
// ignore others.
func Parameters(commandLine string) (*fat.Image, error) {
	words, err := Words(commandLine)
	if err != nil {
		return nil, err
	}
	words = slices.DeleteFunc(words, func(word string) bool {
		return strings.IndexByte(word, '=') < 1
	})
	image, err := fat.New(ParametersLabel, ParametersFile, []byte(strings.Join(words, "\n")+"\n"))
	if err != nil {
		return nil, fmt.Errorf("make a parameters medium: %w", err)
	}
	return image, nil
}

// Menu returns the configuration of GRUB that boots the kernel and the ramdisk of an image at once.
func Menu(commandLine string) (string, error) {
	words, err := Words(commandLine)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("set default=0\nset timeout=0\n\nmenuentry 'Ramdisk' {\n  linux /" + kernelPath)
	for _, word := range words {
		b.WriteString(" " + quote(word))
	}
	b.WriteString("\n  initrd /" + ramdiskPath + "\n}\n")
	return b.String(), nil
}

// Words returns the parameters of a command line. It adds boot_method=vmedia, which comes last. It
// refuses what GRUB or the agent would not pass on unchanged: anything but printable ASCII
// characters, quotation marks and backslashes, another boot_method, and more than 2,047 bytes,
// which is the limit of x86 kernels.
func Words(commandLine string) ([]string, error) {
	for _, r := range commandLine {
		if r < ' ' || r > '~' || strings.ContainsRune(`'"\`, r) {
			return nil, fmt.Errorf("kernel parameters cannot have the character %q on virtual media", r)
		}
	}
	var words []string
	for word := range strings.FieldsSeq(commandLine) {
		switch {
		case word == methodParameter: // comes last
		case strings.HasPrefix(word, "boot_method="):
			return nil, fmt.Errorf("kernel parameter %q on virtual media, where it is always %s", word, methodParameter)
		default:
			words = append(words, word)
		}
	}
	words = append(words, methodParameter)
	if length := len(strings.Join(words, " ")); length > maxCommandLine {
		return nil, fmt.Errorf("kernel parameters have %d bytes, more than %d", length, maxCommandLine)
	}
	return words, nil
}

// maxCommandLine is COMMAND_LINE_SIZE of Linux on x86 without the final zero byte. ARM has the same
// limit.
const maxCommandLine = 2047

// plainWord matches a word that a script of GRUB takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9=_.,:/@%+-]+$`)

// quote returns a word for a script of GRUB. Within single quotes no character has a meaning.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + word + "'"
}

func textFile(path, text string) iso9660.File {
	return iso9660.File{Path: path, Size: int64(len(text)), Content: strings.NewReader(text)}
}
