package ironic

import (
	"net/url"
	"strconv"
	"strings"
)

// SortDir is the direction of a sorted list. The zero value leaves it to the engine, which sorts in
// ascending order.
type SortDir string

// The directions that the API knows.
const (
	Ascending  SortDir = "asc"
	Descending SortDir = "desc"
)

// NodeQuery selects and orders nodes. The zero value selects all nodes with the engine's default
// fields, in the order of their creation.
type NodeQuery struct {
	// Fields are the fields to fill; uuid is always among them. Empty means
	// the engine's default fields.
	Fields []string
	// Detail requests every field. It excludes Fields.
	Detail bool

	// Filters; the zero value of each does not filter.
	ProvisionState string
	Driver         string
	AutoDiscovered *bool
	Maintenance    *bool

	// SortKey is the field to sort by, for instance updated_at.
	SortKey string
	SortDir SortDir

	// PageSize is how many nodes one request returns. Zero means the engine's limit, usually 1,000.
	PageSize int
}

func (q NodeQuery) values() (url.Values, error) {
	v := url.Values{}
	set := func(key, value string) {
		if value != "" {
			v.Set(key, value)
		}
	}
	fields := withID(q.Fields, "uuid")
	if q.Detail && len(fields) > 0 {
		return nil, &Error{Op: "list nodes", Kind: ErrRejected, Message: "chosen fields and full detail exclude each other"}
	}
	set("fields", strings.Join(fields, ","))
	if q.Detail {
		set("detail", "true")
	}
	set("provision_state", q.ProvisionState)
	set("driver", q.Driver)
	set(flagField, boolText(q.AutoDiscovered))
	set("maintenance", boolText(q.Maintenance))
	set("sort_key", q.SortKey)
	set("sort_dir", string(q.SortDir))
	if q.PageSize > 0 {
		set("limit", strconv.Itoa(q.PageSize))
	}
	return v, nil
}

func boolText(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}
