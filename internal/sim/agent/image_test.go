package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/iso9660/iso9660test"
)

// diskImage is a raw image with a partition table.
func diskImage(size int) []byte {
	image := make([]byte, size)
	image[510], image[511] = 0x55, 0xaa
	return image
}

// qcow2Image is the header of an image with a virtual size.
func qcow2Image(size uint64, backing bool) []byte {
	image := make([]byte, 4096)
	copy(image, "QFI\xfb")
	binary.BigEndian.PutUint32(image[4:], 3)
	binary.BigEndian.PutUint64(image[24:], size)
	if backing {
		image[15] = 200
	}
	return image
}

// served is an image on a server.
type served struct {
	url, sum string
	content  []byte
}

func serveImage(t *testing.T, content []byte) served {
	t.Helper()
	sum := sha256.Sum256(content)
	digits := hex.EncodeToString(sum[:])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/image.raw":
			_, _ = w.Write(content)
		case "/SHA256SUMS":
			_, _ = fmt.Fprintf(w, "%s  other.raw\n%s *image.raw\n", strings.Repeat("0", 64), digits)
		case "/image.raw.sha256":
			_, _ = fmt.Fprintln(w, digits)
		case "/empty":
		case "/broken":
			w.Header().Set("Content-Length", "4096")
			_, _ = w.Write(content[:10])
		default:
			http.Error(w, "gone fishing", http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return served{server.URL, digits, content}
}

// info describes the image, with more fields.
func (s served) info(more string) string {
	return fmt.Sprintf(`{"id":"img","urls":["%s/image.raw"],"os_hash_algo":"sha256","os_hash_value":"%s"%s}`, s.url, s.sum, more)
}

// prepare writes an image and returns the command.
func prepare(t *testing.T, a *Agent, info, drive string) map[string]any {
	t.Helper()
	status, got := answered(t, a, "standby.prepare_image", `{"image_info":`+info+`,"configdrive":`+drive+`}`)
	if status != http.StatusOK {
		t.Fatalf("prepare_image is answered %d %v", status, got)
	}
	return got
}

func newDiskAgent(t *testing.T, disks *disk.Set, change func(*Config)) *Agent {
	t.Helper()
	return newAgent(t, nil, func(c *Config) {
		c.Clock, c.Disks = newFakeClock(true), disks
		if change != nil {
			change(c)
		}
	})
}

func TestImageIsWrittenWhateverNamesItsChecksum(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	long := sha512.Sum512(image.content)
	short := md5.Sum(image.content)
	for name, test := range map[string]struct{ fields, algorithm, checksum string }{
		"algorithm and value":     {`"os_hash_algo":"sha512","os_hash_value":"` + hex.EncodeToString(long[:]) + `"`, "sha512", hex.EncodeToString(long[:])},
		"plain sha256":            {`"checksum":"` + image.sum + `"`, "sha256", image.sum},
		"upper case":              {`"checksum":"` + strings.ToUpper(image.sum) + `"`, "sha256", image.sum},
		"list":                    {`"checksum":"` + image.url + `/SHA256SUMS"`, "sha256", image.sum},
		"streamed, whatever name": {`"id":"http://h/img","disk_format":"raw","stream_raw_images":true,"checksum":"` + image.sum + `"`, "sha256", image.sum},
		"file":                    {`"os_hash_algo":"sha256","os_hash_value":"` + image.url + `/image.raw.sha256"`, "sha256", image.sum},
		"md5":                     {`"checksum":"` + hex.EncodeToString(short[:]) + `"`, "md5", hex.EncodeToString(short[:])},
	} {
		t.Run(name, func(t *testing.T) {
			disks := disk.NewSet("", "")
			a := newDiskAgent(t, disks, nil)
			if err := a.acceptToken(lookupConfig{MD5Allowed: true}); err != nil {
				t.Fatal(err)
			}
			if got := prepare(t, a, `{"id":"img","urls":["`+image.url+`/none/image.raw","`+image.url+`/image.raw"],`+test.fields+`}`, "null"); got["command_status"] != statusSucceeded {
				t.Fatalf("command is %v", got)
			}
			want := map[string]disk.Content{"/dev/vda": {Image: disk.Image{
				URL: image.url + "/image.raw", Algorithm: test.algorithm, Checksum: test.checksum,
				Bytes: 10_000, Format: disk.Raw, Size: 10_000, Bootable: true,
			}}}
			if diff := cmp.Diff(want, disks.Contents()); diff != "" {
				t.Errorf("disks differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImagesThatCannotBeWrittenFailAsWithTheRealAgent(t *testing.T) {
	good := serveImage(t, diskImage(10_000))
	page := serveImage(t, []byte("<!DOCTYPE html><html>"+strings.Repeat("sign in ", 200)))
	large := serveImage(t, qcow2Image(1<<50, false))
	backed := serveImage(t, qcow2Image(1<<20, true))
	wrong := strings.Repeat("1", 64)
	for name, test := range map[string]struct {
		info, version, kind, details string
		change                       func(*Config)
	}{
		"wrong checksum": {
			info: strings.Replace(good.info(""), good.sum, wrong, 1), kind: "ImageChecksumError",
			details: "location: img; image ID: /tmp/img; image checksum: " + wrong + "; verification checksum: " + good.sum,
		},
		"not found": {
			info: strings.Replace(good.info(""), "image.raw", "none", 1), kind: "ImageDownloadError",
			details: "expected 200. Response body: gone fishing",
		},
		"server gone": {
			info: strings.Replace(good.info(""), good.url, "http://127.0.0.1:1", 1), kind: "CommandExecutionError",
			details: "HTTPConnectionPool(host='127.0.0.1', port=1): Max retries exceeded with url: /image.raw",
		},
		"name of a folder that is missing": {
			info: strings.Replace(good.info(`,"disk_format":"raw"`), `"img"`, `"http://h/img"`, 1), kind: "CommandExecutionError",
			details: "[Errno 2] No such file or directory: '/tmp/http://h/img'",
		},
		"cut off":            {info: strings.Replace(good.info(""), "image.raw", "broken", 1), kind: "ImageDownloadError", details: "Unable to write image to /tmp/img. Error: "},
		"page":               {info: page.info(""), kind: "CommandExecutionError", details: "Unable to find a valid partition table on the disk"},
		"page, newer agent":  {info: page.info(`,"disk_format":"qcow2"`), version: "11.0.0", kind: "InvalidImage", details: "Expected format was qcow2, but image was actually raw"},
		"larger than a disk": {info: large.info(""), kind: "ImageWriteError", details: "Writing image to device /dev/vda failed with exit code 1. stdout: . stderr: qemu-img: /dev/vda:"},
		"backing file":       {info: backed.info(""), kind: "ImageWriteError", details: "Could not open backing file"},
		"md5":                {info: `{"id":"img","urls":["` + good.url + `/image.raw"],"checksum":"` + strings.Repeat("0", 32) + `"}`, kind: "RESTError", details: "MD5 support is disabled"},
		"no algorithm":       {info: `{"id":"img","urls":["` + good.url + `/image.raw"],"os_hash_algo":"crc","os_hash_value":"1"}`, kind: "RESTError", details: "Unable to verify image img"},
		"empty list":         {info: `{"id":"img","urls":["` + good.url + `/image.raw"],"checksum":"` + good.url + `/empty"}`, kind: "ImageDownloadError", details: "Empty checksum file"},
		"list without it":    {info: `{"id":"img","urls":["` + good.url + `/x"],"checksum":"` + good.url + `/SHA256SUMS"}`, kind: "ImageDownloadError", details: "does not contain name x"},
		"qcow2 as if it were raw, streamed": {
			info: backed.info(`,"disk_format":"raw","stream_raw_images":true`), kind: "CommandExecutionError",
			details: "Unable to find a valid partition table on the disk",
		},
		"more bytes than the disk, streamed": {
			info: good.info(`,"disk_format":"raw","stream_raw_images":true`), change: smallDisk, kind: "ImageDownloadError",
			details: "Unable to write image to device /dev/vda. Error: [Errno 28] No space left on device",
		},
		"more bytes than the disk": {info: good.info(""), change: smallDisk, kind: "ImageWriteError", details: "Device is too small"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newDiskAgent(t, nil, func(c *Config) {
				c.Version = test.version
				if test.change != nil {
					test.change(c)
				}
			})
			got := prepare(t, a, test.info, "null")
			failure, _ := got["command_error"].(map[string]any)
			if got["command_status"] != statusFailed || failure["type"] != test.kind || !strings.Contains(fmt.Sprint(failure["details"]), test.details) {
				t.Errorf("command is %v, want %s with %q", got, test.kind, test.details)
			}
			if _, _, bootable := a.config.Disks.Bootable(); bootable {
				t.Error("the machine boots from its disk")
			}
		})
	}
}

// smallDisk gives the recorded machine a root disk of 4 KiB.
func smallDisk(c *Config) {
	whole := c.Document()
	c.Document = func() []byte {
		var document map[string]any
		if err := json.Unmarshal(whole, &document); err != nil {
			panic(err)
		}
		document["root_disk"] = map[string]any{"name": "/dev/vda", "size": 4096}
		text, err := json.Marshal(document)
		if err != nil {
			panic(err)
		}
		return text
	}
}

// TestBadImageLeavesTheDiskAloneUnlessItIsStreamed writes a good image and then one whose
// checksum is wrong.
func TestBadImageLeavesTheDiskAloneUnlessItIsStreamed(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	for more, kept := range map[string]bool{`,"disk_format":"raw"`: true, `,"disk_format":"raw","stream_raw_images":true`: false} {
		folder := t.TempDir()
		disks := disk.NewSet(folder, "m")
		a := newDiskAgent(t, disks, nil)
		prepare(t, a, image.info(""), "null")
		prepare(t, a, strings.Replace(image.info(more), image.sum, strings.Repeat("1", 64), 1), "null")
		content, err := os.ReadFile(filepath.Join(folder, "m-vda"))
		if _, _, bootable := disks.Bootable(); bootable != kept || (err == nil) != kept || kept && !bytes.Equal(content, image.content) {
			t.Errorf("%s: bootable %v, file %v, want them there: %v", more, bootable, err, kept)
		}
		if left, err := filepath.Glob(filepath.Join(folder, "*.part")); len(left) != 0 || err != nil {
			t.Errorf("%v is left, %v", left, err)
		}
	}
}

func configDrive(t *testing.T, content []byte) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

func TestConfigDriveIsWrittenBesideTheImage(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	content := iso9660test.Build(iso9660test.Options{Label: "config-2", Names: iso9660test.Joliet}, map[string]string{
		"openstack/latest/meta_data.json": `{"uuid":"1be26c0b-03f2-4d2e-ae87-c02d7f33c781","name":"web-1"}`,
	})
	text := configDrive(t, content)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text + "\n")) }))
	defer server.Close()
	sum := sha256.Sum256(content)
	want := &disk.ConfigDrive{
		SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content)), Label: "config-2",
		UUID: "1be26c0b-03f2-4d2e-ae87-c02d7f33c781", Name: "web-1",
	}
	for _, drive := range []string{text, server.URL} {
		disks := disk.NewSet(t.TempDir(), "m")
		if got := prepare(t, newDiskAgent(t, disks, nil), image.info(""), `"`+drive+`"`); got["command_status"] != statusSucceeded {
			t.Fatalf("command is %v", got)
		}
		if diff := cmp.Diff(want, disks.Contents()["/dev/vda"].ConfigDrive); diff != "" {
			t.Errorf("config drive differs (-want +got):\n%s", diff)
		}
	}
	for drive, want := range map[string]string{
		`"!"`: "is not base64 encoded", `"aGVsbG8="`: "decompressing", `"` + image.url + `/none"`: "Can't download the configdrive", `5`: "read the config drive",
	} {
		got := prepare(t, newDiskAgent(t, nil, nil), image.info(""), drive)
		if failure, _ := got["command_error"].(map[string]any); !strings.Contains(fmt.Sprint(failure["details"]), want) {
			t.Errorf("%s: command is %v, want %q", drive, got, want)
		}
	}
}

func TestErasingStepsEmptyAllDisks(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	for _, step := range []string{"erase_devices", "erase_devices_express", "erase_devices_metadata"} {
		folder := t.TempDir()
		disks := disk.NewSet(folder, "m")
		a := newDiskAgent(t, disks, nil)
		prepare(t, a, image.info(""), `"`+configDrive(t, []byte("x"))+`"`)
		if _, got := answered(t, a, "clean.execute_clean_step", stepHead+`{"step":"`+step+`"}}`); got["command_status"] != statusSucceeded {
			t.Fatalf("command is %v", got)
		}
		left, err := filepath.Glob(filepath.Join(folder, "*"))
		if len(disks.Contents()) != 0 || len(left) != 0 || err != nil {
			t.Errorf("%s leaves %v and %v, %v", step, disks.Contents(), left, err)
		}
	}
}
