package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// writeImageStep is the deploy step that writes an image.
const writeImageStep = "write_image"

// imageInfo is the part of an image's description that the simulation uses.
type imageInfo struct {
	ID         string   `json:"id"`
	URLs       []string `json:"urls"`
	Checksum   string   `json:"checksum"`
	HashAlgo   string   `json:"os_hash_algo"`
	HashValue  string   `json:"os_hash_value"`
	ImageType  string   `json:"image_type"`
	DiskFormat string   `json:"disk_format"`
	NodeUUID   string   `json:"node_uuid"`
	// Stream says that a raw image may be written while it is downloaded, and be verified after
	// that.
	Stream bool `json:"stream_raw_images"`
}

// streams reports whether the image is written to the disk before it is verified.
func (i imageInfo) streams() bool { return i.Stream && i.DiskFormat == string(disk.Raw) }

// imageArgument decodes the argument image_info. given has the fields that were given, and is empty
// if the argument is missing.
func imageArgument(p params) (info imageInfo, given map[string]json.RawMessage, err error) {
	raw, ok := p["image_info"]
	if !ok {
		return info, nil, nil
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		return info, nil, err
	}
	return info, given, json.Unmarshal(raw, &info)
}

// checkImageInfo refuses image descriptions that cannot be installed: without
// an identifier, without a place to get it from, without a checksum.
func checkImageInfo(p params) *fault {
	info, given, err := imageArgument(p)
	for _, field := range []string{"id", "urls"} {
		if _, ok := given[field]; !ok {
			return invalidParamsFault(fmt.Sprintf("Image is missing '%s' field.", field))
		}
	}
	switch {
	case err != nil || len(info.URLs) == 0:
		return invalidParamsFault("Image 'urls' must be a non-empty list of texts.")
	case info.Checksum == "" && (info.HashAlgo == "" || info.HashValue == ""):
		return invalidParamsFault("Image needs 'os_hash_algo' with 'os_hash_value', or 'checksum'.")
	default:
		return nil
	}
}

func cacheImage(x *execution, p params) (any, *commandError) {
	info, _, _ := imageArgument(p) // checked when the command was accepted
	root, failure := x.rootDisk()
	if failure == nil {
		_, failure = x.install(info, root)
	}
	if failure != nil {
		return nil, failure
	}
	return map[string]string{"result": fmt.Sprintf("cache_image: image (%s) cached to device %s", info.ID, root.Name)}, nil
}

// prepareImage writes an image and its config drive, and returns the result that the real agent
// reports. After a partition image, get_partition_uuids returns the identifiers of its partitions;
// after a whole-disk image, that of the disk.
func prepareImage(x *execution, p params) (any, *commandError) {
	info, _, _ := imageArgument(p) // checked when the command was accepted
	root, failure := x.rootDisk()
	if failure != nil {
		return nil, failure
	}
	written, failure := x.install(info, root)
	if failure == nil && info.ImageType != partitionImage && !written.Bootable {
		failure = executionError("Unable to find a valid partition table on the disk after writing the image. The image may be corrupted. " +
			"Error: Unexpected error while running command. Stderr: 'Error: " + root.Name + ": unrecognised disk label\\n'")
	}
	if failure == nil {
		failure = x.writeConfigDrive(info, root.Name, p["configdrive"])
	}
	if failure != nil {
		return nil, failure
	}
	rootUUID := gptIdentifier
	partitions := map[string]string{"root uuid": rootUUID}
	if info.ImageType == partitionImage {
		rootUUID = x.random.uuid()
		partitions["root uuid"] = rootUUID
		partitions["efi system partition uuid"] = x.random.uuid()[:8]
	}
	x.mu.Lock()
	x.partitions = partitions
	x.mu.Unlock()
	return map[string]string{
		"result": fmt.Sprintf("prepare_image: image (%s) written to device %s root_uuid=%s", info.ID, root.Name, rootUUID),
	}, nil
}

// gptIdentifier is the identifier that the protective boot sector of a disk with a GPT has.
const gptIdentifier = "0x00000000"

// partitionImage is the type of images that consist of one file system.
const partitionImage = "partition"

// install downloads an image, verifies it and writes it to the root disk.
func (x *execution) install(info imageInfo, root rootDisk) (disk.Image, *commandError) {
	began := x.clock.Now()
	w, err := x.config.Disks.Write(root.Name, root.Size)
	if err != nil {
		return disk.Image{}, executionError(err.Error())
	}
	image, failure := x.download(info, w, root.Name)
	if failure == nil {
		failure = x.checkFormat(info, image, root)
	}
	if failure != nil {
		if info.streams() && image.Bytes > 0 { // a part of it is on the disk already
			x.note(effect.Write, writeDetail(root.Name, image), began)
			failure = cmp.Or(x.wipe(root.Name), failure)
		}
		if err := w.Abort(); err != nil {
			x.log.Warn("Could not remove a part of an image", "err", err)
		}
		return image, failure
	}
	x.note(effect.Write, writeDetail(root.Name, image), began)
	image.Bootable = image.Bootable || info.ImageType == partitionImage
	if err := w.Commit(image); err != nil {
		return image, executionError(err.Error())
	}
	return image, nil
}

// writeDetail returns the text with which the log describes what was written.
func writeDetail(device string, i disk.Image) string {
	return fmt.Sprintf("%s %s %s:%s %d bytes", device, i.URL, i.Algorithm, i.Checksum, i.Bytes)
}

// checkFormat refuses an image that is verified but cannot be written.
func (x *execution) checkFormat(info imageInfo, image disk.Image, root rootDisk) *commandError {
	switch {
	case x.fate.DiskFull:
		return writeError(root.Name, "qemu-img: error while writing at byte 0: No space left on device")
	case x.behaves.inspectsImages && info.DiskFormat != "" && info.DiskFormat != string(disk.Raw) && info.DiskFormat != string(image.Format):
		return invalidImage(fmt.Sprintf("Security: Expected format was %s, but image was actually %s", info.DiskFormat, image.Format))
	case image.Size > root.Size:
		return writeError(root.Name, fmt.Sprintf("qemu-img: %s: error while converting host_device: Device is too small", root.Name))
	}
	return nil
}

// installBootloader makes a machine in UEFI mode boot from its root disk first, until that disk is
// wiped. In BIOS mode, machines need no entry to find the boot loader of an image.
func installBootloader(x *execution, _ params) (any, *commandError) {
	root, failure := x.rootDisk()
	if failure == nil && x.config.UEFI {
		x.config.Disks.AddBootEntry(root.Name)
	}
	return nil, failure
}

func partitionUUIDs(x *execution, _ params) (any, *commandError) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.partitions == nil {
		return map[string]string{}, nil
	}
	return maps.Clone(x.partitions), nil
}

// elapsed returns the time that has passed since a time, in seconds, as the real agent prints it.
func (x *execution) elapsed(since time.Time) float64 { return x.clock.Since(since).Seconds() }
