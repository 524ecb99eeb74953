package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/fat"
	"github.com/ingot-metal/ingot/internal/sim/iso9660"
)

// Files and labels that a machine looks for on media.
const (
	menuFile        = "/boot/grub/grub.cfg"
	parametersFile  = "/parameters.txt"
	parametersLabel = "ir-vfd-dev"
)

// errNoBoot is wrapped by errors about media that a machine does not boot from.
var errNoBoot = errors.New("the medium does not boot")

// Medium boots from a virtual medium. That is an ISO 9660 image with a boot record for the
// machine's mode, and with a boot menu whose first entry names a kernel and a ramdisk in the image.
// If the command line has boot_method=vmedia, Medium adds the parameters on the other media, as the
// agent does.
func (l *Loader) Medium(ctx context.Context, target string, others []string, uefi bool, trace *Trace) Result {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	parameters := map[string]string{}
	err := l.keep(ctx, target, func(content io.ReaderAt) error {
		words, err := readMenu(content, uefi)
		parse(parameters, words)
		return err
	})
	if err != nil {
		trace.Add("medium %s: %v", target, err)
		return Result{Action: NextDevice, Reason: err.Error()}
	}
	trace.Add("medium %s: it boots", target)
	if parameters["boot_method"] == "vmedia" {
		l.addParameters(ctx, parameters, others, trace)
	}
	return Result{Action: StartKernel, Source: target, Parameters: parameters}
}

// readMenu returns the kernel command line of the first entry, after it has read the files that the
// entry names.
func readMenu(content io.ReaderAt, uefi bool) ([]string, error) {
	image, err := iso9660.Open(content)
	if err != nil {
		return nil, err
	}
	if !image.Bootable() {
		return nil, fmt.Errorf("%w: it has no boot record of El Torito", errNoBoot)
	}
	if uefi && !image.BootsInUEFIMode() {
		return nil, fmt.Errorf("%w in UEFI mode: its boot record has no loader for UEFI", errNoBoot)
	}
	if !uefi && !image.BootsInBIOSMode() {
		return nil, fmt.Errorf("%w in BIOS mode: its boot record has no loader for BIOS", errNoBoot)
	}
	text, err := image.ReadFile(menuFile, maxConfig)
	if err != nil {
		return nil, err
	}
	entry, err := firstEntry(string(text))
	if err != nil {
		return nil, err
	}
	for _, file := range []string{entry.kernel, entry.ramdisk} {
		loaded, err := image.Open(file)
		if err != nil {
			return nil, err
		}
		if loaded.Size() == 0 {
			return nil, fmt.Errorf("%w: %s is empty", errNoBoot, file)
		}
		if n, err := io.Copy(io.Discard, loaded); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		} else if n < loaded.Size() {
			return nil, fmt.Errorf("%w: %s ends after %d bytes of %d", errNoBoot, file, n, loaded.Size())
		}
	}
	return entry.words, nil
}

// entry is an entry of a boot menu.
type entry struct {
	kernel, ramdisk string   // paths on the medium
	words           []string // of the kernel command line
}

// firstEntry reads the first entry of a GRUB configuration. It ignores all lines that name neither
// a kernel nor a ramdisk.
func firstEntry(text string) (e entry, err error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "linux", "linuxefi", "linux16":
			if e.kernel != "" { // this kernel is that of the next entry
				return e, fmt.Errorf("%w: the first entry in %s has no ramdisk", errNoBoot, menuFile)
			}
			e.kernel = words[1]
			for _, word := range words[2:] {
				e.words = append(e.words, strings.Trim(word, `"'`))
			}
		case "initrd", "initrdefi", "initrd16":
			if e.ramdisk = words[1]; e.kernel != "" {
				return e, nil
			}
		}
	}
	return e, fmt.Errorf("%w: %s has no entry with a kernel and a ramdisk", errNoBoot, menuFile)
}

// addParameters adds the parameters on the first medium with the label for parameters.
func (l *Loader) addParameters(ctx context.Context, parameters map[string]string, media []string, trace *Trace) {
	for _, target := range media {
		var text []byte
		err := l.keep(ctx, target, func(content io.ReaderAt) error {
			volume, err := mount(content)
			if err == nil && !strings.EqualFold(volume.Label(), parametersLabel) {
				err = fmt.Errorf("its label is %q, not %s", volume.Label(), parametersLabel)
			}
			if err == nil {
				text, err = volume.ReadFile(parametersFile, maxConfig)
			}
			return err
		})
		if err != nil {
			trace.Add("medium %s: no parameters: %v", target, err)
			continue
		}
		trace.Add("medium %s: it has parameters", target)
		parse(parameters, strings.Fields(string(text)))
		return
	}
	trace.Add("no medium labelled %s has parameters", parametersLabel)
}

// volume is a file system on a medium.
type volume interface {
	Label() string
	ReadFile(path string, limit int64) ([]byte, error)
}

// mount opens the file system on a medium. It finds out the type, as Linux does.
func mount(content io.ReaderAt) (volume, error) {
	floppy, err := fat.Open(content)
	if err == nil {
		return floppy, nil
	}
	disc, other := iso9660.Open(content)
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return disc, nil
}
