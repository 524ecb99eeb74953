package imageformat

import "bytes"

// isoDescriptor is where the first volume descriptor of an ISO image is (ECMA-119 §8.1).
const isoDescriptor = 16 * 2048

// signature is bytes that a format has at a place.
type signature struct {
	name    string // for people
	format  Format // of those that may be used
	refused string // of others: why, and what to do
	offset  int
	bytes   string
	// text means that white space may come first, in either case of letters.
	text bool
}

// What to do about images that are refused.
const (
	convert    = "only raw, qcow2 and iso images can be used; convert it with qemu-img convert -O raw"
	decompress = "agents write it as it is, so that no machine would boot from it; decompress it"
	notAnImage = "the server answered with a page, often an error or a login; check the address"
)

// signatures has every format that is told by its own bytes. The sources are the
// specifications in QEMU's docs/interop, those of VMware and Microsoft, and the headers of
// LUKS. Two signatures of one format have the same name.
var signatures = []signature{
	{name: "qcow2", format: QCOW2, bytes: "QFI\xfb"},
	{name: "iso", format: ISO, offset: isoDescriptor + 1, bytes: "CD001"},

	{name: "VMDK", refused: convert, bytes: "KDMV"},
	{name: "VMDK", refused: convert, bytes: "COWD"},
	{name: "VMDK", refused: convert, bytes: "# disk descriptorfile", text: true},
	{name: "VDI", refused: convert, offset: 0x40, bytes: "\x7f\x10\xda\xbe"},
	{name: "VHDX", refused: convert, bytes: "vhdxfile"},
	{name: "VHD", refused: convert, bytes: "conectix"},
	{name: "QED", refused: convert, bytes: "QED\x00"},
	{name: "LUKS", refused: "encrypted images cannot be used", bytes: "LUKS\xba\xbe"},

	{name: "gzip", refused: decompress, bytes: "\x1f\x8b\x08"},
	{name: "xz", refused: decompress, bytes: "\xfd7zXZ\x00"},
	{name: "zstd", refused: decompress, bytes: "\x28\xb5\x2f\xfd"},
	{name: "bzip2", refused: decompress, offset: 4, bytes: "1AY&SY"},
	{name: "zip", refused: decompress, bytes: "PK\x03\x04"},

	{name: "HTML", refused: notAnImage, bytes: "<!doctype html", text: true},
	{name: "HTML", refused: notAnImage, bytes: "<html", text: true},
	{name: "HTML", refused: notAnImage, bytes: "<!--", text: true},
	{name: "XML", refused: notAnImage, bytes: "<?xml", text: true},
	{name: "JSON", refused: notAnImage, bytes: `{"`, text: true},
}

// in tells whether the head of an image has the signature.
func (s signature) in(head []byte) bool {
	if len(head) < s.offset {
		return false
	}
	head = head[s.offset:]
	if s.text {
		head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
		head = bytes.ToLower(head[:min(len(head), len(s.bytes))])
	}
	return bytes.HasPrefix(head, []byte(s.bytes))
}
