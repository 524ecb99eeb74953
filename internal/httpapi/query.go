package httpapi

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// maxPage is the largest and the default number of items on a page.
const maxPage = 1000

var boolWords = map[string]bool{
	"true": true, "1": true, "yes": true, "on": true, "t": true, "y": true,
	"false": false, "0": false, "no": false, "off": false, "f": false, "n": false,
}

// parseBool parses the words that the API accepts as booleans, in any case.
func parseBool(text string) (flag, ok bool) {
	flag, ok = boolWords[strings.ToLower(strings.TrimSpace(text))]
	return flag, ok
}

// boolArg reads a boolean argument. It returns fallback when the argument is missing.
func boolArg(query url.Values, name string, fallback bool) (bool, error) {
	if !query.Has(name) {
		return fallback, nil
	}
	flag, ok := parseBool(query.Get(name))
	if !ok {
		return false, badRequest("Invalid value for argument %s: want true or false, got %q", name, query.Get(name))
	}
	return flag, nil
}

// listArg reads an argument that is a comma list and may be repeated.
func listArg(query url.Values, name string) []string { return commaLists(query[name]) }

// commaLists returns the items of all comma lists.
func commaLists(lists []string) []string {
	var items []string
	for _, value := range lists {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

// pageArgs are the arguments of every paged list.
var pageArgs = []string{"limit", "marker", "sort_key", "sort_dir", "fields", "detail"}

// parsePage reads limit, marker, sort_key and sort_dir.
func parsePage[T any](c *call, t *table[T]) (node.Query, error) {
	limit, desc, err := pageOrder(c)
	q := node.Query{Limit: limit, Desc: desc}
	if err != nil {
		return q, err
	}
	if q.Marker = c.query.Get("marker"); q.Marker != "" && !isUUID(q.Marker) {
		return q, badRequest("Invalid value for argument marker: want a UUID, got %q", q.Marker)
	}
	q.Marker = strings.ToLower(q.Marker)
	if q.SortKey = c.query.Get("sort_key"); q.SortKey == "id" {
		q.SortKey = ""
	}
	if q.SortKey != "" {
		if err := t.sortable(q.SortKey, c.version); err != nil {
			return q, err
		}
	}
	return q, nil
}

// pageOrder reads limit and sort_dir.
func pageOrder(c *call) (limit int, desc bool, err error) {
	limit = maxPage
	if text := c.query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return 0, false, badRequest("Invalid value for argument limit: want a number of at least 1, got %q", text)
		}
		limit = min(limit, maxPage)
	}
	switch direction := c.query.Get("sort_dir"); direction {
	case "", "asc":
	case "desc":
		desc = true
	default:
		return 0, false, badRequest("Invalid value for argument sort_dir: want asc or desc, got %q", direction)
	}
	return limit, desc, nil
}

// fieldsSince and detailSince are the microversions 1.N that introduced the arguments fields and
// detail. They apply to lists that existed before.
const (
	fieldsSince = 8
	detailSince = 43
)

// listFields returns the fields of the items in a list: those in the argument fields, all fields
// for detail=true (since 1.since), otherwise the brief fields.
func listFields[T any](c *call, t *table[T], detailPath bool, since int) ([]*field[T], error) {
	asked := listArg(c.query, "fields")
	if c.query.Has("fields") && c.version < fieldsSince {
		return nil, notAcceptable("Argument fields", fieldsSince)
	}
	if c.query.Has("detail") && c.version < since {
		return nil, notAcceptable("Argument detail", since)
	}
	detail, err := boolArg(c.query, "detail", detailPath)
	if err != nil {
		return nil, err
	}
	switch {
	case len(asked) > 0 && (detail || detailPath):
		return nil, badRequest("Arguments fields and detail cannot be combined.")
	case len(asked) > 0:
		return t.selected(asked, c.version)
	case detail || detailPath:
		return t.detail[c.version], nil
	}
	return t.brief[c.version], nil
}

// itemFields returns the fields in the answer to a request for one item.
func itemFields[T any](c *call, t *table[T]) ([]*field[T], error) {
	if !c.query.Has("fields") {
		return t.detail[c.version], nil
	}
	if c.version < fieldsSince {
		return nil, notAcceptable("Argument fields", fieldsSince)
	}
	asked := listArg(c.query, "fields")
	if len(asked) == 0 {
		return t.detail[c.version], nil
	}
	return t.selected(asked, c.version)
}
