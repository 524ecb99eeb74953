package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
)

// view is everything besides the item that writing an item depends on.
type view struct {
	version int // microversion 1.N
	role    role.Role
	links   linkBase
	// conductors are all conductors; empty unless a field has needsConductors.
	conductors []node.Conductor
	now        time.Time
}

func (a *api) viewOf(c *call) *view {
	return &view{version: c.version, role: c.role, links: newLinkBase(c.base), now: a.now()}
}

// viewWith returns the view of a request whose answer has these fields.
func viewWith[T any](a *api, r *http.Request, fields []*field[T]) (*view, error) {
	v := a.viewOf(callOf(r))
	for _, f := range fields {
		if !f.needsConductors {
			continue
		}
		var err error
		if v.conductors, err = a.conductorCache.conductors(r.Context(), a.engine, v.now); err != nil {
			return nil, fmt.Errorf("list conductors: %w", err)
		}
		break
	}
	return v, nil
}

// access says who may write a field, and when.
type access int

const (
	readOnly  access = iota // only the engine
	atCreate                // a client when it creates the item
	patchable               // a client at any time
)

// field is one field of a resource in the API. The tables of fields are the only
// definition of the fields, their microversions and their access.
type field[T any] struct {
	name   string
	since  int // microversion 1.N
	access access
	brief  bool // shown in lists without detail
	noSort bool // not a sort_key
	// clearSince is the first microversion 1.N in which a patch may remove the value;
	// 0 means every version.
	clearSince int
	// lateOperations says that a request with an older version than the field may patch the field
	// by any operation but the first. Ironic checks only the first operation, and tests of its
	// clients rely on that.
	lateOperations bool
	instead        string // another field; a POST may have only one of the two
	// needsConductors says that the value depends on the list of conductors.
	needsConductors bool
	// role is the least role that may read and write the field; None means every role. Others read
	// {}, so only objects may have a role.
	role role.Role
	value[T]

	key []byte // name as JSON, with colon
}

// value writes a field as JSON and reads it from JSON.
type value[T any] struct {
	// append writes the value. It is nil for fields that are never shown.
	append func(dst []byte, v *view, item *T) []byte
	// read sets the field from JSON; null resets it to its default. The caller adds the field name
	// to its error. It is nil for fields that clients cannot write.
	read func(item *T, raw json.RawMessage) error
	// text returns the JSON of the value. It is nil unless a patch may address parts
	// of the value.
	text func(item *T) string
}

// table has all fields of a kind of resource, in the order of output.
type table[T any] struct {
	kind   string // "node", "port"
	one    string // "a node", "an allocation"
	fields []*field[T]
	byName map[string]*field[T]
	detail [maxVersion + 1][]*field[T] // by version
	brief  [maxVersion + 1][]*field[T]
}

// inLists marks the fields as fields of lists without detail, and returns them.
func inLists[T any](fields []field[T]) []field[T] {
	for i := range fields {
		fields[i].brief = fields[i].append != nil
	}
	return fields
}

func newTable[T any](kind string, parts ...[]field[T]) *table[T] {
	t := &table[T]{kind: kind, one: "a " + kind, byName: map[string]*field[T]{}}
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		t.one = "an " + kind
	}
	for _, f := range slices.Concat(parts...) {
		f.key = append(appendString(nil, f.name), ':')
		t.fields = append(t.fields, &f)
		t.byName[f.name] = &f
	}
	for version := minVersion; version <= maxVersion; version++ {
		if version > minVersion && !slices.ContainsFunc(t.fields, func(f *field[T]) bool { return f.since == version }) {
			t.detail[version], t.brief[version] = t.detail[version-1], t.brief[version-1]
			continue
		}
		for _, f := range t.fields {
			if f.append == nil || f.since > version {
				continue
			}
			t.detail[version] = append(t.detail[version], f)
			if f.brief {
				t.brief[version] = append(t.brief[version], f)
			}
		}
	}
	return t
}

// find returns the field of this name. An unknown name is a 400. A field newer than the version of
// the request is a 406.
func (t *table[T]) find(name string, version int) (*field[T], error) {
	f := t.byName[name]
	if f == nil {
		return nil, badRequest("Unknown field %q of %s.", name, t.one)
	}
	if f.since > version {
		return nil, notAcceptable(fmt.Sprintf("Field %q of %s", name, t.one), f.since)
	}
	return f, nil
}

// checkRole refuses a field that the role of the user may not write.
func (t *table[T]) checkRole(f *field[T], c *call) error {
	if c.role >= f.role {
		return nil
	}
	return needsRole(fmt.Sprintf("The field %q of %s", f.name, t.one), f.role, c.role)
}

// selected returns the fields that the argument fields names.
func (t *table[T]) selected(names []string, version int) ([]*field[T], error) {
	var unknown []string
	fields := make([]*field[T], 0, len(names))
	for _, name := range names {
		f, err := t.find(name, version)
		switch {
		case t.byName[name] == nil || f != nil && f.append == nil:
			unknown = append(unknown, name)
		case err != nil:
			return nil, err
		case !slices.Contains(fields, f):
			fields = append(fields, f)
		}
	}
	if len(unknown) > 0 {
		return nil, badRequest("Unknown fields of %s: %s.", t.one, strings.Join(unknown, ", "))
	}
	return fields, nil
}

// sortable checks the argument sort_key.
func (t *table[T]) sortable(name string, version int) error {
	f, err := t.find(name, version)
	if err == nil && f.noSort {
		return badRequest("A list of %ss cannot be sorted by %q.", t.kind, name)
	}
	return err
}

// appendItem writes one item with the given fields.
func appendItem[T any](dst []byte, v *view, item *T, fields []*field[T]) []byte {
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, f.key...)
		if v.role < f.role {
			dst = append(dst, "{}"...)
			continue
		}
		dst = f.append(dst, v, item)
	}
	return append(dst, '}')
}
