package node

import (
	"errors"
	"time"
)

// ErrPageCut comes with the items of a page that ended before its limit because the page has
// reached its size in bytes. More items may follow.
var ErrPageCut = errors.New("the page is cut")

// Query selects a page of nodes or ports. The zero value means the first page of
// everything in order of creation.
type Query struct {
	Filters []Filter // all must hold
	SortKey string   // field name; empty means order of creation, which also breaks ties
	Desc    bool
	Marker  string // UUID of the last item of the page before; unknown is a *NotFoundError
	Limit   int    // at least 1; 0 means no limit
	// MaxBytes ends a page after this many bytes of text. The items read so far come with
	// ErrPageCut. 0 means no limit.
	MaxBytes int
	// Brief reads only the fields of a short list. For a node these are ID, UUID,
	// Name, InstanceUUID, PowerState, ProvisionState and Maintenance, for a port ID,
	// UUID, NodeUUID and Address.
	Brief bool
}

// Filter is one condition on a field of a node or a port.
type Filter struct {
	Field string // as the API names it, such as "provision_state"
	Op    FilterOp
	Value any // string, bool, []string or nil, depending on the operator
	// Or is an alternative: an item is kept when either condition holds.
	Or *Filter
}

// FilterOp is how a Filter compares.
type FilterOp int

// Filter operators.
const (
	Equal    FilterOp = iota // Value is a string or a bool; an empty string matches null too
	OneOf                    // Value is a []string
	Contains                 // Value is a string; case-insensitive
	IsSet                    // Value is a bool: true keeps items whose field is not null
)

// Conductor is one engine process that serves nodes.
type Conductor struct {
	Hostname string
	Group    string
	Drivers  []string // enabled hardware types
	Alive    bool
	// CreatedAt is when the conductor first registered; zero when an old version did
	// not record it. UpdatedAt is when it last registered, which shows that it is alive.
	CreatedAt, UpdatedAt time.Time
}
