package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// collection serves list, create, show, patch and delete for one kind of record. The kinds differ
// only in the values of these fields.
type collection[T any] struct {
	api   *api
	table *table[T]
	path  string // below /v1, "volume/connectors"
	name  string // key of a list, "connectors"
	named bool   // a name may stand for the UUID in paths
	// since is the microversion 1.N that introduced the kind, patchSince that of PATCH, and
	// detailSince that of the argument detail; 0 means since. writeBelow is the status for writes
	// with an older version; 0 means 404.
	since, patchSince, detailSince, writeBelow int

	detailPath bool // GET .../detail lists all fields
	filters    []filter
	all        func(Engine) node.Collection[T]
	uuid       func(*T) string
	defaults   func() *T           // a new record with its defaults; nil means the zero value
	check      func(*T, int) error // rules between the fields of a record, by version
	// restore replaces masks in a client's request with the stored secrets; nil when records have
	// no secrets. For a new record, old is the zero value.
	restore   func(old, changed *T) error
	exclusive [][]string // groups of filters; a request may use one group only
}

// routes returns the routes of the collection.
func (s *collection[T]) routes() []route {
	all, item := "/v1/"+s.path, "/v1/"+s.path+"/{ident}"
	args := filterArgs(s.filters)
	routes := []route{
		{method: get, pattern: all, role: reader, since: s.since, args: args, handler: s.list},
		{method: post, pattern: all, role: operator, since: s.since, below: s.writeBelow, handler: s.create},
		{method: get, pattern: item, role: reader, since: s.since, args: []string{"fields"}, handler: s.show},
		{method: patch, pattern: item, role: operator, since: max(s.since, s.patchSince), below: s.writeBelow, handler: s.patch},
		{method: remove, pattern: item, role: admin, since: s.since, below: s.writeBelow, handler: s.remove},
	}
	if s.detailPath {
		routes = append(routes, route{method: get, pattern: all + "/detail", role: reader, since: s.since, args: args, handler: s.listDetail})
	}
	return routes
}

// kind returns the kind for error texts, such as "port group".
func (s *collection[T]) kind() string { return s.table.kind }

// ident returns the UUID or name of the record in the path.
func (s *collection[T]) ident(r *http.Request) (string, error) {
	ident := r.PathValue("ident")
	if versionOf(r) < suffixSince {
		if stem, ok := strings.CutSuffix(ident, ".json"); ok && isUUID(stem) {
			ident = stem
		}
	}
	switch {
	case isUUID(ident):
		return strings.ToLower(ident), nil
	case !s.named:
		return "", badRequest("Expected the UUID of %s, got %q", s.table.one, node.CutText(ident))
	case len(ident) > maxText || !namePattern.MatchString(ident):
		return "", badRequest("Expected the UUID or the name of %s, got %q", s.table.one, node.CutText(ident))
	}
	return ident, nil
}

func (s *collection[T]) list(w http.ResponseWriter, r *http.Request) error {
	return s.writeList(w, r, s.path, false)
}

func (s *collection[T]) listDetail(w http.ResponseWriter, r *http.Request) error {
	return s.writeList(w, r, s.path, true)
}

// ofNode returns the handler for the records of the node in the path.
func (s *collection[T]) ofNode(detail bool) apiHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		n, err := s.api.pathNode(r)
		if err != nil {
			return err
		}
		return s.writeList(w, r, "nodes/"+n.UUID+"/"+s.path, detail, node.Filter{Field: "node_uuid", Value: n.UUID})
	}
}

func (s *collection[T]) writeList(w http.ResponseWriter, r *http.Request, path string, detail bool, conditions ...node.Filter) error {
	asked, err := s.api.conditions(r, s.filters)
	if err != nil {
		return err
	}
	if err := checkExclusive(callOf(r), s.exclusive); err != nil {
		return err
	}
	return writeList(s.api, w, r, list[T]{
		table: s.table, name: s.name, path: path, detail: detail, detailSince: s.detailSince, conditions: append(asked, conditions...),
		read: s.all(s.api.engine).List, uuid: s.uuid,
	})
}

func (s *collection[T]) create(w http.ResponseWriter, r *http.Request) error {
	record := new(T)
	if s.defaults != nil {
		record = s.defaults()
	}
	if err := readItem(w, r, s.table, record); err != nil {
		return err
	}
	c := callOf(r)
	if err := s.check(record, c.version); err != nil {
		return err
	}
	if err := s.restoreSecrets(new(T), record); err != nil {
		return err
	}
	created, err := s.all(s.api.engine).Create(r.Context(), record)
	if err != nil {
		return fmt.Errorf("create %s: %w", s.kind(), err)
	}
	w.Header().Set("Location", c.base+"/v1/"+s.path+"/"+s.uuid(created))
	return writeItem(s.api, w, r, http.StatusCreated, created, s.table.detail[c.version])
}

func (s *collection[T]) show(w http.ResponseWriter, r *http.Request) error {
	fields, err := itemFields(callOf(r), s.table)
	if err != nil {
		return err
	}
	ident, err := s.ident(r)
	if err != nil {
		return err
	}
	record, err := s.all(s.api.engine).Get(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", s.kind(), ident, err)
	}
	return showItem(s.api, w, r, record, fields)
}

func (s *collection[T]) patch(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := s.ident(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	edits, err := parsePatch(body, s.table, c)
	if err != nil {
		return err
	}
	changed, err := s.all(s.api.engine).Update(r.Context(), ident, func(record *T) error {
		old := *record
		if err := applyAll(edits, record); err != nil {
			return err
		}
		if err := s.restoreSecrets(&old, record); err != nil {
			return err
		}
		return s.check(record, c.version)
	})
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", s.kind(), ident, err)
	}
	return writeItem(s.api, w, r, http.StatusOK, changed, s.table.detail[c.version])
}

func (s *collection[T]) restoreSecrets(old, changed *T) error {
	if s.restore == nil {
		return nil
	}
	return s.restore(old, changed)
}

func (s *collection[T]) remove(w http.ResponseWriter, r *http.Request) error {
	ident, err := s.ident(r)
	if err != nil {
		return err
	}
	if err := s.all(s.api.engine).Delete(r.Context(), ident); err != nil {
		return fmt.Errorf("delete %s %s: %w", s.kind(), ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
