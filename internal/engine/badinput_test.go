package engine_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"
)

// form is which of the API's error bodies an answer must have.
type form int

const (
	faultForm  form = iota // {"error_message": "<fault as JSON text>"}
	routerForm             // the same, with code and title in the fault
	bareForm               // the fault itself
)

// refusal is a request that must be refused, and how.
type refusal struct {
	name   string
	method string
	path   string
	header headers // on top of Content-Type: application/json
	body   string
	status int
	form   form
	text   string // part of the fault string
}

// refuse sends the request and checks the answer and that nothing was written
// since before. It returns what rows returns now.
func (r *running) refuse(t *testing.T, before string, c refusal) string {
	t.Helper()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	got := r.send(t, c.method, c.path, c.header, body)
	if got.status == c.status {
		got.checkFault(t, c.form, c.text)
	} else {
		t.Errorf("got status %d, want %d: %s", got.status, c.status, cut(got.body))
	}
	after := r.rows(t)
	if after != before {
		t.Errorf("something was written: there was\n%s\nand is\n%s", before, after)
	}
	return after
}

// checkFault fails the test unless the answer is an error of this form.
func (a answer) checkFault(t *testing.T, want form, text string) {
	t.Helper()
	fault := a.object(t)
	if want != bareForm {
		inner, ok := fault["error_message"].(string)
		if !ok || len(fault) != 1 {
			t.Fatalf("got %s, want error_message alone, a string with JSON in it", a.body)
		}
		fault = decodeObject(t, inner)
	}
	if message, _ := fault["faultstring"].(string); !strings.Contains(message, text) || strings.TrimSpace(message) == "" {
		t.Errorf("got fault string %q, want %q in it", message, text)
	}
	if code := fault["faultcode"]; code != "Client" {
		t.Errorf("got fault code %v, want Client", code)
	}
	if debug, ok := fault["debuginfo"]; !ok || debug != nil {
		t.Errorf("got debuginfo %v, want null", debug)
	}
	title := http.StatusText(a.status)
	if want == routerForm && (fault["title"] != title || fault["code"] != fmt.Sprintf("%d %s", a.status, title)) {
		t.Errorf("got code %v and title %v, want those of %d %s", fault["code"], fault["title"], a.status, title)
	}
	a.checkHeaders(t)
}

// checkHeaders fails the test unless the answer has the headers of every answer.
func (a answer) checkHeaders(t *testing.T) {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("got content type %q, want application/json", got)
	}
	id := a.header.Get("OpenStack-Request-Id")
	if !strings.HasPrefix(id, "req-") || id != a.header.Get("X-OpenStack-Request-Id") {
		t.Errorf("got request IDs %q and %q", id, a.header.Get("X-OpenStack-Request-Id"))
	}
	for _, name := range []string{"Minimum", "Maximum"} {
		if a.header.Get("X-OpenStack-Ironic-API-"+name+"-Version") == "" {
			t.Errorf("the %s version is missing", name)
		}
	}
}

func cut(text string) string { return text[:min(len(text), 500)] }

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func gzipped(text string) string {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return buffer.String()
}

func inUTF16(text string) string {
	buffer := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		buffer = append(buffer, byte(unit), byte(unit>>8))
	}
	return string(buffer)
}

const (
	goodMAC       = "52:54:00:00:00:01"
	goodInterface = `{"name":"eno1","mac_address":"` + goodMAC + `"}`
)

