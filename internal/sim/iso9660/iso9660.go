// Package iso9660 reads files from ISO 9660 images (ECMA-119): virtual media and config
// drives. It knows the long names of Rock Ridge and of Joliet, ignores case, and trusts no
// number in an image. It reads neither multi-extent files nor interleaved ones.
package iso9660

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

const (
	sectorSize      = 2048
	firstDescriptor = 16 // sector
	maxDescriptors  = 64
	maxDirectory    = 1 << 20 // bytes
)

// Types of volume descriptors (section 8.1.1).
const (
	bootRecord    = 0
	primary       = 1
	supplementary = 2
	terminator    = 255
)

// ErrFormat is wrapped by errors about something that is not an ISO 9660 image.
var ErrFormat = errors.New("no ISO 9660 image")

// Image is an opened image. It is safe for concurrent use if its reader is.
type Image struct {
	reader   io.ReaderAt
	label    string
	bootable bool
	catalog  uint32 // sector of the boot catalog
	trees    []tree // trees of the same files, the primary one first
}

// tree is a hierarchy of directories.
type tree struct {
	root   record
	joliet bool
}

// Open reads the volume descriptors. The error is that of the reader, or wraps [ErrFormat].
func Open(reader io.ReaderAt) (*Image, error) {
	image := &Image{reader: reader}
	sector := make([]byte, sectorSize)
	for i := range maxDescriptors {
		if _, err := reader.ReadAt(sector, (firstDescriptor+int64(i))*sectorSize); errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: it ends in its descriptors", ErrFormat)
		} else if err != nil {
			return nil, fmt.Errorf("read volume descriptor %d: %w", i, err)
		}
		if string(sector[1:6]) != "CD001" {
			return nil, fmt.Errorf("%w: sector %d has no volume descriptor", ErrFormat, firstDescriptor+i)
		}
		if sector[0] == terminator {
			break
		}
		if err := image.add(sector); err != nil {
			return nil, err
		}
	}
	if len(image.trees) == 0 {
		return nil, fmt.Errorf("%w: there is no primary volume descriptor", ErrFormat)
	}
	return image, nil
}

// add adds what one volume descriptor says.
func (i *Image) add(sector []byte) error {
	switch sector[0] {
	case bootRecord:
		if bytes.HasPrefix(sector[7:], []byte("EL TORITO SPECIFICATION")) {
			i.bootable, i.catalog = true, binary.LittleEndian.Uint32(sector[71:])
		}
	case primary, supplementary:
		joliet := sector[0] == supplementary
		if joliet && (string(sector[88:90]) != "%/" || !strings.Contains("@CE", string(sector[90:91]))) {
			return nil
		}
		root, _, ok := parseRecord(sector[156:190])
		if !ok {
			return fmt.Errorf("%w: a volume has no root", ErrFormat)
		}
		if !joliet {
			i.label = strings.TrimRight(string(sector[40:72]), " \x00")
		}
		i.trees = append(i.trees, tree{root, joliet})
	}
	return nil
}

// Label returns the identifier of the volume.
func (i *Image) Label() string { return i.label }

// Bootable reports whether the image has a boot record of El Torito.
func (i *Image) Bootable() bool { return i.bootable }

// Platforms and kinds of entries of a boot catalog (El Torito, sections 2.1 to 2.3; UEFI, section
// 13.3.2.1).
const (
	entrySize     = 32
	platformBIOS  = 0
	platformUEFI  = 0xef
	sectionHeader = 0x90
	lastHeader    = 0x91
	bootEntry     = 0x88
)

// BootsInBIOSMode reports whether a machine in BIOS mode boots from the image.
func (i *Image) BootsInBIOSMode() bool { return i.bootsOn(platformBIOS) }

// BootsInUEFIMode reports whether a machine in UEFI mode boots from the image.
func (i *Image) BootsInUEFIMode() bool { return i.bootsOn(platformUEFI) }

