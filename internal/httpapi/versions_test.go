package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

// expectation is one word of testdata/versions.txt.
type expectation struct {
	since int
	kind  string
	name  string
}

func expectations(t *testing.T) []expectation {
	t.Helper()
	var all []expectation
	for _, words := range wordsOf(t, "testdata/versions.txt") {
		for _, name := range words[2:] {
			all = append(all, expectation{minor(t, words[0]), words[1], name})
		}
	}
	return all
}

// wordsOf reads the rows of words in a file, without comments.
func wordsOf(t *testing.T, path string) (rows [][]string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 0 && words[0] != "#" {
			rows = append(rows, words)
		}
	}
	return rows
}

func minor(t *testing.T, version string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(version, "1."))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// expectedNames returns the sorted names of a kind in a version.
func expectedNames(all []expectation, kind string, version int) []string {
	var names []string
	for _, e := range all {
		if e.kind == kind && e.since <= version {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}

// forEachVersion runs check for every supported version.
func forEachVersion(check func(version int, header string)) {
	for version := minVersion; version <= maxVersion; version++ {
		check(version, fmt.Sprintf("1.%d", version))
	}
}

func TestEveryVersionShowsItsFieldsAndNoOthers(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.ports = []*node.Port{{UUID: uuid2, NodeUUID: uuid1, Address: "52:54:00:12:34:56"}}
	all := expectations(t)
	forEachVersion(func(version int, header string) {
		for kind, path := range map[string]string{"node": "/v1/nodes/" + uuid1, "port": "/v1/ports/" + uuid2} {
			compareKeys(t, s.do("GET", path, header, "").want(200).json(), expectedNames(all, kind, version), header+" "+kind)
		}
	})
}

func compareKeys(t *testing.T, document map[string]any, want []string, what string) {
	t.Helper()
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(document))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRootDocumentNamesTheCollectionsOfItsVersion(t *testing.T) {
	s := newServer(t)
	all := expectations(t)
	forEachVersion(func(version int, header string) {
		document := s.do("GET", "/v1", header, "").want(200).json()
		for _, fixed := range []string{"id", "version", "links", "media_types"} {
			delete(document, fixed)
		}
		if diff := cmp.Diff(expectedNames(all, "root", version), slices.Sorted(maps.Keys(document))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", header, diff)
		}
	})
}

// atTheEdge runs check before and at a version, and at both ends of the range.
func atTheEdge(since int, check func(version int, header string)) {
	for _, version := range []int{minVersion, since - 1, since, maxVersion} {
		if version >= minVersion && version <= maxVersion {
			check(version, fmt.Sprintf("1.%d", version))
		}
	}
}

// TestFieldsNewerThanTheRequestAreNotAcceptable uses each field in every place where a
// client can name it.
func TestFieldsNewerThanTheRequestAreNotAcceptable(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.ports = []*node.Port{{UUID: uuid2, NodeUUID: uuid1, Address: "52:54:00:12:34:56"}}
	for _, e := range expectations(t) {
		if e.kind != "node" && e.kind != "port" {
			continue
		}
		items := map[string]string{"node": "/v1/nodes", "port": "/v1/ports"}[e.kind]
		item := items + "/" + map[string]string{"node": uuid1, "port": uuid2}[e.kind]
		atTheEdge(e.since, func(version int, header string) {
			asks := []reply{
				s.do("PATCH", item, header, `[{"op":"add","path":"/`+e.name+`","value":null}]`),
				s.do("POST", items, header, `{"`+e.name+`":[]}`),
				s.do("GET", items+"?sort_key="+e.name, header, ""),
			}
			if version >= fieldsSince {
				asks = append(asks, s.do("GET", items+"?fields="+e.name, header, ""), s.do("GET", item+"?fields="+e.name, header, ""))
			}
			for _, got := range asks {
				if (got.status == http.StatusNotAcceptable) != (version < e.since) {
					t.Errorf("%s %s at %s: got %d %s", got.what, e.name, header, got.status, got.body)
				}
			}
		})
	}
}

func TestFiltersNewerThanTheRequestAreNotAcceptable(t *testing.T) {
	s := newServer(t)
	all := expectations(t)
	for _, e := range all {
		if e.kind != "filter" {
			continue
		}
		forEachVersion(func(version int, header string) {
			want := http.StatusOK
			if version < e.since {
				want = http.StatusNotAcceptable
			}
			if got := s.do("GET", "/v1/nodes?"+e.name, header, ""); got.status != want {
				t.Errorf("%s at %s: got %d %s, want %d", got.what, header, got.status, got.body, want)
			}
		})
	}
}

func TestVerbsNewerThanTheRequestAreNotAcceptable(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	all := expectations(t)
	var known []string
	for _, verb := range node.Verbs() {
		known = append(known, verb.Name)
	}
	slices.Sort(known)
	if diff := cmp.Diff(expectedNames(all, "verb", 999), known); diff != "" {
		t.Errorf("verbs (-want +got):\n%s", diff)
	}
	for _, e := range all {
		if e.kind != "verb" {
			continue
		}
		body, _ := json.Marshal(map[string]string{"target": e.name})
		forEachVersion(func(version int, header string) {
			got := s.do("PUT", "/v1/nodes/"+uuid1+"/states/provision", header, string(body))
			if (got.status == http.StatusNotAcceptable) != (version < e.since) {
				t.Errorf("verb %s at %s: got %d %s", e.name, header, got.status, got.body)
			}
		})
	}
}

func TestRoutesNewerThanTheRequestAreHidden(t *testing.T) {
	s := newEngineServer(t)
	for _, row := range wordsOf(t, "testdata/routes.txt") {
		since, method, path := minor(t, row[0]), row[2], row[3]
		below, _ := strconv.Atoi(row[1])
		forEachVersion(func(version int, header string) {
			got := s.do(method, path, header, "")
			if version < since && got.status != below {
				t.Errorf("%s at %s: got %d, want %d", got.what, header, got.status, below)
			}
			if version >= since && hidden(got) {
				t.Errorf("%s at %s: got %d, want it to be there", got.what, header, got.status)
			}
		})
	}
}

// hidden reports whether the router refused the request, not a handler.
func hidden(got reply) bool {
	if got.status < 400 {
		return false
	}
	_, router := got.fault()["code"]
	return router || got.status == http.StatusNotAcceptable
}

func TestInspectionPostExistsWithoutAVersionAndSinceItsOwn(t *testing.T) {
	s := newServer(t)
	s.engine.answer = &node.LookupAnswer{Node: &node.Node{UUID: uuid1}}
	forEachVersion(func(version int, header string) {
		want := http.StatusNotFound
		if version == 1 || version >= 84 {
			want = http.StatusOK
		}
		if got := s.do("POST", "/v1/continue_inspection", header, `{}`); got.status != want {
			t.Errorf("at %s: got %d %s, want %d", header, got.status, got.body, want)
		}
	})
	s.do("POST", "/v1/continue_inspection", "", `{}`).want(200)
}

func TestOldVersionsSeeOldStates(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.ProvisionState = node.Available })
	s.addNode(uuid2, func(n *node.Node) { n.ProvisionState = node.InspectWait })
	for _, tt := range []struct {
		version, uuid string
		want          any
	}{
		{"1.1", uuid1, nil},
		{"1.2", uuid1, "available"},
		{"1.38", uuid2, "inspecting"},
		{"1.39", uuid2, "inspect wait"},
	} {
		if got := s.do("GET", "/v1/nodes/"+tt.uuid, tt.version, "").want(200).json()["provision_state"]; got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.version, got, tt.want)
		}
	}
}
