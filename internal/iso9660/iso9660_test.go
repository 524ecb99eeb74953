package iso9660

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/iso9660/iso9660test"
)

func TestImagesHaveTheirFilesUnderTheirNames(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"vmlinuz":                            strings.Repeat("kernel", 1000),
		"empty":                              "",
		"one-sector":                         strings.Repeat("x", SectorSize),
		"Mixed-Case.tar.gz":                  "dots",
		"boot/grub/grub.cfg":                 "menu",
		"openstack/latest/meta_data.json":    "{}",
		"openstack/latest/vendor_data2.json": "{}",
		".disk/info":                         "hidden",
		"1/2/3/4/5/6/7/deep":                 "deep",
		"a-name-of-thirty-characters.xy":     "long",
	}
	image := newImage(t, Spec{Label: "config-2", Files: filesOf(want)})
	label, got := iso9660test.Read(t, image)
	if diff := cmp.Diff(want, got); diff != "" || label != "config-2" {
		t.Errorf("label %q, files (-want +got):\n%s", label, diff)
	}
	if image.Size()%SectorSize != 0 {
		t.Errorf("size %d is not a number of sectors", image.Size())
	}
}

func TestImagesWithoutFilesAreValid(t *testing.T) {
	t.Parallel()
	image := newImage(t, Spec{Label: "EMPTY"})
	if _, files := iso9660test.Read(t, image); len(files) != 0 {
		t.Errorf("files %v", files)
	}
}

func TestAnyPartOfAnImageCanBeRead(t *testing.T) {
	t.Parallel()
	image := newImage(t, Spec{Label: "X", Files: filesOf(map[string]string{
		"a": strings.Repeat("a", 5000), "b": "b", "c": "", "d": strings.Repeat("d", 2048),
	})})
	whole, err := io.ReadAll(image.Reader())
	if err != nil || int64(len(whole)) != image.Size() {
		t.Fatalf("read %d of %d bytes: %v", len(whole), image.Size(), err)
	}
	if err := iotest.TestReader(image.Reader(), whole); err != nil {
		t.Error(err)
	}
	for off := 0; off < len(whole); off += 777 {
		part := make([]byte, 3001)
		n, err := image.ReadAt(part, int64(off))
		if short := off+len(part) > len(whole); short != errors.Is(err, io.EOF) || !short && err != nil {
			t.Fatalf("read at %d: %v", off, err)
		}
		if !bytes.Equal(part[:n], whole[off:off+n]) {
			t.Fatalf("read at %d: other bytes", off)
		}
	}
	if _, err := image.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("read before the start")
	}
}

func TestTheSameFilesMakeTheSameBytesInAnyOrder(t *testing.T) {
	t.Parallel()
	files := filesOf(map[string]string{"a": "1", "b/c": "2", "b/d": "3", "efi.img": "4"})
	sum := func() string {
		h := sha256.New()
		image := newImage(t, Spec{Label: "L", Files: files, EFIBoot: "efi.img"})
		if _, err := io.Copy(h, image.Reader()); err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	first := sum()
	files[0], files[3] = files[3], files[0]
	if second := sum(); second != first {
		t.Error("another order makes other bytes")
	}
}

func TestContentsAreReadOnlyWhenTheImageIs(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk is gone")
	image := newImage(t, Spec{Label: "X", Files: []File{
		{Path: "big", Size: 4<<30 - 1, Content: zeros{}},
		{Path: "broken", Size: 10, Content: failing{broken}},
		{Path: "short", Size: 10, Content: strings.NewReader("123")},
	}})
	whole := image.Reader()
	if _, err := whole.Seek(-3*SectorSize, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(whole, make([]byte, SectorSize)); err != nil {
		t.Errorf("read the end of a file of 4 GiB: %v", err)
	}
	if _, err := io.Copy(io.Discard, whole); !errors.Is(err, broken) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("read a content that fails: %v", err)
	}
	if _, err := image.ReadAt(make([]byte, 10), image.Size()-SectorSize); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read a content that is too short: %v", err)
	}
}

func TestImagesRefuseWhatReadersWouldNotFind(t *testing.T) {
	t.Parallel()
	file := func(path string) []File { return []File{{Path: path, Content: strings.NewReader("")}} }
	for name, spec := range map[string]Spec{
		"is not 1 to 16 printable":    {Label: "a label of more than 16"},
		`the name ""`:                 {Label: "X", Files: file("/absolute")},
		`the name ".."`:               {Label: "X", Files: file("../outside")},
		`the name "ümlaut"`:           {Label: "X", Files: file("ümlaut")},
		"more than 7 directories":     {Label: "X", Files: file("1/2/3/4/5/6/7/8/9")},
		`the image has "a" already`:   {Label: "X", Files: append(file("a"), file("A")...)},
		`the image has "d" already`:   {Label: "X", Files: append(file("d"), file("d/a")...)},
		`the image has "e" already`:   {Label: "X", Files: append(file("e/a"), file("e")...)},
		`the image has "a.b" already`: {Label: "X", Files: append(file("a.b"), file("a_b")...)},
		"its size is 4294967296":      {Label: "X", Files: []File{{Path: "a", Size: MaxFileSize}}},
		"its size is -1":              {Label: "X", Files: []File{{Path: "a", Size: -1}}},
		`boot file "b" is not in`:     {Label: "X", Files: file("a"), EFIBoot: "b"},
		`boot file "d" is not in`:     {Label: "X", Files: file("d/a"), EFIBoot: "d"},
	} {
		if _, err := New(spec); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

// zeros is a content of any size.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func newImage(t *testing.T, spec Spec) *Image {
	t.Helper()
	image, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func filesOf(contents map[string]string) []File {
	var files []File
	for path, content := range contents {
		files = append(files, File{Path: path, Size: int64(len(content)), Content: strings.NewReader(content)})
	}
	return files
}
