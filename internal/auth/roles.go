package auth

import (
	"log/slog"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/reload"
	"github.com/ingot-metal/ingot/internal/role"
)

// roleFile has the role of each user, as "user: role".
var roleFile = userFile[role.Role]{form: "user: role", advice: "add a line user: role for each user", value: parseRole}

func parseRole(text string) (role.Role, error) { return role.Parse(strings.TrimSpace(text)) }

// roles knows the role of each user.
type roles struct {
	byUser *reload.Value[map[string]role.Role] // nil without a file
}

func newRoles(file string, log *slog.Logger, now func() time.Time) (roles, error) {
	if file == "" {
		return roles{}, nil
	}
	read := func() (map[string]role.Role, error) { return roleFile.read(file) }
	byUser, err := reload.New("the roles of api.role_file", []string{file}, read, log, now)
	return roles{byUser: byUser}, err
}

// of returns the role of a user. Without a role file every user is an administrator. With a role
// file, a user without a line has no role.
func (r roles) of(user string) role.Role {
	if r.byUser == nil {
		return role.Admin
	}
	return r.byUser.Get()[user]
}
