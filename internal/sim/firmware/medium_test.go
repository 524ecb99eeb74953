package firmware_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/firmware"
	"github.com/ingot-metal/ingot/internal/sim/iso9660/iso9660test"
)

// menu returns a boot menu whose first kernel has parameters.
func menu(parameters string) string {
	return "set timeout=0\nmenuentry \"ramdisk\" {\n  linux /vmlinuz " + parameters + "\n  initrd /initrd\n}\nmenuentry other {\n linux /x b=2\n}\n"
}

func bootable(files map[string]string) string {
	return string(iso9660test.Build(iso9660test.Options{Label: "boot", Bootable: true}, files))
}

func fromMedium(t *testing.T, uefi bool, files map[string]string, others ...string) (firmware.Result, []string) {
	t.Helper()
	s := newServer(t, files)
	for i := range others {
		others[i] = s.URL + others[i]
	}
	loader := firmware.NewLoader(http.DefaultClient, func(context.Context, time.Duration) error { return nil })
	trace := new(firmware.Trace)
	result := loader.Medium(t.Context(), s.URL+"/boot.iso", others, uefi, trace)
	result.Source = strings.TrimPrefix(result.Source, s.URL)
	return result, trace.Lines()
}

func TestMediumBootsWithTheParametersOfItsMenuAndOfTheSecondMedium(t *testing.T) {
	files := map[string]string{"vmlinuz": "k", "initrd": "r", "boot/grub/grub.cfg": menu(`a=1 "c=3" quiet boot_method=vmedia`)}
	parameters := func(label string) string {
		return string(iso9660test.Build(iso9660test.Options{Label: label}, map[string]string{"parameters.txt": "ipa-agent-token=t\nc=4\n"}))
	}
	for name, test := range map[string]struct {
		second string
		want   map[string]string
	}{
		"parameters":  {parameters("IR-VFD-DEV"), map[string]string{"a": "1", "c": "4", "boot_method": "vmedia", "ipa-agent-token": "t"}},
		"other label": {parameters("data"), map[string]string{"a": "1", "c": "3", "boot_method": "vmedia"}},
		"no medium":   {"", map[string]string{"a": "1", "c": "3", "boot_method": "vmedia"}},
	} {
		result, trace := fromMedium(t, false, map[string]string{"/boot.iso": bootable(files), "/second": test.second}, "/none", "/second")
		want := firmware.Result{Action: firmware.StartKernel, Source: "/boot.iso", Parameters: test.want}
		if diff := cmp.Diff(want, result); diff != "" {
			t.Errorf("%s: boot differs (-want +got):\n%s\n%s", name, diff, strings.Join(trace, "\n"))
		}
	}
	files["boot/grub/grub.cfg"] = menu("a=1")
	result, _ := fromMedium(t, false, map[string]string{"/boot.iso": bootable(files), "/second": parameters("ir-vfd-dev")}, "/second")
	if diff := cmp.Diff(map[string]string{"a": "1"}, result.Parameters); diff != "" {
		t.Errorf("parameters without boot_method differ (-want +got):\n%s", diff)
	}
}

func TestMediaThatDoNotBoot(t *testing.T) {
	good := map[string]string{"vmlinuz": "k", "initrd": "r", "boot/grub/grub.cfg": menu("a=1")}
	without := func(name string) map[string]string {
		files := map[string]string{}
		for n, content := range good {
			if n != name {
				files[n] = content
			}
		}
		return files
	}
	for name, test := range map[string]struct {
		medium, reason string
		uefi           bool
	}{
		"not there":      {medium: "", reason: "is empty"},
		"page":           {medium: strings.Repeat("<html>", 10_000), reason: "no ISO 9660 image"},
		"no boot record": {medium: string(iso9660test.Build(iso9660test.Options{}, good)), reason: "no boot record"},
		"UEFI only":      {medium: string(iso9660test.Build(iso9660test.Options{Bootable: true, UEFIOnly: true}, good)), reason: "in BIOS mode"},
		"BIOS only":      {medium: string(iso9660test.Build(iso9660test.Options{Bootable: true, BIOSOnly: true}, good)), reason: "in UEFI mode", uefi: true},
		"no menu":        {medium: bootable(without("boot/grub/grub.cfg")), reason: "open /boot/grub/grub.cfg"},
		"no kernel":      {medium: bootable(without("vmlinuz")), reason: "open /vmlinuz"},
		"no ramdisk":     {medium: bootable(without("initrd")), reason: "open /initrd"},
		"no entry":       {medium: bootable(map[string]string{"boot/grub/grub.cfg": "set timeout=0\n"}), reason: "no entry with a kernel and a ramdisk"},
	} {
		result, _ := fromMedium(t, test.uefi, map[string]string{"/boot.iso": test.medium})
		if result.Action != firmware.NextDevice || !strings.Contains(result.Reason, test.reason) {
			t.Errorf("%s: boot is %+v, want none because of %q", name, result, test.reason)
		}
	}
}
