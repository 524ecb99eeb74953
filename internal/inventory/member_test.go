package inventory

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestElementsAreWalkedInOrder(t *testing.T) {
	for list, want := range map[string][]string{
		`[]`:                            nil,
		`[1, "a,]" , [2,[3]],{"b":[]}]`: {`1`, `"a,]"`, `[2,[3]]`, `{"b":[]}`},
		`{"a":1}`:                       nil,
		`null`:                          nil,
		`"[1]"`:                         nil,
	} {
		var got []string
		for i, value := range Elements(json.RawMessage(list)) {
			if i != len(got) {
				t.Errorf("element %d of %s has index %d", len(got), list, i)
			}
			got = append(got, string(value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("elements of %s (-want +got):\n%s", list, diff)
		}
	}
	for range Elements(json.RawMessage(`[1,2]`)) {
		break // must not be called again
	}
}

func TestTextIsDecoded(t *testing.T) {
	for value, want := range map[string]string{`"a\u00e9\n"`: "aé\n", `""`: "", `1`: "-", `null`: "-", `["a"]`: "-", ``: "-"} {
		got, ok := Text(json.RawMessage(value))
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("text of %s = %q, want %q", value, got, want)
		}
	}
}

func TestDiskSizeReadsNothingElse(t *testing.T) {
	for disk, want := range map[string]int64{
		`{"size": 480103981056, "serial": ["a", "b"], "rotational": "no"}`: 480103981056,
		`{"size":"1024"}`: 1024,
		`{"size":null}`:   0,
		`{"size":-3}`:     -3,
		`{}`:              0,
	} {
		if got, err := DiskSize(json.RawMessage(disk)); err != nil || got != want {
			t.Errorf("size of %s = %d, %v, want %d", disk, got, err, want)
		}
	}
	for disk, want := range map[string]string{
		`"/dev/sda"`:     `want an object, got the text "/dev/sda"`,
		`{"size":"big"}`: `size: want a whole number, got the text "big"`,
		`{"size":[1]}`:   `size: want a number, got a list`,
	} {
		if _, err := DiskSize(json.RawMessage(disk)); err == nil || err.Error() != want {
			t.Errorf("size of %s: error %v, want %s", disk, err, want)
		}
	}
}
