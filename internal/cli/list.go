package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// maxPage is the largest page that one request asks for; engines allow no more.
const maxPage = 1000

// List prints the matching objects of a collection. With only a Resource it prints all objects as a
// table with the usual columns.
type List struct {
	Resource Resource
	// Filters limit what is listed.
	Filters Values
	// Fields are the columns. Long chooses a longer set than the default one; it excludes Fields.
	Fields []string
	Long   bool
	// Sort is FIELD, FIELD:asc or FIELD:desc. Empty means order of creation.
	Sort string
	// Limit is the largest number of objects to print, 0 for all.
	Limit int
	// Marker is the UUID of the object after which the list begins. Empty means the whole list.
	Marker string
	Output Output
}

// Run asks the engine and prints to out.
func (l *List) Run(ctx context.Context, engine *ironic.Client, out io.Writer) error {
	listing, err := l.listing()
	if err != nil {
		return &UsageError{err}
	}
	columns := listing.Fields
	if l.Resource.Whole {
		listing.Fields = nil
	}
	documents := engine.Documents(ctx, listing)
	if l.Limit > 0 {
		documents = first(documents, l.Limit)
	}
	found, err := collect(documents)
	if err != nil {
		return err
	}
	return l.Output.list(out, columns, found)
}

// collect reads a sequence of documents to its end.
func collect(documents iter.Seq2[json.RawMessage, error]) ([]document, error) {
	var found []document
	for raw, err := range documents {
		if err != nil {
			return nil, err
		}
		d, err := parseDocument(raw)
		if err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, nil
}

// first returns the first n elements of a sequence, or all if it has fewer. n is at least 1.
func first(documents iter.Seq2[json.RawMessage, error], n int) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		left := n
		for raw, err := range documents {
			left--
			if !yield(raw, err) || left == 0 {
				return
			}
		}
	}
}

var errLongFields = errors.New("--long and --fields exclude each other")

func (l *List) listing() (ironic.Listing, error) {
	if l.Long && len(l.Fields) > 0 {
		return ironic.Listing{}, errLongFields
	}
	if l.Limit < 0 {
		return ironic.Listing{}, fmt.Errorf("--limit is %d, it must not be negative", l.Limit)
	}
	listing := l.Resource.listing()
	listing.Fields = l.Fields
	if len(listing.Fields) == 0 {
		listing.Fields = l.Resource.Short
	}
	if l.Long {
		listing.Fields = l.Resource.Long
	}
	listing.Query = l.Filters.Query()
	key, direction, _ := strings.Cut(l.Sort, ":")
	switch dir := ironic.SortDir(direction); dir {
	case "", ironic.Ascending, ironic.Descending:
		set(listing.Query, "sort_key", key)
		set(listing.Query, "sort_dir", direction)
	default:
		return ironic.Listing{}, fmt.Errorf("--sort ends in %q, it must be FIELD:asc or FIELD:desc", direction)
	}
	set(listing.Query, "marker", l.Marker)
	if l.Limit > 0 {
		set(listing.Query, "limit", strconv.Itoa(min(l.Limit, maxPage)))
	}
	return listing, nil
}

func set(query url.Values, key, value string) {
	if value != "" {
		query.Set(key, value)
	}
}
