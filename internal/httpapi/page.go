package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
)

// page is what a list answers with.
type page[T any] struct {
	name   string // key of the list, "nodes"
	path   string // below /v1, without query, for the next link
	items  []*T
	fields []*field[T]
	limit  int
	last   func(*T) string // UUID of an item
}

// write sends the page. A full page carries the way to the next one twice: as
// next, and as <name>_links, because clients disagree on which one they read.
func (p page[T]) write(w http.ResponseWriter, c *call, v *view) error {
	return answer(w, http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"`...)
		dst = append(dst, p.name...)
		dst = append(dst, `":[`...)
		for i, item := range p.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendItem(dst, v, item, p.fields)
		}
		dst = append(dst, ']')
		if next := p.next(c); next != "" {
			dst = append(dst, `,"next":`...)
			dst = appendString(dst, next)
			dst = append(dst, `,"`...)
			dst = append(dst, p.name...)
			dst = append(dst, `_links":[{"href":`...)
			dst = appendString(dst, next)
			dst = append(dst, `,"rel":"next"}]`...)
		}
		return append(dst, '}')
	})
}

// next is the absolute URL of the page behind this one, with every argument of
// the request, or "" when this one is not full.
func (p page[T]) next(c *call) string {
	if p.limit == 0 || len(p.items) < p.limit {
		return ""
	}
	query := make(url.Values, len(c.query)+2)
	for key, values := range c.query {
		query[key] = values
	}
	query.Set("limit", strconv.Itoa(p.limit))
	query.Set("marker", p.last(p.items[len(p.items)-1]))
	return c.base + "/v1/" + p.path + "?" + query.Encode()
}
