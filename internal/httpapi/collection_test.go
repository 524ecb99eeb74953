package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// engineServer is the API over a real engine with a database of its own.
type engineServer struct {
	server
	db *store.Store
}

func newEngineServer(t *testing.T, change ...func(*Options)) *engineServer {
	t.Helper()
	db, err := store.Open(t.Context(), storetest.Options(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := inspect.NewPipeline(inspect.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	c := conductor.New(db, drivers, pipeline, conductor.Config{
		Hostname: "ingot-1", Workers: 2, LeaseTTL: 30 * time.Second, WorkTimeout: time.Minute, MaxAttempts: 1, Calls: 64, CallsPerBMC: 2, CallTimeout: 10 * time.Second,
	}, slog.New(slog.DiscardHandler))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	options := Options{Drivers: drivers, Logger: slog.New(slog.DiscardHandler)}
	for _, apply := range change {
		apply(&options)
	}
	return &engineServer{server: server{tb: t, handler: New(c, options)}, db: db}
}

// create posts a record and returns the answer.
func (s *engineServer) create(path, body string) map[string]any {
	s.tb.Helper()
	got := s.do("POST", path, "latest", body).want(http.StatusCreated)
	document := got.json()
	if want := fmt.Sprintf("%s/%s", path, document["uuid"]); !strings.HasSuffix(got.header.Get("Location"), want) {
		s.tb.Errorf("Location of %s: got %q", want, got.header.Get("Location"))
	}
	return document
}

// node creates a node, applies change to it and returns its UUID.
func (s *engineServer) node(change ...func(*node.Node)) string {
	s.tb.Helper()
	uuid := s.create("/v1/nodes", `{"driver":"fake-hardware"}`)["uuid"].(string)
	s.changeNode(uuid, change...)
	return uuid
}

// changeNode changes a node in the database, because clients cannot set its states.
func (s *engineServer) changeNode(uuid string, change ...func(*node.Node)) {
	s.tb.Helper()
	err := s.db.Write(s.tb.Context(), func(tx *store.Tx) error {
		before, err := tx.Node(uuid)
		if err != nil {
			return err
		}
		after := *before
		for _, c := range change {
			c(&after)
		}
		return tx.UpdateNode(before, &after)
	})
	if err != nil {
		s.tb.Fatal(err)
	}
}

func (s *engineServer) patch(path, ops string) reply {
	s.tb.Helper()
	return s.do("PATCH", path, "latest", ops)
}

// uuids returns the UUIDs of a list, in order.
func (s *engineServer) uuids(path, name string) []string {
	s.tb.Helper()
	return listed(s.get(path).want(http.StatusOK), name)
}

func listed(answer reply, name string) []string {
	uuids := []string{}
	items, _ := answer.json()[name].([]any)
	for _, item := range items {
		uuid, _ := item.(map[string]any)["uuid"].(string)
		uuids = append(uuids, uuid)
	}
	return uuids
}

// recordKind describes a kind of record for tests: its path, and bodies that create two
// different records.
type recordKind struct {
	kind, path, name string
	since            int
	one, other       string // with %s for the UUID of a node
	sort             string // a field that clients sort by
}

var recordKinds = []recordKind{
	{"chassis", "/v1/chassis", "chassis", 1, `{"description":"b"}`, `{"description":"a"}`, "description"},
	{"portgroup", "/v1/portgroups", "portgroups", 23, `{"node_uuid":"%s","name":"b"}`, `{"node_uuid":"%s","name":"a"}`, "name"},
	{"allocation", "/v1/allocations", "allocations", 52, `{"resource_class":"x","name":"b"}`, `{"resource_class":"x","name":"a"}`, "name"},
	{"deploy_template", "/v1/deploy_templates", "deploy_templates", 55, oneTemplate, strings.ReplaceAll(oneTemplate, "CUSTOM_B", "CUSTOM_A"), "name"},
	{"runbook", "/v1/runbooks", "runbooks", 92, oneRunbook, strings.ReplaceAll(oneRunbook, "CUSTOM_B", "CUSTOM_A"), "name"},
	{"connector", "/v1/volume/connectors", "connectors", 32, `{"node_uuid":"%s","type":"iqn","connector_id":"b"}`, `{"node_uuid":"%s","type":"iqn","connector_id":"a"}`, "connector_id"},
	{"target", "/v1/volume/targets", "targets", 32, `{"node_uuid":"%s","volume_type":"iscsi","volume_id":"b","boot_index":1}`, `{"node_uuid":"%s","volume_type":"iscsi","volume_id":"a","boot_index":0}`, "boot_index"},
}

const (
	oneTemplate = `{"name":"CUSTOM_B","steps":[{"interface":"bios","step":"apply","args":{"a":1},"priority":150}]}`
	oneRunbook  = `{"name":"CUSTOM_B","steps":[{"interface":"bios","step":"apply","args":{},"order":1}]}`
)

func (k recordKind) bodies(nodeUUID string) (one, other string) {
	fill := func(body string) string { return strings.ReplaceAll(body, "%s", nodeUUID) }
	return fill(k.one), fill(k.other)
}

func forEachKind(t *testing.T, check func(t *testing.T, s *engineServer, k recordKind)) {
	t.Helper()
	for _, k := range recordKinds {
		t.Run(k.kind, func(t *testing.T) {
			check(t, newEngineServer(t), k)
		})
	}
}

func TestRecordsAreCreatedShownPatchedAndDeleted(t *testing.T) {
	forEachKind(t, func(t *testing.T, s *engineServer, k recordKind) {
		t.Helper()
		n := s.node(func(n *node.Node) { n.PowerState = node.PowerOff })
		one, _ := k.bodies(n)
		created := s.create(k.path, one)
		item := k.path + "/" + created["uuid"].(string)
		var sent map[string]any
		if err := json.Unmarshal([]byte(one), &sent); err != nil {
			t.Fatal(err)
		}
		shown := s.get(item).want(http.StatusOK).json()
		for name, value := range sent {
			diffJSON(t, name, value, shown[name])
		}
		patched := s.patch(item, `[{"op":"add","path":"/extra","value":{"a":{"b":1}}},{"op":"replace","path":"/extra/a/b","value":2}]`).
			want(http.StatusOK).json()
		diffJSON(t, "extra", map[string]any{"a": map[string]any{"b": 2.0}}, patched["extra"])
		if patched["updated_at"] == nil {
			t.Error("updated_at is null after a patch")
		}
		s.patch(item, `[{"op":"replace","path":"/uuid","value":"`+uuid1+`"}]`).want(http.StatusBadRequest)
		s.patch(item, `[{"op":"remove","path":"/extra/none"}]`).want(http.StatusBadRequest)
		s.do("DELETE", item, "latest", "").want(http.StatusNoContent)
		s.get(item).want(http.StatusNotFound)
		s.do("DELETE", item, "latest", "").want(http.StatusNotFound)
		s.patch(item, `[]`).want(http.StatusNotFound)
	})
}

func TestInvalidRecordsAreRefused(t *testing.T) {
	forEachKind(t, func(t *testing.T, s *engineServer, k recordKind) {
		t.Helper()
		n := s.node()
		one, _ := k.bodies(n)
		for _, body := range []string{``, `null`, `[]`, `{"color":1}`, `{"created_at":null}`, `{"uuid":"x"}`, `{"extra":[]}`} {
			s.do("POST", k.path, "latest", body).want(http.StatusBadRequest)
		}
		if k.kind != "chassis" {
			s.do("POST", k.path, "latest", `{}`).want(http.StatusBadRequest)
		}
		uuid := s.create(k.path, strings.Replace(one, "{", `{"uuid":"`+uuid1+`",`, 1))["uuid"]
		if uuid != uuid1 {
			t.Errorf("uuid: got %v, want the one that was asked for", uuid)
		}
		s.do("POST", k.path, "latest", strings.Replace(one, "{", `{"uuid":"`+uuid1+`",`, 1)).want(http.StatusConflict)
		if strings.Contains(one, n) {
			s.do("POST", k.path, "latest", strings.ReplaceAll(one, n, uuid2)).want(http.StatusBadRequest)
		}
		s.get(k.path + "?color=red").want(http.StatusBadRequest)
		s.get(k.path + "?sort_key=extra").want(http.StatusBadRequest)
		s.get(k.path + "?fields=color").want(http.StatusBadRequest)
		s.get(k.path + "?marker=" + uuid3).want(http.StatusNotFound)
		s.get(k.path + "/" + uuid3).want(http.StatusNotFound)
		s.get(k.path + "/no%20uuid").want(http.StatusBadRequest)
	})
}

func TestRecordsAreListedPagedAndSorted(t *testing.T) {
	forEachKind(t, func(t *testing.T, s *engineServer, k recordKind) {
		t.Helper()
		one, other := k.bodies(s.node())
		b := s.create(k.path, one)["uuid"].(string)
		a := s.create(k.path, other)["uuid"].(string)
		for path, want := range map[string][]string{
			"":                                {b, a},
			"?sort_key=" + k.sort:             {a, b},
			"?sort_dir=desc":                  {a, b},
			"?limit=1":                        {b},
			"?limit=1&marker=" + b:            {a},
			"?marker=" + a:                    {},
			"?detail=true&sort_key=" + k.sort: {a, b},
			"?fields=uuid," + k.sort + "&marker=" + b: {a},
		} {
			if got := s.uuids(k.path+path, k.name); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		page := s.get(k.path + "?limit=1").json()
		next, _ := page["next"].(string)
		if !strings.Contains(next, k.path+"?") || !strings.Contains(next, "marker="+b) {
			t.Errorf("next: got %q", next)
		}
		diffJSON(t, k.name+"_links", []any{map[string]any{"href": next, "rel": "next"}}, page[k.name+"_links"])
		picked := s.get(k.path + "/" + a + "?fields=" + k.sort).want(http.StatusOK).json()
		if len(picked) != 1 {
			t.Errorf("fields of one record: got %v", picked)
		}
		s.get(k.path + "?fields=uuid&detail=true").want(http.StatusBadRequest)
	})
}

// TestRecordsShowTheFieldsOfTheirVersion compares each kind with the hand-written list,
// at and before the version of each field.
func TestRecordsShowTheFieldsOfTheirVersion(t *testing.T) {
	all := expectations(t)
	forEachKind(t, func(t *testing.T, s *engineServer, k recordKind) {
		t.Helper()
		one, _ := k.bodies(s.node())
		item := k.path + "/" + s.create(k.path, one)["uuid"].(string)
		forEachVersion(func(version int, header string) {
			if version < k.since {
				return
			}
			compareKeys(t, s.do("GET", item, header, "").want(http.StatusOK).json(), expectedNames(all, k.kind, version), header)
			list := s.do("GET", k.path, header, "").want(http.StatusOK).json()[k.name].([]any)
			compareKeys(t, list[0].(map[string]any), expectedNames(all, k.kind+"-brief", version), header+" brief")
		})
		for _, e := range all {
			if e.kind != k.kind && e.kind != k.kind+"-input" {
				continue
			}
			atTheEdge(e.since, func(version int, header string) {
				if version < k.since {
					return
				}
				for _, got := range []reply{
					s.do("PATCH", item, header, `[{"op":"add","path":"/`+e.name+`","value":null}]`),
					s.do("POST", k.path, header, `{"`+e.name+`":[]}`),
					s.do("GET", k.path+"?sort_key="+e.name, header, ""),
				} {
					if got.status == http.StatusInternalServerError {
						t.Errorf("%s at %s: got %s", got.what, header, got.body)
					}
					if (got.status == http.StatusNotAcceptable) != (version < e.since) && got.status != http.StatusMethodNotAllowed {
						t.Errorf("%s %s at %s: got %d %s", got.what, e.name, header, got.status, got.body)
					}
				}
			})
		}
	})
}

func TestFiltersOfRecordsNewerThanTheRequestAreNotAcceptable(t *testing.T) {
	s := newEngineServer(t)
	for _, row := range wordsOf(t, "testdata/filters.txt") {
		since, lowest, path := minor(t, row[0]), minor(t, row[1]), row[2]
		forEachVersion(func(version int, header string) {
			if version < lowest {
				return
			}
			want := http.StatusOK
			if version < since {
				want = http.StatusNotAcceptable
			}
			if got := s.do("GET", path, header, ""); got.status != want {
				t.Errorf("%s at %s: got %d %s, want %d", got.what, header, got.status, got.body, want)
			}
		})
	}
}

func TestConcurrentPatchesOfARecordAllTakeEffect(t *testing.T) {
	const patches = 16
	s := newEngineServer(t)
	item := "/v1/chassis/" + s.create("/v1/chassis", `{}`)["uuid"].(string)
	var done sync.WaitGroup
	for i := range patches {
		done.Go(func() {
			op := fmt.Sprintf(`[{"op":"add","path":"/extra/k%d","value":%d}]`, i, i)
			if got := s.patch(item, op); got.status != http.StatusOK {
				t.Errorf("patch %d: got %d %s", i, got.status, got.body)
			}
		})
	}
	done.Wait()
	if extra := s.get(item).json()["extra"].(map[string]any); len(extra) != patches {
		t.Errorf("got %v, want all %d keys", extra, patches)
	}
}
