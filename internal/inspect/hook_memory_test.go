package inspect

import (
	"math"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestMemoryIsWhatIsInstalled(t *testing.T) {
	const missing = "memory: the inventory does not say how much memory is installed (memory.physical_mb); " +
		"check what the ramdisk reads from the firmware with dmidecode or lshw, or take the hook out of inspector.hooks"
	for name, tc := range map[string]struct {
		memory string
		before any
		want   int64
		err    string
	}{
		"installed, not usable": {memory: `{"total":4096,"physical_mb":65536}`, want: 65536},
		"other than set":        {memory: `{"physical_mb":65536}`, before: 32768, want: 65536},
		"set as text":           {memory: `{"physical_mb":65536}`, before: "65536", want: 65536},
		"as before":             {memory: `{"physical_mb":65536}`, before: 65536},
		"text for a number":     {memory: `{"physical_mb":"65536"}`, want: 65536},
		"fraction":              {memory: `{"physical_mb":65535.9}`, want: 65535},
		"largest number":        {memory: `{"physical_mb":9223372036854775807}`, want: math.MaxInt64},
		"no memory":             {memory: `null`, err: missing},
		"empty memory":          {memory: `{}`, err: missing},
		"null":                  {memory: `{"total":null,"physical_mb":null}`, err: missing},
		"empty text":            {memory: `{"physical_mb":""}`, err: missing},
		"usable only":           {memory: `{"total":68719476736}`, err: missing},
		"zero":                  {memory: `{"total":68719476736,"physical_mb":0}`, err: missing},
		"negative":              {memory: `{"physical_mb":-1}`, err: "memory: the inventory has -1 MiB of installed memory (memory.physical_mb); check the ramdisk's hardware manager"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Document: machine(t, nic("eth0", "01"), `,"memory":`+tc.memory)}
			if tc.before != nil {
				in.Properties = node.ObjectOf(map[string]any{"memory_mb": tc.before})
			}
			result, err := pipeline(t, func(c *Config) { c.Hooks = []string{"memory"} }).Run(in)
			if errorText(err) != tc.err {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if err != nil {
				return
			}
			if got, _ := result.Properties["memory_mb"].(int64); got != tc.want {
				t.Errorf("memory_mb changes to %d, want %d", got, tc.want)
			}
		})
	}
}
