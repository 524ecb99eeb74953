package imageformat

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// at puts bytes at places of a head of zeros.
func at(parts ...any) []byte {
	head := make([]byte, HeadSize)
	for k := 0; k < len(parts); k += 2 {
		copy(head[parts[k].(int):], parts[k+1].(string))
	}
	return head
}

func TestImagesThatMayBeUsedAreTold(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	for name, test := range map[string]struct {
		head []byte
		want Image
	}{
		"zeros":                 {at(), Image{Raw, size}},
		"a disk with an MBR":    {at(0, "\xeb\x63\x90", 510, "\x55\xaa"), Image{Raw, size}},
		"a disk with a GPT":     {at(510, "\x55\xaa", 512, "EFI PART"), Image{GPT, size}},
		"a GPT, 4 KiB blocks":   {at(510, "\x55\xaa", 4096, "EFI PART"), Image{GPT, size}},
		"a file system":         {at(1080, "\x53\xef"), Image{Raw, size}},
		"a CD":                  {at(0x8000, "\x01CD001\x01"), Image{ISO, size}},
		"a CD that is a disk":   {at(512, "EFI PART", 0x8000, "\x01CD001\x01"), Image{ISO, size}},
		"qcow2, version 2":      {header(2), Image{QCOW2, 10 << 30}},
		"qcow2, version 3":      {header(3), Image{QCOW2, 10 << 30}},
		"signatures elsewhere":  {at(100, "QFI\xfb", 1, "KDMV", 0x200, "<html"), Image{Raw, size}},
		"text that is no page":  {at(0, "  hello <html>"), Image{Raw, size}},
		"a descriptor, further": {at(600, "# Disk DescriptorFile"), Image{Raw, size}},
	} {
		got, err := Detect(test.head, size, Limits{})
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestOtherFormatsAreNamedAndRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		head   []byte
		format string
		reason string
	}{
		"VMDK":                 {at(0, "KDMV\x01\x00\x00\x00"), "VMDK", "qemu-img convert"},
		"VMDK of ESX":          {at(0, "COWD"), "VMDK", "qemu-img convert"},
		"VMDK descriptor":      {at(0, "# Disk DescriptorFile\nversion=1\n"), "VMDK", "qemu-img convert"},
		"VMDK descriptor, odd": {at(0, "\r\n\t# DISK DescriptorFile\n"), "VMDK", "qemu-img convert"},
		"VDI":                  {at(0, "<<< Oracle VM VirtualBox Disk Image >>>\n", 0x40, "\x7f\x10\xda\xbe"), "VDI", "qemu-img convert"},
		"VHDX":                 {at(0, "vhdxfile"), "VHDX", "qemu-img convert"},
		"VHD":                  {at(0, "conectix"), "VHD", "qemu-img convert"},
		"QED":                  {at(0, "QED\x00"), "QED", "qemu-img convert"},
		"LUKS":                 {at(0, "LUKS\xba\xbe\x00\x01"), "LUKS", "encrypted"},
		"gzip":                 {at(0, "\x1f\x8b\x08\x00"), "gzip", "decompress"},
		"xz":                   {at(0, "\xfd7zXZ\x00"), "xz", "decompress"},
		"zstd":                 {at(0, "\x28\xb5\x2f\xfd"), "zstd", "decompress"},
		"bzip2":                {at(0, "BZh91AY&SY"), "bzip2", "decompress"},
		"zip":                  {at(0, "PK\x03\x04"), "zip", "decompress"},
		"an error page":        {[]byte("<!DOCTYPE html>\n<html><title>404"), "HTML", "check the address"},
		"an old page":          {[]byte("\xef\xbb\xbf \r\n<HTML>"), "HTML", "check the address"},
		"an error of S3":       {[]byte(`<?xml version="1.0"?><Error>`), "XML", "check the address"},
		"an error of an API":   {[]byte(`{"error":"not found"}`), "JSON", "check the address"},
		"nothing":              {nil, "empty", "no bytes"},
		"qcow, version 1":      {at(0, "QFI\xfb\x00\x00\x00\x01"), "qcow2", "version 1"},
		"two formats":          {at(0, string(header(3)), 0x8000, "\x01CD001"), "qcow2 and iso", "several"},
		"hidden descriptor":    {at(0, "KDMV", 0x40, "\x7f\x10\xda\xbe"), "VMDK and VDI", "several"},
	} {
		image, err := Detect(test.head, int64(len(test.head)), Limits{})
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Format != test.format || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: %+v, %v", name, image, err)
		}
	}
}

func TestSizesOfFilesMayBeUnknown(t *testing.T) {
	t.Parallel()
	for name, head := range map[string][]byte{"raw": at(), "iso": at(0x8000, "\x01CD001")} {
		if image, err := Detect(head, -1, Limits{VirtualSize: 1}); err != nil || string(image.Format) != name || image.VirtualSize != 0 {
			t.Errorf("%s: %+v, %v", name, image, err)
		}
	}
	if image, err := Detect(header(3), -1, Limits{}); err != nil || image.VirtualSize != 10<<30 {
		t.Errorf("qcow2: %+v, %v", image, err)
	}
}

func TestDisksAboveTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		head []byte
		size int64
	}{"raw": {at(), 10 << 30}, "qcow2": {header(3), 1 << 20}} {
		if _, err := Detect(test.head, test.size, Limits{VirtualSize: 10 << 30}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Detect(test.head, test.size, Limits{VirtualSize: 10<<30 - 1}); err == nil || !strings.Contains(err.Error(), "10737418240 bytes, more than the 10737418239") {
			t.Errorf("%s above the limit: %v", name, err)
		}
	}
}

func TestHeadsThatAreCutOffAreNotTakenForRaw(t *testing.T) {
	t.Parallel()
	if image, err := Detect(make([]byte, HeadSize-1), HeadSize, Limits{}); err == nil {
		t.Errorf("accepted as %+v", image)
	}
	if image, err := Detect(make([]byte, 100), 100, Limits{}); err != nil {
		t.Errorf("a small file: %+v, %v", image, err)
	}
}

func FuzzDetect(f *testing.F) {
	f.Add(header(2), int64(1<<20))
	f.Add(header(3), int64(-1))
	f.Add(at(0x8000, "\x01CD001\x01"), int64(HeadSize))
	f.Add(at(512, "EFI PART"), int64(1<<30))
	f.Add([]byte("<html>"), int64(6))
	f.Fuzz(func(t *testing.T, head []byte, size int64) {
		image, err := Detect(head, size, Limits{VirtualSize: 1 << 40})
		if err != nil {
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Format == "" || refused.Reason == "" {
				t.Errorf("error without format or reason: %#v", err)
			}
			return
		}
		if image.VirtualSize < 0 || image.VirtualSize > 1<<40 {
			t.Errorf("accepted %+v", image)
		}
		// No file that a parser of qcow2 would open may pass as something else.
		if len(head) >= 4 && string(head[:4]) == "QFI\xfb" && size != 0 && image.Format != QCOW2 && (size < 0 || size > 3) {
			t.Errorf("a qcow2 image passed as %s", image.Format)
		}
		if image.Format == QCOW2 && binary.BigEndian.Uint64(head[8:]) != 0 {
			t.Error("accepted a backing file")
		}
	})
}
