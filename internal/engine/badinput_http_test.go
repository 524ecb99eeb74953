package engine_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const nobody = "6f3a2c1e-0000-4000-8000-000000000000"

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	uuid := e.create(t, `{"driver":"fake-hardware","name":"rack1~a","extra":{"a":1}}`)
	port, _ := e.do(t, "POST", "/v1/ports", `{"node_uuid":"`+uuid+`","address":"52:54:00:00:00:09"}`).want(t, http.StatusCreated).object(t)["uuid"].(string)
	item, portItem := "/v1/nodes/"+uuid, "/v1/ports/"+port
	create := func(member string) string { return `{"driver":"fake-hardware",` + member + `}` }
	patch := func(op, path, value string) string {
		return fmt.Sprintf(`[{"op":%q,"path":%q,"value":%s}]`, op, path, value)
	}
	tests := []refusal{
		{name: "node: malformed", method: "POST", path: "/v1/nodes", body: `{"driver":`, status: 400, text: "Malformed"},
		{name: "node: array", method: "POST", path: "/v1/nodes", body: `[{"driver":"fake-hardware"}]`, status: 400, text: "a JSON object is expected"},
		{name: "node: string", method: "POST", path: "/v1/nodes", body: `"fake-hardware"`, status: 400, text: "a JSON object is expected"},
		{name: "node: null", method: "POST", path: "/v1/nodes", body: `null`, status: 400, text: "a JSON object is expected"},
		{name: "node: twice", method: "POST", path: "/v1/nodes", body: create(`"extra":{}`) + "{}", status: 400, text: "more than one"},
		{name: "node: too deep", method: "POST", path: "/v1/nodes", body: create(`"extra":{"a":` + nested(24) + `}`), status: 400, text: "deeper than 25"},
		{name: "node: 100,000 levels", method: "POST", path: "/v1/nodes", body: create(`"extra":` + nested(100_000)), status: 400, text: "deeper than 25"},
		{name: "node: zero byte", method: "POST", path: "/v1/nodes", body: create("\"name\":\"a\x00b\""), status: 400, text: "Malformed"},
		{name: "node: zero character in the name", method: "POST", path: "/v1/nodes", body: create(`"name":"a\u0000b"`), status: 400, text: "zero character"},
		{name: "node: no UTF-8", method: "POST", path: "/v1/nodes", body: create("\"extra\":{\"a\xff\":1}"), status: 400, text: "UTF-8"},
		{name: "node: gzip", method: "POST", path: "/v1/nodes", header: headers{"Content-Encoding": "gzip"}, body: gzipped(create(`"extra":{}`)), status: 400},
		{name: "node: key in other letters", method: "POST", path: "/v1/nodes", body: create(`"Extra":{}`), status: 400, text: `"Extra"`},
		{name: "node: header in the name", method: "POST", path: "/v1/nodes", body: create(`"name":"a\r\nX-Injected: 1"`), status: 400, text: "letters"},
		{name: "node: path in the name", method: "POST", path: "/v1/nodes", body: create(`"name":"../../etc/passwd"`), status: 400, text: "letters"},
		{name: "node: escape in the name", method: "POST", path: "/v1/nodes", body: create(`"name":"%2e%2e"`), status: 400, text: "letters"},
		{name: "node: SQL in the name", method: "POST", path: "/v1/nodes", body: create(`"name":"a'; DROP TABLE nodes;--"`), status: 400, text: "letters"},
		{name: "node: invisible character in the name", method: "POST", path: "/v1/nodes", body: create(`"name":"a\u200bb"`), status: 400, text: "letters"},
		{name: "node: letters of other scripts in the name", method: "POST", path: "/v1/nodes", body: create(`"name":"r\u0430ck"`), status: 400, text: "letters"},
		{name: "node: name a number", method: "POST", path: "/v1/nodes", body: create(`"name":5`), status: 400, text: "name"},
		{name: "node: name taken", method: "POST", path: "/v1/nodes", body: create(`"name":"rack1~a"`), status: 409, text: "rack1~a"},
		{name: "node: name of one dot", method: "POST", path: "/v1/nodes", body: create(`"name":"."`), status: 400, text: "URL"},
		{name: "node: name of two dots", method: "POST", path: "/v1/nodes", body: create(`"name":".."`), status: 400, text: "URL"},
		{name: "node: UUID a path", method: "POST", path: "/v1/nodes", body: create(`"uuid":"../x"`), status: 400, text: "UUID"},

		{name: "patch: object", method: "PATCH", path: item, body: `{"name":"b"}`, status: 400, text: "array"},
		{name: "patch: string", method: "PATCH", path: item, body: `"b"`, status: 400, text: "array"},
		{name: "patch: path is a number", method: "PATCH", path: item, body: `[{"op":"add","path":5,"value":1}]`, status: 400, text: "path"},
		{name: "patch: read-only field", method: "PATCH", path: item, body: patch("replace", "/provision_state", `"active"`), status: 400, text: "cannot be changed"},
		{name: "patch: prototype", method: "PATCH", path: item, body: patch("add", "/__proto__/a", `1`), status: 400, text: "__proto__"},
		{name: "patch: parent folder", method: "PATCH", path: item, body: patch("add", "/extra/../name", `"x"`), status: 400},
		{name: "patch: one bad operation spoils all", method: "PATCH", path: item, body: `[{"op":"add","path":"/extra/b","value":1},{"op":"remove","path":"/extra/none"}]`, status: 400, text: "/extra/none"},
		{name: "patch: header in the name", method: "PATCH", path: item, body: patch("replace", "/name", `"a\r\nX-Injected: 1"`), status: 400, text: "letters"},
		{name: "patch: name of two dots", method: "PATCH", path: item, body: patch("replace", "/name", `".."`), status: 400, text: "URL"},
		{name: "port: address with a tail", method: "POST", path: "/v1/ports", body: `{"node_uuid":"` + uuid + `","address":"52:54:00:00:00:0a'--"}`, status: 400, text: "MAC"},
		{name: "port: address taken", method: "POST", path: "/v1/ports", body: `{"node_uuid":"` + uuid + `","address":"52:54:00:00:00:09"}`, status: 409, text: "52:54:00:00:00:09"},
		{name: "port: patch of an unknown field", method: "PATCH", path: portItem, body: patch("add", "/colour", `1`), status: 400, text: "colour"},
		{name: "verb: number", method: "PUT", path: item + "/states/provision", body: `{"target":1}`, status: 400, text: "target"},
		{name: "verb: unknown", method: "PUT", path: item + "/states/provision", body: `{"target":"explode"}`, status: 400, text: "explode"},
		{name: "verb: wrong state", method: "PUT", path: item + "/states/provision", body: `{"target":"provide"}`, status: 400, text: "provide"},

		{name: "query: unknown argument", method: "GET", path: "/v1/nodes?colour=red", status: 400, text: "Unexpected arguments: colour"},
		{name: "query: argument of another list", method: "GET", path: "/v1/ports?driver=x", status: 400, text: "Unexpected arguments: driver"},
		{name: "query: argument of a write", method: "POST", path: "/v1/nodes?force=true", body: create(`"extra":{}`), status: 400, text: "Unexpected arguments: force"},
		{name: "query: argument of the callback", method: "POST", path: "/v1/continue_inspection?x=1", body: machine(goodMAC), status: 400, text: "Unexpected arguments: x"},
		{name: "query: argument of the deletion", method: "DELETE", path: item + "?x=1", status: 400, text: "Unexpected arguments: x"},
		{name: "query: zero byte in a filter", method: "GET", path: "/v1/nodes?driver=%00", status: 400, text: "NUL"},
		{name: "query: no UTF-8 in a filter", method: "GET", path: "/v1/nodes?owner=%ff", status: 400, text: "UTF-8"},
		{name: "query: semicolon", method: "GET", path: "/v1/nodes?a;b", status: 400, text: "query"},
		{name: "query: bad escape", method: "GET", path: "/v1/nodes?driver=%zz", status: 400, text: "query"},
		{name: "query: no name", method: "GET", path: "/v1/nodes?=x", status: 400, text: "Unexpected"},
		{name: "query: limit below one", method: "GET", path: "/v1/nodes?limit=-1", status: 400, text: "limit"},
		{name: "query: limit beyond numbers", method: "GET", path: "/v1/nodes?limit=99999999999999999999", status: 400, text: "limit"},
		{name: "query: one argument twice", method: "GET", path: "/v1/nodes?limit=1&limit=2", status: 400, text: "more than once: limit"},
		{name: "query: one argument twice alike", method: "GET", path: "/v1/nodes?sort_dir=asc&sort_dir=asc", status: 400, text: "more than once: sort_dir"},
		{name: "query: one filter twice", method: "GET", path: "/v1/nodes?maintenance=true&driver=a&maintenance=x&driver=b", status: 400, text: "more than once: driver, maintenance"},
		{name: "query: two UUIDs of the callback", method: "POST", path: "/v1/continue_inspection?node_uuid=" + nobody + "&node_uuid=" + uuid, body: machine(goodMAC), status: 400, text: "more than once: node_uuid"},
		{name: "query: marker a quote", method: "GET", path: "/v1/nodes?marker=%27", status: 400, text: "marker"},
		{name: "query: SQL in the order", method: "GET", path: "/v1/nodes?sort_key=uuid%20desc%3B--", status: 400, text: "uuid desc"},
		{name: "query: SQL in the direction", method: "GET", path: "/v1/nodes?sort_dir=asc%3BDROP%20TABLE%20nodes", status: 400, text: "sort_dir"},
		{name: "query: SQL in the fields", method: "GET", path: "/v1/nodes?fields=uuid,(SELECT+1)", status: 400, text: "SELECT"},
		{name: "query: state unknown", method: "GET", path: "/v1/nodes?provision_state=asleep", status: 400, text: "asleep"},
		{name: "query: UUID of the callback", method: "POST", path: "/v1/continue_inspection?node_uuid=../x", body: machine(goodMAC), status: 400, text: "node_uuid"},

		{name: "ident: parent folders", method: "GET", path: "/v1/nodes/..%2f..%2fetc%2fpasswd", status: 400, text: "Expected the UUID or the name"},
		{name: "ident: parent folders to delete", method: "DELETE", path: "/v1/nodes/..%2fnodes%2f" + uuid, status: 400, text: "Expected the UUID or the name"},
		{name: "ident: two dots", method: "GET", path: "/v1/nodes/%2e%2e", status: 404},
		{name: "ident: two dots before a part", method: "GET", path: "/v1/nodes/%2e%2e/states", status: 404},
		{name: "ident: slash", method: "GET", path: "/v1/nodes/a%2fb", status: 400, text: "Expected the UUID or the name"},
		{name: "ident: zero byte", method: "GET", path: "/v1/nodes/a%00b", status: 400, text: "Expected the UUID or the name"},
		{name: "ident: header", method: "GET", path: "/v1/nodes/a%0d%0aX-Injected:%201", status: 400, text: "Expected the UUID or the name"},
		{name: "ident: no UTF-8", method: "GET", path: "/v1/nodes/%ff", status: 400, text: "Expected the UUID or the name"},
		{name: "ident: snowman", method: "GET", path: "/v1/nodes/%E2%98%83", status: 400, text: "Expected the UUID or the name"},
		{name: "ident: SQL", method: "GET", path: "/v1/nodes/'%20OR%20'1'='1", status: 400, text: "Expected the UUID or the name"},
		{name: "ident: very long", method: "GET", path: "/v1/nodes/" + strings.Repeat("a", 5000), status: 400, text: "Expected the UUID or the name"},
		{name: "ident: nobody", method: "GET", path: "/v1/nodes/" + nobody, status: 404, text: nobody},
		{name: "ident: nobody's port", method: "DELETE", path: "/v1/ports/" + nobody, status: 404, text: nobody},
		{name: "ident: port by address", method: "DELETE", path: "/v1/ports/52:54:00:00:00:09", status: 400, text: "UUID of a port"},

		{name: "path: unknown", method: "GET", path: "/v1/nosuch", status: 404, form: routerForm},
		{name: "path: unknown with a body", method: "POST", path: "/v1/nosuch", body: `{}`, status: 404, form: routerForm},
		{name: "path: unknown part", method: "GET", path: item + "/nosuch", status: 404, form: routerForm},
		{name: "path: not below the API", method: "GET", path: "/etc/passwd", status: 404, form: routerForm},
		{name: "path: another API version", method: "GET", path: "/v2/nodes", status: 404, form: routerForm},
		{name: "method: PUT of a list", method: "PUT", path: "/v1/nodes", body: `{}`, status: 405, form: routerForm, text: "PUT"},
		{name: "method: DELETE of a list", method: "DELETE", path: "/v1/nodes", status: 405, form: routerForm, text: "DELETE"},
		{name: "method: POST of the root", method: "POST", path: "/v1", body: `{}`, status: 405, form: routerForm, text: "POST"},
		{name: "method: GET of the callback", method: "GET", path: "/v1/continue_inspection", status: 405, form: routerForm, text: "GET"},
		{name: "method: TRACE", method: "TRACE", path: "/v1/nodes", status: 405, form: routerForm, text: "TRACE"},
		{name: "method: made up", method: "BREW", path: "/v1/nodes", status: 405, form: routerForm, text: "BREW"},
	}
	for _, contentType := range []string{"text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ";;;", "application"} {
		for path, body := range map[string]string{"/v1/nodes": create(`"extra":{}`), "/v1/continue_inspection": machine(goodMAC)} {
			tests = append(tests, refusal{
				name: "content type " + contentType + " to " + path, method: "POST", path: path,
				header: headers{"Content-Type": contentType}, body: body, status: 415, text: contentType,
			})
		}
	}
	before := e.rows(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			header := headers{}
			for name, value := range latest {
				header[name] = value
			}
			for name, value := range test.header {
				header[name] = value
			}
			test.header = header
			before = e.refuse(t, before, test)
		})
	}
	if strings.Contains(e.seen.String(), "X-Injected:[") {
		t.Error("a client could inject a header")
	}
	e.awaitNode(t, e.post(t, machine(goodMAC)), inspected)
}

