// Package fat reads files from the root directory of FAT12 and FAT16 file systems without a
// partition table, as a machine finds them on floppy disks and USB sticks. It does not trust what
// an image says about itself.
package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// Image is an open image.
type Image struct {
	content io.ReaderAt
	label   string
	files   map[string]file // by name in lower case

	clusterSize, data int64  // size in bytes; offset at which cluster 2 begins
	table             []byte // the first allocation table
	wide              bool   // the entries of the table have 16 bits, not 12
}

// file is a file of the root directory.
type file struct {
	cluster uint16
	size    uint32
}

// Limits of what is read from an image.
const (
	maxTable     = 256 << 10 // bytes
	maxDirectory = 512 << 10 // bytes
	entrySize    = 32
	fat12Limit   = 4085 // clusters; with this many or more, entries have 16 bits
	fat16Limit   = 65525
)

// errFormat is wrapped by errors about something that is not such a file system.
var errFormat = errors.New("not a FAT12 or FAT16 file system")

// Open reads the allocation table and the root directory of an image.
func Open(content io.ReaderAt) (*Image, error) {
	boot := make([]byte, 512)
	if _, err := content.ReadAt(boot, 0); err != nil {
		return nil, fmt.Errorf("%w: read the boot sector: %w", errFormat, err)
	}
	le := binary.LittleEndian
	sector, perCluster := int64(le.Uint16(boot[11:])), int64(boot[13])
	reserved, tables := int64(le.Uint16(boot[14:])), int64(boot[16])
	entries, total := int64(le.Uint16(boot[17:])), int64(le.Uint16(boot[19:]))
	perTable := int64(le.Uint16(boot[22:]))
	if total == 0 {
		total = int64(le.Uint32(boot[32:]))
	}
	if boot[510] != 0x55 || boot[511] != 0xaa || sector < 512 || sector > 4096 || perCluster == 0 || reserved == 0 || tables == 0 || perTable == 0 || entries == 0 {
		return nil, errFormat
	}
	root := (reserved + tables*perTable) * sector
	image := &Image{content: content, files: map[string]file{}, clusterSize: perCluster * sector, data: root + entries*entrySize}
	clusters := (total*sector - image.data) / image.clusterSize
	if clusters < 1 || clusters >= fat16Limit || perTable*sector > maxTable || entries*entrySize > maxDirectory {
		return nil, errFormat
	}
	image.wide, image.table = clusters >= fat12Limit, make([]byte, perTable*sector)
	directory := make([]byte, entries*entrySize)
	if _, err := content.ReadAt(image.table, reserved*sector); err != nil {
		return nil, fmt.Errorf("read the allocation table: %w", err)
	}
	if _, err := content.ReadAt(directory, root); err != nil {
		return nil, fmt.Errorf("read the root directory: %w", err)
	}
	image.list(directory)
	return image, nil
}

// Attributes of entries.
const (
	volumeLabel = 0x08
	folder      = 0x10
	longName    = 0x0f
)

// list reads the entries of the root directory.
func (i *Image) list(directory []byte) {
	le := binary.LittleEndian
	long := ""
	for at := 0; at+entrySize <= len(directory) && directory[at] != 0; at += entrySize {
		entry := directory[at : at+entrySize]
		switch attributes := entry[11]; {
		case entry[0] == 0xe5: // deleted
			long = ""
		case attributes&0x3f == longName:
			long = partOf(entry) + long
		case attributes&volumeLabel != 0:
			i.label, long = strings.TrimRight(string(entry[:11]), " "), ""
		case attributes&folder != 0:
			long = ""
		default:
			name := long
			if name == "" {
				name = shortName(entry)
			}
			i.files[strings.ToLower(name)], long = file{cluster: le.Uint16(entry[26:]), size: le.Uint32(entry[28:])}, ""
		}
	}
}

func shortName(entry []byte) string {
	name, extension := strings.TrimRight(string(entry[:8]), " "), strings.TrimRight(string(entry[8:11]), " ")
	if extension == "" {
		return name
	}
	return name + "." + extension
}

// partOf returns the part of a long name that an entry has.
func partOf(entry []byte) string {
	var units []uint16
	for _, span := range [][2]int{{1, 11}, {14, 26}, {28, 32}} {
		for at := span[0]; at < span[1]; at += 2 {
			unit := binary.LittleEndian.Uint16(entry[at:])
			if unit == 0 {
				return string(utf16.Decode(units))
			}
			units = append(units, unit)
		}
	}
	return string(utf16.Decode(units))
}

// Label returns the volume label in the root directory.
func (i *Image) Label() string { return i.label }

// ReadFile returns a file of the root directory, of at most limit bytes. It ignores case.
func (i *Image) ReadFile(name string, limit int64) ([]byte, error) {
	f, ok := i.files[strings.ToLower(strings.TrimPrefix(name, "/"))]
	if !ok {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	if int64(f.size) > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, f.size, limit)
	}
	content := make([]byte, 0, f.size)
	for cluster := f.cluster; int64(len(content)) < int64(f.size); cluster = i.next(cluster) {
		if cluster < 2 || int(cluster) >= len(i.table) {
			return nil, fmt.Errorf("%s ends after %d bytes of %d", name, len(content), f.size)
		}
		part := make([]byte, min(i.clusterSize, int64(f.size)-int64(len(content))))
		if _, err := i.content.ReadAt(part, i.data+int64(cluster-2)*i.clusterSize); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		content = append(content, part...)
	}
	return content, nil
}

// next returns the cluster that follows a cluster, or 0 if none follows.
func (i *Image) next(cluster uint16) uint16 {
	at, bad := int(cluster)*3/2, uint16(0xff7)
	if i.wide {
		at, bad = int(cluster)*2, 0xfff7
	}
	if at+2 > len(i.table) {
		return 0
	}
	entry := binary.LittleEndian.Uint16(i.table[at:])
	switch {
	case i.wide:
	case cluster%2 == 0:
		entry &= 0xfff
	default:
		entry >>= 4
	}
	if entry >= bad {
		return 0
	}
	return entry
}
