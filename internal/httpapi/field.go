package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// view is for whom an item is written.
type view struct {
	version int // microversion 1.N
	links   linkBase
	// conductors are all there are, for fields that ask for them.
	conductors []node.Conductor
	now        time.Time
}

func (a *api) viewOf(c *call) *view {
	return &view{version: c.version, links: newLinkBase(c.base), now: a.now()}
}

// viewWith returns the view of a request that is answered with these fields.
func viewWith[T any](a *api, r *http.Request, fields []*field[T]) (*view, error) {
	v := a.viewOf(callOf(r))
	for _, f := range fields {
		if !f.asksConductors {
			continue
		}
		var err error
		if v.conductors, err = a.roster.conductors(r.Context(), a.engine, v.now); err != nil {
			return nil, fmt.Errorf("list conductors: %w", err)
		}
		break
	}
	return v, nil
}

// access says who may write a field.
type access int

const (
	readOnly  access = iota // the engine
	atCreate                // a client, once, when it creates the item
	patchable               // a client, always
)

// field is one field of a node or a port as the API shows it. The tables of
// fields are the only place that knows which there are, since when, and who may
// write them.
type field[T any] struct {
	name   string
	since  int // microversion 1.N
	access access
	brief  bool // stands in lists without detail
	noSort bool // cannot be sorted by
	// clearSince is the microversion 1.N since which a patch may remove the
	// value; 0 means always.
	clearSince int
	instead    string // the field of which a POST sends only one; "" means none
	// asksConductors says that the value depends on which conductors live.
	asksConductors bool
	value[T]

	key []byte // name as JSON, with colon
}

// value is how a field is written to JSON and read from it.
type value[T any] struct {
	// append is nil for fields that clients send and never see.
	append func(dst []byte, v *view, item *T) []byte
	// read sets the field from JSON; null resets it to its default. Its error
	// needs no field name. Nil for fields that nobody writes.
	read func(item *T, raw json.RawMessage) error
	// text is set for values whose parts a patch may address: their JSON.
	text func(item *T) string
}

// table is all fields of a kind, in the order of output.
type table[T any] struct {
	kind   string // "node", "port"
	one    string // "a node", "an allocation"
	fields []*field[T]
	byName map[string]*field[T]
	detail [maxVersion + 1][]*field[T] // by version
	brief  [maxVersion + 1][]*field[T]
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
		if f.append == nil {
			continue
		}
		for version := max(f.since, minVersion); version <= maxVersion; version++ {
			t.detail[version] = append(t.detail[version], &f)
			if f.brief {
				t.brief[version] = append(t.brief[version], &f)
			}
		}
	}
	return t
}

// find returns the field that a request of this version names: 400 when there
// is none, 406 when it is newer than the request.
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

// selected returns the fields that fields= asks for.
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

// sortable checks a sort_key.
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
		dst = f.append(dst, v, item)
	}
	return append(dst, '}')
}
