// Package imageformat tells the format of an image from its first bytes, and refuses those
// that may not be written to a disk. It trusts neither names nor what a client says, reads
// only the bytes that it is given, and never follows what a header refers to.
//
// What it cannot see: the footer of a fixed-size VHD, which is behind the data. Such a file
// is a raw image with 512 bytes more.
package imageformat

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// HeadSize is how many bytes of an image [Detect] needs, if the image has as many: up to
// the first volume descriptor of an ISO image.
const HeadSize = isoDescriptor + 2048

// Format is the format of an image that may be used.
type Format string

// The formats that may be used.
const (
	Raw   Format = "raw"   // the bytes of a disk, with an MBR or no partition table
	GPT   Format = "gpt"   // the same with a GUID partition table
	QCOW2 Format = "qcow2" // QEMU's, versions 2 and 3
	ISO   Format = "iso"   // ISO 9660, also if it is a disk as well
)

// Image is what an image's head says.
type Image struct {
	Format Format
	// VirtualSize is the size in bytes of the disk in the image. For formats other than
	// QCOW2 it is the size of the file, 0 if that is unknown.
	VirtualSize int64
}

// Limits bounds what [Detect] accepts.
type Limits struct {
	// VirtualSize is how many bytes the disk in an image may have. 0 means no limit.
	VirtualSize int64
}

// RefusedError is an image that may not be used.
type RefusedError struct {
	Format string // its name for people, such as "VMDK" or "qcow2"
	Reason string // what is wrong and what to do
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the image is %s: %s", e.Format, e.Reason)
}

// Detect tells the format of an image by its first [HeadSize] bytes, or all of them, and by
// the size of its file in bytes, which is below 0 if it is not known. What has no known
// header is raw. All errors are [*RefusedError].
func Detect(head []byte, size int64, limits Limits) (Image, error) {
	if size >= 0 && int64(len(head)) > size {
		head = head[:size]
	}
	if len(head) == 0 {
		return Image{}, &RefusedError{"empty", "its file has no bytes; check the address"}
	}
	if size > int64(len(head)) && len(head) < HeadSize {
		return Image{}, &RefusedError{"incomplete", fmt.Sprintf("only %d of its %d bytes could be read", len(head), size)}
	}
	found := signaturesOf(head)
	switch {
	case len(found) > 1:
		return Image{}, &RefusedError{strings.Join(names(found), " and "), "it has the signatures of several formats"}
	case len(found) == 1 && found[0].refused != "":
		return Image{}, &RefusedError{found[0].name, found[0].refused}
	}
	image := Image{Format: Raw, VirtualSize: max(size, 0)}
	switch {
	case len(found) == 1 && found[0].format == QCOW2:
		virtual, err := qcow2Size(head, size)
		if err != nil {
			return Image{}, err
		}
		image = Image{Format: QCOW2, VirtualSize: virtual}
	case len(found) == 1:
		image.Format = found[0].format
	case hasGPT(head):
		image.Format = GPT
	}
	if limits.VirtualSize > 0 && image.VirtualSize > limits.VirtualSize {
		return Image{}, &RefusedError{string(image.Format), fmt.Sprintf("its disk has %d bytes, more than the %d that are allowed", image.VirtualSize, limits.VirtualSize)}
	}
	return image, nil
}

func signaturesOf(head []byte) []signature {
	var found []signature
	for _, s := range signatures {
		if s.in(head) && !slices.ContainsFunc(found, func(f signature) bool { return f.name == s.name }) {
			found = append(found, s)
		}
	}
	return found
}

func names(found []signature) []string {
	var names []string
	for _, s := range found {
		names = append(names, s.name)
	}
	return names
}

// hasGPT tells whether a disk has the header of a GUID partition table in its second block,
// of 512 or 4,096 bytes (UEFI 2.10 §5.3.2).
func hasGPT(head []byte) bool {
	for _, block := range []int{512, 4096} {
		if len(head) > block && bytes.HasPrefix(head[block:], []byte("EFI PART")) {
			return true
		}
	}
	return false
}
