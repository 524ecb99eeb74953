package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
)

// page is the answer to a list request.
type page[T any] struct {
	name   string // key of the list, "nodes"
	path   string // below /v1, without query, for the next link
	items  []*T
	fields []*field[T]
	limit  int
	cut    bool            // the page ended before its limit, and more items follow
	last   func(*T) string // UUID of an item
}

// write sends the page. A full or cut page has the link to the next page twice, as next and as
// <name>_links, because some clients read only one of them.
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

// next returns the absolute URL of the next page, with every argument of the request.
// It returns "" when this page is the last one.
func (p page[T]) next(c *call) string {
	if !p.cut && (p.limit == 0 || len(p.items) < p.limit) {
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
