package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"
)

// FuzzParse holds the reader against encoding/json: what Parse accepts is JSON
// with the same values, what it keeps raw is a part of the body, and what it
// refuses carries an *Error that is fit to show.
func FuzzParse(f *testing.F) {
	f.Add(fixture(f, recordedAgent))
	f.Add(fixture(f, server4NICs))
	for _, body := range []string{
		``, `{}`, `null`, `[[[[]]]]`, `{"inventory":{}}`, `{"inventory":{"interfaces":[{}]}}`,
		withInventory(``), withInventory(`,"cpu":{"frequency":1.5e+3,"flags":["a\u00e9\ud800"]}`),
		withInventory(`,"disks":[{"size":"-0.5e1","rotational":null}],"x":[-0,1E5,true,false,null]`),
		`{"\u0069nventory":{"interfaces":[{"mac_address":"52-54-00-12-34-56","lldp":[[1,"04"]]}]},"logs":"x","":0}`,
	} {
		f.Add([]byte(body))
	}
	for _, name := range []string{`\ud83d\ude00\/\b\f`, `\ud83d`, `\ude00\ud83d`, `\ud83d\u0041`, `\ud83dx`, `\u0000\uFFFF`} {
		f.Add([]byte(`{"inventory":{"interfaces":[{"name":"` + name + `","mac_address":"02:00:00:00:00:01"}]},"` + name + `":{"` + name + `":0}}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := Parse(body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || !utf8.ValidString(e.Error()) || e.Reason == "" {
				t.Fatalf("error %q (%T) is not fit to show", err, err)
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if !bytes.Equal(want["inventory"], doc.Inventory) || !bytes.Equal(want["logs"], doc.Logs) {
			t.Fatalf("inventory or logs differ from encoding/json's")
		}
		delete(want, "inventory")
		delete(want, "logs")
		if len(want) != len(doc.PluginData) {
			t.Fatalf("%d plugin data keys, encoding/json has %d", len(doc.PluginData), len(want))
		}
		for key, value := range want {
			if !bytes.Equal(doc.PluginData[key], value) {
				t.Fatalf("plugin data %q = %s, encoding/json has %s", key, doc.PluginData[key], value)
			}
		}
		compareInterfaces(t, doc)
	})
}

// compareInterfaces checks the typed view of the interfaces with encoding/json.
func compareInterfaces(t *testing.T, doc *Document) {
	t.Helper()
	var inv map[string]json.RawMessage
	var nics []map[string]json.RawMessage
	if json.Unmarshal(doc.Inventory, &inv) != nil || json.Unmarshal(inv["interfaces"], &nics) != nil {
		t.Fatalf("encoding/json cannot read the interfaces of %s", doc.Inventory)
	}
	if len(nics) != len(doc.Hardware.Interfaces) {
		t.Fatalf("%d interfaces, encoding/json has %d", len(doc.Hardware.Interfaces), len(nics))
	}
	for i, nic := range nics {
		got := doc.Hardware.Interfaces[i]
		var name, mac string
		_ = json.Unmarshal(nic["name"], &name)
		_ = json.Unmarshal(nic["mac_address"], &mac)
		if got.Name != name || got.HardwareAddress != mac {
			t.Fatalf("interface %d is %q %q, encoding/json has %q %q", i, got.Name, got.HardwareAddress, name, mac)
		}
		members := 0
		for key, value := range Members(got.Raw) {
			members++
			if !json.Valid(value) {
				t.Fatalf("member %q = %s is no JSON", key, value)
			}
		}
		if members < len(nic) {
			t.Fatalf("%d members, encoding/json has %d", members, len(nic))
		}
	}
	if len(doc.Hardware.MACs()) == 0 {
		t.Fatal("accepted a document without an identifying MAC")
	}
}

func BenchmarkParse(b *testing.B) {
	body := fixture(b, server4NICs)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(body); err != nil {
			b.Fatal(err)
		}
	}
}
