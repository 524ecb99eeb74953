package iso9660

import (
	"encoding/binary"
	"strings"
)

// descriptor is a type of volume descriptor (ECMA-119 §8.1.1).
type descriptor byte

const (
	bootDescriptor       descriptor = 0
	primaryDescriptor    descriptor = 1
	jolietDescriptor     descriptor = 2
	terminatorDescriptor descriptor = 255
)

// All dates of an image are the start of the year 2000 in UTC, so the same files make the same
// bytes.
var (
	recordDate     = []byte{100, 1, 1, 0, 0, 0, 0} // ECMA-119 §9.1.5
	volumeDate     = []byte("2000010100000000\x00")
	noDate         = []byte("0000000000000000\x00") // ECMA-119 §8.4.26.1
	jolietSequence = []byte("%/E")                  // UCS-2 level 3
)

// application names the program that made an image, for people who inspect it.
const application = "INGOT"

// descriptorHeader returns a sector with the first 7 bytes of a volume descriptor.
func descriptorHeader(kind descriptor) []byte {
	b := make([]byte, SectorSize)
	copy(b, []byte{byte(kind), 'C', 'D', '0', '0', '1', 1})
	return b
}

// volume encodes a primary or supplementary volume descriptor (ECMA-119 §8.4, §8.5).
func (l *layout) volume(t *tree, kind descriptor) []byte {
	b := descriptorHeader(kind)[:8]
	b = append(b, t.text("", 32)...) // system
	b = append(b, t.text(l.label, 32)...)
	b = append(b, make([]byte, 8)...)
	b = both32(b, uint32(l.size/SectorSize))
	sequence := make([]byte, 32)
	if kind == jolietDescriptor {
		copy(sequence, jolietSequence)
	}
	b = append(b, sequence...)
	b = both16(b, 1) // volumes in the set
	b = both16(b, 1) // number of this one
	b = both16(b, SectorSize)
	b = both32(b, uint32(len(t.pathTable(binary.LittleEndian))))
	b = binary.LittleEndian.AppendUint32(b, t.pathTables[0])
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, t.pathTables[1])
	b = append(b, 0, 0, 0, 0)
	b = append(b, t.recordOf(t.directories[0], []byte{0})...)
	b = append(b, t.text("", 128)...) // volume set
	b = append(b, t.text("", 128)...) // publisher
	b = append(b, t.text("", 128)...) // data preparer
	b = append(b, t.text(application, 128)...)
	for range 3 { // files with copyright, abstract and bibliography
		b = append(b, t.text("", 37)...)
	}
	b = append(b, volumeDate...) // created
	b = append(b, volumeDate...) // modified
	b = append(b, noDate...)     // expires
	b = append(b, noDate...)     // effective from
	b = append(b, 1)             // version of directory records and path tables
	return pad(b)
}

// bootRecord returns the descriptor that points to the boot catalog (El Torito §2.0).
func (l *layout) bootRecord() []byte {
	b := descriptorHeader(bootDescriptor)
	copy(b[7:], "EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(b[71:], l.catalog)
	return b
}

// Values of the boot catalog (El Torito §2.1, §2.2; UEFI §13.3.2.1).
const (
	platformEFI    = 0xef
	bootable       = 0x88
	blockSize      = 512 // unit of the catalog
	maxBlocks      = 0xffff
	restOfTheImage = 0 // firmware takes 0 and 1 blocks as the rest of the image
)

// bootCatalog returns a validation entry and the default entry. The boot file emulates no drive.
func (l *layout) bootCatalog() []byte {
	b := make([]byte, 64)
	b[0], b[1] = 1, platformEFI
	copy(b[4:28], application+strings.Repeat(" ", 24-len(application)))
	b[30], b[31] = 0x55, 0xaa
	var sum uint16 // the sum of all words, including the checksum, must be 0
	for k := 0; k < 32; k += 2 {
		sum += binary.LittleEndian.Uint16(b[k:])
	}
	binary.LittleEndian.PutUint16(b[28:], -sum)

	blocks := (l.boot.file.Size + blockSize - 1) / blockSize
	if blocks > maxBlocks {
		blocks = restOfTheImage
	}
	b[32] = bootable
	binary.LittleEndian.PutUint16(b[38:], uint16(blocks))
	binary.LittleEndian.PutUint32(b[40:], l.boot.sector)
	return b
}
