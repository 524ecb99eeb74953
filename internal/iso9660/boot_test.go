package iso9660

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// le32 reads a number of an image.
func le32(t *testing.T, image *Image, off int64) uint32 {
	t.Helper()
	return binary.LittleEndian.Uint32(bytesAt(t, image, off, 4))
}

func bytesAt(t *testing.T, image *Image, off int64, length int) []byte {
	t.Helper()
	b := make([]byte, length)
	if _, err := image.ReadAt(b, off); err != nil {
		t.Fatalf("read at %d: %v", off, err)
	}
	return b
}

func TestFirmwareFindsTheBootFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		size   int64
		blocks uint16
	}{
		{1, 1},
		{4 << 20, 8192},
		{32<<20 - 512, 65535},
		{32 << 20, 0}, // the rest of the image
	} {
		image := newImage(t, Spec{Label: "X", EFIBoot: "boot/efi.img", Files: []File{
			{Path: "boot/efi.img", Size: test.size, Content: zeros{}},
			{Path: "vmlinuz", Size: 5000, Content: zeros{}},
		}})
		record := bytesAt(t, image, 17*SectorSize, 39)
		if got := strings.TrimRight(string(record), "\x00"); got != "\x00CD001\x01EL TORITO SPECIFICATION" {
			t.Errorf("boot record %q", got)
		}
		catalog := bytesAt(t, image, int64(le32(t, image, 17*SectorSize+71))*SectorSize, 64)
		if catalog[0] != 1 || catalog[1] != 0xef || catalog[30] != 0x55 || catalog[31] != 0xaa {
			t.Errorf("validation entry % x", catalog[:32])
		}
		var sum uint16
		for k := 0; k < 32; k += 2 {
			sum += binary.LittleEndian.Uint16(catalog[k:])
		}
		if sum != 0 {
			t.Errorf("checksum of the validation entry is %#x too much", sum)
		}
		if catalog[32] != 0x88 || catalog[33] != 0 {
			t.Errorf("default entry % x", catalog[32:])
		}
		if got := binary.LittleEndian.Uint16(catalog[38:]); got != test.blocks {
			t.Errorf("%d blocks for %d bytes, want %d", got, test.size, test.blocks)
		}
		last := image.Size() - (test.size+SectorSize-1)/SectorSize*SectorSize
		if got := int64(binary.LittleEndian.Uint32(catalog[40:])) * SectorSize; got != last {
			t.Errorf("boot file at %d, want it to be the last one, at %d", got, last)
		}
	}
}

func TestImagesThatDoNotBootHaveNoBootRecord(t *testing.T) {
	t.Parallel()
	image := newImage(t, Spec{Label: "X"})
	if got := bytesAt(t, image, 17*SectorSize, 1)[0]; got != 2 {
		t.Errorf("second descriptor has type %d", got)
	}
}

func TestWindowsFindsFilesUnderTheirNames(t *testing.T) {
	t.Parallel()
	image := newImage(t, Spec{Label: "config-2", Files: filesOf(map[string]string{
		"openstack/latest/meta_data.json": "{}", "Mixed-Case": "abc",
	})})
	descriptor := bytesAt(t, image, 17*SectorSize, SectorSize)
	if descriptor[0] != 2 || string(descriptor[88:91]) != "%/E" {
		t.Fatalf("second descriptor has type %d and the sequence %q", descriptor[0], descriptor[88:91])
	}
	if label := strings.TrimSpace(fromUCS2(descriptor[40:72])); label != "config-2" {
		t.Errorf("label %q", label)
	}
	got := map[string]uint32{}
	walk(t, image, descriptor[156:], fromUCS2, "", got)
	want := map[string]uint32{"openstack/latest/meta_data.json;1": 2, "Mixed-Case;1": 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sizes of files (-want +got):\n%s", diff)
	}
}

func TestDirectoriesMayHaveMoreRecordsThanASectorHolds(t *testing.T) {
	t.Parallel()
	files, plain, joliet := map[string]string{}, map[string]uint32{}, map[string]uint32{}
	for k := range 200 {
		name := fmt.Sprintf("a-long-name-%03d.x", k)
		files["dir/"+name] = strings.Repeat("x", k)
		plain["DIR/"+plainName(name)+";1"] = uint32(k)
		joliet["dir/"+name+";1"] = uint32(k)
	}
	image := newImage(t, Spec{Label: "X", Files: filesOf(files)})
	for sector, test := range map[int64]struct {
		decode func([]byte) string
		want   map[string]uint32
	}{
		16: {func(b []byte) string { return string(b) }, plain},
		17: {fromUCS2, joliet},
	} {
		got := map[string]uint32{}
		walk(t, image, bytesAt(t, image, sector*SectorSize+156, 34), test.decode, "", got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("sizes of files (-want +got):\n%s", diff)
		}
	}
}

// walk collects the sizes of the files below a directory, by the record of the directory.
func walk(t *testing.T, image *Image, record []byte, decode func([]byte) string, path string, sizes map[string]uint32) {
	t.Helper()
	length := binary.LittleEndian.Uint32(record[10:])
	dir := bytesAt(t, image, int64(binary.LittleEndian.Uint32(record[2:]))*SectorSize, int(length))
	for k := 0; len(dir) > 0; k++ {
		if dir[0] == 0 { // the next sector
			dir = dir[len(dir)%SectorSize:]
			continue
		}
		record, dir = dir[:dir[0]], dir[dir[0]:]
		name := path + decode(record[33:33+record[32]])
		switch {
		case k < 2: // the directory itself and the one above
		case record[25]&2 != 0:
			walk(t, image, record, decode, name+"/", sizes)
		default:
			sizes[name] = binary.LittleEndian.Uint32(record[10:])
		}
	}
}

func fromUCS2(b []byte) string {
	var units []uint16
	for ; len(b) > 1; b = b[2:] {
		units = append(units, binary.BigEndian.Uint16(b))
	}
	return string(utf16.Decode(units))
}
