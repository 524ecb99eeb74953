package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestPropertiesReportOnlyChanges(t *testing.T) {
	before := node.ObjectOf(map[string]any{"cpu_arch": "x86_64", "memory_mb": 1024, "capabilities": "a:1, b:2"})
	p := &Properties{before: before}
	p.Set("cpu_arch", "aarch64")
	if got := p.Text("cpu_arch"); got != "aarch64" {
		t.Errorf("cpu_arch = %q before storing, want the new value", got)
	}
	p.Set("cpu_arch", "x86_64")
	p.Set("memory_mb", 1024)
	if p.changed["cpu_arch"] != nil || len(p.changed) != 0 {
		t.Errorf("changes = %v, want none when all is as before", p.changed)
	}
	p.Set("local_gb", 10)
	if diff := cmp.Diff(map[string]any{"local_gb": 10}, p.changed); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestCapabilitiesKeepTheOthers(t *testing.T) {
	for _, tc := range []struct{ before, name, value, want string }{
		{"", "boot_mode", "uefi", "boot_mode:uefi"},
		{"a:1,boot_mode:bios,b:2", "boot_mode", "uefi", "a:1,boot_mode:uefi,b:2"},
		{" a:1 ,, b:2", "c", "3", "a:1,b:2,c:3"},
		{"a:1,a:2", "a", "3", "a:3"},
		{"flag", "a", "x:y", "flag,a:x:y"},
	} {
		p := &Properties{before: node.ObjectOf(map[string]any{"capabilities": tc.before})}
		p.SetCapability(tc.name, tc.value)
		if got := p.Text("capabilities"); got != tc.want {
			t.Errorf("capabilities %q with %s=%s = %q, want %q", tc.before, tc.name, tc.value, got, tc.want)
		}
		if got := p.Capability(tc.name); got != tc.value {
			t.Errorf("capability %s = %q, want %q", tc.name, got, tc.value)
		}
	}
	if got := (&Properties{before: node.ObjectOf(map[string]any{"capabilities": 7})}).Capability("a"); got != "" {
		t.Errorf("capability of a property that is no text = %q, want none", got)
	}
}
