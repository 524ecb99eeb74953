package iso9660

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// naming is how one of the two directory trees of an image writes names.
type naming interface {
	// identifier returns the identifier of a file or directory other than the root.
	identifier(e *entry) []byte
	// systemUse returns the bytes that follow the identifier in a directory's record.
	systemUse(e *entry, role role) []byte
	// text pads a text of a volume descriptor to a length.
	text(text string, length int) []byte
}

// role is what a record in a directory stands for.
type role int

const (
	named  role = iota // a file or directory in it
	self               // the directory itself
	parent             // the directory above it
)

// rockRidge is the naming of the ISO 9660 tree. Its records have system use entries of RRIP 1.10
// with the names that Unix systems show.
type rockRidge struct{}

// plainName returns the name in the form of ISO 9660 itself: capital letters, digits, underscores
// and one dot (ECMA-119 §7.5). Readers that do not support Rock Ridge show it.
func plainName(name string) string {
	name = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	base, extension := name, ""
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		base, extension = name[:dot], name[dot:]
	}
	return strings.ReplaceAll(base, ".", "_") + extension
}

// directoryName returns the name of a directory, which has no extension.
func directoryName(name string) string {
	return strings.ReplaceAll(plainName(name), ".", "_")
}

func (rockRidge) identifier(e *entry) []byte {
	if e.file == nil {
		return []byte(directoryName(e.name))
	}
	name := plainName(e.name)
	if !strings.Contains(name, ".") {
		name += "."
	}
	return []byte(name + ";1")
}

// File modes of POSIX: everyone may read, nobody may write.
const (
	fileMode      = 0o100444
	directoryMode = 0o040555
)

func (rockRidge) systemUse(e *entry, role role) []byte {
	var b []byte
	if role == self && e.parent == e {
		// These entries must be in the first record of the root (SUSP 5.3, 5.5). The second entry
		// has neither a description nor a source, both of which are optional.
		b = append(b, 'S', 'P', 7, 1, 0xbe, 0xef, 0)
		const extension = "RRIP_1991A"
		b = append(b, 'E', 'R', byte(8+len(extension)), 1, byte(len(extension)), 0, 0, 1)
		b = append(b, extension...)
	}
	mode, links := uint32(fileMode), uint32(1)
	if e.file == nil {
		mode, links = directoryMode, 2
		for _, child := range e.children {
			if child.file == nil {
				links++
			}
		}
	}
	b = append(b, 'P', 'X', 36, 1)
	b = both32(both32(b, mode), links)
	b = both32(both32(b, 0), 0) // user and group: root
	if role == named {
		b = append(b, 'N', 'M', byte(5+len(e.name)), 1, 0)
		b = append(b, e.name...)
	}
	return b
}

func (rockRidge) text(text string, length int) []byte {
	return []byte(text + strings.Repeat(" ", length-len(text)))
}

// joliet is the naming of the second tree, in UCS-2, which Windows reads.
type joliet struct{}

func (joliet) identifier(e *entry) []byte {
	name := ucs2(e.name)
	if e.file != nil {
		name = append(name, ucs2(";1")...)
	}
	return name
}

func (joliet) systemUse(*entry, role) []byte {
	return nil
}

func (joliet) text(text string, length int) []byte {
	b := ucs2(text + strings.Repeat(" ", length/2-len(text)))
	return append(b, make([]byte, length-len(b))...)
}

func ucs2(text string) []byte {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.BigEndian.AppendUint16(b, unit)
	}
	return b
}

// both32 appends a number in both byte orders (ECMA-119 §7.3.3).
func both32(b []byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, n), n)
}

// both16 appends a number in both byte orders (ECMA-119 §7.2.3).
func both16(b []byte, n uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, n), n)
}
