package inspect

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// withFacts returns a document with the plugin data "data", and without it if facts
// is empty.
func withFacts(t testing.TB, facts string) *inventory.Document {
	t.Helper()
	if facts != "" {
		facts = `,"data":` + facts
	}
	return document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`]}`+facts+`}`)
}

func extraPipeline(t testing.TB, strict bool) *Pipeline {
	t.Helper()
	return pipeline(t, func(c *Config) { c.Hooks, c.ExtraHardwareStrict = []string{"extra-hardware"}, strict })
}

func TestExtraHardwareIsNested(t *testing.T) {
	facts := `[["disk","sda","size","480"],["cpu","physical_0","cores",8],["disk","sdb","size","960"],["disk","sda","vendor","ATA"],` +
		`["cpu","physical_0","flags","fpu vmx"],["cpu","logical","number","-16"],["disk","sda","size","481"]]`
	for _, strict := range []bool{false, true} {
		result := run(t, extraPipeline(t, strict), Input{Document: withFacts(t, facts)})
		want := `{"extra":{"cpu":{"logical":{"number":-16},"physical_0":{"cores":8,"flags":"fpu vmx"}},` +
			`"disk":{"sda":{"size":481,"vendor":"ATA"},"sdb":{"size":960}}}}`
		if string(result.PluginData) != want {
			t.Errorf("strict %t: plugin data\n got: %s\nwant: %s", strict, result.PluginData, want)
		}
		if result.Skipped != nil {
			t.Errorf("strict %t: skipped %q", strict, result.Skipped)
		}
	}
}

func TestExtraHardwareTextBecomesANumberWhenItReadsTheSame(t *testing.T) {
	for value, want := range map[string]string{
		`"42"`: `42`, `"-1"`: `-1`, `"0"`: `0`, `"9223372036854775807"`: `9223372036854775807`,
		`"007"`: `"007"`, `"+5"`: `"+5"`, `" 5"`: `" 5"`, `"-0"`: `"-0"`, `"1_000"`: `"1_000"`, `"3.5"`: `"3.5"`, `"0x10"`: `"0x10"`,
		`"9223372036854775808"`: `"9223372036854775808"`, `""`: `""`,
		`5.75`: `5.75`, `1e2`: `1e2`, `true`: `true`, `null`: `null`, `"\u0035"`: `5`, `"\u00b2"`: `"\u00b2"`,
	} {
		result := run(t, extraPipeline(t, false), Input{Document: withFacts(t, `[["g","d","p",`+value+`]]`)})
		if got := string(result.PluginData); got != `{"extra":{"g":{"d":{"p":`+want+`}}}}` {
			t.Errorf("value %s gives %s, want %s", value, got, want)
		}
	}
}

