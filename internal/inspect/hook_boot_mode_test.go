package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestBootModeBecomesACapability(t *testing.T) {
	const missing = "The inventory does not say in which mode the ramdisk was booted (boot.current_boot_mode); the capability boot_mode stays as it is"
	unusable := func(quoted string) string {
		return "The boot mode " + quoted + " in the inventory is neither bios nor uefi (boot.current_boot_mode); the capability boot_mode stays as it is"
	}
	for name, tc := range map[string]struct {
		boot, before, want, skipped string
	}{
		"uefi":                 {boot: `{"current_boot_mode":"uefi"}`, want: "boot_mode:uefi"},
		"bios":                 {boot: `{"current_boot_mode":"bios"}`, want: "boot_mode:bios"},
		"upper case":           {boot: `{"current_boot_mode":" UEFI\n"}`, want: "boot_mode:uefi"},
		"other capabilities":   {boot: `{"current_boot_mode":"uefi"}`, before: "cpu_vt:true,boot_mode:bios,profile:a", want: "cpu_vt:true,boot_mode:uefi,profile:a"},
		"as before":            {boot: `{"current_boot_mode":"uefi"}`, before: "boot_mode:uefi"},
		"no boot":              {boot: `null`, skipped: missing},
		"empty boot":           {boot: `{}`, before: "boot_mode:bios", skipped: missing},
		"null":                 {boot: `{"current_boot_mode":null}`, skipped: missing},
		"blank":                {boot: `{"current_boot_mode":"  "}`, skipped: missing},
		"unknown":              {boot: `{"current_boot_mode":"coreboot"}`, before: "boot_mode:bios", skipped: unusable(`"coreboot"`)},
		"another capability":   {boot: `{"current_boot_mode":"uefi,secure_boot:true"}`, skipped: unusable(`"uefi,secure_boot:true"`)},
		"long and unprintable": {boot: `{"current_boot_mode":"` + strings.Repeat(`\u001b`, 500) + `"}`, skipped: unusable(`"` + strings.Repeat(`\x1b`, 64) + `…"`)},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Document: machine(t, nic("eth0", "01"), `,"boot":`+tc.boot)}
			if tc.before != "" {
				in.Properties = node.ObjectOf(map[string]any{"capabilities": tc.before})
			}
			result := run(t, pipeline(t, func(c *Config) { c.Hooks = []string{"boot-mode"} }), in)
			if got, _ := result.Properties["capabilities"].(string); got != tc.want {
				t.Errorf("capabilities change to %q, want %q", got, tc.want)
			}
			if diff := cmp.Diff(tc.skipped, strings.Join(result.Skipped, "; ")); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}
