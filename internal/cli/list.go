package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// maxPage is the most nodes that one request asks for; engines cap it there.
const maxPage = 1000

// NodeList prints the nodes that match. The zero value prints all of them as
// a table with the usual columns.
type NodeList struct {
	// Filters; empty or false does not filter.
	ProvisionState string
	Driver         string
	AutoDiscovered bool
	// Fields are the columns. Long is a longer set than the default one; it
	// excludes Fields.
	Fields []string
	Long   bool
	// Sort is FIELD, FIELD:asc or FIELD:desc. Empty is order of creation.
	Sort string
	// Limit is the most nodes to print, 0 for all.
	Limit  int
	Output Output
}

// Run asks the engine and prints to out.
func (l NodeList) Run(ctx context.Context, engine *baremetal.Client, out io.Writer) error {
	query, err := l.query()
	if err != nil {
		return &UsageError{err}
	}
	var nodes []document
	for raw, err := range engine.NodeDocuments(ctx, query) {
		if err != nil {
			return err
		}
		n, err := parseDocument(raw)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
		if len(nodes) == l.Limit {
			break
		}
	}
	return l.Output.list(out, query.Fields, nodes)
}

func (l NodeList) query() (baremetal.NodeQuery, error) {
	if l.Long && len(l.Fields) > 0 {
		return baremetal.NodeQuery{}, errors.New("--long and --fields exclude each other")
	}
	if l.Limit < 0 {
		return baremetal.NodeQuery{}, fmt.Errorf("--limit is %d, it must not be negative", l.Limit)
	}
	q := baremetal.NodeQuery{
		Fields:         l.Fields,
		ProvisionState: l.ProvisionState,
		Driver:         l.Driver,
		PageSize:       min(l.Limit, maxPage),
	}
	if len(q.Fields) == 0 {
		q.Fields = shortColumns
	}
	if l.Long {
		q.Fields = longColumns
	}
	if l.AutoDiscovered {
		q.AutoDiscovered = &l.AutoDiscovered
	}
	key, direction, _ := strings.Cut(l.Sort, ":")
	switch dir := baremetal.SortDir(direction); dir {
	case "", baremetal.Ascending, baremetal.Descending:
		q.SortKey, q.SortDir = key, dir
	default:
		return baremetal.NodeQuery{}, fmt.Errorf("--sort ends in %q, it must be FIELD:asc or FIELD:desc", direction)
	}
	return q, nil
}