func TestBadMicroversionsAreRefused(t *testing.T) {
	t.Parallel()
	const legacy, standard = "X-OpenStack-Ironic-API-Version", "OpenStack-API-Version"
	e := start(t, nil)
	maximum := e.do(t, "GET", "/v1", "").want(t, http.StatusOK).header.Get("X-OpenStack-Ironic-API-Maximum-Version")
	supported := "The supported version range is: [1.1, " + maximum + "]."
	refused := []struct {
		name   string
		header headers
		text   string
	}{
		{"word", headers{legacy: "foo"}, "foo"},
		{"major alone", headers{legacy: "1"}, "1"},
		{"letter", headers{legacy: "1.a"}, "1.a"},
		{"another major", headers{legacy: "2.1"}, "2.1"},
		{"too new", headers{legacy: "1.999"}, supported},
		{"too old", headers{legacy: "1.0"}, supported},
		{"beyond numbers", headers{legacy: "1.99999999999999999999"}, "1.9999"},
		{"negative", headers{legacy: "1.-5"}, "1.-5"},
		{"sign", headers{legacy: "1.+5"}, "1.+5"},
		{"three parts", headers{legacy: "1.5.1"}, "1.5.1"},
		{"space inside", headers{legacy: "1. 5"}, "1. 5"},
		{"two versions", headers{legacy: "1.5,1.6"}, "1.5,1.6"},
		{"standard form, word", headers{standard: "baremetal foo"}, "foo"},
		{"standard form, too new", headers{standard: "baremetal 1.999"}, supported},
		{"standard form wins", headers{standard: "baremetal 1.999", legacy: "1.5"}, supported},
	}
	before := e.rows(t)
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			for _, c := range []refusal{
				{method: "GET", path: "/v1/nodes"},
				{method: "POST", path: "/v1/nodes", body: `{"driver":"fake-hardware"}`},
				{method: "POST", path: "/v1/continue_inspection", body: machine(goodMAC)},
				{method: "GET", path: "/v1/lookup?addresses=" + goodMAC},
			} {
				c.header, c.status, c.form, c.text = test.header, http.StatusNotAcceptable, routerForm, test.text
				before = e.refuse(t, before, c)
			}
		})
	}
	e.post(t, machine(goodMAC))
	for _, test := range []struct {
		name   string
		header headers
		want   string
	}{
		{"none", nil, "1.1"},
		{"empty", headers{legacy: ""}, "1.1"},
		{"spaces around", headers{legacy: "  1.22 "}, "1.22"},
		{"latest", headers{legacy: "latest"}, maximum},
		{"standard form", headers{standard: "baremetal 1.22"}, "1.22"},
		{"standard form among others", headers{standard: "compute 2.1, baremetal 1.22"}, "1.22"},
		{"standard form of another service", headers{standard: "compute 2.1"}, "1.1"},
		{"standard form wins over a bad one", headers{standard: "baremetal 1.22", legacy: "foo"}, "1.22"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := e.send(t, "GET", "/v1/nodes", test.header, nil).want(t, http.StatusOK)
			if version := got.header.Get(legacy); version != test.want {
				t.Errorf("answered in version %q, want %q", version, test.want)
			}
		})
	}
	for _, path := range []string{"/", "/healthcheck"} { // how clients find out
		e.send(t, "GET", path, headers{legacy: "foo"}, nil).want(t, http.StatusOK)
	}
}

