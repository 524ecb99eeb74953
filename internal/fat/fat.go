// Package fat makes the image of a floppy disk with a FAT12 file system that has one file. It is
// for BMCs and ramdisks that accept small media in no other format.
//
// The image is computed when it is read: a few kilobytes in memory, then zeros. The same file makes
// the same bytes, because all dates are fixed. There is no partition table, because
// ironic-python-agent does not read media that have one.
//
// Source: Microsoft's FAT specification 1.03, with long names.
package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Geometry of a 3.5-inch disk of 1.44 MB, which all firmware supports. A cluster is one sector.
const (
	sectorSize      = 512
	totalSectors    = 2880
	reservedSectors = 1
	tableSectors    = 9
	tables          = 2
	rootEntries     = 224
	entrySize       = 32
	sectorsPerTrack = 18
	heads           = 2
	mediaDescriptor = 0xf0

	rootSector   = reservedSectors + tables*tableSectors
	dataSector   = rootSector + rootEntries*entrySize/sectorSize
	firstCluster = 2
)

// Size of every image in bytes.
const Size = totalSectors * sectorSize

// MaxFile is the largest size of the file, in bytes.
const MaxFile = (totalSectors - dataSector) * sectorSize

// Image is an image that [Image.ReadAt] reads. It is safe for concurrent use.
type Image struct {
	head []byte // everything but the zeros at the end
}

// Forms of names.
var (
	labelForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,11}$`)
	nameForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,20}(\.[A-Za-z0-9]{1,3})?$`)
)

// New returns an image with a volume label and one file. The label has 1 to 11 letters, digits,
// hyphens and underscores. The name of the file has 1 to 20 such characters, and may have an
// extension of 1 to 3 letters and digits. The content has at most MaxFile bytes.
func New(label, name string, content []byte) (*Image, error) {
	switch {
	case !labelForm.MatchString(label):
		return nil, fmt.Errorf("an image cannot have the label %q", label)
	case !nameForm.MatchString(name):
		return nil, fmt.Errorf("an image cannot have a file of the name %q", name)
	case len(content) > MaxFile:
		return nil, fmt.Errorf("the file has %d bytes, more than %d", len(content), MaxFile)
	}
	clusters := (len(content) + sectorSize - 1) / sectorSize
	head := make([]byte, (dataSector+clusters)*sectorSize)
	copy(head, bootSector(label))
	for i := range tables {
		copy(head[(reservedSectors+i*tableSectors)*sectorSize:], table(clusters))
	}
	copy(head[rootSector*sectorSize:], directory(label, name, len(content)))
	copy(head[dataSector*sectorSize:], content)
	return &Image{head: head}, nil
}

// Reader returns a reader of the whole image, from its start.
func (i *Image) Reader() *io.SectionReader { return io.NewSectionReader(i, 0, Size) }

// ReadAt implements [io.ReaderAt].
func (i *Image) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if off >= Size {
		return 0, io.EOF
	}
	short := int64(len(p)) > Size-off
	p = p[:min(int64(len(p)), Size-off)]
	clear(p)
	if off < int64(len(i.head)) {
		copy(p, i.head[off:])
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// bootSector returns the sector with the BIOS parameter block. It does not boot.
func bootSector(label string) []byte {
	const (
		bootSignature = 0x29 // volume number, label and type follow
		volumeNumber  = 0x494e474f
	)
	le := binary.LittleEndian
	b := append([]byte{0xeb, 0x3c, 0x90}, "MSWIN4.1"...)
	b = le.AppendUint16(b, sectorSize)
	b = append(b, 1) // sectors in a cluster
	b = le.AppendUint16(b, reservedSectors)
	b = append(b, tables)
	b = le.AppendUint16(b, rootEntries)
	b = le.AppendUint16(b, totalSectors)
	b = append(b, mediaDescriptor)
	b = le.AppendUint16(b, tableSectors)
	b = le.AppendUint16(b, sectorsPerTrack)
	b = le.AppendUint16(b, heads)
	b = append(b, make([]byte, 8)...) // hidden sectors; sectors beyond 65,535
	b = append(b, 0, 0, bootSignature)
	b = le.AppendUint32(b, volumeNumber)
	b = append(b, padded(label, 11)+"FAT12   "...)
	sector := make([]byte, sectorSize)
	copy(sector, b)
	sector[sectorSize-2], sector[sectorSize-1] = 0x55, 0xaa
	return sector
}

// table returns a file allocation table with one chain that begins at the first cluster.
func table(clusters int) []byte {
	const lastCluster = 0xfff
	entries := []uint16{0xf00 | mediaDescriptor, lastCluster}
	for i := range clusters {
		next := uint16(firstCluster + i + 1)
		if i == clusters-1 {
			next = lastCluster
		}
		entries = append(entries, next)
	}
	packed := make([]byte, tableSectors*sectorSize)
	for i, entry := range entries { // two entries of 12 bits share three bytes
		at := i * 3 / 2
		if i%2 == 0 {
			packed[at], packed[at+1] = byte(entry), packed[at+1]|byte(entry>>8)
		} else {
			packed[at], packed[at+1] = packed[at]|byte(entry<<4), byte(entry>>4)
		}
	}
	return packed
}

func padded(text string, length int) string { return text + strings.Repeat(" ", length-len(text)) }
