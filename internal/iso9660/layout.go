package iso9660

import (
	"encoding/binary"
	"fmt"
)

// Sectors with a fixed place. The boot record must be the second descriptor (El Torito §2.0).
// Images that do not boot have no third descriptor.
const (
	systemArea    = 16 // zeros
	primarySector = systemArea
	bootSector    = systemArea + 1
)

// layout says where everything in an image is.
type layout struct {
	label   string
	trees   []*tree // the tree of ISO 9660, then the tree of Joliet
	boot    *entry  // nil if the image does not boot
	catalog uint32  // sector of the boot catalog
	extents []extent
	size    int64
}

// tree has the directories of an image in one of the two namings.
type tree struct {
	naming
	directories []*entry // in the order of the path table
	sectors     map[*entry]uint32
	lengths     map[*entry]uint32 // in bytes, whole sectors
	pathTables  [2]uint32         // sectors: little-endian, big-endian
}

// newLayout gives everything its place: descriptors, path tables, directories, the boot catalog,
// files. The boot file comes last, because firmware reads the rest of the image if the size of the
// boot file is too large for the catalog.
func newLayout(label string, root, boot *entry) (*layout, error) {
	files := root.files()
	if err := checkTotal(files); err != nil {
		return nil, err
	}
	l := &layout{label: label, boot: boot}
	next := uint32(bootSector + 2) // behind the descriptor of Joliet and the terminator
	if boot != nil {
		next++
	}
	for _, names := range []naming{rockRidge{}, joliet{}} {
		t := &tree{naming: names, directories: root.directories(names), sectors: map[*entry]uint32{}, lengths: map[*entry]uint32{}}
		next = t.place(next)
		l.trees = append(l.trees, t)
	}
	if boot != nil {
		l.catalog = next
		next++
	}
	for _, file := range files {
		if file != boot {
			next = l.placeFile(file, next)
		}
	}
	if boot != nil {
		next = l.placeFile(boot, next)
	}
	l.size = int64(next) * SectorSize
	return l, nil
}

// checkTotal refuses files that do not fit into one image.
func checkTotal(files []*entry) error {
	var total int64
	for _, file := range files {
		total += file.file.Size + SectorSize
		if total > maxFiles {
			return fmt.Errorf("the files have more than %d bytes in total", int64(maxFiles))
		}
	}
	return nil
}

// place assigns sectors to path tables and directories. It returns the next free sector.
func (t *tree) place(next uint32) uint32 {
	for k := range t.pathTables {
		t.pathTables[k] = next
		next += sectors(int64(len(t.pathTable(binary.LittleEndian))))
	}
	for _, dir := range t.directories {
		t.lengths[dir] = uint32(len(t.directory(dir)))
		t.sectors[dir] = next
		next += sectors(int64(t.lengths[dir]))
	}
	return next
}

func (l *layout) placeFile(file *entry, next uint32) uint32 {
	file.sector = next
	l.extents = append(l.extents, extent{File: *file.file, offset: int64(next) * SectorSize})
	return next + sectors(file.file.Size)
}

// sectors returns how many sectors a number of bytes needs.
func sectors(size int64) uint32 {
	return uint32((size + SectorSize - 1) / SectorSize)
}

// encode returns all sectors before the files.
func (l *layout) encode() []byte {
	head := make([]byte, l.headSectors()*SectorSize)
	put := func(sector uint32, b []byte) {
		copy(head[int64(sector)*SectorSize:], b)
	}
	at := uint32(primarySector)
	put(at, l.volume(l.trees[0], primaryDescriptor))
	if l.boot != nil {
		at++
		put(at, l.bootRecord())
		put(l.catalog, l.bootCatalog())
	}
	put(at+1, l.volume(l.trees[1], jolietDescriptor))
	put(at+2, descriptorHeader(terminatorDescriptor))
	for _, t := range l.trees {
		put(t.pathTables[0], t.pathTable(binary.LittleEndian))
		put(t.pathTables[1], t.pathTable(binary.BigEndian))
		for _, dir := range t.directories {
			put(t.sectors[dir], t.directory(dir))
		}
	}
	return head
}

func (l *layout) headSectors() int64 {
	if len(l.extents) == 0 {
		return l.size / SectorSize
	}
	return l.extents[0].offset / SectorSize
}

// directory encodes a directory (ECMA-119 §6.8). Its length is the same before and after places are
// assigned.
func (t *tree) directory(dir *entry) []byte {
	b := t.appendRecord(nil, dir, self)
	b = t.appendRecord(b, dir.parent, parent)
	for _, child := range dir.sorted(t) {
		b = t.appendRecord(b, child, named)
	}
	return pad(b)
}

// appendRecord appends a directory record (ECMA-119 §9.1). A record that would cross the end
// of a sector begins in the next one.
func (t *tree) appendRecord(b []byte, e *entry, role role) []byte {
	identifier := []byte{0}
	switch role {
	case named:
		identifier = t.identifier(e)
	case parent:
		identifier[0] = 1
	}
	use := t.systemUse(e, role)
	r := t.recordOf(e, identifier)
	r = even(append(r, use...))
	r[0] = byte(len(r))
	if used := len(b) % SectorSize; used+len(r) > SectorSize {
		b = pad(b)
	}
	return append(b, r...)
}

// Flags of a directory record.
const directoryFlag = 2

// recordOf returns a directory record without its system use entries.
func (t *tree) recordOf(e *entry, identifier []byte) []byte {
	sector, length, flags := t.sectors[e], t.lengths[e], byte(directoryFlag)
	if e.file != nil {
		sector, length, flags = e.sector, uint32(e.file.Size), 0
	}
	r := both32(both32([]byte{0, 0}, sector), length)
	r = append(r, recordDate...)
	r = append(r, flags, 0, 0)
	r = both16(r, 1)
	r = append(r, byte(len(identifier)))
	r = even(append(r, identifier...))
	r[0] = byte(len(r))
	return r
}

// pathTable encodes a path table (ECMA-119 §9.4).
func (t *tree) pathTable(order binary.AppendByteOrder) []byte {
	var b []byte
	number := map[*entry]uint16{}
	for k, dir := range t.directories {
		number[dir] = uint16(k + 1)
		identifier := []byte{0}
		if dir.parent != dir {
			identifier = t.identifier(dir)
		}
		b = append(b, byte(len(identifier)), 0)
		b = order.AppendUint32(b, t.sectors[dir])
		b = order.AppendUint16(b, number[dir.parent])
		b = even(append(b, identifier...))
	}
	return b
}

func even(b []byte) []byte {
	if len(b)%2 != 0 {
		b = append(b, 0)
	}
	return b
}

// pad fills the last sector with zeros.
func pad(b []byte) []byte {
	return append(b, make([]byte, int64(sectors(int64(len(b))))*SectorSize-int64(len(b)))...)
}
