package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// long is a text that an error does not repeat whole.
var long = strings.Repeat("x", 100)

func TestWrongFlagsAreOneClearSentence(t *testing.T) {
	for arg, want := range map[string]string{
		"--limit=x":               `--limit is "x": it must be a whole number. See --help.`,
		"--long=perhaps":          `--long is "perhaps": it must be true or false. See --help.`,
		"--maintenance=perhaps":   `--maintenance is "perhaps": it must be true or false. See --help.`,
		"--boot-index=0x":         `--boot-index is "0x": it must be a whole number. See --help.`,
		"--driver-info=x":         `--driver-info is "x": it must be KEY=VALUE. See --help.`,
		"--steps=/nowhere":        `--steps is "/nowhere": no such file or directory. See --help.`,
		"--nope":                  `Unknown flag: --nope. See --help.`,
		"--limit":                 `Flag needs an argument: --limit. See --help.`,
		"--steps={\x1b[2J" + long: `--steps is "{\x1b[2J` + long[:55] + `…": it is neither JSON nor YAML: yaml: control characters are not allowed. See --help.`,
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.Int("limit", 0, "")
		flags.Bool("long", false, "")
		var values Values
		values.AddFlags(flags, []Field{
			{Flag: "maintenance", Name: "maintenance", Kind: Bool},
			{Flag: "boot-index", Name: "boot_index", Kind: Number},
			{Flag: "driver-info", Name: "driver_info", Kind: Map},
			stepsField,
		})
		err := FlagError(flags.Parse([]string{arg}))
		if got := Sentence(err); got != want || ExitCode(err) != ExitUsage {
			t.Errorf("%q: got  %s\nwant %s", arg, got, want)
		}
	}
}
