// Package role names what a user may do with the engine. The tables of package httpapi say which
// role each request and each field needs. A file that package auth reads says which user has which
// role.
package role

import (
	"fmt"
	"strings"
)

// Role is what a user may do. A role may do everything that the roles before it may.
type Role int

// Roles in the order of what they may do.
const (
	None     Role = iota // nothing
	Reader               // reads; sees no secrets
	Operator             // works with nodes; sees no secrets
	Admin                // everything
)

// names has the names of all roles that users can have.
var names = map[Role]string{Reader: "reader", Operator: "operator", Admin: "admin"}

func (r Role) String() string {
	if name, ok := names[r]; ok {
		return name
	}
	return "none"
}

// Parse returns the role with a name in lower case.
func Parse(name string) (Role, error) {
	known := make([]string, 0, len(names))
	for r := Reader; r <= Admin; r++ {
		if names[r] == name {
			return r, nil
		}
		known = append(known, names[r])
	}
	return None, fmt.Errorf("want one of the roles %s", strings.Join(known, ", "))
}
