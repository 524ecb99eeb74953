package jsonscan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/jsonscan"
)

// FuzzFieldsAreThoseThatEncodingJSONDecodes compares with the decoder of the standard library.
func FuzzFieldsAreThoseThatEncodingJSONDecodes(f *testing.F) {
	for _, text := range []string{
		"", "{}", "null", `{"a":1}`, `{"a":1,"b":"x","c":null,"d":true}`, `{"a":{"b":[1,{"c":"}"}]},"d":[]}`,
		`{"a":1,"a":2}`, `{"":""}`, `{"a\"b":"c\\","\u0061":"\u00e9"}`, ` { "a" : 1.5e3 , "b" : [ 1 , 2 ] } `,
		"{\"a\xff\":\"b\xff\",\"c\":\":,\"}", "{\n\t\"a\":\t\"b\"\n}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := map[string]json.RawMessage{}
		for key, value := range jsonscan.Fields(text) {
			got[string(key)] = value
		}
		want := map[string]json.RawMessage{}
		if json.Unmarshal(text, &want) != nil || want == nil {
			return // no object: it only must not panic
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", text, diff)
		}
		for key, value := range got {
			var decoded *string
			if json.Unmarshal(value, &decoded) != nil || decoded == nil {
				if text := jsonscan.Unquote(value); text != nil {
					t.Fatalf("%q: %q is the text %q", key, value, text)
				}
				continue
			}
			if unquoted := jsonscan.Unquote(value); string(unquoted) != *decoded {
				t.Fatalf("%q: %q is the text %q, want %q", key, value, unquoted, *decoded)
			}
		}
	})
}