// bootsOn reports whether the boot catalog has an entry for a platform with something to boot. The
// validation entry names the platform of the first entry. A section header names the platform of
// the entries after it.
func (i *Image) bootsOn(wanted byte) bool {
	if !i.bootable {
		return false
	}
	catalog := i.sector(i.catalog)
	if len(catalog) < sectorSize {
		return false
	}
	platform := catalog[1]
	for entry := range slices.Chunk(catalog[entrySize:], entrySize) {
		switch entry[0] {
		case sectionHeader, lastHeader:
			platform = entry[1]
		case bootEntry:
			content := i.sector(binary.LittleEndian.Uint32(entry[8:]))
			if platform == wanted && slices.ContainsFunc(content, func(b byte) bool { return b != 0 }) {
				return true
			}
		}
	}
	return false
}

// sector reads one sector, as far as it exists.
func (i *Image) sector(number uint32) []byte {
	content := make([]byte, sectorSize)
	n, _ := i.reader.ReadAt(content, int64(number)*sectorSize) // what cannot be read does not boot
	return content[:n]
}

// Open returns the content of a file. The path has slashes. The error wraps fs.ErrNotExist if there
// is no such file.
func (i *Image) Open(path string) (*io.SectionReader, error) {
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for _, t := range i.trees {
		found, err := i.find(t, names)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		return io.NewSectionReader(i.reader, int64(found.extent)*sectorSize, int64(found.size)), nil
	}
	return nil, fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
}

// ReadFile returns the content of a file of at most limit bytes.
func (i *Image) ReadFile(path string, limit int64) ([]byte, error) {
	file, err := i.Open(path)
	if err != nil {
		return nil, err
	}
	if file.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, file.Size(), limit)
	}
	content := make([]byte, file.Size())
	if _, err := io.ReadFull(file, content); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return content, nil
}

// find follows a path through a tree to a file.
func (i *Image) find(t tree, names []string) (record, error) {
	at := t.root
	for depth, name := range names {
		records, err := i.list(at, t.joliet)
		if err != nil {
			return record{}, err
		}
		var found bool
		for _, r := range records {
			if strings.EqualFold(r.name, name) && r.directory == (depth < len(names)-1) {
				at, found = r, true
				break
			}
		}
		if !found {
			return record{}, fs.ErrNotExist
		}
	}
	if at.directory {
		return record{}, fs.ErrNotExist
	}
	return at, nil
}

// list reads a directory.
func (i *Image) list(directory record, joliet bool) ([]record, error) {
	if directory.size > maxDirectory {
		return nil, fmt.Errorf("%w: a directory has %d bytes", ErrFormat, directory.size)
	}
	content := make([]byte, directory.size)
	if _, err := i.reader.ReadAt(content, int64(directory.extent)*sectorSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read a directory: %w", err)
	}
	var records []record
	for at := 0; at < len(content); {
		r, length, ok := parseRecord(content[at:])
		if !ok { // records do not cross sectors; the rest of this one is empty
			at = (at/sectorSize + 1) * sectorSize
			continue
		}
		at += length
		switch {
		case joliet:
			r.name = jolietName(r.identifier)
		default:
			r.name = i.rockRidgeName(r)
		}
		records = append(records, r)
	}
	return records, nil
}

// record is a directory record (section 9.1).
type record struct {
	name       string
	identifier []byte
	extent     uint32 // sector
	size       uint32 // bytes
	directory  bool
	system     []byte // the system use area
}

// parseRecord reads the record at the start of content. It returns the record and its length, or
// false if there is no record.
func parseRecord(content []byte) (r record, length int, ok bool) {
	const fixed = 33
	if len(content) < fixed+1 {
		return r, 0, false
	}
	length = int(content[0])
	name := int(content[32])
	if length < fixed+name || length > len(content) || name == 0 {
		return r, 0, false
	}
	r = record{
		identifier: content[fixed : fixed+name],
		extent:     binary.LittleEndian.Uint32(content[2:]), size: binary.LittleEndian.Uint32(content[10:]),
		directory: content[25]&2 != 0,
	}
	if system := fixed + name + (1 - name%2); system < length {
		r.system = content[system:length]
	}
	return r, length, true
}
