package inspect

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// withCPU returns a document with the object of the processors.
func withCPU(t testing.TB, cpu string) *inventory.Document {
	t.Helper()
	return document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`],"cpu":`+cpu+`}}`)
}

func TestCPUFlagsBecomeCapabilities(t *testing.T) {
	const noFlags = "The inventory lists no CPU flags, so capabilities stay as they are"
	for name, tc := range map[string]struct {
		cpu, before, want string
		mapping           []string // nil means the default
		reason            string
	}{
		"Intel":           {cpu: `{"flags":["fpu","vmx","smx","aes","pse","pdpe1gb"]}`, want: "cpu_vt:true,cpu_aes:true,cpu_hugepages:true,cpu_hugepages_1g:true,cpu_txt:true"},
		"AMD":             {cpu: `{"flags":["svm","aes"]}`, want: "cpu_vt:true,cpu_aes:true"},
		"others stay":     {cpu: `{"flags":["aes"]}`, before: "boot_mode:uefi,cpu_txt:true,cpu_aes:false", want: "boot_mode:uefi,cpu_txt:true,cpu_aes:true"},
		"Arm":             {cpu: `{"architecture":"aarch64","flags":["asimd","sve"]}`, mapping: []string{"sve:cpu_sve", "sme:cpu_sme"}, want: "cpu_sve:true"},
		"one text":        {cpu: `{"flags":["avx2","sve"]}`, mapping: []string{" avx2 : cpu_avx2 ,sve:cpu_sve,"}, want: "cpu_avx2:true,cpu_sve:true"},
		"no mapping":      {cpu: `{"flags":["vmx"]}`, mapping: []string{}, before: "a:1", want: "a:1"},
		"none that count": {cpu: `{"flags":["fpu",null,"VMX"," vmx"]}`, before: "cpu_vt:true", want: "cpu_vt:true"},
		"empty":           {cpu: `{"flags":[]}`, before: "cpu_vt:true", want: "cpu_vt:true", reason: noFlags},
		"null":            {cpu: `{"flags":null,"count":-1}`, reason: noFlags},
		"no processors":   {cpu: `null`, reason: noFlags},
		"thousands":       {cpu: `{"flags":[` + strings.Repeat(`"fpu",`, 4000) + `"vmx"]}`, want: "cpu_vt:true"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, func(c *Config) {
				c.Hooks = []string{"cpu-capabilities"}
				if tc.mapping != nil {
					c.CPUCapabilities = tc.mapping
				}
			})
			result := run(t, p, Input{Document: withCPU(t, tc.cpu), Properties: node.ObjectOf(map[string]any{"capabilities": tc.before})})
			got, changed := result.Properties["capabilities"]
			if !changed {
				got = tc.before
			}
			if got != tc.want {
				t.Errorf("capabilities = %v, want %s", got, tc.want)
			}
			if skipped := strings.Join(result.Skipped, "; "); skipped != tc.reason {
				t.Errorf("skipped %q, want %q", skipped, tc.reason)
			}
		})
	}
}

func TestBadCPUCapabilitiesAreRefusedAtStart(t *testing.T) {
	for _, entry := range []string{"vmx", "vmx:", ":cpu_vt", "vmx:cpu vt", "vmx:cpu:vt"} {
		cfg := DefaultConfig()
		cfg.Hooks, cfg.CPUCapabilities = []string{"cpu-capabilities"}, []string{"aes:cpu_aes", entry}
		_, err := NewPipeline(cfg)
		want := `inspector.cpu_capabilities: want FLAG:CAPABILITY such as vmx:cpu_vt, got "` + entry + `"`
		if errorText(err) != want {
			t.Errorf("entry %q: error %v, want %s", entry, err, want)
		}
	}
	cfg := DefaultConfig()
	cfg.CPUCapabilities = []string{"nonsense"}
	if _, err := NewPipeline(cfg); err != nil {
		t.Errorf("option of a hook that is not enabled is an error: %v", err)
	}
}
