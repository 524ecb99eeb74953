package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/node"
)

// list describes one request for a list of items.
type list[T any] struct {
	table  *table[T]
	name   string // key of the list, "nodes"
	path   string // below /v1, without /detail and query, for the next link
	detail bool   // the request is for path/detail, which lists all fields
	// detailSince is the microversion 1.N that introduced the argument detail.
	detailSince int
	// knowsBrief says that read supports node.Query.Brief. A page of a short list is then small,
	// whatever other fields its items have.
	knowsBrief bool
	// unpaged is set when at most one item matches the conditions.
	unpaged    bool
	conditions []node.Filter
	read       func(context.Context, node.Query) ([]*T, error)
	uuid       func(*T) string
}

// maxPageBytes is the number of bytes of text after which a page ends, so that a list of large
// items does not take all memory. A page of usual nodes has a tenth of it.
const maxPageBytes = 8 << 20

// writeList answers with the page that the arguments of the request select.
func writeList[T any](a *api, w http.ResponseWriter, r *http.Request, l list[T]) error {
	c := callOf(r)
	fields, err := listFields(c, l.table, l.detail, l.detailSince)
	if err != nil {
		return err
	}
	query, err := parsePage(c, l.table)
	if err != nil {
		return err
	}
	if l.unpaged {
		query.Limit, query.Marker = 0, ""
	} else {
		query.MaxBytes = maxPageBytes
	}
	query.Filters = l.conditions
	query.Brief = l.knowsBrief && isBrief(fields)
	v, err := viewWith(a, r, fields)
	if err != nil {
		return err
	}
	if !query.Brief {
		leave, err := a.enterLarge(r, a.largeAnswers)
		if err != nil {
			return err
		}
		defer leave()
	}
	items, err := l.read(r.Context(), query)
	cut := errors.Is(err, node.ErrPageCut)
	if err != nil && !cut {
		return fmt.Errorf("list %s: %w", l.name, err)
	}
	p := page[T]{name: l.name, path: suffixed(l.path, l.detail), items: items, fields: fields, limit: query.Limit, cut: cut, last: l.uuid}
	return p.write(w, c, v)
}

// isBrief reports whether lists without detail have all of the fields.
func isBrief[T any](fields []*field[T]) bool {
	for _, f := range fields {
		if !f.brief {
			return false
		}
	}
	return true
}

// writeItem answers with one item.
func writeItem[T any](a *api, w http.ResponseWriter, r *http.Request, status int, item *T, fields []*field[T]) error {
	v, err := viewWith(a, r, fields)
	if err != nil {
		return err
	}
	return answer(w, status, func(dst []byte) []byte { return appendItem(dst, v, item, fields) })
}

// showItem answers a request to read one item. A large answer stays in memory until the client has
// read it, so it takes a slot.
func showItem[T any](a *api, w http.ResponseWriter, r *http.Request, item *T, fields []*field[T]) error {
	v, err := viewWith(a, r, fields)
	if err != nil {
		return err
	}
	build := func(dst []byte) []byte { return appendItem(dst, v, item, fields) }
	return withBuffer(build, func(body []byte) error {
		slot := answerSlot{api: a, request: r}
		defer slot.end()
		if err := slot.take(len(body)); err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, body)
		return nil
	})
}

// suffixed returns the path of a list. If detail is set, that is the path that lists all fields.
func suffixed(path string, detail bool) string {
	if detail {
		return path + "/detail"
	}
	return path
}
