package story

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// The instance, as its config drive names it.
const (
	instanceUUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c781"
	instanceName = "server-7"
)

// servedImage is an image that a server has.
type servedImage struct {
	url      string
	checksum string // SHA-256
	instance string // JSON patch of a node that is to get it, with a config drive
}

// serveImage serves a small raw image that machines boot from.
func serveImage(t *testing.T) servedImage {
	t.Helper()
	content := make([]byte, 1<<20)
	content[510], content[511] = 0x55, 0xaa
	sum := sha256.Sum256(content)
	image := servedImage{url: redfishtest.Serve(t, string(content)), checksum: hex.EncodeToString(sum[:])}
	image.instance = fmt.Sprintf(`[{"op": "add", "path": "/instance_info", "value": {"image_source": %q, "image_disk_format": "raw",
		"image_os_hash_algo": "sha256", "image_os_hash_value": %q,
		"configdrive": {"meta_data": {"uuid": %q, "name": %q}, "user_data": "#cloud-config"}}}]`, image.url, image.checksum, instanceUUID, instanceName)
	return image
}

// done lists what was done to the machine, of one kind.
func (r *rack) done(kind string) (details []string) {
	for _, e := range r.Recorder().Effects("0", 0) {
		if e.Kind == kind {
			details = append(details, e.Detail)
		}
	}
	return details
}

// runs waits until the machine runs an image that was written once and that the machine has booted
// this often.
func (r *rack) runs(t *testing.T, image servedImage, boots int) {
	t.Helper()
	machine := r.Machine(0)
	eventually(t, func(context.Context) error {
		if s := machine.Status(); s.State != sim.OS {
			return fmt.Errorf("the machine is %s (%s) and not in its operating system; it has booted %q", s.State, s.Reason, r.done(effect.Boot))
		}
		return nil
	})
	system := machine.Status().System
	if d := system.ConfigDrive; system.Image.Checksum != image.checksum || d == nil || d.UUID != instanceUUID || d.Name != instanceName {
		t.Errorf("the machine runs %+v with config drive %+v", system.Image, d)
	}
	if written := r.done(effect.Write); len(written) != 1 || !strings.Contains(written[0], image.url+" sha256:"+image.checksum) {
		t.Errorf("images were written: %q; want %s once, with checksum %s", written, image.url, image.checksum)
	}
	booted := slices.DeleteFunc(r.done(effect.Boot), func(detail string) bool { return strings.HasPrefix(detail, "ramdisk ") })
	if want := slices.Repeat([]string{"operating system from disk " + system.Device}, boots); !slices.Equal(booted, want) {
		t.Errorf("operating systems booted: %q, want %q", booted, want)
	}
}
