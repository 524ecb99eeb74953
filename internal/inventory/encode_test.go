package inventory

import (
	"encoding/json"
	"testing"
)

func TestEncodedObjectsReadBackWithSortedKeys(t *testing.T) {
	members := map[string]json.RawMessage{
		"zeta": json.RawMessage(`{"b" : 1.50,"a":[ ]}`), "": json.RawMessage(`null`),
		"\"\\\n\x00": json.RawMessage(`"x"`), "ü😀": json.RawMessage(`0`), "\x7f": json.RawMessage(`1`),
	}
	text := AppendObject([]byte("prefix"), members)[len("prefix"):]
	if want := `{"":null,"\"\\\n\u0000":"x","zeta":{"b" : 1.50,"a":[ ]},"` + "\x7f" + `":1,"ü😀":0}`; string(text) != want {
		t.Errorf("object = %s, want %s", text, want)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(text, &got); err != nil || len(got) != len(members) {
		t.Errorf("encoding/json reads %d keys, error %v, want %d", len(got), err, len(members))
	}
	if got := string(AppendObject(nil, nil)); got != "{}" {
		t.Errorf("object without members = %s, want {}", got)
	}
}
