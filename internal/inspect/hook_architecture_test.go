package inspect

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestArchitecture(t *testing.T) {
	const missing = "architecture: the inventory names no CPU architecture (cpu.architecture); check the ramdisk's hardware manager"
	for name, tc := range map[string]struct {
		cpu, before, want, err string
	}{
		"new":            {cpu: `{"architecture":"aarch64"}`, want: "aarch64"},
		"other than set": {cpu: `{"architecture":"aarch64"}`, before: "x86_64", want: "aarch64"},
		"as before":      {cpu: `{"architecture":"x86_64"}`, before: "x86_64"},
		"with spaces":    {cpu: `{"architecture":" x86_64\n"}`, want: "x86_64"},
		"no cpu":         {cpu: `null`, err: missing},
		"empty":          {cpu: `{"architecture":""}`, err: missing},
		"null":           {cpu: `{"architecture":null,"count":-4}`, err: missing},
		"too long":       {cpu: `{"architecture":"` + strings.Repeat("x", 33) + `"}`, err: "architecture: the CPU architecture in the inventory is too long to be one (cpu.architecture)"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Document: document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`],"cpu":`+tc.cpu+`}}`)}
			if tc.before != "" {
				in.Properties = node.ObjectOf(map[string]any{"cpu_arch": tc.before})
			}
			result, err := pipeline(t, func(c *Config) { c.Hooks = []string{"architecture"} }).Run(in)
			if errorText(err) != tc.err {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if err != nil {
				return
			}
			if got, _ := result.Properties["cpu_arch"].(string); got != tc.want {
				t.Errorf("cpu_arch changes to %q, want %q", got, tc.want)
			}
		})
	}
}
