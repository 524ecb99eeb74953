package imageformat

import (
	"encoding/binary"
	"fmt"
)

// Lengths and bounds of a qcow2 header (QEMU docs/interop/qcow2.rst, and what QEMU itself
// refuses to open).
const (
	headerLengthV2  = 72
	headerLengthV3  = 104
	minClusterBits  = 9
	maxClusterBits  = 21
	maxRefcountBits = 6
	maxL1Size       = 32 << 20 // bytes
)

// Incompatible features. A reader must refuse those that it does not know.
const (
	featureDirty       = 1 << 0 // reference counts may be wrong, which readers do not use
	featureCorrupt     = 1 << 1
	featureExternal    = 1 << 2
	featureCompression = 1 << 3
	featureExtendedL2  = 1 << 4

	featuresAccepted = featureDirty | featureCompression | featureExtendedL2
)

// featureRefusals says why known features are refused.
var featureRefusals = []struct {
	bit    uint64
	reason string
}{
	{featureExternal, "its data is in another file; convert it with qemu-img convert"},
	{featureCorrupt, "it is marked as corrupt; check it with qemu-img check"},
}

// Types of header extensions.
const (
	extensionEnd      = 0
	extensionExternal = 0x44415441 // the name of a data file
)

// qcow2 is the header of a qcow2 image.
type qcow2 struct {
	version       uint32
	backing       uint64 // where the name of the backing file is, 0 if there is none
	clusterBits   uint32
	size          uint64
	encryption    uint32
	l1Entries     uint32
	l1Offset      uint64
	features      uint64
	refcountOrder uint32
	length        uint32 // of the header
	compression   byte
}

// qcow2Size checks the header of a qcow2 image and returns the size of its disk.
func qcow2Size(head []byte, fileSize int64) (int64, error) {
	h, ok := parseQcow2(head)
	if !ok {
		return 0, refuseQcow2("its header is cut off; the download or the file is not complete")
	}
	if reason := h.refusal(fileSize); reason != "" {
		return 0, refuseQcow2(reason)
	}
	if reason := extensionRefusal(head, h); reason != "" {
		return 0, refuseQcow2(reason)
	}
	return int64(h.size), nil
}

func refuseQcow2(reason string) error {
	return &RefusedError{string(QCOW2), reason}
}

// parseQcow2 reads the fields of a header. Those that version 2 lacks get the values that
// they have there.
func parseQcow2(head []byte) (qcow2, bool) {
	if len(head) < headerLengthV2 {
		return qcow2{}, false
	}
	order := binary.BigEndian
	h := qcow2{
		version:     order.Uint32(head[4:]),
		backing:     order.Uint64(head[8:]),
		clusterBits: order.Uint32(head[20:]),
		size:        order.Uint64(head[24:]),
		encryption:  order.Uint32(head[32:]),
		l1Entries:   order.Uint32(head[36:]),
		l1Offset:    order.Uint64(head[40:]),
		length:      headerLengthV2,
	}
	if h.version < 3 {
		return h, true
	}
	if len(head) < headerLengthV3 {
		return qcow2{}, false
	}
	h.features = order.Uint64(head[72:])
	h.refcountOrder = order.Uint32(head[96:])
	h.length = order.Uint32(head[100:])
	if h.length > headerLengthV3 && len(head) > headerLengthV3 {
		h.compression = head[headerLengthV3]
	}
	return h, true
}

// refusal is why an image with this header is refused, or nothing.
func (h qcow2) refusal(fileSize int64) string {
	for _, f := range featureRefusals {
		if h.features&f.bit != 0 {
			return f.reason
		}
	}
	l1Size := uint64(h.l1Entries) * 8
	checks := []struct {
		wrong  bool
		reason string
	}{
		{h.version != 2 && h.version != 3, fmt.Sprintf("it has version %d; convert it with qemu-img convert", h.version)},
		{h.backing != 0, "it needs another file, which it was made from; convert it with qemu-img convert"},
		{h.encryption != 0, "it is encrypted"},
		{h.features&^featuresAccepted != 0, fmt.Sprintf("it has features that are not known (%#x)", h.features&^featuresAccepted)},
		{h.clusterBits < minClusterBits || h.clusterBits > maxClusterBits, damaged("clusters")},
		{h.version == 3 && (h.length < headerLengthV3 || h.length%8 != 0 || h.length > 1<<minClusterBits), damaged("header length")},
		{h.refcountOrder > maxRefcountBits, damaged("reference counts")},
		{h.compression > 1, "it has a compression that is not known"},
		{h.size == 0, "its disk has no bytes"},
		{h.size > 1<<62, damaged("disk size")},
		{h.size > h.mapped(), damaged("table of clusters")},
		{l1Size > maxL1Size || h.l1Offset > 1<<62 || h.l1Offset%(1<<minClusterBits) != 0, damaged("table of clusters")},
		{fileSize >= 0 && h.l1Offset+l1Size > uint64(max(fileSize, 0)), "it is cut off; the download or the file is not complete"},
	}
	for _, c := range checks {
		if c.wrong {
			return c.reason
		}
	}
	return ""
}

// mapped is how many bytes the table of clusters has entries for.
func (h qcow2) mapped() uint64 {
	entry := uint64(8)
	if h.features&featureExtendedL2 != 0 {
		entry = 16
	}
	cluster := uint64(1) << (h.clusterBits % 64)
	if tables := cluster / entry * cluster; tables != 0 && uint64(h.l1Entries) <= 1<<62/tables {
		return uint64(h.l1Entries) * tables
	}
	return 1 << 62
}

func damaged(what string) string {
	return "its header is damaged: " + what
}

// extensionRefusal looks through the extensions behind a header. Those that cannot be seen
// as a whole are refused, because one of them may name a data file.
func extensionRefusal(head []byte, h qcow2) string {
	at, end := int(h.length), min(len(head), 1<<h.clusterBits)
	for at+8 <= end {
		kind := binary.BigEndian.Uint32(head[at:])
		length := int64(binary.BigEndian.Uint32(head[at+4:]))
		switch {
		case kind == extensionEnd:
			return ""
		case kind == extensionExternal:
			return featureRefusals[0].reason
		case length > int64(end-at-8):
			return damaged("extensions")
		}
		at += 8 + int(length+7)/8*8
	}
	if end == 1<<h.clusterBits || end == len(head) && len(head) < HeadSize {
		return "" // the extensions end with the first cluster, or with the file
	}
	return damaged("extensions")
}
