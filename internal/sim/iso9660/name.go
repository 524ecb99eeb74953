package iso9660

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// plainName returns a name of ISO 9660 without its version. It also removes the dot at the end of a
// name without an extension.
func plainName(identifier string) string {
	name, _, _ := strings.Cut(identifier, ";")
	return strings.TrimSuffix(name, ".")
}

// jolietName decodes a name of the Joliet specification: UCS-2, the high byte first.
func jolietName(identifier []byte) string {
	units := make([]uint16, len(identifier)/2)
	for i := range units {
		units[i] = binary.BigEndian.Uint16(identifier[2*i:])
	}
	return plainName(string(utf16.Decode(units)))
}

const (
	systemEntry      = 4 // bytes of signature, length and version
	nameContinues    = 1 // flag of an entry NM
	maxContinuations = 8
)

// rockRidgeName returns the name in the NM entries of a record (IEEE P1282), or the plain name if
// there are no such entries.
func (i *Image) rockRidgeName(r record) string {
	var name strings.Builder
	area := r.system
	for range maxContinuations {
		var next []byte // a CE entry: where the area continues
		for len(area) >= systemEntry {
			length := int(area[2])
			if length < systemEntry || length > len(area) {
				break
			}
			switch string(area[:2]) {
			case "NM":
				if length > systemEntry+1 {
					name.Write(area[systemEntry+1 : length])
				}
				if length > systemEntry && area[systemEntry]&nameContinues == 0 {
					return name.String()
				}
			case "CE":
				if length >= 28 {
					next = i.continuation(area[systemEntry:length])
				}
			}
			area = area[length:]
		}
		if next == nil {
			break
		}
		area = next
	}
	if name.Len() > 0 {
		return name.String()
	}
	return plainName(string(r.identifier))
}

// continuation reads the area that the body of a CE entry points to (SUSP, section 5.1). It returns
// nil if it cannot read the area.
func (i *Image) continuation(entry []byte) []byte {
	sector, offset, length := binary.LittleEndian.Uint32(entry), binary.LittleEndian.Uint32(entry[8:]), binary.LittleEndian.Uint32(entry[16:])
	if length > sectorSize || offset > sectorSize {
		return nil
	}
	area := make([]byte, length)
	if _, err := i.reader.ReadAt(area, int64(sector)*sectorSize+int64(offset)); err != nil {
		return nil
	}
	return area
}