// TestBadInspectionDataIsRefused posts documents that must not enrol a machine,
// although discovery is on.
func TestBadInspectionDataIsRefused(t *testing.T) {
	t.Parallel()
	good := machine(goodMAC)
	interfaces := func(list string) string { return `{"inventory":{"interfaces":` + list + `}}` }
	mac := func(value string) string { return interfaces(`[{"name":"eno1","mac_address":` + value + `}]`) }
	replaced := func(old, replacement string) string { return strings.Replace(good, old, replacement, 1) }
	tests := []struct{ name, body, text string }{
		{"nothing", "", "needs a JSON body"},
		{"white space", " \n\t ", "needs a JSON body"},
		{"text", "hello", "malformed JSON"},
		{"half a document", good[:len(good)/2], "malformed JSON"},
		{"two documents", good + good, "malformed JSON"},
		{"document and rubbish", good + "x", "malformed JSON"},
		{"trailing comma", good[:len(good)-1] + ",}", "malformed JSON"},
		{"single quotes", strings.ReplaceAll(good, `"`, `'`), "malformed JSON"},
		{"number that is none", replaced(`"count":8`, `"count":NaN`), "malformed JSON"},
		{"array", "[" + good + "]", "want an object, got a list"},
		{"string", `"` + goodMAC + `"`, "want an object, got the text"},
		{"number", "5", "want an object, got the number"},
		{"boolean", "true", "want an object"},
		{"null", "null", "want an object, got null"},

		{"no inventory", `{}`, "inventory: is missing"},
		{"no inventory but data", `{"root_disk":{},"error":null}`, "inventory: is missing"},
		{"inventory null", `{"inventory":null}`, "inventory: want an object, got null"},
		{"inventory a list", `{"inventory":[]}`, "inventory: want an object, got a list"},
		{"inventory a text", `{"inventory":"x"}`, "inventory: want an object"},
		{"second inventory is empty", good[:len(good)-1] + `,"inventory":{}}`, "interfaces"},

		{"no interfaces", `{"inventory":{}}`, "at least one network interface"},
		{"interfaces null", interfaces("null"), "inventory.interfaces: want a list, got null"},
		{"interfaces an object", interfaces(goodInterface), "inventory.interfaces: want a list"},
		{"interfaces empty", interfaces("[]"), "at least one network interface"},
		{"interface a text", interfaces(`["eno1"]`), "interfaces[0]: want an object"},
		{"interface null", interfaces(`[null]`), "interfaces[0]: want an object"},
		{"second interface a list", interfaces("[" + goodInterface + ",[]]"), "interfaces[1]: want an object"},
		{"interface without address", interfaces(`[{"name":"eno1"}]`), "mac_address: is missing"},
		{"address null", mac("null"), "want a MAC address, got null"},
		{"address empty", mac(`""`), "want a MAC address"},
		{"address a number", mac("5"), "want a MAC address, got the number"},
		{"address a list", mac("[]"), "want a MAC address"},
		{"address of no hexadecimal digits", mac(`"zz:54:00:00:00:01"`), "want a MAC address"},
		{"address too short", mac(`"52:54:00"`), "want a MAC address"},
		{"address with a tail", mac(`"` + goodMAC + ` "`), "want a MAC address"},
		{"address with a zero character", mac(`"` + goodMAC + `\u0000"`), "want a MAC address"},
		{"second address is bad", interfaces("[" + goodInterface + `,{"name":"eno2","mac_address":"x"}]`), "interfaces[1].mac_address"},
		{"only the zero address", mac(`"00:00:00:00:00:00"`), "cannot be identified"},
		{"only the broadcast address", mac(`"ff:ff:ff:ff:ff:ff"`), "cannot be identified"},
		{"only a group address", mac(`"01:00:5e:00:00:01"`), "cannot be identified"},
		{"only an InfiniBand address", mac(`"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01"`), "cannot be identified"},

		{"processor a text", replaced(`{"count":8,"architecture":"x86_64"}`, `"x86"`), "inventory.cpu: want an object"},
		{"processor count a text", replaced(`"count":8`, `"count":"eight"`), "inventory.cpu.count"},
		{"architecture a number", replaced(`"architecture":"x86_64"`, `"architecture":64`), "inventory.cpu.architecture"},
		{"memory beyond numbers", replaced("16384", "1e400"), "inventory.memory.physical_mb"},
		{"disks an object", replaced(`"disks":[]`, `"disks":{}`), "inventory.disks: want a list"},
		{"disk size a text", replaced(`"disks":[]`, `"disks":[{"name":"sda","size":"big"}]`), "inventory.disks[0].size"},
		{"carrier a text", replaced(`"has_carrier":true`, `"has_carrier":"up"`), "has_carrier"},

		{"26 levels", `{"a":` + nested(25) + `}`, "deeper than 25"},
		{"100,000 levels", nested(100_000), "deeper than 25"},
		{"100,000 levels without end", strings.Repeat(`{"a":`, 100_000), "deeper than 25"},
		{"100,000 closing brackets", strings.Repeat("]", 100_000), "malformed JSON"},
		{"zero bytes", strings.Repeat("\x00", 100), "malformed JSON"},
		{"zero byte in a text", replaced("eno1", "en\x00o1"), "malformed JSON"},
		{"line end in a text", replaced("eno1", "en\no1"), "malformed JSON"},
		{"no UTF-8", replaced("eno1", "en\xffo1"), "UTF-8"},
		{"half a character", replaced("eno1", "en\xe2\x98"), "UTF-8"},
		{"byte order mark", "\ufeff" + good, "malformed JSON"},
		{"UTF-16", inUTF16(good), "UTF-8"},
		{"gzip", gzipped(good), "UTF-8"},
	}
	e := start(t, nil)
	before := e.rows(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, version := range []headers{nil, latest} {
				before = e.refuse(t, before, refusal{method: "POST", path: "/v1/continue_inspection", header: version, body: test.body, status: http.StatusBadRequest, text: test.text})
			}
		})
	}
	e.awaitNode(t, e.post(t, good), inspected)
}