func TestMalformedExtraHardware(t *testing.T) {
	const (
		good    = `["g","d","p","1"]`
		nested  = `{"g":{"d":{"p":1}}}`
		missing = "The ramdisk sent no extra hardware facts; it does when its kernel parameter ipa-inspection-collectors includes extra-hardware"
		noRows  = "The extra hardware facts are left out: no row is a list of group, device, property and value"
		noList  = "The extra hardware facts are left out: the plugin data is no list of rows"
	)
	for name, tc := range map[string]struct {
		facts, extra, reason string // extra "" means that the facts stay as they are
		strict               string // what strict mode says; it drops all facts
	}{
		"none":              {facts: ``, reason: missing, strict: missing},
		"null":              {facts: `null`, reason: missing, strict: missing},
		"empty":             {facts: `[]`, reason: missing, strict: missing},
		"text":              {facts: `"cpu"`, reason: noList, strict: noList},
		"object":            {facts: `{"cpu":{"cores":1}}`, reason: noList, strict: noList},
		"number":            {facts: `-5`, reason: noList, strict: noList},
		"rows of nothing":   {facts: `[[]]`, reason: "Row 0 of the extra hardware facts has 0 columns, want 4; " + noRows, strict: "row 0 has 0 columns, want 4"},
		"short row":         {facts: `[["g","d","p"],` + good + `]`, extra: nested, reason: "Row 0 of the extra hardware facts has 3 columns, want 4", strict: "row 0 has 3 columns, want 4"},
		"long row":          {facts: `[["g","d","p","1","x"]]`, extra: nested, strict: "row 0 has 5 columns, want 4"},
		"row is null":       {facts: `[` + good + `,null]`, extra: nested, reason: "Row 1 of the extra hardware facts is no list", strict: "row 1 is no list"},
		"row is text":       {facts: `["gdpv",` + good + `]`, extra: nested, reason: "Row 0 of the extra hardware facts is no list", strict: "row 0 is no list"},
		"group is null":     {facts: `[[null,"d","p","1"],` + good + `]`, extra: nested, reason: "Row 0 of the extra hardware facts has a group, device or property that is no text", strict: "row 0 has a group, device or property that is no text"},
		"device is a list":  {facts: `[["g",["d"],"p","1"],` + good + `]`, extra: nested, reason: "Row 0 of the extra hardware facts has a group, device or property that is no text", strict: "row 0 has a group, device or property that is no text"},
		"property missing":  {facts: `[["g","d",5,"1"],` + good + `]`, extra: nested, reason: "Row 0 of the extra hardware facts has a group, device or property that is no text", strict: "row 0 has a group, device or property that is no text"},
		"value is nested":   {facts: `[["g","d","q",{"a":[1]}],["g","d","r",[]],` + good + `]`, extra: nested, reason: "Row 0 of the extra hardware facts has a list or an object for its value; Row 1 of the extra hardware facts has a list or an object for its value", strict: "row 0 has a list or an object for its value"},
		"names are empty":   {facts: `[["","","",""]]`, extra: `{"":{"":{"":""}}}`},
		"names are unusual": {facts: `[["a\"b","\u0000","é\ud800","1"]]`, extra: `{"a\"b":{"\u0000":{"é�":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, extraPipeline(t, false), Input{Document: withFacts(t, tc.facts)})
			want := `{"extra":` + tc.extra + `}`
			switch {
			case tc.extra == "" && tc.facts == "":
				want = `{}`
			case tc.extra == "":
				want = `{"data":` + tc.facts + `}`
			}
			if string(result.PluginData) != want {
				t.Errorf("plugin data\n got: %s\nwant: %s", result.PluginData, want)
			}
			if got := strings.Join(result.Skipped, "; "); got != tc.reason {
				t.Errorf("skipped\n got: %s\nwant: %s", got, tc.reason)
			}
			if tc.strict == "" {
				return
			}
			result = run(t, extraPipeline(t, true), Input{Document: withFacts(t, tc.facts)})
			if got := strings.Join(result.Skipped, "; "); !strings.HasSuffix(got, tc.strict) {
				t.Errorf("strict mode skipped\n got: %s\nwant: %s", got, tc.strict)
			}
			if tc.strict != missing && string(result.PluginData) != `{}` {
				t.Errorf("strict mode leaves %s", result.PluginData)
			}
		})
	}
}

func TestExtraHardwareRowsAreBounded(t *testing.T) {
	rows := make([]string, 100_000)
	for i := range rows {
		rows[i] = fmt.Sprintf(`["g%d","d","p","%d"]`, i%70_000, i)
	}
	result := run(t, extraPipeline(t, true), Input{Document: withFacts(t, "["+strings.Join(rows, ",")+"]")})
	if got := strings.Count(string(result.PluginData), `{"d":{"p":`); got != maxExtraRows {
		t.Errorf("%d groups, want %d", got, maxExtraRows)
	}
	if diff := cmp.Diff([]string{"Extra hardware facts are read up to row 65536 only"}, result.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	result = run(t, extraPipeline(t, false), Input{Document: withFacts(t, "["+strings.Repeat("[],", 99_999)+"[]]")})
	if len(result.Skipped) != maxSkips+1 {
		t.Errorf("%d remarks about bad rows, want %d", len(result.Skipped), maxSkips+1)
	}
}

// FuzzExtraHardware checks that what comes out is JSON that can be read back, holds
// one value for each fact and is not much larger than what came in.
func FuzzExtraHardware(f *testing.F) {
	for _, facts := range []string{
		`[["cpu","physical_0","cores","8"],["cpu","physical_0","cores",9],["disk","sda","size",null]]`, `[[],[1],["a","b","c"],["a","b","c",[]],["a","b","c",1,2]]`,
		`[["a","b","c",1],["a","b","c\u0000",1],["a","","c",1],["","b","c",1]]`, `{"a":1}`, `null`, `[["\ud800","\"","\\",1e5]]`,
	} {
		f.Add([]byte(facts), false)
		f.Add([]byte(facts), true)
	}
	lenient, strict := extraPipeline(f, false), extraPipeline(f, true)
	f.Fuzz(func(t *testing.T, facts []byte, isStrict bool) {
		doc, err := inventory.Parse([]byte(`{"inventory":{"interfaces":[` + nic("eth0", "01") + `]},"data":` + string(facts) + `}`))
		if err != nil || len(doc.PluginData) != 1 || doc.PluginData["data"] == nil {
			return
		}
		p := lenient
		if isStrict {
			p = strict
		}
		result, err := p.Run(Input{Document: doc})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.PluginData) > 1024+8*len(facts) {
			t.Fatalf("%d bytes of plugin data from %d", len(result.PluginData), len(facts))
		}
		if _, err := inventory.Restore(doc.Inventory, result.PluginData); err != nil {
			t.Fatalf("plugin data cannot be read back: %v", err)
		}
		var data struct {
			Extra map[string]map[string]map[string]any `json:"extra"`
		}
		if err := json.Unmarshal(result.PluginData, &data); err != nil {
			t.Fatalf("plugin data %s: %v", result.PluginData, err)
		}
		if diff := cmp.Diff(wantedFacts(doc.PluginData["data"], isStrict), data.Extra); diff != "" {
			t.Fatalf("facts of %s (-want +got):\n%s", facts, diff)
		}
	})
}

// wantedFacts does what the hook does, plainly.
func wantedFacts(raw []byte, strict bool) map[string]map[string]map[string]any {
	var rows []any
	_ = json.Unmarshal(raw, &rows) // what is no list has no rows
	var extra map[string]map[string]map[string]any
	for _, row := range rows {
		columns, _ := row.([]any)
		if len(columns) < 4 || strict && len(columns) > 4 {
			if strict {
				return nil
			}
			continue
		}
		group, isGroup := columns[0].(string)
		device, isDevice := columns[1].(string)
		property, isProperty := columns[2].(string)
		value := columns[3]
		_, isList := value.([]any)
		_, isObject := value.(map[string]any)
		if !isGroup || !isDevice || !isProperty || isList || isObject {
			if strict {
				return nil
			}
			continue
		}
		if text, ok := value.(string); ok {
			if number, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(number, 10) == text {
				value = float64(number)
			}
		}
		if extra == nil {
			extra = map[string]map[string]map[string]any{}
		}
		if extra[group] == nil {
			extra[group] = map[string]map[string]any{}
		}
		if extra[group][device] == nil {
			extra[group][device] = map[string]any{}
		}
		extra[group][device][property] = value
	}
	return extra
}