// TestFiltersTakeTextLiterally asks with text that would mean something to a
// database.
func TestFiltersTakeTextLiterally(t *testing.T) {
	e := start(t, nil)
	for _, description := range []string{"plain", "100% used", "under_score", `back\slash`, "quote's"} {
		e.create(t, fmt.Sprintf(`{"driver":"fake-hardware","description":%q,"owner":%q}`, description, description))
	}
	for query, want := range map[string]int{
		"driver=" + url.QueryEscape("' OR 1=1--"):                    0,
		"owner=" + url.QueryEscape("x'; DROP TABLE nodes;--"):        0,
		"owner=" + url.QueryEscape(`x" OR ""="`):                     0,
		"owner=%25":                                                  0,
		"owner=" + url.QueryEscape("quote's"):                        1,
		"resource_class=" + url.QueryEscape("a UNION SELECT 1"):      0,
		"conductor_group=" + url.QueryEscape("' OR ''='"):            0,
		"description_contains=%25":                                   1,
		"description_contains=_":                                     1,
		"description_contains=%5C":                                   1,
		"description_contains=" + url.QueryEscape("quote'"):          1,
		"description_contains=" + url.QueryEscape("' OR '1'='1"):     0,
		"description_contains=p%25n":                                 0,
		"driver=fake-hardware&owner=" + url.QueryEscape("100% used"): 1,
		"driver=FAKE-HARDWARE":                                       0,
		"":                                                           5,
	} {
		nodes, _ := e.do(t, "GET", "/v1/nodes?"+query, "").want(t, http.StatusOK).object(t)["nodes"].([]any)
		if len(nodes) != want {
			t.Errorf("%q: got %d nodes, want %d", query, len(nodes), want)
		}
	}
}

// TestListsOfArgumentsMayBeRepeated asks as clients do that repeat an argument
// instead of writing commas.
func TestListsOfArgumentsMayBeRepeated(t *testing.T) {
	e := start(t, nil)
	uuid := e.create(t, `{"driver":"fake-hardware","name":"a"}`)
	for _, query := range []string{"fields=uuid,name", "fields=uuid&fields=name", "fields=uuid&fields=name,uuid"} {
		want := map[string]any{"uuid": uuid, "name": "a"}
		if diff := cmp.Diff(want, e.do(t, "GET", "/v1/nodes/a?"+query, "").want(t, http.StatusOK).object(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	e.awaitNode(t, e.post(t, machine(goodMAC, "52:54:00:00:00:02")), inspected)
	e.do(t, "GET", "/v1/lookup?addresses="+goodMAC+"&addresses=52:54:00:00:00:02", "").want(t, http.StatusOK)
}