// TestUnusualInspectionDataIsAccepted posts what looks wrong but is not.
func TestUnusualInspectionDataIsAccepted(t *testing.T) {
	tests := []struct {
		name, body string
		ports      int
	}{
		{"one MAC twice", machine("52:54:00:00:01:01", "52:54:00:00:01:01"), 1},
		{"one MAC twice in other letters", machine("52:54:00:00:02:AB", "52:54:00:00:02:ab"), 1},
		{"a good MAC among useless ones", machine("00:00:00:00:00:00", "52:54:00:00:03:01", "ff:ff:ff:ff:ff:ff"), 1},
		{"a zero character as an escape", strings.Replace(machine("52:54:00:00:04:01"), "x86_64", `x86\u0000`, 1), 1},
		{"half of a surrogate pair", inventoryOf(goodInterfaceWith("52:54:00:00:05:01"), `,"hostname":"\ud800"`), 1},
		{"25 levels", strings.TrimSuffix(machine("52:54:00:00:06:01"), "}") + `,"deep":` + nested(24) + `}`, 1},
		{"unknown keys", inventoryOf(goodInterfaceWith("52:54:00:00:07:01"), `,"colour":{"of":["the","case"]}`), 1},
		{"a name like a path", strings.Replace(machine("52:54:00:00:08:01"), "eno1", "../../eno1", 1), 1},
		{"an error that is empty", strings.TrimSuffix(machine("52:54:00:00:09:01"), "}") + `,"error":""}`, 1},
		{"more interfaces than ports of an unregistered machine", machine(manyMACs(200)...), 64},
	}
	e := start(t, nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			uuid := e.post(t, test.body)
			n := e.awaitNode(t, uuid, inspected)
			if n["last_error"] != nil {
				t.Errorf("inspection failed: %v", n["last_error"])
			}
			ports, _ := e.do(t, "GET", "/v1/nodes/"+uuid+"/ports", "").want(t, http.StatusOK).object(t)["ports"].([]any)
			if len(ports) != test.ports {
				t.Errorf("got %d ports, want %d", len(ports), test.ports)
			}
			var sent, stored struct{ Inventory json.RawMessage }
			text := e.do(t, "GET", "/v1/nodes/"+uuid+"/inventory", "").want(t, http.StatusOK).body
			if err := json.Unmarshal([]byte(text), &stored); err != nil {
				t.Fatalf("decode the stored inventory: %v", err)
			}
			if err := json.Unmarshal([]byte(test.body), &sent); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(stored.Inventory, sent.Inventory) {
				t.Errorf("the inventory is stored as\n%s\nbut was sent as\n%s", cut(string(stored.Inventory)), cut(string(sent.Inventory)))
			}
		})
	}
}

func goodInterfaceWith(mac string) string { return strings.Replace(goodInterface, goodMAC, mac, 1) }

func manyMACs(count int) []string {
	macs := make([]string, count)
	for i := range macs {
		macs[i] = fmt.Sprintf("52:54:00:01:%02x:%02x", i/256, i%256)
	}
	return macs
}

// TestBodiesOverTheirLimitAreRefused sends 20 MiB with a length and in chunks.
func TestBodiesOverTheirLimitAreRefused(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	uuid := e.create(t, `{"driver":"fake-hardware"}`)
	const size = 20 << 20
	padding := strings.Repeat(" ", size)
	big := strings.TrimSuffix(machine(goodMAC), "}") + `,"logs":"` + strings.Repeat("A", size) + `"}`
	for _, test := range []struct{ name, method, path, body string }{
		{"inspection data", "POST", "/v1/continue_inspection", big},
		{"new node", "POST", "/v1/nodes", padding},
		{"new port", "POST", "/v1/ports", padding},
		{"patch", "PATCH", "/v1/nodes/" + uuid, padding},
		{"heartbeat", "POST", "/v1/heartbeat/" + uuid, padding},
		{"maintenance", "PUT", "/v1/nodes/" + uuid + "/maintenance", padding},
	} {
		for _, length := range []string{"known", "unknown"} {
			t.Run(test.name+" of "+length+" length", func(t *testing.T) {
				before := e.rows(t)
				var body io.Reader = strings.NewReader(test.body)
				if length == "unknown" {
					body = io.MultiReader(body) // hides the length, so the client sends chunks
				}
				header := latest
				if test.name == "inspection data" {
					header = nil
				}
				got := e.send(t, test.method, test.path, header, body).want(t, http.StatusRequestEntityTooLarge)
				got.checkFault(t, bareForm, "larger than")
				if e.rows(t) != before {
					t.Error("something was written")
				}
			})
		}
	}
	e.awaitNode(t, e.post(t, machine(goodMAC)), inspected)
}
