package node

import (
	"strings"
	"testing"
)

func TestParseObjectAcceptsOnlyObjects(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1}`: `{"a":1}`, ` {} `: "{}", "null": "{}", "": "{}",
	} {
		got, err := ParseObject([]byte(text))
		if err != nil || got.String() != want {
			t.Errorf("ParseObject(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"[1]", `"x"`, "1", "true", `{"a":}`, `{"a":1} x`} {
		if got, err := ParseObject([]byte(text)); err == nil {
			t.Errorf("ParseObject(%q) = %s, want an error", text, got)
		}
	}
}

func TestObjectChangesLeaveTheOriginalAlone(t *testing.T) {
	o, err := ParseObject([]byte(`{"keep":{"big":12345678901234567890},"drop":1}`))
	if err != nil {
		t.Fatal(err)
	}
	changed := o.With(map[string]any{"new": "x", "drop": nil})
	if got, want := changed.String(), `{"keep":{"big":12345678901234567890},"new":"x"}`; got != want {
		t.Errorf("With: got %s, want %s", got, want)
	}
	if o.Text("drop") != "" || !strings.Contains(o.String(), `"drop":1`) {
		t.Errorf("the original changed: %s", o)
	}
	if got := changed.Without("keep", "new"); !got.IsEmpty() {
		t.Errorf("Without: got %s, want nothing left", got)
	}
}

func TestCutTextBoundsAndCleansTextFromOutside(t *testing.T) {
	got := CutText("a\x1b[31mb" + strings.Repeat("é", 3000))
	if len(got) > 2048 || strings.ContainsRune(got, 0x1b) || !strings.HasSuffix(got, "(cut)") {
		t.Errorf("CutText left %d bytes ending in %q", len(got), got[len(got)-10:])
	}
	if got := CutText("fine\n"); got != "fine\n" {
		t.Errorf("CutText changed harmless text: %q", got)
	}
}
