package disk_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/iso9660/iso9660test"
)

// write writes content to a disk in parts.
func write(t *testing.T, s *disk.Set, device string, content []byte) disk.Image {
	t.Helper()
	w, err := s.Write(device, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(content, 4096) {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	i, _ := w.Image()
	if err := w.Commit(i); err != nil {
		t.Fatal(err)
	}
	return i
}

func partitioned(size int) []byte {
	content := make([]byte, size)
	content[510], content[511] = 0x55, 0xaa
	return content
}

func TestFormatIsToldByTheContent(t *testing.T) {
	gpt := make([]byte, 2048)
	copy(gpt[512:], "EFI PART")
	qcow2 := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 1016)...)
	qcow2[28] = 1 // 16 MiB
	for name, test := range map[string]struct {
		content []byte
		want    disk.Image
	}{
		"MBR":   {partitioned(2048), disk.Image{Format: disk.Raw, Bytes: 2048, Size: 2048, Bootable: true}},
		"GPT":   {gpt, disk.Image{Format: disk.Raw, Bytes: 2048, Size: 2048, Bootable: true}},
		"qcow2": {qcow2, disk.Image{Format: disk.QCOW2, Bytes: 1024, Size: 1 << 24, Bootable: true}},
		"page":  {bytes.Repeat([]byte("<html>"), 200), disk.Image{Format: disk.Raw, Bytes: 1200, Size: 1200}},
		"short": {[]byte("x"), disk.Image{Format: disk.Raw, Bytes: 1, Size: 1}},
	} {
		if diff := cmp.Diff(test.want, write(t, disk.NewSet("", ""), "/dev/sda", test.content)); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
}

func TestFilesOfDisksAreSparse(t *testing.T) {
	folder := t.TempDir()
	s := disk.NewSet(folder, "m")
	content := partitioned(64 << 20)
	write(t, s, "/dev/nvme0n1", content)
	file := filepath.Join(folder, "m-nvme0n1")
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes, %v, want those of the image", len(got), err)
	}
	if used := blocks(t, file); used > 1<<20 {
		t.Errorf("the file takes %d bytes", used)
	}
}

func TestImageWithMoreBytesThanTheDiskIsRefused(t *testing.T) {
	s := disk.NewSet("", "")
	w, err := s.Write("/dev/sda", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1000)); err != nil {
		t.Error(err)
	}
	if _, err := w.Write([]byte{1}); !errors.Is(err, disk.ErrFull) {
		t.Errorf("error %v, want %v", err, disk.ErrFull)
	}
	if err := w.Abort(); err != nil || len(s.Contents()) != 0 {
		t.Errorf("%v, %v, want an empty disk", err, s.Contents())
	}
}

func TestMachineBootsFromTheFirstDiskThatBoots(t *testing.T) {
	s := disk.NewSet("", "")
	for device, content := range map[string][]byte{"/dev/sdc": partitioned(1024), "/dev/sdb": partitioned(2048), "/dev/sda": []byte("data")} {
		write(t, s, device, content)
	}
	if device, content, ok := s.Bootable(); !ok || device != "/dev/sdb" || content.Image.Bytes != 2048 {
		t.Errorf("%s, %+v, %v, want /dev/sdb", device, content, ok)
	}
	if err := s.Wipe("/dev/sdb", "/dev/sdc", "/dev/sdd"); err != nil {
		t.Fatal(err)
	}
	if device, _, ok := s.Bootable(); ok {
		t.Errorf("a machine without a system boots from %s", device)
	}
}

func TestBootEntryLastsUntilItsDiskIsWiped(t *testing.T) {
	for name, end := range map[string]func(*disk.Set) error{
		"wiped":     func(s *disk.Set) error { return s.Wipe("/dev/sda") },
		"rewritten": func(s *disk.Set) error { write(t, s, "/dev/sda", partitioned(1024)); return nil },
	} {
		s := disk.NewSet("", "")
		if s.AddBootEntry("/dev/sda"); s.BootEntry() {
			t.Errorf("%s: an empty disk has a boot entry", name)
		}
		write(t, s, "/dev/sda", partitioned(1024))
		if s.AddBootEntry("/dev/sda"); !s.BootEntry() {
			t.Errorf("%s: there is no boot entry", name)
		}
		if err := end(s); err != nil || s.BootEntry() {
			t.Errorf("%s: %v, boot entry %v, want it gone", name, err, s.BootEntry())
		}
	}
}

func TestConfigDriveOfAnEmptyDiskIsRefused(t *testing.T) {
	s := disk.NewSet("", "")
	if _, err := s.PutConfigDrive("/dev/sda", nil); err == nil {
		t.Error("no error")
	}
	write(t, s, "/dev/sda", partitioned(1024))
	drive := iso9660test.Build(iso9660test.Options{Label: "config-2"}, map[string]string{"openstack/latest/user_data": "x"})
	if got, err := s.PutConfigDrive("/dev/sda", drive); err != nil || got.Problem == "" || got.Label != "config-2" {
		t.Errorf("%+v, %v, want a drive without metadata", got, err)
	}
	write(t, s, "/dev/sda", partitioned(1024))
	if s.Contents()["/dev/sda"].ConfigDrive != nil {
		t.Error("the config drive of another image is left")
	}
}

func TestFilesOfADiskLastUntilItIsWiped(t *testing.T) {
	s := disk.NewSet("", "")
	s.WriteFile("/dev/sdb", "/marker", []byte("mine"))
	write(t, s, "/dev/sda", partitioned(1024))
	drive := iso9660test.Build(iso9660test.Options{Label: "config-2"}, map[string]string{disk.UserData: "data", disk.MetaData: "{}"})
	if _, err := s.PutConfigDrive("/dev/sda", drive); err != nil {
		t.Fatal(err)
	}
	for device, file := range map[string][2]string{"/dev/sdb": {"/marker", "mine"}, "/dev/sda": {disk.UserData, "data"}} {
		if got, ok := s.ReadFile(device, file[0]); !ok || string(got) != file[1] {
			t.Errorf("%s on %s: %q, %v, want %q", file[0], device, got, ok, file[1])
		}
	}
	write(t, s, "/dev/sda", partitioned(1024))
	if err := s.Wipe("/dev/sdb"); err != nil {
		t.Fatal(err)
	}
	for device, path := range map[string]string{"/dev/sdb": "/marker", "/dev/sda": disk.UserData} {
		if _, ok := s.ReadFile(device, path); ok {
			t.Errorf("%s is still on %s", path, device)
		}
	}
	if _, _, ok := s.Bootable(); len(s.Contents()) != 1 || !ok {
		t.Errorf("contents %v, want the image", s.Contents())
	}
}
