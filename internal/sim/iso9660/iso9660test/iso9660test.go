// Package iso9660test makes small ISO 9660 images for tests.
package iso9660test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf16"
)

// Names says where an image has its long names.
type Names int

// The places of long names.
const (
	RockRidge Names = iota
	Joliet          // in a second tree; the primary tree is empty
	Plain           // nowhere; the names are in upper case
)

// Options describe an image.
type Options struct {
	Label    string
	Bootable bool // has a boot record of El Torito, for BIOS and UEFI
	UEFIOnly bool // the boot record is for UEFI only
	BIOSOnly bool // the boot record is for BIOS only
	Names    Names
}

const sectorSize = 2048

// Build returns an image with files. The keys are the paths of the files.
func Build(o Options, files map[string]string) []byte {
	b := &builder{names: o.Names}
	root := b.directory("/", files)
	var descriptors [][]byte
	primary := root
	if o.Names == Joliet {
		primary = b.directory("/", nil)
	}
	descriptors = append(descriptors, volume(1, o.Label, primary))
	if o.Bootable {
		record := descriptor(0)
		copy(record[7:], "EL TORITO SPECIFICATION")
		binary.LittleEndian.PutUint32(record[71:], uint32(b.put(b.catalog(o)).sector))
		descriptors = append(descriptors, record)
	}
	if o.Names == Joliet {
		joliet := volume(2, o.Label, root)
		copy(joliet[88:], "%/E")
		descriptors = append(descriptors, joliet)
	}
	descriptors = append(descriptors, descriptor(255))
	image := make([]byte, firstContent*sectorSize, firstContent*sectorSize+len(b.content))
	for i, d := range descriptors {
		copy(image[(16+i)*sectorSize:], d)
	}
	return append(image, b.content...)
}

// firstContent is the first sector after the descriptors.
const firstContent = 24

type builder struct {
	names   Names
	content []byte // whole sectors
	number  int    // of the next name
}

// extent is a place in the image.
type extent struct{ sector, size int }

// put appends content.
func (b *builder) put(content []byte) extent {
	e := extent{firstContent + len(b.content)/sectorSize, len(content)}
	b.content = append(b.content, content...)
	if rest := len(b.content) % sectorSize; rest > 0 {
		b.content = append(b.content, make([]byte, sectorSize-rest)...)
	}
	return e
}

// catalog returns a boot catalog. All of its entries have the same loader.
func (b *builder) catalog(o Options) []byte {
	catalog := make([]byte, 4*32)
	loader := uint32(b.put([]byte("loader")).sector)
	entry := func(at int) {
		catalog[at] = 0x88
		binary.LittleEndian.PutUint32(catalog[at+8:], loader)
	}
	catalog[0] = 1
	if o.UEFIOnly {
		catalog[1] = 0xef
	}
	entry(32)
	if !o.UEFIOnly && !o.BIOSOnly {
		catalog[64], catalog[65], catalog[66] = 0x91, 0xef, 1
		entry(96)
	}
	return catalog
}

// directory appends the directory at a path, with everything in it.
func (b *builder) directory(at string, files map[string]string) extent {
	entries := []byte{}
	entries = append(entries, directoryRecord([]byte{0}, extent{}, true, nil)...)
	entries = append(entries, directoryRecord([]byte{1}, extent{}, true, nil)...)
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		rest, inside := strings.CutPrefix(path.Join("/", name), strings.TrimSuffix(at, "/")+"/")
		child, _, deeper := strings.Cut(rest, "/")
		if !inside || seen[child] {
			continue
		}
		seen[child] = true
		var e extent
		if deeper {
			e = b.directory(path.Join(at, child), files)
		} else {
			e = b.put([]byte(files[name]))
		}
		identifier, system := b.name(child)
		entry := directoryRecord(identifier, e, deeper, system)
		if len(entries)%sectorSize+len(entry) > sectorSize {
			entries = append(entries, make([]byte, sectorSize-len(entries)%sectorSize)...)
		}
		entries = append(entries, entry...)
	}
	return b.put(append(entries, make([]byte, (sectorSize-len(entries)%sectorSize)%sectorSize)...))
}

// name returns the identifier for a name, and the system use area that the name needs.
func (b *builder) name(name string) (identifier, system []byte) {
	switch b.names {
	case Joliet:
		for _, unit := range utf16.Encode([]rune(name)) {
			identifier = binary.BigEndian.AppendUint16(identifier, unit)
		}
		return identifier, nil
	case RockRidge:
		b.number++
		system = append([]byte{'N', 'M', byte(5 + len(name)), 1, 0}, name...)
		return fmt.Appendf(nil, "F%d.;1", b.number), system
	}
	return []byte(strings.ToUpper(name) + ";1"), nil
}

// directoryRecord returns a directory record.
func directoryRecord(identifier []byte, e extent, directory bool, system []byte) []byte {
	r := make([]byte, 33, 255)
	binary.LittleEndian.PutUint32(r[2:], uint32(e.sector))
	binary.BigEndian.PutUint32(r[6:], uint32(e.sector))
	binary.LittleEndian.PutUint32(r[10:], uint32(e.size))
	binary.BigEndian.PutUint32(r[14:], uint32(e.size))
	if directory {
		r[25] = 2
	}
	r[32] = byte(len(identifier))
	r = append(r, identifier...)
	if len(identifier)%2 == 0 {
		r = append(r, 0)
	}
	r = append(r, system...)
	if len(r)%2 == 1 {
		r = append(r, 0)
	}
	r[0] = byte(len(r))
	return r
}

func descriptor(kind byte) []byte {
	d := make([]byte, sectorSize)
	d[0], d[6] = kind, 1
	copy(d[1:], "CD001")
	return d
}

func volume(kind byte, label string, root extent) []byte {
	d := descriptor(kind)
	copy(d[40:72], fmt.Sprintf("%-32s", label))
	copy(d[156:], directoryRecord([]byte{0}, root, true, nil))
	return d
}
