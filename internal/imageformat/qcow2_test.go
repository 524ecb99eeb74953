package imageformat

import (
	"encoding/binary"
	"strings"
	"testing"
)

// header is the head of an image as qemu-img makes it: a disk of 10 GiB, clusters of 64 KiB.
func header(version uint32) []byte {
	head := make([]byte, HeadSize)
	copy(head, "QFI\xfb")
	order := binary.BigEndian
	order.PutUint32(head[4:], version)
	order.PutUint32(head[20:], 16)      // bits of a cluster
	order.PutUint64(head[24:], 10<<30)  // size
	order.PutUint32(head[36:], 20)      // entries of the first table
	order.PutUint64(head[40:], 0x30000) // its place
	order.PutUint64(head[48:], 0x10000) // reference counts
	order.PutUint32(head[56:], 1)
	if version >= 3 {
		order.PutUint32(head[96:], 4)    // bits of a reference count
		order.PutUint32(head[100:], 112) // length of the header
		extension(head[112:], 0x6803f857, 384)
	}
	return head
}

// extension writes the head of a header extension.
func extension(b []byte, kind, length uint32) {
	binary.BigEndian.PutUint32(b, kind)
	binary.BigEndian.PutUint32(b[4:], length)
}

func TestHeadersOfQcow2AreNotTrusted(t *testing.T) {
	t.Parallel()
	order := binary.BigEndian
	for name, test := range map[string]struct {
		change func(head []byte)
		want   string // empty if it is accepted
	}{
		"dirty":                   {func(b []byte) { b[79] = 1 }, ""},
		"zstd":                    {func(b []byte) { b[79], b[104] = 8, 1 }, ""},
		"extended L2":             {func(b []byte) { b[79] = 16; b[39] = 40 }, ""},
		"compatible features":     {func(b []byte) { b[80], b[88] = 0xff, 0xff }, ""},
		"a backing file":          {func(b []byte) { order.PutUint64(b[8:], 600); order.PutUint32(b[16:], 11) }, "needs another file"},
		"a name without length":   {func(b []byte) { order.PutUint64(b[8:], 600) }, "needs another file"},
		"a data file":             {func(b []byte) { b[79] = 4 }, "in another file"},
		"the name of a data file": {func(b []byte) { extension(b[504:], 0x44415441, 11) }, "in another file"},
		"corrupt":                 {func(b []byte) { b[79] = 2 }, "corrupt"},
		"an unknown feature":      {func(b []byte) { b[79] = 32 }, "features that are not known (0x20)"},
		"a feature of the future": {func(b []byte) { b[72] = 0x80 }, "features that are not known"},
		"encrypted":               {func(b []byte) { b[35] = 2 }, "encrypted"},
		"version 4":               {func(b []byte) { b[7] = 4 }, "version 4"},
		"version 0":               {func(b []byte) { b[7] = 0 }, "version 0"},
		"small clusters":          {func(b []byte) { b[23] = 8 }, "clusters"},
		"large clusters":          {func(b []byte) { b[23] = 22 }, "clusters"},
		"absurd clusters":         {func(b []byte) { order.PutUint32(b[20:], 1<<31) }, "clusters"},
		"no disk":                 {func(b []byte) { order.PutUint64(b[24:], 0) }, "no bytes"},
		"a negative size":         {func(b []byte) { b[24] = 0x80 }, "disk size"},
		"more than its table":     {func(b []byte) { order.PutUint64(b[24:], 10<<30+1) }, "table of clusters"},
		"a huge table":            {func(b []byte) { order.PutUint32(b[36:], 5<<20) }, "table of clusters"},
		"a table nowhere":         {func(b []byte) { b[40] = 0xff }, "table of clusters"},
		"a table off its place":   {func(b []byte) { b[47] = 1 }, "table of clusters"},
		"a table behind the file": {func(b []byte) { b[44] = 0x10 }, "cut off"},
		"a short header":          {func(b []byte) { b[103] = 72 }, "header length"},
		"an odd header":           {func(b []byte) { b[103] = 113 }, "header length"},
		"a long header":           {func(b []byte) { b[100] = 1 }, "header length"},
		"odd reference counts":    {func(b []byte) { b[99] = 7 }, "reference counts"},
		"an unknown compression":  {func(b []byte) { b[79], b[104] = 8, 2 }, "compression"},
		"an endless extension":    {func(b []byte) { extension(b[112:], 1, 1<<32-1) }, "extensions"},
		"extensions without end": {func(b []byte) {
			for k := 112; k < len(b); k += 8 {
				extension(b[k:], 1, 0)
			}
		}, "extensions"},
	} {
		head := header(3)
		test.change(head)
		image, err := Detect(head, 1<<20, Limits{})
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %+v, %v, want %q", name, image, err, test.want)
		}
	}
}

func TestVersion2HasNoFeatures(t *testing.T) {
	t.Parallel()
	head := header(2)
	copy(head[72:], strings.Repeat("\x00", 8)+"\xff\xff\xff\xff")
	if image, err := Detect(head, 1<<20, Limits{}); err != nil || image.Format != QCOW2 {
		t.Errorf("%+v, %v", image, err)
	}
}

func TestHeadersThatAreCutOffAreRefused(t *testing.T) {
	t.Parallel()
	for _, length := range []int{4, 71, 72, 103, 104, 500} {
		head := header(3)[:length]
		if image, err := Detect(head, int64(length), Limits{}); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%d bytes: %+v, %v", length, image, err)
		}
	}
}
