package iso9660_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/iso9660"
	"github.com/ingot-metal/ingot/internal/sim/iso9660/iso9660test"
)

// files returns more files than fit into one sector of a directory.
func files() map[string]string {
	f := map[string]string{"boot/grub/grub.cfg": "linux", "vmlinuz": "kernel", "openstack/latest/meta_data.json": "{}"}
	for i := range 60 {
		f[fmt.Sprintf("content/a-rather-long-name-of-a-file-%02d", i)] = fmt.Sprint(i)
	}
	return f
}

func TestFilesAreFoundByTheirLongNames(t *testing.T) {
	for name, names := range map[string]iso9660test.Names{
		"Rock Ridge": iso9660test.RockRidge, "Joliet": iso9660test.Joliet, "plain": iso9660test.Plain,
	} {
		image, err := iso9660.Open(bytes.NewReader(iso9660test.Build(iso9660test.Options{Label: "config-2", Bootable: true, Names: names}, files())))
		if err != nil {
			t.Fatal(err)
		}
		if image.Label() != "config-2" || !image.Bootable() {
			t.Errorf("%s: label %q, bootable %v", name, image.Label(), image.Bootable())
		}
		for path, want := range files() {
			if got, err := image.ReadFile("/"+path, 100); err != nil || string(got) != want {
				t.Errorf("%s: %s is %q, %v, want %q", name, path, got, err, want)
			}
		}
		for _, path := range []string{"/boot", "/boot/none", "/vmlinuz/x", "/"} {
			if got, err := image.ReadFile(path, 100); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s is %q, %v, want no file", name, path, got, err)
			}
		}
		if _, err := image.ReadFile("vmlinuz", 3); err == nil {
			t.Errorf("%s: a file is read beyond the limit", name)
		}
	}
}

func TestBootCatalogTellsForWhichModeItIs(t *testing.T) {
	both := iso9660test.Build(iso9660test.Options{Bootable: true}, nil)
	catalog := int(binary.LittleEndian.Uint32(both[17*2048+71:])) * 2048
	changed := func(at int, value byte) []byte { // in the catalog
		image := bytes.Clone(both)
		image[catalog+at] = value
		return image
	}
	for name, tc := range map[string]struct {
		image      []byte
		bios, uefi bool
	}{
		"nothing boots":            {iso9660test.Build(iso9660test.Options{}, nil), false, false},
		"BIOS":                     {iso9660test.Build(iso9660test.Options{Bootable: true, BIOSOnly: true}, nil), true, false},
		"UEFI":                     {iso9660test.Build(iso9660test.Options{Bootable: true, UEFIOnly: true}, nil), false, true},
		"both":                     {both, true, true},
		"UEFI in a section":        {changed(1, 1), false, true},
		"UEFI without an entry":    {changed(96, 0), true, false},
		"UEFI with an empty image": {changed(96+8, 0), true, false},
		"UEFI behind the end":      {changed(96+8+2, 0xff), true, false},
		"no catalog":               {both[:catalog], false, false},
	} {
		image, err := iso9660.Open(bytes.NewReader(tc.image))
		if err != nil {
			t.Fatal(err)
		}
		if bios, uefi := image.BootsInBIOSMode(), image.BootsInUEFIMode(); bios != tc.bios || uefi != tc.uefi {
			t.Errorf("%s: boots in BIOS mode: %v, want %v; in UEFI mode: %v, want %v", name, bios, tc.bios, uefi, tc.uefi)
		}
	}
}

func TestWhatIsNoImageIsRefused(t *testing.T) {
	good := iso9660test.Build(iso9660test.Options{}, nil)
	for name, content := range map[string][]byte{
		"empty": nil, "page": bytes.Repeat([]byte("<html>"), 20_000), "cut": good[:17*2048],
		"no volume": append(append([]byte{}, good[:16*2048]...), good[17*2048:]...),
	} {
		if _, err := iso9660.Open(bytes.NewReader(content)); !errors.Is(err, iso9660.ErrFormat) {
			t.Errorf("%s: %v, want it to be refused", name, err)
		}
	}
}

func FuzzImage(f *testing.F) {
	for _, names := range []iso9660test.Names{iso9660test.RockRidge, iso9660test.Joliet, iso9660test.Plain} {
		f.Add(iso9660test.Build(iso9660test.Options{Names: names}, map[string]string{"a/b": "c"}))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		image, err := iso9660.Open(bytes.NewReader(content))
		if err != nil {
			return
		}
		if got, err := image.ReadFile("a/b", 10); err == nil && len(got) > 10 {
			t.Errorf("%d bytes were read, want 10 at most", len(got))
		}
	})
}
