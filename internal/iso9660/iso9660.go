// Package iso9660 makes ISO 9660 images whose bytes are computed when they are read.
//
// An image is a few kilobytes of descriptors and directories in memory, and the contents of its
// files, wherever these are. So an image of any size can be read at any offset without a temporary
// file. The same files make the same bytes, because all dates are fixed.
//
// Images have Rock Ridge and Joliet names, because Linux and Windows guests look for names that ISO
// 9660 alone cannot express. Images that boot have an El Torito entry for UEFI. The package writes
// only what such media need: no BIOS boot, no links, no owners, no files of 4 GiB or more.
//
// Why it exists: the writers of go-diskfs and kdomanski/iso9660 copy each file into a folder and
// then into a file, and put the time of day into the image. The second also has neither El Torito
// nor Rock Ridge. Its reader checks this package in tests.
//
// Sources: ECMA-119, the El Torito specification 1.0, UEFI 2.10 §13.3.2.1, SUSP 1.10 and
// RRIP 1.10 (IEEE P1281, P1282), the Joliet specification.
package iso9660

import (
	"errors"
	"fmt"
	"io"
)

// SectorSize is the size of a sector. The size of an image is a multiple of it.
const SectorSize = 2048

// MaxFileSize is the limit of the size of a file in bytes. A file must be smaller, so that one
// extent holds it.
const MaxFileSize = 1 << 32

// maxFiles limits the total size of the files of an image, in bytes. It keeps sector numbers well
// below 32 bits.
const maxFiles = SectorSize << 30

// File is a file of an image.
type File struct {
	// Path is relative to the root: at most 7 directories and a name, joined by slashes.
	// Each is 1 to 30 letters, digits, dots, hyphens and underscores. Directories are
	// made as needed. Names that differ only in case, or in hyphens, dots and underscores,
	// cannot be in one directory.
	Path string
	// Size in bytes, less than MaxFileSize.
	Size int64
	// Content has at least Size bytes. It is read whenever the image is, by several readers at the
	// same time if the image has several.
	Content io.ReaderAt
}

// Spec is what an image is made from.
type Spec struct {
	// Label is the volume label: 1 to 16 printable ASCII characters, as Joliet allows.
	Label string
	Files []File
	// EFIBoot is the path of the file that UEFI firmware boots: the image of a FAT file
	// system. Empty means that the image does not boot.
	EFIBoot string
}

// Image is an image that [Image.ReadAt] reads. It is safe for concurrent use if the contents of its
// files are.
type Image struct {
	head    []byte // everything before the first file
	extents []extent
	size    int64
}

// extent is a file at its place in the image.
type extent struct {
	File
	offset int64
}

// New returns the image of a specification. It reads no content. Errors name the path or label that
// is not possible.
func New(spec Spec) (*Image, error) {
	if err := checkLabel(spec.Label); err != nil {
		return nil, err
	}
	root, err := newTree(spec.Files)
	if err != nil {
		return nil, err
	}
	boot := root.find(spec.EFIBoot)
	if spec.EFIBoot != "" && (boot == nil || boot.file == nil) {
		return nil, fmt.Errorf("boot file %q is not in the image", spec.EFIBoot)
	}
	l, err := newLayout(spec.Label, root, boot)
	if err != nil {
		return nil, err
	}
	return &Image{head: l.encode(), extents: l.extents, size: l.size}, nil
}

// Size returns the size of the image in bytes.
func (i *Image) Size() int64 {
	return i.size
}

// Reader returns a reader of the whole image, from its start.
func (i *Image) Reader() *io.SectionReader {
	return io.NewSectionReader(i, 0, i.size)
}

// ReadAt implements [io.ReaderAt]. It returns the errors of the contents, with the path of the
// file. A content that is shorter than its size gives io.ErrUnexpectedEOF.
func (i *Image) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if off >= i.size {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && off+int64(n) < i.size {
		m, err := i.readPart(p[n:], off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readPart reads from the part at an offset: the head, a file, or the zeros behind a file. It reads
// at least one byte or returns an error.
func (i *Image) readPart(p []byte, off int64) (int, error) {
	if off < int64(len(i.head)) {
		return copy(p, i.head[off:]), nil
	}
	e, next := i.at(off)
	if from := off - e.offset; from < e.Size {
		p = p[:min(int64(len(p)), e.Size-from)]
		n, err := e.Content.ReadAt(p, from)
		switch {
		case n == len(p):
			return n, nil
		case err == nil || errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		return n, fmt.Errorf("read %s: %w", e.Path, err)
	}
	p = p[:min(int64(len(p)), next-off)]
	clear(p)
	return len(p), nil
}

// at returns the last file that begins at or before an offset, and the offset at which the next
// file begins.
func (i *Image) at(off int64) (extent, int64) {
	next := i.size
	for k := len(i.extents) - 1; k >= 0; k-- {
		if i.extents[k].offset <= off {
			return i.extents[k], next
		}
		next = i.extents[k].offset
	}
	return extent{offset: int64(len(i.head))}, next
}
