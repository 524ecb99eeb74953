package disk

import (
	"bytes"
	"encoding/binary"
)

// Format is a format of images.
type Format string

// The formats.
const (
	Raw   Format = "raw"
	QCOW2 Format = "qcow2"
)

// headerSize is how many bytes of an image tell its format: two sectors.
const headerSize = 1024

// header is what the start of an image says.
type header struct {
	format      Format
	size        int64 // virtual size of a qcow2 image
	backing     bool  // a qcow2 image needs a second image
	partitioned bool  // the bytes themselves, whatever the format, have a partition table
}

// readHeader reads the start of an image. What is not qcow2 is raw. docs/interop/qcow2 in QEMU has
// the fields of qcow2.
func readHeader(begin []byte) header {
	h := header{format: Raw}
	if len(begin) >= 32 && bytes.Equal(begin[:4], []byte("QFI\xfb")) {
		h = header{
			format: QCOW2, backing: binary.BigEndian.Uint64(begin[8:]) != 0,
			size: int64(min(binary.BigEndian.Uint64(begin[24:]), 1<<62)),
		}
	}
	if len(begin) >= 512 {
		h.partitioned = begin[510] == 0x55 && begin[511] == 0xaa || bytes.HasPrefix(begin[512:], []byte("EFI PART"))
	}
	return h
}
