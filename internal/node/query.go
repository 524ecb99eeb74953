package node

import "time"

// Query selects a page of nodes or ports. The zero value means the first page of
// everything in order of creation.
type Query struct {
	Filters []Filter // all must hold
	SortKey string   // field name; empty means order of creation, which also breaks ties
	Desc    bool
	Marker  string // UUID of the last item of the page before; unknown is a *NotFoundError
	Limit   int    // at least 1; 0 means no limit
	// Brief leaves everything unset but what a short list shows: of a node ID,
	// UUID, Name, InstanceUUID, PowerState, ProvisionState and Maintenance, of a
	// port ID, UUID, NodeUUID and Address.
	Brief bool
}

// Filter is one condition on a field of a node or a port.
type Filter struct {
	Field string // as the API names it, such as "provision_state"
	Op    FilterOp
	Value any // string, bool, []string or nil, as the operator says
	// Or keeps items for which this condition does not hold but that one does.
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
	// CreatedAt is when it registered first; zero when a version did that which
	// did not note it. UpdatedAt is when the process last showed that it lives.
	CreatedAt, UpdatedAt time.Time
}
